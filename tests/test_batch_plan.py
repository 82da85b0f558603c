"""BatchPlan: stages, steps and tokens agree; plans that contradict themselves are refused; the file stands alone."""

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import BILLION, MI, SMALL, one_sentence, plans, worked_example

from ebfit import BatchPlan, PlanError, Stage

# --- stages, steps and tokens


def test_a_plan_of_three_stages():
    assert [(s.start_tokens, s.start_step, s.steps) for s in SMALL.stages] == [
        (0, 0, 3),
        (120, 3, 4),
        (440, 7, 4),
    ]
    assert (SMALL.total_steps, SMALL.leftover_tokens) == (11, 80)
    assert [SMALL.at_step(step) for step in range(11)] == [40] * 3 + [80] * 4 + [120] * 4
    assert [SMALL.batch_at(tokens) for tokens in (0, 119, 120, 439, 440, 999, 10_000)] == [
        40,
        40,
        80,
        80,
        120,
        120,
        120,
    ]
    assert [SMALL.tokens_at(step) for step in (0, 3, 4, 7, 11, 12)] == [0, 120, 200, 440, 920, 1040]
    assert [SMALL.steps_until(tokens) for tokens in (0, 1, 40, 41, 120, 121, 920, 921, 1000)] == [
        0, 1, 1, 2, 3, 4, 11, 12, 12,
    ]  # fmt: skip


