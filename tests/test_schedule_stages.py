"""From a curve to stages: what holds for every curve and every wish."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.stage_options import StageOptions
from ebfit.schedule.stages import decay_start, lay_out

curves = st.tuples(st.floats(-3.0, 9.0), st.floats(0.0, 0.9))  # ln B = a + g ln D


def _curve(parameters: tuple[float, float]):
    height, exponent = parameters
    return lambda tokens: float(np.exp(height) * tokens**exponent)


@st.composite
def wishes(draw: st.DrawFn) -> StageOptions:
    """Options that leave some batch size possible."""
    seq_len = draw(st.sampled_from([1, 8, 1000, 4096]))
    total = draw(st.integers(seq_len, 3 * 10**12))
    part = st.floats(0.0, 0.49)
    factor = st.none() | st.floats(1.01, 1.1) | st.floats(1.05, 10.0)
    power_of_two = draw(st.booleans())
    try:
        return StageOptions(
            total_tokens=total,
            seq_len=seq_len,
            warmup_tokens=int(total * draw(part)),
            decay_tokens=int(total * draw(part)),
            batch_multiple=None if power_of_two else draw(st.none() | st.integers(1, 10_000)),
            micro_batch=draw(st.none() | st.sampled_from([1, 2, 4])),
            data_parallel=draw(st.none() | st.sampled_from([1, 8, 64])),
            min_batch=draw(st.none() | st.integers(1, 10**7)),
            max_batch=draw(st.none() | st.integers(1, 10**9)),
            step_factor=draw(factor),
            max_stages=draw(st.none() | st.integers(1, 10)),
            min_stage_tokens=draw(st.none() | st.just(0) | st.integers(0, total)),
            power_of_two=power_of_two,
        )
    except BadInputError:
        assume(False)
        raise


def _plan(sizes: list[tuple[int, int]], options: StageOptions) -> BatchPlan:
    return BatchPlan.from_sizes(sizes, total_tokens=options.total_tokens, seq_len=options.seq_len)


@settings(max_examples=300)
@given(curves, wishes())
def test_every_plan_keeps_what_was_asked(parameters: tuple[float, float], options: StageOptions):
    layout = lay_out(_curve(parameters), options)
    plan = _plan(layout.sizes, options)  # which checks that stages tile the run and never fall
    for stage in plan.stages:
        assert stage.batch_tokens % options.seq_len == 0
        assert stage.batch_tokens % (options.batch_multiple or 1) == 0
        assert stage.batch_sequences % ((options.micro_batch or 1) * (options.data_parallel or 1)) == 0
        assert stage.batch_tokens <= (options.max_batch or options.total_tokens)
        assert stage.batch_tokens >= (options.min_batch or 1)
        if options.power_of_two:
            assert stage.batch_sequences.bit_count() == 1
    assert len(plan.stages) <= (options.max_stages or len(plan.stages))
    changes = [stage.start_tokens for stage in plan.stages[1:]]
    assert all(options.warmup_tokens < change for change in changes)
    sizes = [stage.batch_tokens for stage in plan.stages]
    assert sizes == sorted(set(sizes))
    start = decay_start(plan, options)
    assert (start is None) == (options.decay_tokens == 0)
    if start is not None:
        assert start >= options.stable_until
        assert start == plan.total_tokens or start == plan.tokens_at(plan.steps_until(start))
        # one step at most: a change that falls into the step in which the decay begins
        assert all(change <= start for change in changes)


@given(curves, wishes())
def test_a_stage_is_as_long_as_was_asked(parameters: tuple[float, float], options: StageOptions):
    layout = lay_out(_curve(parameters), options)
    starts = [start for start, _ in layout.sizes]
    lengths = np.diff([*starts, options.total_tokens])
    if len(lengths) > 1:
        assert lengths.min() >= options.shortest


@given(st.floats(0.2, 0.6), st.floats(1.2, 4.0))
def test_the_batch_stays_within_half_a_step_of_the_curve(exponent: float, factor: float):
    """On a fine grid of sizes, a stage holds from sqrt(f) below its size to sqrt(f) above; the first starts at 0."""
    total = 10**12
    options = StageOptions(total_tokens=total, seq_len=1, step_factor=factor)
    curve = _curve((0.0, exponent))
    plan = _plan(lay_out(curve, options).sizes, options)
    for stage in plan.stages[1:]:
        for tokens in (stage.start_tokens, stage.end_tokens - 1):
            ratio = stage.batch_tokens / curve(tokens)
            assert 0.97 * factor**-0.5 < ratio < 1.03 * factor**0.5


@given(curves, st.integers(10**6, 10**12))
def test_the_last_stage_has_what_the_curve_asks_for_at_the_end(parameters: tuple[float, float], total: int):
    options = StageOptions(total_tokens=total, seq_len=1, decay_tokens=total // 10)
    curve = _curve(parameters)
    layout = lay_out(curve, options)
    asked = curve(options.stable_until)
    assume(1.0 < asked < total / 200)  # else a last stage of that size has no room
    # sizes that are whole multiples of each other may move by a tenth
    assert layout.sizes[-1][1] == pytest.approx(asked, rel=0.106, abs=0.51)


@given(st.floats(0.2, 0.6), st.integers(10**9, 10**13), st.integers(1, 64))
def test_sizes_double_exactly_and_change_where_both_have_whole_steps(
    exponent: float, total: int, at_once: int
):
    """So that accumulation can be changed between two steps, and trainers that only know whole factors can follow."""
    options = StageOptions(total_tokens=total, seq_len=16, micro_batch=at_once)
    asked = _curve((4.0, exponent))
    assume(asked(total) > 1000 * options.multiple)
    layout = lay_out(asked, options)
    for (_, small), (start, large) in pairwise(layout.sizes):
        assert large == 2 * small
        assert start % large == 0


@given(
    st.floats(0.0, 0.9),
    st.integers(10**6, 10**12),
    st.none() | st.floats(1.05, 4.0),
    st.none() | st.integers(1, 64),
)
def test_no_step_begins_below_a_curve_to_stay_above(
    exponent: float, total: int, factor: float | None, micro_batch: int | None
):
    options = StageOptions(
        total_tokens=total,
        seq_len=1,
        step_factor=factor,
        micro_batch=micro_batch,
        power_of_two=micro_batch is None,
    )
    curve = _curve((2.0, exponent))
    assume(curve(total) < total / 1000)
    plan = _plan(lay_out(curve, options, stay_above=True).sizes, options)
    for stage in plan.stages:
        last_step = stage.end_tokens - stage.batch_tokens
        assert stage.batch_tokens >= curve(last_step) * (1 - 1e-6)


def test_changes_are_moved_to_whole_steps_only_as_far_as_stages_have_room():
    """Of fine sizes, the common multiple of two may lie beyond the next change, which is no order of stages."""
    options = StageOptions(
        total_tokens=1_058_031, seq_len=8, step_factor=1.01, decay_tokens=150_057, min_stage_tokens=0
    )
    layout = lay_out(_curve((-5.14296152521981, 0.8844494331009577)), options)
    assert len(layout.sizes) > 50
    starts = [start for start, _ in layout.sizes]
    for (start, end), (_, size) in zip(pairwise([*starts, options.total_tokens]), layout.sizes, strict=True):
        assert end - start >= 2 * size


def test_given_sizes_change_at_the_geometric_mean():
    options = StageOptions(total_tokens=10**6, seq_len=1, sizes=[100, 200, 400], min_stage_tokens=0)
    layout = lay_out(_curve((0.0, 0.5)), options)  # B = sqrt(D)
    assert layout.sizes == [
        (0, 100),
        (pytest.approx(20_000, abs=20), 200),
        (pytest.approx(80_000, abs=80), 400),
    ]
    # sqrt(1e6) is 1000, far beyond 400
    assert layout.warnings == [
        "--sizes: the policy asks for 1.00K tokens at the end of the stable phase, and the largest size is 400."
    ]


def test_a_given_size_that_the_policy_never_gets_to_is_left_out_aloud():
    options = StageOptions(total_tokens=10**6, seq_len=1, sizes=[500, 1000, 8000])
    layout = lay_out(_curve((0.0, 0.5)), options)
    assert [size for _, size in layout.sizes] == [500, 1000]
    assert layout.warnings == [
        "--sizes: 8,000 tokens is not used: the policy is only at 1.00K when the stable phase ends."
    ]


def test_limits_that_hold_the_policy_are_told():
    curve = _curve((0.0, 0.5))
    low = lay_out(curve, StageOptions(total_tokens=10**6, seq_len=1, max_batch=300))
    assert low.sizes[-1][1] == 300
    assert low.warnings == [
        "the policy asks for 1.00K tokens at the end of the stable phase; --max-batch holds it at 300."
    ]
    high = lay_out(curve, StageOptions(total_tokens=10**6, seq_len=1, min_batch=5000))
    assert high.sizes == [(0, 5000)]
    assert "less than --min-batch allows: the plan is at 5.00K throughout" in high.warnings[0]


def test_fewer_stages_go_from_the_short_ones_first():
    curve = _curve((0.0, 0.5))
    many = lay_out(curve, StageOptions(total_tokens=10**9, seq_len=1)).sizes
    three = lay_out(curve, StageOptions(total_tokens=10**9, seq_len=1, max_stages=3)).sizes
    assert len(many) > 3
    assert [size for _, size in three] == [size for _, size in many[-3:]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"total_tokens": 1000, "seq_len": 4096}, "--total-tokens 1,000 is less than one batch"),
        (
            {"total_tokens": 10**9, "seq_len": 4096, "max_batch": 8192, "micro_batch": 4, "data_parallel": 8},
            "multiples of 131,072 tokens (--seq-len 4,096, --micro-batch 4 x --data-parallel 8); --max-batch 8,192",
        ),
        (
            {"total_tokens": 10**9, "seq_len": 8, "min_batch": 9000, "max_batch": 8000},
            "--max-batch 8,000 is less than --min-batch 9,000",
        ),
        (
            {"total_tokens": 10**9, "seq_len": 8, "min_batch": 9, "max_batch": 15},
            "sizes are multiples of 8 tokens (--seq-len 8), and not below --min-batch 9; --max-batch 15",
        ),
        (
            {"total_tokens": 100, "seq_len": 1, "decay_tokens": 60, "warmup_tokens": 40},
            "leave no stable phase",
        ),
        ({"total_tokens": 10**9, "seq_len": 1, "step_factor": 1.0}, "--step-factor 1"),
        ({"total_tokens": 10**9, "seq_len": 1, "step_factor": float("nan")}, "--step-factor nan"),
        ({"total_tokens": 10**9, "seq_len": 1, "max_stages": 0}, "--max-stages 0: give 1 or more"),
        ({"total_tokens": 10**9, "seq_len": 1, "sizes": [4], "step_factor": 2.0}, "Give one of them"),
        (
            {"total_tokens": 10**9, "seq_len": 8, "micro_batch": 3, "power_of_two": True},
            "multiples of 3 sequences, and no power of two is",
        ),
        ({"total_tokens": 0, "seq_len": 1}, "--total-tokens must be positive"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused_in_a_sentence(options: dict[str, object], said: str):
    with pytest.raises(BadInputError) as refusal:
        StageOptions(**options)
    assert said in str(refusal.value)


def test_a_given_size_of_no_whole_sequences_is_refused_with_the_nearest_ones():
    options = StageOptions(total_tokens=10**12, seq_len=4096, sizes=[2_000_000])
    with pytest.raises(BadInputError, match="2,000,000 is no multiple of 4,096 tokens") as refusal:
        lay_out(_curve((0.0, 0.5)), options)
    assert "1,998,848 or 2,002,944" in str(refusal.value)
