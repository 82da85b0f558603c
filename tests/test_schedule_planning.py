"""Plans as documents: what they hold, what they save, and that scaling the units changes nothing else."""

import numpy as np
import pytest
from fits import fit_of, trend
from hypothesis import given, settings
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.files import Agreement, GroupTrends, Plan, RunRecord, to_json
from ebfit.schedule.cost import Cost
from ebfit.schedule.planning import Wanted, given_plan, make_plan
from ebfit.schedule.prediction import level_reached
from ebfit.schedule.source import Source
from ebfit.schedule.stage_options import StageOptions

exponents = st.floats(0.1, 0.8)


def _make(fit=None, wanted: Wanted | None = None, group: str | None = None, **options: object) -> Plan:
    chosen = StageOptions(**{"total_tokens": 10**10, "seq_len": 8} | options)
    return make_plan(Source(fit or fit_of(), "fit.json", group), chosen, wanted or Wanted())


@settings(max_examples=40)
@given(
    exponents,
    st.floats(0.1, 100.0),
    st.sampled_from(["optimal", "loss", "minimum", "overhead:0.1"]),
    st.sampled_from(["low", "value", "high"]),
    st.sampled_from(["none", "sqrt", "linear"]),
    st.integers(10**6, 10**13),
    st.floats(0.0, 0.4),
)
def test_any_fit_gives_a_plan_that_a_training_loop_can_read(
    exponent: float, k: float, policy: str, bound: str, lr_rule: str, total: int, decay: float
):
    document = _make(
        fit_of(trend(k=k, exponent=exponent)),
        Wanted(policy=policy, bound=bound, lr_rule=lr_rule),
        total_tokens=total,
        decay_tokens=int(decay * total),
    )
    again = Plan.model_validate_json(to_json(document))
    assert again == document
    plan = again.batch_plan()
    assert plan.total_steps == document.total_steps
    assert plan.leftover_tokens == document.leftover_tokens == total - plan.stages[-1].end_tokens
    power = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}[lr_rule]
    for stage in plan.stages:
        assert stage.lr_scale == pytest.approx((stage.batch_tokens / plan.stages[0].batch_tokens) ** power)
    assert plan.decay_start_tokens is None or plan.at_step(plan.steps_until(plan.decay_start_tokens)) == (
        plan.stages[-1].batch_tokens
    )


def test_tokens_scaled_by_a_power_of_two_scale_the_plan_and_leave_the_steps():
    factor = 64
    small = _make(fit_of(trend(k=2.0, exponent=0.5)), total_tokens=10**9, seq_len=8)
    large = _make(
        fit_of(trend(k=2.0 * factor**0.5, exponent=0.5, d_low=1e6 * factor, d_high=1e9 * factor)),
        total_tokens=10**9 * factor,
        seq_len=8 * factor,
    )
    assert [(s.start_tokens * factor, s.batch_tokens * factor, s.steps) for s in small.stages] == [
        (s.start_tokens, s.batch_tokens, s.steps) for s in large.stages
    ]


def test_constant_batches_are_counted_over_the_same_tokens():
    plan = _make(total_tokens=10**9)
    best, first, last = plan.comparison
    assert best.name == "best_constant"
    assert best.batch_tokens == pytest.approx(2.0 * (10**9) ** 0.5, abs=4)  # a multiple of 8
    assert (first.batch_tokens, last.batch_tokens) == (
        plan.stages[0].batch_tokens,
        plan.stages[-1].batch_tokens,
    )
    for constant in plan.comparison:
        assert constant.steps == 10**9 // constant.batch_tokens
    assert last.steps < plan.total_steps < first.steps


def test_losses_at_which_stages_begin_are_those_of_the_best_constant_batch():
    plan = _make(total_tokens=10**9)
    for stage in plan.stages[1:]:
        assert stage.start_loss == pytest.approx(1.0 + 100.0 * stage.start_tokens**-0.3, rel=1e-3)
    assert plan.stages[0].start_loss is None
    later = _make(wanted=Wanted(policy="loss"), total_tokens=10**9)
    for stage in later.stages[1:]:  # g = 0.5: half the tokens to the same loss
        assert stage.start_loss == pytest.approx(1.0 + 100.0 * (2.0 * stage.start_tokens) ** -0.3, rel=1e-3)


def test_without_a_trend_of_the_loss_no_stage_begins_at_a_loss():
    plan = _make(fit_of(with_losses=False))
    assert {stage.start_loss for stage in plan.stages} == {None}