def test_the_worked_example_has_the_batch_sizes_it_was_given():
    plan = worked_example()
    assert [stage.batch_tokens // MI for stage in plan.stages] == [2, 4, 5, 6]
    for number, stage in enumerate(plan.stages):
        assert 0 <= stage.start_tokens - number * 125 * BILLION < plan.stages[max(number - 1, 0)].batch_tokens


@given(plans(), st.data())
def test_steps_and_tokens_agree(plan: BatchPlan, data: st.DataObject):
    step = data.draw(st.integers(0, plan.total_steps + 5))
    tokens = plan.tokens_at(step)
    assert plan.batch_at(tokens) == plan.at_step(step) == plan.tokens_at(step + 1) - tokens
    assert plan.steps_until(tokens) == step
    assert plan.steps_until(tokens + 1) == step + 1


@given(plans(), st.data())
def test_steps_until_is_the_fewest_that_are_enough(plan: BatchPlan, data: st.DataObject):
    tokens = data.draw(st.integers(1, plan.total_tokens + 3 * plan.stages[-1].batch_tokens))
    steps = plan.steps_until(tokens)
    assert plan.tokens_at(steps - 1) < tokens <= plan.tokens_at(steps)


@given(plans(max_steps=20), st.data())
def test_steps_until_counts_what_a_loop_takes_from_any_point_on(plan: BatchPlan, data: st.DataObject):
    """A run that took up the plan in mid-stage, with tokens that are no whole number of the plan's steps."""
    consumed = data.draw(st.integers(0, plan.total_tokens))
    goal = data.draw(st.integers(0, plan.total_tokens + plan.stages[-1].batch_tokens))
    tokens, steps = consumed, 0
    while tokens < goal:
        tokens += plan.batch_at(tokens)
        steps += 1
    assert plan.steps_until(goal, consumed=consumed) == steps


@given(plans(max_steps=20), st.data())
def test_steps_left_are_the_whole_steps_of_a_loop(plan: BatchPlan, data: st.DataObject):
    consumed = data.draw(st.integers(0, plan.total_tokens + 1))
    tokens, steps = consumed, 0
    while tokens + plan.batch_at(tokens) <= plan.total_tokens:
        tokens += plan.batch_at(tokens)
        steps += 1
    assert plan.steps_left(consumed) == steps
    assert plan.steps_left(0) == plan.total_steps


@given(plans())
def test_stages_tile_the_run(plan: BatchPlan):
    assert plan.stages[0].start_tokens == plan.stages[0].start_step == 0
    for before, after in zip(plan.stages, plan.stages[1:], strict=False):
        assert (before.end_tokens, before.end_step) == (after.start_tokens, after.start_step)
        assert before.batch_tokens <= after.batch_tokens
    assert plan.stages[-1].end_tokens + plan.leftover_tokens == plan.total_tokens
    assert 0 <= plan.leftover_tokens < plan.stages[-1].batch_tokens
    assert plan.tokens_at(plan.total_steps) == plan.total_tokens - plan.leftover_tokens


@given(plans(), st.data())
def test_stage_at_is_the_last_stage_that_has_begun(plan: BatchPlan, data: st.DataObject):
    tokens = data.draw(st.integers(0, plan.total_tokens))
    stage = plan.stage_at(tokens)
    assert stage.start_tokens <= tokens
    assert tokens < stage.end_tokens or stage is plan.stages[-1]


@given(st.data())
def test_from_sizes_moves_a_start_up_to_the_next_whole_step(data: st.DataObject):
    seq_len = data.draw(st.integers(1, 50))
    units = st.lists(st.integers(1, 40), min_size=1, max_size=5)
    batches = [seq_len * size for size in sorted(data.draw(units))]
    wished = [0]
    for batch in batches[:-1]:
        wished.append(wished[-1] + data.draw(st.integers(2 * batches[-1] + batch, 50 * batches[-1])))
    total = wished[-1] + data.draw(st.integers(3 * batches[-1], 50 * batches[-1]))
    plan = BatchPlan.from_sizes(list(zip(wished, batches, strict=True)), total_tokens=total, seq_len=seq_len)
    assert [stage.batch_tokens for stage in plan.stages] == batches
    assert [stage.batch_sequences * seq_len for stage in plan.stages] == batches
    for before, stage, wish in zip(plan.stages, plan.stages[1:], wished[1:], strict=False):
        assert 0 <= stage.start_tokens - wish < before.batch_tokens
    assert plan.leftover_tokens < batches[-1]


def test_from_sizes_takes_the_integers_of_numpy_and_writes_those_of_python():
    sizes = [(np.int64(0), np.int32(40)), (np.float64(100), np.int64(80)), (400, 120)]
    plan = BatchPlan.from_sizes(
        sizes,
        total_tokens=np.int64(1000),
        seq_len=np.int64(10),
        lr_scales=[1.0, 1.4, 1.7],
        start_losses=[None, 3.0, 2.5],
        warmup_tokens=60,
        decay_start_tokens=800,
    )
    assert plan == SMALL
    assert BatchPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == SMALL


# --- what a loop asks


@given(plans(unit=24), st.sampled_from([(24, 1), (1, 24), (4, 6), (3, 2), (1, 1)]), st.data())
def test_accumulated_micro_batches_make_up_the_batch(
    plan: BatchPlan, devices: tuple[int, int], data: st.DataObject
):
    micro_batch, data_parallel = devices
    tokens = data.draw(st.integers(0, plan.total_tokens))
    accumulation = plan.accumulation(tokens, micro_batch, data_parallel)
    assert accumulation * micro_batch * data_parallel * plan.seq_len == plan.batch_at(tokens)


def test_accumulation_refuses_at_once_what_does_not_divide_in_a_later_stage():
    plan = BatchPlan.from_sizes([(0, 40), (400, 60)], total_tokens=1000, seq_len=10)
    with pytest.raises(
        PlanError, match="stage 2: 6 sequences are no multiple of micro_batch x data_parallel, 2 x 2"
    ):
        plan.accumulation(0, micro_batch=2, data_parallel=2)


@pytest.mark.parametrize(("micro_batch", "data_parallel"), [(0, 1), (-4, 1), (4, 0), (4, -1)])
def test_accumulation_refuses_devices_that_cannot_be(micro_batch: int, data_parallel: int):
    with pytest.raises(PlanError, match="must be positive"):
        SMALL.accumulation(0, micro_batch, data_parallel)


def test_batch_for_loss_follows_the_losses_of_the_stages():
    losses = [math.inf, 3.1, 3.0, 2.6, 2.5, 1.0, -math.inf]
    assert [SMALL.batch_for_loss(loss) for loss in losses] == [40, 40, 80, 80, 120, 120, 120]


@given(
    plans(start_losses=True, min_stages=2),
    st.floats(2.0, 4.0),
    st.floats(0.0, 1.0),
    st.integers(0, 10**9),
)
def test_batch_for_loss_never_falls(plan: BatchPlan, loss: float, drop: float, current: int):
    assert plan.batch_for_loss(loss - drop) >= plan.batch_for_loss(loss)
    assert plan.batch_for_loss(loss, current) == max(plan.batch_for_loss(loss), current)


def test_a_loss_that_is_not_a_number_does_not_raise_the_batch():
    assert SMALL.batch_for_loss(math.nan, current=80) == 80


def test_batch_for_loss_without_losses_names_the_way_out():
    with pytest.raises(PlanError, match=r"stage 2 has no start_loss.*Raise the batch by tokens"):
        worked_example().batch_for_loss(3.0)


@pytest.mark.parametrize("ask", [SMALL.batch_at, SMALL.stage_at, SMALL.at_step, SMALL.tokens_at])
def test_nothing_is_before_the_beginning(ask: Any):
    with pytest.raises(PlanError, match="must not be negative") as error:
        ask(-1)
    one_sentence(error)


def test_steps_until_refuses_a_run_that_consumed_less_than_nothing():
    with pytest.raises(PlanError, match="must not be negative"):
        SMALL.steps_until(10, consumed=-1)


# --- plans that contradict themselves


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seq_len": 0}, "seq_len must be positive"),
        ({"stages": ()}, "at least one stage"),
        ({"stages": SMALL.stages[1:]}, "stage 1 starts at 120 tokens and step 3"),
        ({"stages": (SMALL.stages[0], SMALL.stages[2])}, "stage 2 starts at 440 tokens and step 7"),
        ({"total_tokens": 919}, "must fill all but the last part of one"),
        ({"total_tokens": 1040}, "must fill all but the last part of one"),
        ({"seq_len": 20}, "stage 1: 40 tokens are not 4 sequences of 20 tokens"),
        ({"warmup_tokens": -1}, "warmup"),
        ({"warmup_tokens": 1001}, "warmup"),
        ({"decay_start_tokens": -1}, "decay"),
        ({"decay_start_tokens": 1001}, "decay"),
    ],
)
def test_a_plan_that_contradicts_itself(change: dict[str, Any], complaint: str):
    with pytest.raises(PlanError, match=complaint) as error:
        replace(SMALL, **change)
    one_sentence(error)


