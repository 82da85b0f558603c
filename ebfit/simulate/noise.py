"""What stands between the law and a log: noise, and what happens to runs.

Sizes are those that sweeps of small language models have. A standard deviation in nats * sqrt(token) is divided by the
square root of the batch size, as the noise of a mean over its tokens is.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal

from ebfit.errors import BadInputError

Window = int | Literal["interval"]

_SHARES = {"cut_short", "diverged", "decay_fraction", "decay_drop"}
_WHOLE = {"evaluations_per_doubling", "decimals", "window"}
_LARGEST = 1e6
_RANGES = {
    "tail": (2.1, _LARGEST),  # at two degrees of freedom and below there is no standard deviation
    "wander_length": (1e-3, 100.0),
    "evaluations_per_doubling": (1, 1000),
    "decimals": (1, 15),
    "window": (1, 10**6),
    "seed_sd": (0.0, 1.0),
    "size_sd": (0.0, 1.0),
    "spikes": (0.0, 1000.0),
}


@dataclass(frozen=True)
class Noise:
    """How the logs of a sweep differ from its law.

    Attributes
    ----------
    step_sd : float
        Of one step's train loss, nats * sqrt(token).
    step_sd_floor : float
        What of it is left at the largest batch sizes, nats.
    tail : float
        Degrees of freedom of the Student t that it comes from: 3 has a heavy tail, 100 is nearly normal.
    wander_sd : float
        Of the slow wander of a run's loss, train and validation alike, nats * sqrt(token).
    wander_length : float
        Over how many log steps a wander is forgotten.
    val_sd : float
        Of one validation, nats.
    seed_sd : float
        Of how many steps a run takes, in log: what seeds of a batch size differ by.
    size_sd : float
        The same, of all seeds of a batch size together: how far it lies off the law.
    spikes : float
        How many loss spikes a run has on average.
    spike_height : float
        Mean height of a spike, nats.
    cut_short : float
        Share of runs that end early.
    diverged : float
        Share of runs that diverge.
    evaluations_per_doubling : int
        Validations while the step number doubles.
    window : int or "interval"
        The logged train loss is a mean over so many steps, or over all since the row before.
    decimals : int
        Of logged losses.
    decay_fraction : float
        Share of the steps, at the end, in which the learning rate falls to 0.
    decay_drop : float
        Share of the loss above the floor that the decay takes away.
    """

    step_sd: float = 6.0
    step_sd_floor: float = 5e-4
    tail: float = 4.0
    wander_sd: float = 1.0
    wander_length: float = 0.1
    val_sd: float = 5e-4
    seed_sd: float = 0.015
    size_sd: float = 0.01
    spikes: float = 0.3
    spike_height: float = 0.3
    cut_short: float = 0.0
    diverged: float = 0.0
    evaluations_per_doubling: int = 8
    window: Window = 1
    decimals: int = 4
    decay_fraction: float = 0.1
    decay_drop: float = 0.08

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name == "window" and value == "interval":
                continue
            low, high = (0.0, 0.9) if name in _SHARES else _RANGES.get(name, (0.0, _LARGEST))
            if name in _WHOLE and value != int(value):
                raise BadInputError(f"{name}={value:g}: must be a whole number.")
            if not low <= value <= high:
                raise BadInputError(f"{name}={value:g}: must lie between {low:g} and {high:g}.")

    def scaled(self, factor: float) -> "Noise":
        """Return the same with all standard deviations, and the number of spikes, multiplied.

        Raises
        ------
        BadInputError
            If the factor is negative, or noise becomes larger than makes sense.
        """
        if not 0.0 <= factor < math.inf:
            raise BadInputError(f"noise times {factor:g}: give a factor of 0 or above.")
        sized = ("step_sd", "step_sd_floor", "wander_sd", "val_sd", "seed_sd", "size_sd", "spikes")
        return replace(self, **{name: factor * getattr(self, name) for name in sized})

    def with_fields(self, changes: Mapping[str, float | str]) -> "Noise":
        """Return the same with some fields changed.

        Raises
        ------
        BadInputError
            If there is no such field, or a value makes no sense.
        """
        for name in changes:
            if name not in FIELDS:
                raise BadInputError(f"noise has no {name!r}. It has {', '.join(FIELDS)}.")
        whole = {
            name: int(value)
            for name, value in changes.items()
            if name in _WHOLE and isinstance(value, float) and value.is_integer()
        }
        return replace(self, **{**changes, **whole})  # type: ignore[arg-type]


FIELDS = tuple(field.name for field in fields(Noise))

REALISTIC = Noise()
CLEAN = replace(
    REALISTIC.scaled(0.0),
    evaluations_per_doubling=24,
    decimals=10,
    decay_fraction=0.0,
)
HARSH = replace(
    REALISTIC.scaled(3.0),
    tail=3.0,
    wander_length=0.3,
    spike_height=1.0,
    cut_short=0.15,
    diverged=0.05,
    evaluations_per_doubling=3,
    window="interval",
    decimals=3,
    decay_fraction=0.2,
)
PRESETS = {"clean": CLEAN, "realistic": REALISTIC, "harsh": HARSH}
