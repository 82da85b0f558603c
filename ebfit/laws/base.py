"""What a law is to the rest of ebfit: steps at a batch size, with derivatives, in free parameters.

Free parameters are unconstrained real numbers, so that a solver needs no bounds. Every function broadcasts:
``free`` has shape (..., p) and ``log_batch`` shape (..., n), which is how thousands of bootstrap refits run
as one array computation. The first two free parameters of a law carry the units; the others are its shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ShapePrior:
    """Independent normal priors on the free parameters, in their own units.

    Attributes
    ----------
    centre : ndarray, shape (p,)
    sd : ndarray, shape (p,)
        Infinite where there is no prior.
    """

    centre: FloatArray
    sd: FloatArray


class Law(Protocol):
    """A relation between batch size B and steps S at one target loss."""

    name: str
    free_names: tuple[str, ...]
    prior: ShapePrior

    def log_steps(self, free: FloatArray, log_batch: FloatArray) -> FloatArray:
        """Return log S(B), shape (..., n); +inf where the batch never reaches the target."""
        ...

    def log_steps_jacobian(self, free: FloatArray, log_batch: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log S(B), shape (..., n), and its derivatives (..., n, p); zero where S is infinite."""
        ...

    def starts(self, log_batch: FloatArray, observed_log_steps: FloatArray) -> FloatArray:
        """Return starting points for a fit of reached points, shape (k, p), the most sensible first."""
        ...

    def log_numbers(self, free: FloatArray) -> dict[str, FloatArray]:
        """Return logs of the numbers that intervals are made for, shape (...), by name: b_opt, e_min, ..."""
        ...

    def params(self, free: FloatArray) -> dict[str, float]:
        """Return the law's own parameters, named as in DESIGN and in steps and tokens, for one ``free``."""
        ...

    def tokens_at(self, params: Mapping[str, float], steps: FloatArray) -> FloatArray:
        """Return E(S) in tokens for steps; NaN at or below S_min."""
        ...
