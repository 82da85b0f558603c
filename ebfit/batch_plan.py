"""A batch-size plan for a training loop: which batch size the next step has.

This file needs nothing but Python itself: where a trainer cannot install ebfit, copy it beside the training script.

    plan = BatchPlan.load("plan.json")
    while tokens + plan.batch_at(tokens) <= plan.total_tokens:
        for _ in range(plan.accumulation(tokens, micro_batch=8, data_parallel=64)):
            ...  # forward and backward of 8 sequences on each of 64 devices
        ...  # optimizer step
        tokens += plan.batch_at(tokens)
"""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, nan
from numbers import Real
from os import PathLike
from reprlib import repr as shortened
from typing import Any

SCHEMA = "ebfit.plan/1"
LARGEST = 2**63 - 1  # of any count: what trainers hold in 64 bits


class PlanError(ValueError):
    """A plan that contradicts itself, or that does not fit the devices it is asked for."""


@dataclass(frozen=True)
class Stage:
    """A stretch of training with one batch size.

    Attributes
    ----------
    start_tokens, start_step : int
        Tokens consumed and steps taken before its first step.
    batch_tokens, batch_sequences : int
        Of one optimizer step, over all devices and accumulation.
    steps : int
        Whole steps in this stage.
    lr_scale : float
        What to multiply the peak learning rate with; 1.0 in the first stage.
    start_loss : float or None
        The loss at which this stage begins where the batch is raised by loss, nats per token; falls from stage to
        stage. None where the fit cannot tell; the first stage needs none.
    """

    start_tokens: int
    start_step: int
    batch_tokens: int
    batch_sequences: int
    steps: int
    lr_scale: float = 1.0
    start_loss: float | None = None

    @property
    def end_tokens(self) -> int:
        """Tokens consumed after its last step."""
        return self.start_tokens + self.steps * self.batch_tokens

    @property
    def end_step(self) -> int:
        """Steps taken after its last step."""
        return self.start_step + self.steps