@pytest.mark.parametrize(
    ("number", "change", "complaint"),
    [
        (0, {"steps": 0}, "stage 1 has 0 steps"),
        (1, {"batch_tokens": 0, "batch_sequences": 0}, "stage 2: the batch falls from 40 to 0"),
        (1, {"batch_tokens": 30, "batch_sequences": 3}, "stage 2: the batch falls from 40 to 30"),
        (1, {"lr_scale": 0.0}, "stage 2: lr_scale must be positive"),
        (1, {"lr_scale": -1.0}, "stage 2: lr_scale must be positive"),
        (2, {"lr_scale": math.nan}, "stage 3: lr_scale must be positive"),
        (2, {"lr_scale": math.inf}, "stage 3: lr_scale must be positive"),
        (2, {"start_loss": 3.0}, "stage 3 starts at a loss of 3.0, which is not below 3.0"),
        (1, {"start_loss": math.nan}, "stage 2 starts at a loss of nan"),
    ],
)
def test_a_stage_that_contradicts_the_others(number: int, change: dict[str, Any], complaint: str):
    stages = list(SMALL.stages)
    stages[number] = replace(stages[number], **change)
    with pytest.raises(PlanError, match=complaint) as error:
        replace(SMALL, stages=tuple(stages))
    one_sentence(error)


@pytest.mark.parametrize(
    ("sizes", "settings", "complaint"),
    [
        ([], {}, "must start at 0"),
        ([(40, 40)], {}, "must start at 0"),
        ([(0, 45)], {}, "45 tokens is no whole number of sequences of 10"),
        ([(0, 0)], {}, "0 tokens is no whole number"),
        ([(0, 40.5)], {}, "a batch size is 40.5, no whole number"),
        ([(0, 40)], {"seq_len": 0}, "sequences of 0 tokens"),
        ([(0, 40)], {"total_tokens": 39}, "stage 1 has no room for whole steps of 40 tokens"),
        ([(0, 40), (0, 80)], {}, "stage 1 has no room"),
        ([(0, 40), (10, 80), (30, 120)], {}, "stage 2 has no room"),
        ([(0, 40), (990, 80)], {}, "stage 2 has no room"),
        ([(0, 40), (5000, 80)], {}, "stage 1 has no room"),
        ([(0, 80), (400, 40)], {}, "the batch falls from 80 to 40"),
        ([(0, 40)], {"lr_scales": [1.0, 2.0]}, "one value per stage"),
        ([(0, 40), (400, 80)], {"start_losses": [None]}, "one value per stage"),
    ],
)
def test_sizes_that_make_no_plan(sizes: list[tuple[int, int]], settings: dict[str, Any], complaint: str):
    with pytest.raises(PlanError, match=complaint) as error:
        BatchPlan.from_sizes(sizes, **{"total_tokens": 1000, "seq_len": 10, **settings})
    one_sentence(error)


# --- the file alone


def test_the_file_works_alone_where_nothing_is_installed(tmp_path: Path):
    source = Path(sys.modules[BatchPlan.__module__].__file__ or "")
    shutil.copy(source, tmp_path / "batch_plan.py")
    (tmp_path / "plan.json").write_text(json.dumps(SMALL.to_dict()))
    script = """
import sys
sys.path = [path for path in sys.path if "site-packages" not in path] + ["."]
try:
    import ebfit
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("ebfit is installed here, so this shows nothing")
from batch_plan import BatchPlan
plan = BatchPlan.load("plan.json")
print([plan.at_step(step) for step in range(plan.total_steps)], plan.accumulation(500, micro_batch=2))
"""
    alone = [sys.executable, "-I", "-S", "-c", script]
    result = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{[40] * 3 + [80] * 4 + [120] * 4} 6\n"


def test_a_stage_says_where_it_ends():
    stage = Stage(start_tokens=120, start_step=3, batch_tokens=80, batch_sequences=8, steps=4)
    assert (stage.end_tokens, stage.end_step) == (440, 7)
