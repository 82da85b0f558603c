"""Worlds: loss surfaces L(B, S) whose B_min and B_opt are known at every loss.

All are of one kind. At one loss, the middle one, a law says how many steps S a batch size B takes. At other losses it
is that curve moved in log-log axes, as powers of the excess over the loss that no training gets below:

    l = L - loss_floor,    S_opt grows as l^-steps_exponent,    B_opt grows as l^-batch_exponent

so that the law holds at every loss exactly. The loss after S steps is the inverse, found by bisection. The three-term
surface of DESIGN 3.4, L = L_0 + b B^-beta + c S^-gamma, is such a world, with exponents 1/gamma and 1/beta.

    exact     the revised law, with the shape m, u, v, w of `ebfit.laws.revised`
    surface   the three-term surface
    neither   `ebfit.simulate.neither`, which both laws that ebfit fits get wrong
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np

from ebfit.errors import BadInputError
from ebfit.laws import FloatArray, power, revised
from ebfit.simulate import neither

WorldName = Literal["exact", "surface", "neither"]
WORLDS: tuple[WorldName, ...] = get_args(WorldName)

_PLACE = ("loss", "loss_floor", "b_opt", "s_opt")  # of the middle loss; every world has them
_GROWTH = ("batch_exponent", "steps_exponent")
PARAMETERS: dict[WorldName, tuple[str, ...]] = {
    "exact": (*_PLACE, *_GROWTH, "m", "u", "v", "w"),
    "surface": (*_PLACE, "beta", "gamma"),
    "neither": (*_PLACE, *_GROWTH, "beta", "gamma", "bend"),
}
_SHARES = {"m", "u", "v", "w"}
_EXPONENTS = {"batch_exponent", "steps_exponent", "beta", "gamma"}
_LOSSES = {"loss", "loss_floor"}
_LARGEST_LOSS = 1e3
_LARGEST_SIZE = 1e15  # tokens or steps
_HALVINGS = 52  # of an interval of log excess: what is left is the last digit of a float


class _Law(Protocol):
    def log_steps(self, free: FloatArray, log_batch: FloatArray) -> FloatArray: ...

    def log_numbers(self, free: FloatArray) -> dict[str, FloatArray]: ...


@dataclass(frozen=True)
class Answer:
    """The truth at one target loss: batch sizes and data in tokens, steps, as `ebfit.fit` estimates them."""

    loss: float
    b_min: float
    b_opt: float
    s_min: float
    e_min: float
    s_opt: float


@dataclass(frozen=True)
class World:
    """A loss surface with a known answer.

    Attributes
    ----------
    name : {"exact", "surface", "neither"}
    parameters : dict
        By the names in `PARAMETERS`; ``b_opt`` (tokens) and ``s_opt`` (steps) are those at the middle ``loss`` (nats).
    """

    name: WorldName
    parameters: Mapping[str, float]

    def __post_init__(self) -> None:
        _check(self.name, self.parameters)

    @property
    def loss_floor(self) -> float:
        """The loss that no batch size gets below."""
        return self.parameters["loss_floor"]

    @property
    def steps_exponent(self) -> float:
        """How S_opt grows as the excess over the floor falls."""
        gamma = self.parameters.get("gamma", math.nan)
        return 1.0 / gamma if self.name == "surface" else self.parameters["steps_exponent"]

    @property
    def batch_exponent(self) -> float:
        """How B_opt and B_min grow as the excess over the floor falls."""
        beta = self.parameters.get("beta", math.nan)
        return 1.0 / beta if self.name == "surface" else self.parameters["batch_exponent"]

    @property
    def tokens_exponent(self) -> float:
        """How B_opt and B_min grow with the data D = E_min: as D to this power."""
        return self.batch_exponent / (self.batch_exponent + self.steps_exponent)

    def truth_at(self, loss: float) -> Answer:
        """Return B_min, B_opt, S_min, E_min and S_opt at a target loss.

        Raises
        ------
        BadInputError
            If the loss is not above the floor.
        """
        if not (math.isfinite(loss) and loss > self.loss_floor):
            raise BadInputError(
                f"a loss of {loss:g} is never reached: this world ends at {self.loss_floor:g} nats. "
                "Choose higher targets, or set another loss_floor."
            )
        log_excess = float(self._log_excess(np.asarray(loss)))
        moved = {
            "b_min": -self.batch_exponent,
            "b_opt": -self.batch_exponent,
            "s_min": -self.steps_exponent,
            "s_opt": -self.steps_exponent,
            "e_min": -self.batch_exponent - self.steps_exponent,
        }
        numbers = self._law[2]
        return Answer(
            loss=loss, **{key: math.exp(numbers[key] + by * log_excess) for key, by in moved.items()}
        )

    def log_steps(self, loss: FloatArray | float, log_batch: FloatArray | float) -> FloatArray:
        """Return the log of the steps at which the loss is reached; +inf where it never is. Arguments broadcast."""
        x = self._log_excess(np.asarray(loss, dtype=float))
        return self._steps_in_the_middle(log_batch + self.batch_exponent * x) - self.steps_exponent * x

    def loss(self, log_batch: FloatArray, log_steps: FloatArray) -> FloatArray:
        """Return the loss at a batch size after so many steps, without noise.

        Parameters
        ----------
        log_batch, log_steps : ndarray
            Natural logs of tokens per step and of steps; they broadcast.

        Returns
        -------
        ndarray
            Nats, exact to about twelve digits of the excess over the floor.
        """
        numbers = self._law[2]
        log_batch, log_steps = np.broadcast_arrays(
            np.asarray(log_batch, dtype=float), np.asarray(log_steps, dtype=float)
        )
        p, q = self.steps_exponent, self.batch_exponent

        def too_many_steps(x: FloatArray) -> FloatArray:
            return np.asarray(self._steps_in_the_middle(log_batch + q * x) - p * x - log_steps > 0.0)

        # Losses at which the batch is B_min, or the steps S_min, are lower than what this run has.
        low = np.maximum((numbers["b_min"] - log_batch) / q, (numbers["s_min"] - log_steps) / p)
        width = np.ones_like(low)
        while (short := too_many_steps(low + width)).any():
            width = np.where(short, 2.0 * width, width)
        for _ in range(_HALVINGS):
            width = 0.5 * width
            low = np.where(too_many_steps(low + width), low + width, low)
        return self.loss_floor + (self.parameters["loss"] - self.loss_floor) * np.exp(low + 0.5 * width)

    def _steps_in_the_middle(self, log_batch: FloatArray) -> FloatArray:
        """Return log steps at the middle loss, of the shape of ``log_batch``."""
        law, free, _ = self._law
        at = np.atleast_1d(
            log_batch
        )  # a law takes a row of batch sizes, and returns one even of a single number
        return law.log_steps(free, at).reshape(np.shape(log_batch))

    def _log_excess(self, loss: FloatArray) -> FloatArray:
        return np.asarray(np.log((loss - self.loss_floor) / (self.parameters["loss"] - self.loss_floor)))

    @cached_property
    def _law(self) -> tuple[_Law, FloatArray, dict[str, float]]:
        """The law, its free parameters at the middle loss, and the logs of B_min, B_opt and the rest there."""
        known = self.parameters
        law: _Law
        if self.name == "exact":
            law, shape = revised, [math.log(known[key] / (1.0 - known[key])) for key in ("m", "u", "v", "w")]
        elif self.name == "surface":
            law, shape = power, [math.log(known[key]) for key in ("beta", "gamma")]
        else:
            law, shape = neither, [math.log(known[key]) for key in ("beta", "gamma", "bend")]
        free = np.array([0.0, 0.0, *shape])
        numbers = law.log_numbers(free)
        free[0] = math.log(known["s_opt"]) - float(numbers["s_opt"])
        free[1] = math.log(known["b_opt"]) - float(numbers["b_opt"])
        return law, free, {key: float(value) for key, value in law.log_numbers(free).items()}


def draw_world(
    name: WorldName = "exact",
    seed: int = 0,
    *,
    targets: Sequence[float] = (),
    batch_tokens: Sequence[int] = (),
    parameters: Mapping[str, float] | None = None,
) -> World:
    """Draw a world that could be one of language models.

    Parameters
    ----------
    name : {"exact", "surface", "neither"}
    seed : int
        The same seed draws the same numbers; setting one of them leaves the others as they are.
    targets : sequence of float
        Losses that are to be reached: the middle loss is theirs, and the floor is below them.
    batch_tokens : sequence of int
        Batch sizes between which B_opt of the middle loss is to lie.
    parameters : mapping, optional
        What is not to be drawn, by the names in `PARAMETERS`.

    Raises
    ------
    BadInputError
        If there is no such world or parameter, or a value makes no sense.
    """
    if name not in PARAMETERS:
        raise BadInputError(f"there is no world {name!r}. Choose {', '.join(WORLDS)}.")
    check_luck(seed)
    check_grid(targets, batch_tokens)
    given = dict(parameters or {})
    for key in given:
        if key not in PARAMETERS[name]:
            raise BadInputError(
                f"the world {name} has no parameter {key!r}. It has {', '.join(PARAMETERS[name])}."
            )
    rng = np.random.default_rng([seed, 1])
    loss, excess = rng.uniform(2.7, 3.4), rng.uniform(0.9, 1.3)
    place = rng.uniform(0.3, 0.45)  # of B_opt between the smallest and the largest batch size
    found = {
        "b_opt": math.exp(rng.uniform(math.log(50e3), math.log(400e3))),
        "s_opt": math.exp(rng.uniform(math.log(4e3), math.log(20e3))),
    } | _DRAW[name](rng)
    if len(targets):
        loss = 0.5 * (min(targets) + max(targets))
    loss = given.get("loss", loss)
    lowest = min([loss, *targets])
    found |= {"loss": loss, "loss_floor": max(lowest - excess, 0.5 * lowest)}
    if len(batch_tokens):
        found["b_opt"] = min(batch_tokens) ** (1.0 - place) * max(batch_tokens) ** place
    found |= given
    return World(name, {key: float(found[key]) for key in PARAMETERS[name]})


def check_luck(seed: int) -> None:
    """Refuse a seed that is none, with a BadInputError."""
    if not 0 <= seed < 2**63:
        raise BadInputError(f"seed {seed}: must be a whole number from 0 to 2^63.")


def check_grid(targets: Sequence[float], batch_tokens: Sequence[int]) -> None:
    """Refuse target losses and batch sizes that are none, with a BadInputError."""
    for loss in targets:
        if not 0.0 < loss < _LARGEST_LOSS:
            raise BadInputError(f"a target loss of {loss:g}: must lie between 0 and {_LARGEST_LOSS:g} nats.")
    for tokens in batch_tokens:
        if not 0 < tokens <= _LARGEST_SIZE:
            raise BadInputError(f"a batch of {tokens:.6g} tokens: must have from 1 to {_LARGEST_SIZE:g}.")


def _draw_growth(rng: np.random.Generator) -> dict[str, float]:
    # B_opt then grows as D to the power of about 0.35 to 0.5, D being E_min.
    return {"batch_exponent": rng.uniform(1.0, 1.6), "steps_exponent": rng.uniform(1.6, 2.0)}


def _draw_exact(rng: np.random.Generator) -> dict[str, float]:
    logits = rng.normal([-0.5, -1.0, 0.6, 0.3], [0.7, 1.2, 0.6, 0.7])
    shape = (1.0 / (1.0 + np.exp(-logits))).tolist()
    return _draw_growth(rng) | dict(zip(("m", "u", "v", "w"), shape, strict=True))


def _draw_surface(rng: np.random.Generator) -> dict[str, float]:
    return {"beta": rng.uniform(0.5, 1.3), "gamma": rng.uniform(0.35, 1.0)}


def _draw_neither(rng: np.random.Generator) -> dict[str, float]:
    shape = {"beta": rng.uniform(0.5, 1.3), "gamma": rng.uniform(0.7, 1.6), "bend": rng.uniform(1.0, 6.0)}
    return _draw_growth(rng) | shape


_DRAW: dict[WorldName, Callable[[np.random.Generator], dict[str, float]]] = {
    "exact": _draw_exact,
    "surface": _draw_surface,
    "neither": _draw_neither,
}


def _check(name: WorldName, parameters: Mapping[str, float]) -> None:
    if name not in PARAMETERS or set(parameters) != set(PARAMETERS[name]):
        raise BadInputError(f"the world {name} has the parameters {', '.join(PARAMETERS.get(name, ()))}.")
    for key, value in parameters.items():
        low, high = _range_of(key)
        if not low < value < high:
            raise BadInputError(f"{key}={value:g}: must lie between {low:g} and {high:g}.")
    if not parameters["loss_floor"] < parameters["loss"]:
        raise BadInputError(
            f"loss_floor={parameters['loss_floor']:g} must lie below loss={parameters['loss']:g}."
        )


def _range_of(key: str) -> tuple[float, float]:
    if key in _SHARES:
        return 0.0, 1.0
    if key in _EXPONENTS:
        return 0.05, 20.0
    if key in _LOSSES:
        return -_LARGEST_LOSS, _LARGEST_LOSS
    return 0.0, 1e3 if key == "bend" else _LARGEST_SIZE