def test_far_beyond_the_measured_tokens_nothing_is_predicted_and_that_is_said():
    near, far = _make(total_tokens=9 * 10**9), _make(total_tokens=11 * 10**9)
    assert near.prediction is not None
    assert near.warnings == []
    assert far.prediction is None
    assert far.warnings == [
        "the plan goes 11 times beyond the largest measured D, 1.00B tokens: its sizes are only as good as "
        "the line is that far out, and what they save cannot be told. Longer small runs would shorten the way."
    ]
    assert far.stages[-1].beyond_measured == pytest.approx(11.0)


@settings(max_examples=30)
@given(st.floats(0.5, 20.0), exponents)
def test_a_constant_batch_is_as_far_as_its_cost_says(ratio: float, exponent: float):
    """Held all along, a batch needs phi times the tokens of the best one, whatever runs remember."""
    b_opt = trend(exponent=exponent)
    fit = fit_of(b_opt)
    level = 1e8
    batch = round(ratio * b_opt.batch_at(level)[0])
    cost = Cost.of(fit.targets)
    log_cost = cost.log_cost_at(np.array([np.log(batch / b_opt.batch_at(level)[0])]))[0]
    tokens = round(level * float(np.exp(log_cost)) / batch) * batch
    plan = given_plan([(0, batch)], StageOptions(total_tokens=tokens, seq_len=1), Wanted()).batch_plan()
    reached = level_reached(plan, b_opt, cost, 0.95)
    rounding = batch / tokens
    for estimate in (reached.by_loss, reached.by_steps):
        assert estimate.value == pytest.approx(level, rel=5e-3 + 3 * rounding)
        assert estimate.low <= estimate.value <= estimate.high


@settings(max_examples=5)
@given(st.floats(0.1, 0.5))
def test_following_b_opt_in_fine_steps_saves_nothing_by_loss_and_all_by_steps(exponent: float):
    """Known answers of the two suppositions, in the limit of many stages.

    By loss, along B_opt(ell) the marginal tokens are those of E_min, so the level is the tokens consumed. By steps,
    with B = k D^g, the steps are D / ((1 - g) B), so the level is where S_opt has grown by 1 / (1 - g), up to the cost
    of the last batch being too small for it.
    """
    total = 10**9
    b_opt = trend(k=3e4 / total**exponent, exponent=exponent)
    fit = fit_of(b_opt)
    options = StageOptions(total_tokens=total, seq_len=1, step_factor=1.2, min_stage_tokens=10**5)
    plan = make_plan(Source(fit, "fit.json"), options, Wanted()).batch_plan()
    cost = Cost.of(fit.targets)
    reached = level_reached(plan, b_opt, cost, 0.95)
    assert reached.by_loss.value == pytest.approx(total, rel=0.02)
    level = reached.by_steps.value
    assert level > total
    last = plan.stages[-1].batch_tokens
    needed = level / last * np.exp(cost.log_cost_at(np.array([np.log(last / b_opt.batch_at(level)[0])]))[0])
    assert needed == pytest.approx(total / ((1.0 - exponent) * b_opt.batch_at(total)[0]), rel=0.03)


@settings(max_examples=25)
@given(exponents, st.sampled_from(["optimal", "loss", "minimum", "overhead:0.5"]), st.floats(1.3, 5.0))
def test_memory_of_steps_is_never_worse_than_memory_of_loss(exponent: float, policy: str, factor: float):
    fit = fit_of(trend(exponent=exponent))
    plan = _make(fit, Wanted(policy=policy), total_tokens=10**9, step_factor=factor)
    slow, fast = plan.prediction.same_loss_by_loss, plan.prediction.same_loss_by_steps
    assert slow.value <= fast.value * 1.001
    assert slow.low <= slow.value <= slow.high
    assert fast.low <= fast.value <= fast.high


def test_a_plan_below_b_min_gets_stuck():
    b_opt = trend()
    stuck_at = 1e6
    batch = round(0.4 * b_opt.batch_at(stuck_at)[0])  # B_min of that level
    plan = given_plan([(0, batch)], StageOptions(total_tokens=10**9, seq_len=1), Wanted()).batch_plan()
    reached = level_reached(plan, b_opt, Cost.of(fit_of(b_opt).targets), 0.95)
    assert reached.by_loss.value == pytest.approx(stuck_at, rel=0.02)
    assert reached.by_steps.value == pytest.approx(stuck_at, rel=0.02)


