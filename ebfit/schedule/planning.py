"""From a fit and what the user wants to the document plan.json."""

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import isnan
from typing import Any, Literal

from ebfit import __version__
from ebfit.batch_plan import BatchPlan, PlanError, Stage
from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.files import (
    FAR,
    Estimate,
    Fit,
    LossTrend,
    Plan,
    PlanComparison,
    PlanPrediction,
    PlanTrends,
    StageRecord,
    Trend,
)
from ebfit.schedule.policies import POLICIES, Bound, Curve, parse
from ebfit.schedule.prediction import STEEPEST, level_reached
from ebfit.schedule.source import Source
from ebfit.schedule.stage_options import StageOptions
from ebfit.schedule.stages import decay_start, lay_out
from ebfit.text import short

LrRule = Literal["none", "sqrt", "linear"]
_LARGEST_LOSS = 1e6  # nats: more is no loss but a steep line, far below the measured tokens
_LR_POWER: dict[str, float] = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a plan beyond the shape of its stages.

    Attributes
    ----------
    policy : str
        As in --policy: ``optimal``, ``loss``, ``minimum``, ``overhead:0.05``.
    bound : {"low", "value", "high"}
        Which end of the interval of the policy's batch size.
    lr_rule : {"none", "sqrt", "linear"}
        How the learning rate follows the batch size.
    """

    policy: str = "optimal"
    bound: Bound = "value"
    lr_rule: LrRule = "none"


def plan(
    fit: Fit,
    *,
    total_tokens: int,
    seq_len: int,
    policy: str = "optimal",
    bound: Bound = "value",
    group: str | None = None,
    lr_rule: LrRule = "none",
    **stages: Any,
) -> Plan:
    """Make a batch-size plan of a fit, as `ebfit schedule` does.

    Parameters
    ----------
    fit : Fit
        From `ebfit.fit` or `Fit.load`.
    total_tokens, seq_len : int
        Of the whole run, and of a sequence.
    policy : str
        ``optimal``, ``loss``, ``minimum`` or ``overhead:X``.
    bound : {"low", "value", "high"}
        Which end of the interval of the policy's batch size.
    group : str, optional
        Whose trend to follow, of a fit of several groups.
    lr_rule : {"none", "sqrt", "linear"}
    **stages
        The other fields of `ebfit.schedule.stage_options.StageOptions`: ``decay_tokens``, ``max_batch``, ``sizes``, ...

    Returns
    -------
    Plan
        `Plan.batch_plan` is what a training loop uses, `Plan.save` writes plan.json.

    Raises
    ------
    BadInputError
        If the options contradict each other.
    CannotAnswerError
        If the fit does not identify what the policy follows.
    TypeError
        If there is no such option.
    """
    options = StageOptions(total_tokens=total_tokens, seq_len=seq_len, **stages)
    return make_plan(Source(fit, "the fit", group), options, Wanted(policy, bound, lr_rule))


def make_plan(source: Source, options: StageOptions, wanted: Wanted) -> Plan:
    """Make a plan of a fit.

    Raises
    ------
    BadInputError
        If the options contradict each other or the policy is none.
    CannotAnswerError
        If the fit does not identify what the policy follows.
    """
    policy, argument = parse(wanted.policy, POLICIES)
    curve = policy.curve(source, argument).at_bound(wanted.bound)
    if isnan(curve.batch_at(options.total_tokens)):
        raise CannotAnswerError(
            f"{source.name}: its trend has no band for --bound {wanted.bound}. Fit anew with this version of ebfit."
        )
    layout = lay_out(curve.batch_at, options, curve.stay_above)
    loss_trend = source.loss_trend()
    losses = [
        _loss_at(loss_trend, curve.level_at(start), FAR) if start else None for start, _ in layout.sizes
    ]
    plan = _whole_steps(layout.sizes, options, wanted, policy_text=wanted.policy, start_losses=losses)
    warnings = [*layout.warnings, *_warnings(source, curve, plan)]
    return _document(replace(plan, warnings=tuple(warnings)), options, wanted, source)


def given_plan(
    sizes: list[tuple[int, int]], options: StageOptions, wanted: Wanted, source: Source | None = None
) -> Plan:
    """Make a plan of stages that the user gives, (start_tokens, batch_tokens) each; a fit says what it is worth.

    Raises
    ------
    BadInputError
        If they are none: out of order, a falling batch, no whole sequences.
    """
    if sizes[0][0] != 0:
        raise BadInputError(f"--stages: the first stage starts at {sizes[0][0]:,} tokens. Start it at 0.")
    for (start, _), (following, _) in pairwise(sizes):
        if following <= start or following >= options.total_tokens:
            raise BadInputError(
                f"--stages: a stage at {following:,} tokens must come after {start:,} and before the end, "
                f"{options.total_tokens:,}."
            )
    for _, batch in sizes:
        if batch % options.multiple:
            lower = batch // options.multiple * options.multiple
            near = " or ".join(f"{size:,}" for size in (lower, lower + options.multiple) if size)
            sequences = options.multiple_sequences
            raise BadInputError(
                f"--stages: {batch:,} tokens is no multiple of {options.multiple:,} "
                f"({sequences:,} sequence{'s' if sequences > 1 else ''}). The nearest that are: {near}."
                f"{_if_binary_was_meant(batch, options.multiple)}"
            )
    plan = _whole_steps(sizes, options, wanted, policy_text="given", start_losses=None)
    late = max(stage.start_tokens - start for stage, (start, _) in zip(plan.stages, sizes, strict=True))
    if late:
        moved = f"stages start up to {late:,} tokens later than given, because they end after whole steps."
        plan = replace(plan, warnings=(moved,))
    return _document(plan, options, wanted, source)


def _if_binary_was_meant(batch: int, multiple: int) -> str:
    """Say that 2M is not 2Mi, where whole millions are refused that would do in binary."""
    millions, rest = divmod(batch, 10**6)
    binary = millions * 2**20
    if rest or binary % multiple:
        return ""
    return f" {millions:,}M is {batch:,}; write {millions}Mi for {binary:,}."


def _whole_steps(
    sizes: list[tuple[int, int]],
    options: StageOptions,
    wanted: Wanted,
    policy_text: str,
    start_losses: list[float | None] | None,
) -> BatchPlan:
    power = _LR_POWER[wanted.lr_rule]
    try:
        plan = BatchPlan.from_sizes(
            sizes,
            total_tokens=options.total_tokens,
            seq_len=options.seq_len,
            lr_scales=[(batch / sizes[0][1]) ** power for _, batch in sizes],
            start_losses=start_losses,
            warmup_tokens=options.warmup_tokens,
            policy=policy_text,
        )
    except PlanError as error:
        raise BadInputError(f"no plan can be made of this: {error}") from None
    return replace(plan, decay_start_tokens=decay_start(plan, options))


def _warnings(source: Source, curve: Curve, plan: BatchPlan) -> list[str]:
    warnings = []
    disagreement = source.disagreement(curve.trend)
    if disagreement:
        warnings.append(disagreement)
    if curve.trend.exponent <= 0.0:
        warnings.append(
            f"the batch size does not grow with tokens in {source.name} (exponent {curve.trend.exponent:.2f}): the "
            "plan keeps one size."
        )
    b_opt = source.b_opt_if_known()
    if b_opt is not None and b_opt.exponent > STEEPEST:
        warnings.append(
            f"B_opt grows faster than the tokens in {source.name} (exponent {b_opt.exponent:.2f}), which cannot go on "
            "for long: what a plan saves is not predicted. Fit more targets, over more tokens."
        )
    if _is_far(plan, curve.trend):
        beyond = plan.total_tokens / curve.trend.d_high
        warnings.append(
            f"the plan goes {beyond:,.0f} times beyond the largest measured D, {short(curve.trend.d_high)} "
            "tokens: its sizes are only as good as the line is that far out, and what they save cannot be told. Longer "
            "small runs would shorten the way."
        )
    elif plan.stages[-1].batch_tokens > 1.05 * source.largest_batch():
        warnings.append(
            "the largest batch size of the plan is above the largest that was run, "
            f"{short(source.largest_batch())} tokens."
        )
    other = source.other_sequence_length(plan.seq_len)
    if other is not None:
        warnings.append(
            f"the runs of {source.name} had sequences of {other:,} tokens, and the plan has {plan.seq_len:,}: their "
            "B_opt in tokens need not be that of other sequences."
        )
    if curve.trend is source.b_min_if_known():
        warnings.append(
            "at B_min itself a loss is reached only after endless steps: take this as the edge to stay above, or use "
            "--policy optimal."
        )
    return warnings


def _loss_at(trend: LossTrend | None, level: float, beyond: float = 1.0) -> float | None:
    """Return the loss of a level; None where no trend tells, or it lies too far beyond the measured ones."""
    if trend is None or level > beyond * trend.d_high:
        return None
    loss = trend.loss_at(level)
    return loss if loss < _LARGEST_LOSS else None


def _is_far(plan: BatchPlan, trend: Trend) -> bool:
    return plan.total_tokens > FAR * trend.d_high


def _comparison(plan: BatchPlan, options: StageOptions, b_opt: Trend | None) -> list[PlanComparison]:
    """Count the steps of constant batches over the same tokens."""
    first, last = plan.stages[0].batch_tokens, plan.stages[-1].batch_tokens
    constant: list[tuple[Literal["best_constant", "first_stage", "last_stage"], int]] = [
        ("first_stage", first),
        ("last_stage", last),
    ]
    if b_opt is not None:
        constant.insert(0, ("best_constant", options.rounded(b_opt.batch_at(plan.total_tokens)[0])))
    return [
        PlanComparison(name=name, batch_tokens=batch, steps=plan.total_tokens // batch)
        for name, batch in constant
    ]


def _prediction(plan: BatchPlan, source: Source, b_opt: Trend) -> PlanPrediction:
    reached = level_reached(plan, b_opt, source.cost, source.fit.confidence)
    loss_trend = source.loss_trend()
    losses = [_loss_at(loss_trend, estimate.value or 0.0) for estimate in (reached.by_steps, reached.by_loss)]
    return PlanPrediction(
        at_tokens=plan.decay_start_tokens or plan.total_tokens,
        same_loss_by_loss=reached.by_loss,
        same_loss_by_steps=reached.by_steps,
        loss_low=losses[0],
        loss_high=losses[1],
    )


def _document(plan: BatchPlan, options: StageOptions, wanted: Wanted, source: Source | None) -> Plan:
    b_opt = None if source is None else source.b_opt_if_known()
    prediction = None
    if source is not None and b_opt is not None and b_opt.exponent <= STEEPEST and not _is_far(plan, b_opt):
        prediction = _prediction(plan, source, b_opt)
    return Plan(
        schema="ebfit.plan/1",
        ebfit_version=__version__,
        group=None if source is None else source.group,
        total_tokens=plan.total_tokens,
        seq_len=plan.seq_len,
        policy=plan.policy,
        bound=wanted.bound,
        lr_rule=wanted.lr_rule,
        micro_batch=options.micro_batch,
        data_parallel=options.data_parallel,
        warmup_tokens=plan.warmup_tokens,
        decay_start_tokens=plan.decay_start_tokens,
        total_steps=plan.total_steps,
        leftover_tokens=plan.leftover_tokens,
        stages=[_stage_record(plan, stage, b_opt) for stage in plan.stages],
        comparison=_comparison(plan, options, b_opt),
        prediction=prediction,
        trends=None
        if source is None
        else PlanTrends(b_opt_vs_tokens=b_opt, b_min_vs_tokens=source.b_min_if_known()),
        warnings=list(plan.warnings),
    )


def _stage_record(plan: BatchPlan, stage: Stage, b_opt: Trend | None) -> StageRecord:
    record = StageRecord(**asdict(stage))
    if b_opt is not None:
        end = plan.total_tokens if stage is plan.stages[-1] else stage.end_tokens
        value, low, high = b_opt.batch_at(end)
        record.b_opt_at_end = Estimate(value=value, low=_known(low), high=_known(high), status="ok")
        record.beyond_measured = end / b_opt.d_high
    return record


def _known(value: float) -> float | None:
    return None if isnan(value) else value
