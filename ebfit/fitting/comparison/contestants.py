"""What is compared, one entry each: how it is fitted to a group of runs and what it then predicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ebfit.fitting.coupling import Coupling, fit_law
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit
from ebfit.fitting.second_opinion import weight_of_second
from ebfit.fitting.surface import fit_surface
from ebfit.laws import LAWS, SECOND_OPINIONS, FloatArray, Law, power


class Refit:
    """Data of one group, and the fits to them, each made once however many contestants ask for it.

    Attributes
    ----------
    data : Observations
        One row per batch size: seeds have been merged. Every target was reached.
    losses : tuple of float, length T
    """

    def __init__(self, data: Observations, losses: Sequence[float]) -> None:
        self.data, self.losses = data, tuple(losses)
        self._made: dict[tuple[str, Coupling], PointFit] = {}

    def point(self, law_name: str, coupling: Coupling) -> PointFit:
        """Return the fit of a law to every target."""
        key = (law_name, coupling)
        if key not in self._made:
            own = None if coupling == "none" else self.point(law_name, "none")
            self._made[key] = fit_law(_LAWS[law_name], self.data, coupling, own).point
        return self._made[key]


@dataclass(frozen=True)
class Fitted:
    """What a contestant makes of a group.

    Attributes
    ----------
    log_steps : callable
        Log batch sizes (n,) -> log S at every target (T, n); +inf where never, NaN where it makes no prediction.
    parameters : float or None
        How many parameters the data determined, over all targets; None for what is no law.
    """

    log_steps: Callable[[FloatArray], FloatArray]
    parameters: float | None


@dataclass(frozen=True)
class Contestant:
    """A law, or the like, and how it is fitted.

    Attributes
    ----------
    name : str
        In tables and sentences.
    law, coupling : str
        As in fit.json.
    fit : callable
        Refit -> Fitted, or None where the group holds too little for it.
    options : mapping or None
        The arguments of `ebfit.fit` that fit it; None for what stands in the comparison only to judge the others by.
    extrapolates : bool
        Whether it predicts beyond the batch sizes that it was fitted to.
    """

    name: str
    law: str
    coupling: str
    fit: Callable[[Refit], Fitted | None]
    options: Mapping[str, str] | None = None
    extrapolates: bool = True


def _alone(law_name: str) -> Callable[[Refit], Fitted]:
    def fit(refit: Refit) -> Fitted:
        point = refit.point(law_name, "none")
        return Fitted(_of_free(point.problems.law, point.free), float(point.effective_parameters.sum()))

    return fit


def _revised(coupling: Coupling) -> Callable[[Refit], Fitted | None]:
    """Average the revised law with its second opinion, as `ebfit.fitting.revised` averages their numbers."""

    def fit(refit: Refit) -> Fitted | None:
        if coupling != "none" and len(refit.losses) == 1:
            return None
        points = [refit.point(name, coupling) for name in ("revised", SECOND_OPINIONS["revised"].name)]
        weight = weight_of_second(*points)
        used = [float(point.effective_parameters.sum()) for point in points]

        def log_steps(log_batch: FloatArray) -> FloatArray:
            first, second = (_of_free(point.problems.law, point.free)(log_batch) for point in points)
            # a law without weight has no say, not even that a target is never reached
            return first if weight == 0.0 else (1.0 - weight) * first + weight * second

        return Fitted(log_steps, (1.0 - weight) * used[0] + weight * used[1])

    return fit


def _surface(refit: Refit) -> Fitted | None:
    if len(set(refit.losses)) < 2:
        return None
    surface = fit_surface(refit.data, refit.losses, settled=_SETTLED)
    return Fitted(_of_free(cast(Law, power), surface.free), surface.effective_parameters)


def _interpolated(refit: Refit) -> Fitted:
    """Draw straight lines from point to point in log-log axes, and nothing beyond the last."""
    data = refit.data

    def log_steps(log_batch: FloatArray) -> FloatArray:
        lines = []
        for t in range(len(refit.losses)):
            reached = data.reached[:, t]
            lines.append(
                np.interp(log_batch, data.log_batch[reached], data.log_steps[reached, t], np.nan, np.nan)
            )
        return np.array(lines)

    return Fitted(log_steps, None)


def _of_free(law: Law, free: FloatArray) -> Callable[[FloatArray], FloatArray]:
    return lambda log_batch: law.log_steps(free, log_batch[None, :])


# Rough, since laws are refitted many times: predictions change by less than 1% of their errors.
_SETTLED = 1e-2
_LAWS: dict[str, Law] = LAWS | {law.name: law for law in SECOND_OPINIONS.values()}

# The first is what `ebfit fit` fits where nothing else is asked for. It stays the choice unless another is better
# beyond chance.
CONTESTANTS = (
    *(
        Contestant(
            f"revised {coupling}",
            "revised",
            coupling,
            _revised(coupling),
            {"law": "revised", "coupling": coupling},
        )
        for coupling in ("pooled", "shared", "none")
    ),
    Contestant("revised alone", "revised alone", "none", _alone("revised")),
    Contestant("surface", "surface", "shared", _surface, {"law": "surface"}),
    Contestant("classic", "classic", "none", _alone("classic"), {"law": "classic"}),
    Contestant("straight lines", "interpolation", "none", _interpolated, extrapolates=False),
)