@dataclass(frozen=True)
class BatchPlan:
    """Batch sizes over a training run.

    Attributes
    ----------
    total_tokens : int
        Of the whole run. What is left of it after the whole steps of the last stage is `leftover_tokens`.
    seq_len : int
        Tokens per sequence.
    stages : tuple of Stage
        In order, without gaps; batch sizes never fall.
    warmup_tokens : int
        Tokens during which the learning rate rises.
    decay_start_tokens : int or None
        Where the learning rate begins to fall; None without a decay.
    policy : str
        What the batch sizes follow.
    warnings : tuple of str

    Raises
    ------
    PlanError
        If the stages do not follow one another from 0 to `total_tokens` in whole steps, a batch size falls, a
        `start_loss` does not fall, or a `lr_scale` is not positive.
    """

    total_tokens: int
    seq_len: int
    stages: tuple[Stage, ...]
    warmup_tokens: int = 0
    decay_start_tokens: int | None = None
    policy: str = "given"
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seq_len < 1:
            raise PlanError(f"seq_len must be positive, which {self.seq_len} is not.")
        if not self.stages:
            raise PlanError("a plan needs at least one stage.")
        tokens, step, batch, loss = 0, 0, 0, inf
        for number, stage in enumerate(self.stages, start=1):
            if (stage.start_tokens, stage.start_step) != (tokens, step):
                raise PlanError(
                    f"stage {number} starts at {stage.start_tokens} tokens and step {stage.start_step}, but the stages "
                    f"before it end at {tokens} tokens and step {step}."
                )
            if stage.steps < 1:
                raise PlanError(f"stage {number} has {stage.steps} steps; it needs at least one.")
            if stage.batch_tokens != stage.batch_sequences * self.seq_len:
                raise PlanError(
                    f"stage {number}: {stage.batch_tokens} tokens are not {stage.batch_sequences} sequences of "
                    f"{self.seq_len} tokens."
                )
            if stage.batch_tokens < max(batch, 1):
                raise PlanError(
                    f"stage {number}: the batch falls from {batch} to {stage.batch_tokens} tokens; in a plan it never "
                    "does."
                )
            if not (isfinite(stage.lr_scale) and stage.lr_scale > 0):
                raise PlanError(f"stage {number}: lr_scale must be positive, which {stage.lr_scale} is not.")
            if number > 1 and stage.start_loss is not None:
                if not stage.start_loss < loss:
                    raise PlanError(
                        f"stage {number} starts at a loss of {stage.start_loss}, which is not below {loss}, where a "
                        "stage before it starts."
                    )
                loss = stage.start_loss
            tokens, step, batch = stage.end_tokens, stage.end_step, stage.batch_tokens
        if not 0 <= self.total_tokens - tokens < batch:
            raise PlanError(
                f"the stages hold {tokens} of {self.total_tokens} tokens: whole steps of the last batch size, "
                f"{batch} tokens, must fill all but the last part of one."
            )
        if not 0 <= self.warmup_tokens <= self.total_tokens:
            raise PlanError(
                f"a warmup of {self.warmup_tokens} tokens does not fit {self.total_tokens} in all."
            )
        if self.decay_start_tokens is not None and not 0 <= self.decay_start_tokens <= self.total_tokens:
            raise PlanError(
                f"a decay that starts at {self.decay_start_tokens} tokens does not fit {self.total_tokens} in all."
            )

    @property
    def total_steps(self) -> int:
        """Whole steps of all stages."""
        return self.stages[-1].end_step

    @property
    def leftover_tokens(self) -> int:
        """Tokens left after the last whole step: less than one batch."""
        return self.total_tokens - self.stages[-1].end_tokens

    def stage_at(self, tokens: int) -> Stage:
        """Return the stage of the step that begins after so many tokens; past the end, the last one.

        Raises
        ------
        PlanError
            If ``tokens`` is negative.
        """
        if tokens < 0:
            raise PlanError(f"tokens must not be negative, as {tokens} is.")
        return self.stages[bisect_right([stage.start_tokens for stage in self.stages], tokens) - 1]

    def batch_at(self, tokens: int) -> int:
        """Return the batch size, in tokens, of the step that begins after so many tokens."""
        return self.stage_at(tokens).batch_tokens

    def at_step(self, step: int) -> int:
        """Return the batch size, in tokens, of the step that begins after ``step`` steps: 0 is the first.

        Raises
        ------
        PlanError
            If ``step`` is negative.
        """
        return self.batch_at(self.tokens_at(step))

    def tokens_at(self, step: int) -> int:
        """Return the tokens consumed by so many steps; past the end the last batch size goes on.

        Raises
        ------
        PlanError
            If ``step`` is negative.
        """
        if step < 0:
            raise PlanError(f"a step must not be negative, as {step} is.")
        stage = self.stages[bisect_right([stage.start_step for stage in self.stages], step) - 1]
        return stage.start_tokens + (step - stage.start_step) * stage.batch_tokens

    def steps_until(self, tokens: int, consumed: int = 0) -> int:
        """Return how many steps it takes until at least so many tokens are consumed.

        Parameters
        ----------
        tokens : int
            To reach, counted from the beginning of training.
        consumed : int
            Tokens consumed already. They need not be a whole number of this plan's steps: a run that took up the plan
            on its way may have used another batch size before.

        Raises
        ------
        PlanError
            If ``consumed`` is negative.
        """
        steps = 0
        while consumed < tokens:
            stage = self.stage_at(consumed)
            end = tokens if stage is self.stages[-1] else min(tokens, stage.end_tokens)
            more = -(-(end - consumed) // stage.batch_tokens)
            steps, consumed = steps + more, consumed + more * stage.batch_tokens
        return steps

    def steps_left(self, consumed: int) -> int:
        """Return how many whole steps still fit into `total_tokens`; of 0 tokens consumed it is `total_steps`.

        Raises
        ------
        PlanError
            If ``consumed`` is negative.
        """
        return self.steps_until(self.total_tokens - self.stages[-1].batch_tokens + 1, consumed)

    def batch_for_loss(self, loss: float, current: int = 0) -> int:
        """Return the batch size, in tokens, for a loop that raises the batch by the loss it sees.

        Parameters
        ----------
        loss : float
            Smoothed over enough steps that its noise is small beside the differences of the stages' `start_loss`;
            nats per token, the same loss (train or validation) of the same data that the fit was made with. NaN, and
            infinity before the first loss is known, raise nothing.
        current : int
            The batch size now: less is never returned, because a loss that rises again is no reason to go back.

        Raises
        ------
        PlanError
            If the plan does not say at which losses its stages begin.
        """
        batch = self.stages[0].batch_tokens
        for number, stage in enumerate(self.stages[1:], start=2):
            if stage.start_loss is None:
                raise PlanError(
                    f"stage {number} has no start_loss: the fit behind this plan does not tell the loss there. "
                    "Raise the batch by tokens instead."
                )
            if loss <= stage.start_loss:
                batch = stage.batch_tokens
        return max(batch, current)

    def accumulation(self, tokens: int, micro_batch: int, data_parallel: int = 1) -> int:
        """Return how many micro-batches each device adds up for the step that begins after so many tokens.

        Parameters
        ----------
        tokens : int
            Consumed before the step.
        micro_batch : int
            Sequences per device and forward pass.
        data_parallel : int
            Devices, or groups of them, that each see other sequences.

        Raises
        ------
        PlanError
            If the batch of any stage is no multiple of ``micro_batch`` times ``data_parallel``: at the first call, and
            not weeks later when that stage begins.
        """
        if micro_batch < 1 or data_parallel < 1:
            raise PlanError("micro_batch and data_parallel must be positive.")
        at_once = micro_batch * data_parallel
        for number, stage in enumerate(self.stages, start=1):
            if stage.batch_sequences % at_once:
                raise PlanError(
                    f"stage {number}: {stage.batch_sequences} sequences are no multiple of micro_batch x "
                    f"data_parallel, {micro_batch} x {data_parallel}. Give both to `ebfit schedule`."
                )
        return self.stage_at(tokens).batch_sequences // at_once

    @classmethod
    def from_sizes(
        cls,
        sizes: Sequence[tuple[int, int]],
        *,
        total_tokens: int,
        seq_len: int,
        lr_scales: Sequence[float] | None = None,
        start_losses: Sequence[float | None] | None = None,
        **settings: Any,
    ) -> "BatchPlan":
        """Lay out stages in whole steps.

        Parameters
        ----------
        sizes : sequence of (start_tokens, batch_tokens)
            The first start is 0. A start that is no whole number of steps of the stage before moves up to the next one.
        total_tokens, seq_len : int
        lr_scales, start_losses : sequence, optional
            One per stage.
        **settings
            The other attributes of `BatchPlan`.

        Raises
        ------
        PlanError
            If a batch size is no whole number of sequences, a stage has no room for a step, or the first does not
            start at 0.
        """
        total_tokens, seq_len = _whole(total_tokens, "total_tokens"), _whole(seq_len, "seq_len")
        starts = [_whole(start, "the start of a stage") for start, _ in sizes]
        batches = [_whole(batch, "a batch size") for _, batch in sizes]
        if starts[:1] != [0]:
            raise PlanError("the first stage of a plan must start at 0 tokens.")
        if any(values is not None and len(values) != len(sizes) for values in (lr_scales, start_losses)):
            raise PlanError("lr_scales and start_losses need one value per stage.")
        stages: list[Stage] = []
        tokens, step = 0, 0
        for number, batch in enumerate(batches):
            if batch < 1 or seq_len < 1 or batch % seq_len:
                raise PlanError(
                    f"a batch of {batch} tokens is no whole number of sequences of {seq_len} tokens."
                )
            last = number == len(batches) - 1
            room = (total_tokens if last else starts[number + 1]) - tokens
            steps = room // batch if last else -(-room // batch)
            if steps < 1 or tokens + steps * batch > total_tokens:
                raise PlanError(
                    f"stage {number + 1} has no room for whole steps of {batch} tokens: it begins after {tokens} "
                    f"tokens and is to end at {tokens + room} of {total_tokens}."
                )
            stages.append(
                Stage(
                    start_tokens=tokens,
                    start_step=step,
                    batch_tokens=batch,
                    batch_sequences=batch // seq_len,
                    steps=steps,
                    lr_scale=1.0 if lr_scales is None else lr_scales[number],
                    start_loss=None if start_losses is None else start_losses[number],
                )
            )
            tokens, step = stages[-1].end_tokens, stages[-1].end_step
        return cls(total_tokens=total_tokens, seq_len=seq_len, stages=tuple(stages), **settings)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "BatchPlan":
        """Make a plan of what plan.json holds.

        Raises
        ------
        PlanError
            If it does not follow the schema ``ebfit.plan/1``.
        """
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise PlanError(f"not a plan: its schema is not {SCHEMA}.")
        try:
            decay_start = document.get("decay_start_tokens")
            return cls(
                total_tokens=_whole(document["total_tokens"], "total_tokens"),
                seq_len=_whole(document["seq_len"], "seq_len"),
                stages=tuple(map(_stage, _list(document["stages"], "stages"))),
                warmup_tokens=_whole(document.get("warmup_tokens", 0), "warmup_tokens"),
                decay_start_tokens=None if decay_start is None else _whole(decay_start, "decay_start_tokens"),
                policy=_string(document.get("policy", "given"), "policy"),
                warnings=tuple(
                    _string(text, "warnings") for text in _list(document.get("warnings", []), "warnings")
                ),
            )
        except KeyError as error:
            raise PlanError(f"not a plan: it has no {error.args[0]}.") from None

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "BatchPlan":
        """Read plan.json.

        Raises
        ------
        PlanError
            If the file is no plan, naming it.
        OSError
            If it cannot be read.
        """
        with open(path, "rb") as file:
            content = file.read()
        try:
            return cls.from_dict(json.loads(content))
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None
        except (ValueError, RecursionError):
            raise PlanError(f"{path}: not a plan: no JSON document.") from None


def _stage(stage: Any) -> Stage:
    if not isinstance(stage, Mapping):
        raise PlanError(f"a stage is {_named(stage)}, no object.")
    counts = ("start_tokens", "start_step", "batch_tokens", "batch_sequences", "steps")
    start_loss = stage.get("start_loss")
    return Stage(
        **{name: _whole(stage[name], name) for name in counts},
        lr_scale=_finite(stage.get("lr_scale", 1.0), "lr_scale"),
        start_loss=None if start_loss is None else _finite(start_loss, "start_loss"),
    )


def _finite(value: Any, name: str) -> float:
    if not _is_number(value):
        raise PlanError(f"{name} is {_named(value)}, no number below 2^63.")
    return float(value)


def _whole(value: Any, name: str) -> int:
    if not _is_number(value) or value % 1:
        raise PlanError(f"{name} is {_named(value)}, no whole number below 2^63.")
    return int(value)


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, one of numpy's included, that trainers can hold."""
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else nan
    return abs(number) <= LARGEST


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise PlanError(f"{name} is {_named(value)}, no text.")
    return value


def _list(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise PlanError(f"{name} is {_named(value)}, no list.")
    return value


def _named(value: Any) -> str:
    """Return what a value is, in few characters whatever it is."""
    too_long_to_print = isinstance(value, int) and abs(value) > LARGEST
    return "a larger one" if too_long_to_print else shortened(value)