def test_a_plan_for_sequences_of_another_length_says_so():
    fit = fit_of()
    run = {
        "path": "",
        "format": "csv",
        "batch_tokens": 8,
        "batch_source": "",
        "lr": None,
        "seed": None,
        "rows": 9,
    }
    run |= {"dropped": {}, "stable_from": 1, "stable_to": 9, "stable_source": ""}
    fit.runs = [RunRecord(name=name, seq_len=8, **run) for name in "ab"]
    assert _make(fit, total_tokens=10**9).warnings == []
    assert _make(fit, total_tokens=10**9, seq_len=16).warnings == [
        "the runs of fit.json had sequences of 8 tokens, and the plan has 16: their B_opt in tokens need not be that "
        "of other sequences."
    ]


def test_stages_of_one_s_own_are_kept_in_whole_steps():
    plan = given_plan([(0, 800), (10_001, 1600)], StageOptions(total_tokens=100_000, seq_len=8), Wanted())
    assert [(s.start_tokens, s.batch_tokens, s.steps) for s in plan.stages] == [
        (0, 800, 13),
        (10_400, 1600, 56),
    ]
    assert plan.warnings == [
        "stages start up to 399 tokens later than given, because they end after whole steps."
    ]
    assert [item.name for item in plan.comparison] == ["first_stage", "last_stage"]
    assert plan.prediction is None


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([(5, 800)], "the first stage starts at 5 tokens. Start it at 0"),
        ([(0, 800), (10_000, 1600), (10_000, 2400)], "must come after 10,000"),
        ([(0, 800), (100_000, 1600)], "before the end, 100,000"),
        ([(0, 801)], "801 tokens is no multiple of 8 (1 sequence). The nearest that are: 800 or 808."),
        ([(0, 1600), (50_000, 800)], "the batch falls from 1600 to 800"),
        ([(0, 80_000), (10, 80_000), (20, 160_000)], "no plan can be made of this"),
    ],
)
def test_stages_that_are_none_are_refused_in_a_sentence(sizes: list[tuple[int, int]], said: str):
    with pytest.raises(BadInputError) as refusal:
        given_plan(sizes, StageOptions(total_tokens=100_000, seq_len=8), Wanted())
    assert said in str(refusal.value)


def test_millions_that_fill_no_sequences_are_answered_with_the_binary_ones():
    with pytest.raises(
        BadInputError, match=r"1,998,848 or 2,002,944\. 2M is 2,000,000; write 2Mi for 2,097,152\.$"
    ):
        given_plan([(0, 2_000_000)], StageOptions(total_tokens=10**9, seq_len=4096), Wanted())
    with pytest.raises(BadInputError, match=r"1,999,998 or 2,000,001\.$"):
        given_plan([(0, 2_000_000)], StageOptions(total_tokens=10**9, seq_len=3), Wanted())


def test_groups_that_disagree_are_told_and_one_can_be_chosen():
    fit = fit_of()
    for number, target in enumerate(fit.targets):
        target.group = "85M" if number % 2 else "151M"
    steeper = trend(k=0.5, exponent=0.6)
    fit.trends.groups = [GroupTrends(group="151M", b_opt_vs_tokens=steeper)]
    fit.trends.agreement = {
        "b_opt_vs_tokens": Agreement(statistic=20.0, degrees_of_freedom=2, p_value=4.5e-5)
    }
    joint = _make(fit, total_tokens=10**9)
    assert joint.warnings == [
        "the groups of fit.json do not share one trend of B_opt (p = 4.5e-05), and this plan follows one line through "
        "all. Choose one with --group: 151M, 85M."
    ]
    chosen = _make(fit, group="151M", total_tokens=10**9)
    assert chosen.warnings == []
    assert chosen.stages[-1].batch_tokens == pytest.approx(steeper.batch_at(1e9)[0], rel=1e-3)
    assert chosen.group == "151M"
    with pytest.raises(BadInputError, match=r"fit\.json: has no group 1B\. Its groups: 151M, 85M"):
        _make(fit, group="1B")


def test_a_target_at_the_edge_of_the_law_does_not_stop_a_plan():
    """Its shape was rounded over the edge of what the law allows when the file was written."""
    fit = fit_of()
    fit.targets[0].params["s_1"] = fit.targets[0].params["s_opt"]
    assert Cost.of(fit.targets).largest_ratio(1.1) == pytest.approx(
        Cost.of(fit.targets[1:]).largest_ratio(1.1)
    )
