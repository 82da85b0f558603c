"""Megatron's two formats against simulators of the documented rules; tests/interop has the same with the real thing.

The simulators walk step by step and know nothing of ebfit: a schedule is a list of thresholds, floor-divided by the
sequence length; a ramp rises by its increment after every samples / n sequences.
"""

import json
import math
import shlex
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import plans, worked_example

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers import TRAINERS, Setup
from ebfit.schedule.trainers.megatron_rampup import Ramp
from ebfit.schedule.trainers.ramp import distance

SCHEDULE, RAMP = TRAINERS["megatron"], TRAINERS["megatron-rampup"]


def arguments_of(script: str) -> dict[str, list[str]]:
    """Return each argument and its values, as a shell would split them."""
    words = shlex.split(script, comments=True)
    assert words[0] == "EBFIT_ARGS=(", words
    assert words[-1] == ")"
    arguments: dict[str, list[str]] = {}
    for word in words[1:-1]:
        if word.startswith("--"):
            arguments[word[2:]] = values = []
        else:
            values.append(word)
    return arguments


def simulated_schedule(arguments: dict[str, list[str]]) -> list[int]:
    """Return the batch size of every step under --step-batch-size-schedule."""
    seq_len, samples = int(arguments["seq-length"][0]), int(arguments["train-samples"][0])
    entries = [pair.split(":") for pair in arguments["step-batch-size-schedule"][0].split()]
    stages = [(int(float(start)) // seq_len, int(float(batch))) for start, batch in entries]
    assert stages[0][0] == 0
    assert all(before < after for (before, _), (after, _) in pairwise(stages))
    batches, consumed = [], 0
    while consumed < samples:
        batches.append(next(batch for start, batch in reversed(stages) if consumed >= start))
        consumed += batches[-1]
    return batches


def simulated_ramp(arguments: dict[str, list[str]]) -> list[int]:
    """Return the batch size of every step under --rampup-batch-size."""
    start, increment, length = map(int, arguments["rampup-batch-size"])
    final, samples = int(arguments["global-batch-size"][0]), int(arguments["train-samples"][0])
    rises, left_over = divmod(final - start, increment)
    assert left_over == 0
    batches, consumed = [], 0
    while consumed <= length and consumed <= samples:
        batches.append(start + int(consumed / (length / rises)) * increment)
        consumed += batches[-1]
    return batches + [final] * max((samples - consumed) // final, 0)


def steps_of(plan: BatchPlan) -> list[int]:
    """Return the batch size of every step, in sequences."""
    return [stage.batch_sequences for stage in plan.stages for _ in range(stage.steps)]


@given(plans(max_steps=300))
def test_the_schedule_is_followed_exactly(plan: BatchPlan):
    export = SCHEDULE.export(plan, Setup(strict=True))
    assert export.as_run == plan
    assert simulated_schedule(arguments_of(export.text)) == steps_of(plan)


@settings(max_examples=50)
@given(plans(min_stages=2, max_steps=300))
def test_the_ramp_does_what_the_export_says(plan: BatchPlan):
    export = RAMP.export(plan, Setup())
    assert simulated_ramp(arguments_of(export.text)) == steps_of(export.as_run)


@settings(max_examples=40)
@given(data=st.data())
def test_no_other_ramp_is_nearer(data: st.DataObject):
    plan = data.draw(plans(min_stages=2))
    first, last = plan.stages[0].batch_sequences, plan.stages[-1].batch_sequences
    rises = data.draw(st.sampled_from([n for n in range(1, 64) if (last - first) % n == 0]))
    samples = data.draw(st.integers(1, 2 * plan.stages[-1].end_tokens // plan.seq_len))
    other = Ramp(first, (last - first) // rises, samples, last).sizes(plan.total_tokens // plan.seq_len)
    nearest = RAMP.export(plan, Setup()).as_run

    def to_plan(sizes: list[tuple[int, int]]) -> float:
        return distance(plan, [(start * plan.seq_len, batch * plan.seq_len) for start, batch in sizes])

    ours = [(stage.start_tokens // plan.seq_len, stage.batch_sequences) for stage in nearest.stages]
    # a ramp changes its size up to a step late, which is no matter of its settings
    slack = math.log(last / first) * last * plan.seq_len / plan.total_tokens
    assert to_plan(ours) <= to_plan(other) + slack


def test_the_worked_example():
    """2Mi, 4Mi, 5Mi, 6Mi tokens, every 125B: 125B are no whole number of steps, so each stage ends with the next."""
    plan = worked_example(warmup_tokens=2**35, decay_start_tokens=400 * 10**9)
    arguments = arguments_of(SCHEDULE.export(plan, Setup(8, 32, strict=True)).text)
    starts = [0, 59605 * 512, 59605 * 512 + 29803 * 1024, 59605 * 512 + 29803 * 1024 + 23842 * 1280]
    samples = starts[3] + 19867 * 1536
    schedule = " ".join(
        f"{start * 4096}:{batch}" for start, batch in zip(starts, [512, 1024, 1280, 1536], strict=True)
    )
    assert arguments == {
        "seq-length": ["4096"],
        "step-batch-size-schedule": [schedule],
        "train-samples": [str(samples)],
        "lr-decay-style": ["WSD"],
        "lr-warmup-samples": [str(2**23)],
        "lr-decay-samples": [str(samples)],
        "lr-wsd-decay-samples": [str(samples - 97656250)],
    }


def test_without_a_decay_the_learning_rate_stays():
    for trainer in (SCHEDULE, RAMP):
        arguments = arguments_of(trainer.export(worked_example(), Setup()).text)
        assert arguments["lr-decay-style"] == ["constant"]
        assert not [name for name in arguments if name.startswith("lr-") and name != "lr-decay-style"]


def test_two_stages_are_a_ramp_of_one_rise():
    plan = BatchPlan.from_sizes([(0, 8), (800, 24)], total_tokens=8000, seq_len=1)
    export = RAMP.export(plan, Setup(strict=True))
    assert export.as_run == plan
    assert arguments_of(export.text)["rampup-batch-size"] == ["8", "16", "800"]


def test_a_ramp_that_is_not_the_plan_says_by_how_much_and_is_refused_under_strict():
    notes = RAMP.export(worked_example(), Setup()).notes
    assert "factor of 1.20 above the plan" in notes[0]
    with pytest.raises(BadInputError, match="straight ramps only"):
        RAMP.export(worked_example(), Setup(strict=True))


@pytest.mark.parametrize("devices", [(None, 32), (8, None), (8, 32)])
def test_rises_of_the_ramp_fill_the_devices(devices: tuple[int | None, int | None]):
    export = RAMP.export(worked_example(), Setup(*devices))
    at_once = (devices[0] or 1) * (devices[1] or 1)
    assert all(stage.batch_sequences % at_once == 0 for stage in export.as_run.stages)


def bridge_settings(text: str) -> dict[str, str]:
    """Return the settings of Megatron-Bridge, which an export of a ramp has in its comments."""
    lines = [line.removeprefix("#").strip() for line in text.splitlines()]
    return dict(line.split("=", 1) for line in lines if line.startswith(("train.", "scheduler.")))


@given(plans(min_stages=2, max_steps=3000))
@settings(max_examples=50)
def test_the_learning_rate_of_bridge_keeps_its_place_though_it_counts_in_the_last_batch(plan: BatchPlan):
    """Simulator of Megatron-Bridge 0.6.2: iterations times global_batch_size are samples of the learning rate."""
    export = RAMP.export(plan, Setup())
    config = bridge_settings(export.text)
    final = int(config["train.global_batch_size"])
    assert int(config["train.train_iters"]) == export.as_run.total_steps
    assert int(config["scheduler.lr_warmup_iters"]) * final == pytest.approx(
        plan.warmup_tokens / plan.seq_len, abs=final
    )
    consumed = export.as_run.stages[-1].end_tokens / plan.seq_len
    if "scheduler.lr_decay_iters" in config:
        end = int(config["scheduler.lr_decay_iters"]) * final
        start = end - int(config["scheduler.lr_wsd_decay_iters"]) * final
        assert end <= max(consumed, final)  # it completes
        assert start == pytest.approx(plan.decay_start_tokens / plan.seq_len, abs=2 * final)


@given(plans(max_steps=3000, lr_scales=True), st.sampled_from([SCHEDULE, RAMP]))
def test_an_export_reads_back_as_what_was_written(plan: BatchPlan, trainer):
    if trainer is RAMP and len(plan.stages) == 1:
        return
    export = trainer.export(plan, Setup())
    read = trainer.parse(export.text, plan.seq_len, Setup())
    assert read.refusals == read.warnings == []
    samples = export.as_run.stages[-1].end_tokens // plan.seq_len
    assert read.total_sequences in (samples, samples - 1)
    assert (read.warmup_sequences or 0) == plan.warmup_tokens // plan.seq_len
    assert read.seq_len == plan.seq_len
    if trainer is SCHEDULE:
        assert read.starts == tuple(stage.start_tokens for stage in plan.stages)
        assert read.batch_sequences == tuple(stage.batch_sequences for stage in plan.stages)
    else:
        assert {stage.batch_sequences for stage in export.as_run.stages} <= set(read.batch_sequences)


SAME_SCHEDULE = {
    "alone": "0:512 125B:1024",
    "alone, with commas": '"0:512,125B:1024"\n',
    "arguments": "--seq-length 4096 --step-batch-size-schedule '0:512 125B:1024' --train-samples 7 --bf16",
    "equals sign": '--step-batch-size-schedule="0:512 125B:1024" --seq-length=4096 --train-samples=7',
    "script": """#!/bin/bash
SEQ=4096  # of the model
export SIZES="0:512 125B:1024"
SAMPLES=7
ARGS=(
    --seq-length ${SEQ}
    # --step-batch-size-schedule "0:1" was before
    --step-batch-size-schedule "$SIZES"
    --train-samples $SAMPLES
)
torchrun pretrain_gpt.py "${ARGS[@]}"
""",
    "continued lines": """python pretrain_gpt.py \\
  --seq-length 4096 \\
  --step-batch-size-schedule "0:512 125B:1024" \\
  --train-samples 7
""",
    "yaml": "model:\n  seq_length: 4096\n  step_batch_size_schedule: 0:512 125B:1024\n  train_samples: 7\n",
    "json": json.dumps(["--step-batch-size-schedule", "0:512 125B:1024", "--train-samples", "7"]),
    "python": 'TrainingConfig(step_batch_size_schedule="0:512 125B:1024", train_samples=7, train_iters=None)',
    "twice, of which the last counts": (
        "--step-batch-size-schedule 0:1 --step-batch-size-schedule 0:512,125B:1024 --train-samples 7"
    ),
}


@pytest.mark.parametrize("text", SAME_SCHEDULE.values(), ids=SAME_SCHEDULE)
def test_a_schedule_is_found_in_what_people_keep_it_in(text: str):
    read = SCHEDULE.parse(text, 4096, Setup())
    assert read.starts == (0, 125_000_000_000)
    assert read.start_unit == "tokens"
    assert read.batch_sequences == (512, 1024)
    assert read.total_sequences in (7, None if text.lstrip('"').startswith("0:") else 7)
    assert read.refusals == []


SAME_RAMP = {
    "arguments": "--rampup-batch-size 16 8 300 --global-batch-size 32 --lr-warmup-iters 5 --train-iters 90",
    "script": """RAMP="16 8 300"
GLOBAL=32
OPTIONS="
    --rampup-batch-size $RAMP
    --global-batch-size ${GLOBAL}
    --train-iters 90
    --lr-warmup-iters 5
"
""",
    "yaml": "rampup_batch_size: [16, 8, 300]\nglobal_batch_size: 32\ntrain_iters: 90\nlr_warmup_iters: 5\n",
    "yaml list": (
        "train:\n  rampup_batch_size:\n    - 16\n    - 8\n    - 300\n  global_batch_size: 32\n  train_iters: 90\n"
        "scheduler:\n  lr_warmup_iters: 5\n"
    ),
    "overrides": (
        "train.rampup_batch_size=[16,8,300] train.global_batch_size=32 train.train_iters=90 "
        "scheduler.lr_warmup_iters=5 train.train_samples=null"
    ),
    "json": json.dumps(
        {"rampup_batch_size": [16, 8, 300], "global_batch_size": 32, "train_iters": 90, "lr_warmup_iters": 5}
    ),
}


@pytest.mark.parametrize("text", SAME_RAMP.values(), ids=SAME_RAMP)
def test_a_ramp_is_found_in_what_people_keep_it_in(text: str):
    read = RAMP.parse(text, None, Setup())
    assert read.starts == (0, 150, 300)
    assert read.start_unit == "sequences"
    assert read.batch_sequences == (16, 24, 32)
    assert (read.total_steps, read.warmup_steps) == (90, 5)
    assert (read.total_sequences, read.warmup_sequences) == (None, None)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("100:8 200:16", "it must be 0"),
        ("0:8 8192:16 8193:32", "fall on the same sequence"),
        ("--step-batch-size-schedule 0:8 --global-batch-size 8", "--global-batch-size beside"),
        ("--step-batch-size-schedule 0:8 --train-samples 9 --lr-warmup-iters 2", "counted in samples"),
        ("--step-batch-size-schedule 0:8 --train-samples 9 --train-iters 2", "exclude each other"),
    ],
)
def test_what_megatron_will_refuse(text: str, refusal: str):
    assert refusal in " ".join(SCHEDULE.parse(text, 64, Setup()).refusals)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("0:8 2.0001K:16", "Megatron reads it as 2000"),
        ("0:8 9007199254740993:16", "Megatron reads it as 9007199254740992"),
        ("0:8 6400:32 3200:16", "Megatron sorts them"),
        ("--step-batch-size-schedule 0:8 --seq-length 128", "128 in the file, and 64"),
        ("--step-batch-size-schedule 0:8 --train-samples 9 --lr-decay-samples 10", "the run ends before"),
    ],
)
def test_what_megatron_reads_otherwise_than_it_is_written(text: str, warning: str):
    read = SCHEDULE.parse(text, 64, Setup())
    assert warning in " ".join(read.warnings)
    assert read.refusals == []


@pytest.mark.parametrize(
    ("trainer", "text", "says"),
    [
        (SCHEDULE, "", "no --step-batch-size-schedule in it"),
        (SCHEDULE, "--train-samples 9", "no --step-batch-size-schedule in it"),
        (SCHEDULE, "\n--step-batch-size-schedule '0:8 9'", "line 2: '9' in the schedule has no colon"),
        (SCHEDULE, "0:8 1e999:9", "'1e999' in the schedule is no number"),
        (SCHEDULE, "0:8 1e9999999999:9", "is no number"),
        (SCHEDULE, "0:", "'' in the schedule is no number"),
        (SCHEDULE, "--step-batch-size-schedule ''", "line 1: the schedule is empty"),
        (SCHEDULE, "0:8\n", None),
        (RAMP, "--rampup-batch-size 8 8 100", "no --global-batch-size in it"),
        (RAMP, "--global-batch-size 8", "no --rampup-batch-size START INCREMENT SAMPLES in it"),
        (RAMP, "--global-batch-size 8\n--rampup-batch-size 8 8", "line 2: --rampup-batch-size wants 3 whole"),
        (RAMP, "--global-batch-size 8 --rampup-batch-size 8 8 9", "divides by zero"),
        (RAMP, "--global-batch-size 9 --rampup-batch-size 8 8 9", "no whole number of increments of 8"),
        (RAMP, "--global-batch-size 4 --rampup-batch-size 8 8 9", "no whole number of increments of 8"),
        (RAMP, "--global-batch-size 16 --rampup-batch-size 8 8 0", "must be positive"),
        (RAMP, "--global-batch-size 9000000 --rampup-batch-size 1 1 9", "more than 100000 sizes"),
        (RAMP, "--global-batch-size $((2*8)) --rampup-batch-size 8 8 9", "'$((2*8))' is not"),
        (RAMP, f"--global-batch-size {'9' * 5000} --rampup-batch-size 8 8 9", "wants a whole number"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(trainer, text: str, says: str | None):
    if says is None:
        assert trainer.parse(text, None, Setup()).batch_sequences == (8,)
        return
    with pytest.raises(BadInputError) as error:
        trainer.parse(text, None, Setup())
    assert says in str(error.value)


FRAGMENTS = ["$A", "A=$A$A", "\\\n", "0:8", "9:", ":", "'", '"', "[", "]", "#", "\n", "=", "-"]
FRAGMENTS += ["1", "16", "1e5", "5K", "None", "\x00"]


@given(
    st.lists(
        st.sampled_from(
            ["--step-batch-size-schedule", "rampup_batch_size", "--global-batch-size", *FRAGMENTS]
        )
    ).map(" ".join),
    st.sampled_from([SCHEDULE, RAMP]),
)
def test_no_text_makes_it_crash(text: str, trainer):
    try:
        read = trainer.parse(text, 64, Setup())
    except BadInputError:
        return
    assert len(read.starts) == len(read.batch_sequences) > 0


def test_a_stage_that_does_not_fill_the_devices_is_refused_before_the_run():
    for trainer in (SCHEDULE, RAMP):
        with pytest.raises(BadInputError, match="stage 3: 1280 sequences are no multiple"):
            trainer.export(worked_example(), Setup(8, 64))


def test_thresholds_beyond_what_a_float_holds_are_refused():
    plan = BatchPlan.from_sizes([(0, 2**40), (2**52 + 2**40, 2**41)], total_tokens=2**54, seq_len=2**10)
    with pytest.raises(BadInputError, match="2\\^53"):
        SCHEDULE.export(plan, Setup())


def test_a_warmup_as_long_as_the_run_is_refused():
    plan = BatchPlan.from_sizes([(0, 8), (80, 16)], total_tokens=160, seq_len=1, warmup_tokens=160)
    for trainer in (SCHEDULE, RAMP):
        with pytest.raises(BadInputError, match="warmup"):
            trainer.export(plan, Setup())


def test_a_learning_rate_that_rises_with_the_batch_is_not_in_the_export():
    scaled = BatchPlan.from_sizes([(0, 8), (80, 16)], total_tokens=160, seq_len=1, lr_scales=[1.0, 2.0])
    for trainer in (SCHEDULE, RAMP):
        assert "scales the learning rate" in " ".join(trainer.export(scaled, Setup()).notes)
        with pytest.raises(BadInputError, match="scales the learning rate"):
            trainer.export(scaled, Setup(strict=True))
