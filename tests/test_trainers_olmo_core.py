"""OLMo-core: the callback's rule walked step by step, sizes on a chain of factors, and what is said about it."""

import itertools
import math
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import BILLION, MI, plans, worked_example
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers import Setup, olmo_core
from ebfit.schedule.trainers.factor_chain import is_factor_chain, nearest_factor_chain

SMALL = plans(unit=2, max_size=30, max_steps=60)


def walk(events: list[tuple[int, int]]) -> Iterator[int]:
    """The callback and the data loader's counter of batches, which is divided when the batch grows."""
    size, batches, tokens = events[0][1], 0, 0
    while True:
        target = next(batch for start, batch in reversed(events) if tokens >= start)
        assert target % size == 0
        if batches % (target // size) == 0:
            batches //= target // size
            size = target
        yield size
        batches += 1
        tokens += size


def events_of(export_text: str, seq_len: int) -> list[tuple[int, int]]:
    read = olmo_core.parse(export_text, seq_len, Setup())
    assert read.start_unit == "tokens"
    return list(zip(read.starts, read.batch_tokens or (), strict=True))


@given(SMALL)
def test_the_callback_does_what_the_export_says(plan: BatchPlan) -> None:
    export = olmo_core.export(plan, Setup())
    events = events_of(export.text, plan.seq_len)
    walked = in_stages(walk(events), export.as_run.total_steps)
    assert [(tokens // plan.seq_len, steps) for tokens, steps in walked] == stages_of(export.as_run)


@given(plan=SMALL, data=st.data())
def test_events_at_any_tokens_are_simulated_as_they_are_walked(plan: BatchPlan, data: st.DataObject) -> None:
    """Not only the well-chosen starts of our exports: what is due too soon after another is passed over."""
    chain = [batch * plan.seq_len for batch in dict.fromkeys(nearest_factor_chain(plan, 2))]
    starts = data.draw(st.lists(st.integers(1, 400), min_size=len(chain), max_size=len(chain), unique=True))
    events = [
        (0, chain[0]),
        *zip([start * plan.seq_len for start in sorted(starts)][1:], chain[1:], strict=True),
    ]
    simulated = olmo_core.simulate(events)
    end = simulated[-1][0] + 5 * simulated[-1][1]
    run = BatchPlan.from_sizes(simulated, total_tokens=end, seq_len=plan.seq_len)
    walked = in_stages(walk(events), run.total_steps)
    assert [(tokens // plan.seq_len, steps) for tokens, steps in walked] == stages_of(run)


@given(plans(max_size=7, max_stages=3))
def test_no_other_chain_of_factors_is_nearer(plan: BatchPlan) -> None:
    planned = [stage.batch_sequences for stage in plan.stages]
    tokens = [stage.steps * stage.batch_tokens for stage in plan.stages]

    def cost(chain: tuple[int, ...]) -> float:
        return sum(
            weight * (abs(math.log(size / wanted)) + 0.02 * (size != wanted)) / plan.total_tokens
            for size, wanted, weight in zip(chain, planned, tokens, strict=True)
        )

    every = itertools.product(range(1, planned[-1] + 1), repeat=len(planned))
    within_two = (
        chain
        for chain in every
        if is_factor_chain(list(chain))
        and all(
            wanted <= 2 * size and size <= 2 * wanted for size, wanted in zip(chain, planned, strict=True)
        )
    )
    least = min(map(cost, within_two))
    assert cost(tuple(nearest_factor_chain(plan, 1))) == pytest.approx(least, abs=1e-12)


@given(plans(unit=3))
def test_a_chain_has_whole_factors_fits_the_devices_and_exceeds_nothing(plan: BatchPlan) -> None:
    chain = nearest_factor_chain(plan, 3)
    assert is_factor_chain(chain)
    assert all(size % 3 == 0 for size in chain)
    assert max(chain) <= plan.stages[-1].batch_sequences


@given(plan=plans(max_stages=1), doublings=st.integers(1, 4), steps=st.integers(1, 1000))
def test_sizes_that_double_are_kept_and_begin_where_they_should(
    plan: BatchPlan, doublings: int, steps: int
) -> None:
    first = plan.stages[0].batch_tokens
    sizes, start = [], 0
    for number in range(doublings + 1):
        sizes.append((start, first * 2**number))
        start += first * 2**doublings * steps
    scales = [math.sqrt(2**number) for number in range(doublings + 1)]
    doubling = BatchPlan.from_sizes(sizes, total_tokens=start, seq_len=plan.seq_len, lr_scales=scales)
    export = olmo_core.export(doubling, Setup(strict=True))
    assert stages_of(export.as_run) == stages_of(doubling)
    assert [stage.lr_scale for stage in export.as_run.stages] == pytest.approx(scales)


@given(plans(max_size=500, max_steps=10_000))
def test_a_stage_begins_within_half_a_step_of_the_plan_where_it_is_long_enough(plan: BatchPlan) -> None:
    export = olmo_core.export(plan, Setup())
    wanted: dict[int, int] = {}
    for stage, sequences in zip(plan.stages, nearest_factor_chain(plan, 1), strict=True):
        wanted.setdefault(sequences, stage.start_tokens)
    gaps = [later - earlier for earlier, later in itertools.pairwise(wanted.values())]
    if all(gap > 2 * plan.stages[-1].batch_tokens for gap in gaps):
        for stage in export.as_run.stages:
            assert abs(stage.start_tokens - wanted[stage.batch_sequences]) <= stage.batch_tokens // 2


def stub_olmo_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with the names that the export imports, whose classes keep their arguments."""

    def module(name: str, **names: Any) -> None:
        made = ModuleType(name)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, name, made)

    for package in ("olmo_core", "olmo_core.optim"):
        module(package)
    module(
        "olmo_core.optim.scheduler",
        WSD=lambda **arguments: SimpleNamespace(**arguments),
        SchedulerUnits=SimpleNamespace(tokens="tokens"),
    )
    module("olmo_core.train", Duration=SimpleNamespace(tokens=lambda value: ("tokens", value)))
    module("olmo_core.train.callbacks", BatchSizeSchedulerCallback=lambda **names: SimpleNamespace(**names))


@given(plan=SMALL)
def test_the_snippet_runs_and_keeps_the_callbacks_rules(plan: BatchPlan) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        stub_olmo_core(monkeypatch)
        export = olmo_core.export(plan, Setup())
        names: dict[str, Any] = {}
        exec(export.text, names)
    callback, scheduler = names["batch_size_scheduler"], names["scheduler"]
    starts = [value for _, value in callback.schedule]
    assert starts[0] == 0
    assert all(earlier < later for earlier, later in itertools.pairwise(starts))
    assert is_factor_chain(callback.batch_sizes)
    assert len(set(callback.batch_sizes)) == len(callback.batch_sizes) == len(starts)
    assert names["GLOBAL_BATCH_SIZE"] == callback.batch_sizes[0]
    assert names["max_duration"] == ("tokens", export.as_run.stages[-1].end_tokens)
    assert (scheduler.units, scheduler.warmup) == ("tokens", plan.warmup_tokens)
    if plan.decay_start_tokens is not None:
        assert scheduler.decay == max(export.as_run.stages[-1].end_tokens - plan.decay_start_tokens, 0)


def test_the_worked_example_is_changed_and_says_so() -> None:
    export = olmo_core.export(worked_example(), Setup(4, 64))
    said = " ".join(export.notes)
    assert "512 -> 1024 -> 1280 -> 1536 sequences are not" in said
    assert "the plan leaves the learning rate alone" in said
    assert said.count("square root of the batch's growth") == 1
    assert [sequences for sequences, _ in stages_of(export.as_run)] == [512, 1536]


def test_strict_refuses_the_worked_example() -> None:
    with pytest.raises(BadInputError, match="whole multiple of the one before"):
        olmo_core.export(worked_example(), Setup(strict=True))


def test_strict_refuses_a_learning_rate_that_is_left_alone() -> None:
    plan = BatchPlan.from_sizes([(0, MI), (4 * MI, 2 * MI)], total_tokens=BILLION, seq_len=4096)
    with pytest.raises(BadInputError, match="square root"):
        olmo_core.export(plan, Setup(strict=True))


def test_strict_refuses_a_start_that_is_no_multiple_of_the_batch() -> None:
    plan = BatchPlan.from_sizes(
        [(0, MI), (3 * MI, 2 * MI)], total_tokens=BILLION, seq_len=4096, lr_scales=[1.0, math.sqrt(2)]
    )
    with pytest.raises(BadInputError, match=r"starts move by at most 1\.05M tokens"):
        olmo_core.export(plan, Setup(strict=True))


def test_python_as_people_write_it_is_read() -> None:
    read = olmo_core.parse(
        "import olmo_core.train.callbacks as callbacks\n"
        "SEQUENCE_LENGTH = 2**12\nBATCH = 512 * SEQUENCE_LENGTH\n"
        "callbacks.BatchSizeSchedulerCallback(\n"
        "    batch_sizes=[BATCH, BATCH * 2, 3 * BATCH],\n"
        "    schedule=[Duration.tokens(0), Duration.tokens(int(100e9)), Duration.tokens(200_000_000_000)],\n"
        ")\n"
        "WSD(warmup=2000, decay=None)\n",
        4096,
        Setup(),
    )
    assert read.batch_sequences == (512, 1024, 1536)
    assert read.starts == (0, 100 * BILLION, 200 * BILLION)
    assert (read.warmup_steps, read.decay_steps) == (2000, None)
    assert read.refusals == ["each batch size must be a whole multiple of the one before."]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "no BatchSizeSchedulerCallback"),
        ("BatchSizeSchedulerCallback(batch_sizes=sizes(), schedule=[])", "line 1: .* no list written out"),
        ("a = a\nBatchSizeSchedulerCallback(batch_sizes=[a], schedule=[Duration.tokens(0)])", "line 2"),
        ("BatchSizeSchedulerCallback(batch_sizes=[9**9**9], schedule=[Duration.tokens(0)])", "line 1"),
        ("BatchSizeSchedulerCallback(batch_sizes=[8], schedule=[Duration.epochs(0)])", "no Duration.tokens"),
        ("BatchSizeSchedulerCallback(batch_sizes=[8], schedule=[])", "as many as each other"),
        ("(" * 100_000, "no Python"),
        ("x = '\x00'", "no Python"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        olmo_core.parse(text, 8, Setup())
