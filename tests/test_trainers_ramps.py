"""Straight ramps: what is exported is what the trainer's rule does, walked step by step, and it is the nearest."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import BILLION, plans, worked_example
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers import TRAINERS, Setup, composer, internevo, maxtext
from ebfit.schedule.trainers.python_text import PythonText
from ebfit.schedule.trainers.ramp import (
    deviation_note,
    distance,
    increments,
    largest_deviation,
    lay_out,
    ramp_lengths,
    sizes_of,
)

SETUP = Setup(micro_batch=2, data_parallel=4)
RAMPS = ["maxtext", "internevo", "composer"]
SMALL = plans(min_stages=2, unit=8, max_size=30, max_steps=60)


def walk_maxtext(text: str) -> Iterator[int]:
    """MaxText's counter: it forgets what the last step of a size used beyond its share."""
    config = yaml.safe_load(text)
    start, increment, final = (
        int(4 * config[f"per_device_batch_size{key}"]) for key in ("_start", "_increment", "")
    )
    share = config["global_rampup_samples"] / ((final - start) // increment)
    size, used = start, 0
    while True:
        yield size
        used += size
        if used >= share:
            size, used = min(size + increment, final), 0


def walk_internevo(text: str) -> Iterator[int]:
    """InternEvo's sampler: so many micro-batches per rank, more of them every so many steps."""
    python = PythonText(text)
    micro_num, ramp = (python.value_of(key) for key in ("micro_num", "rampup_batch_size"))
    start, increment, every = map(int, ramp.value.split())  # type: ignore[union-attr]
    step = 0
    while True:
        yield min(step // every * increment + start, micro_num.value) * 2 * 4  # type: ignore[union-attr]
        step += 1


def walk_composer(text: str) -> Iterator[int]:
    """ModernBERT's packer: thresholds in tokens of one device, looked up before each batch."""
    config = yaml.safe_load(text)
    last = config["global_train_batch_size"] // 4 // 2
    first = config["train_loader"]["batch_size_warmup_min_size"] // 2
    warmup = math.ceil(int(config["train_loader"]["batch_size_warmup_tokens"].removesuffix("tok")) / 4)
    per_unit = warmup / sum(range(first, last))
    thresholds = [math.ceil(per_unit * sum(range(first, size + 1))) for size in range(first, last)]
    tokens = 0
    while True:
        size = last
        if tokens < warmup:
            size = next((first + i for i, threshold in enumerate(thresholds) if tokens < threshold), last)
        yield size * 4 * 2
        tokens += size * 2 * config["max_seq_len"]


WALKS: dict[str, Callable[[str], Iterator[int]]] = {
    "maxtext": walk_maxtext,
    "internevo": walk_internevo,
    "composer": walk_composer,
}


@pytest.mark.parametrize("name", RAMPS)
@given(plan=SMALL)
def test_the_trainer_does_what_the_export_says(name: str, plan: BatchPlan) -> None:
    export = TRAINERS[name].export(plan, SETUP)
    walked = in_stages(WALKS[name](export.text), export.as_run.total_steps)
    assert walked == stages_of(export.as_run)


@pytest.mark.parametrize("name", RAMPS)
@given(plan=SMALL)
def test_what_is_read_back_is_what_the_trainer_does(name: str, plan: BatchPlan) -> None:
    export = TRAINERS[name].export(plan, SETUP)
    read = TRAINERS[name].parse(export.text, plan.seq_len, Setup())
    counts = {
        "tokens": [stage.start_tokens for stage in export.as_run.stages],
        "sequences": [stage.start_tokens // plan.seq_len for stage in export.as_run.stages],
        "steps": [stage.start_step for stage in export.as_run.stages],
    }
    # the ramp may go on beyond the end of the plan
    number = len(export.as_run.stages)
    assert list(read.starts[:number]) == counts[read.start_unit]
    assert list(read.batch_sequences[:number]) == [stage.batch_sequences for stage in export.as_run.stages]


@pytest.mark.parametrize("name", RAMPS)
@settings(max_examples=30)
@given(plan=plans(min_stages=2, unit=8, max_stages=8, max_size=500))
def test_a_ramp_begins_and_ends_as_the_plan_does_and_never_exceeds_it(name: str, plan: BatchPlan) -> None:
    run = TRAINERS[name].export(plan, SETUP).as_run
    assert run.stages[0].batch_tokens == plan.stages[0].batch_tokens
    assert run.stages[-1].batch_tokens <= plan.stages[-1].batch_tokens
    assert 0 <= plan.total_tokens - run.total_tokens < plan.stages[-1].batch_tokens
    unit = 4 if name == "maxtext" else 8  # MaxText has no micro-batches: a device takes its part at once
    assert all(stage.batch_sequences % unit == 0 for stage in run.stages)


@given(plan=SMALL, data=st.data())
def test_no_other_ramp_of_maxtext_is_nearer(plan: BatchPlan, data: st.DataObject) -> None:
    exported = distance(plan, sizes_of(maxtext.export(plan, SETUP).as_run))
    first, last = plan.stages[0].batch_sequences, plan.stages[-1].batch_sequences
    increment = data.draw(st.sampled_from(increments(plan, 4)))
    samples = data.draw(st.integers(1, plan.total_tokens // plan.seq_len))
    other = [
        (after * plan.seq_len, batch * plan.seq_len)
        for after, batch in maxtext.simulate(first, increment, last, samples)
    ]
    # a size may change a step before or after where the two would meet exactly
    one_step = (last // increment) * last * plan.seq_len / plan.total_tokens * math.log(last / first)
    assert exported <= distance(plan, other) + one_step


@given(plan=plans(min_stages=2, unit=8), data=st.data())
def test_the_best_length_is_where_a_change_meets_a_change(plan: BatchPlan, data: st.DataObject) -> None:
    """What `ramp_lengths` relies on, for a ramp without whole steps: it has no length between that is better."""
    first, last = plan.stages[0].batch_tokens, plan.stages[-1].batch_tokens
    parts = data.draw(st.integers(1, 5))
    sizes = [first + (last - first) * k // parts for k in range(parts + 1)]

    def far(length: float) -> float:
        return distance(plan, [(int(length * k / parts), size) for k, size in enumerate(sizes)])

    lengths = ramp_lengths(plan, [k / parts for k in range(1, parts + 1)])
    anywhere = data.draw(st.floats(0.01, 2.0)) * plan.total_tokens
    rounding = 1e-9 + parts * 2 / plan.total_tokens * math.log(last / first)
    assert min(map(far, lengths)) <= far(max(anywhere, parts)) + rounding


def test_ramps_of_the_worked_example() -> None:
    plan = worked_example()
    setup = Setup(micro_batch=4, data_parallel=64)
    config = yaml.safe_load(maxtext.export(plan, setup).text)
    assert [config[f"per_device_batch_size{key}"] for key in ("_start", "_increment", "")] == [8, 8, 24]
    assert stages_of(maxtext.export(plan, setup).as_run)[0] == (512, 59605)
    assert 'rampup_batch_size="2 2 59605"' in internevo.export(plan, setup).text
    warmup = yaml.safe_load(composer.export(plan, setup).text)
    assert warmup["global_train_batch_size"] == 1536
    assert warmup["train_loader"]["batch_size_warmup_min_size"] == 8


@given(plan=plans(min_stages=2, unit=8, max_size=20, max_steps=500))
def test_a_plan_that_is_a_ramp_of_internevo_is_followed_exactly(plan: BatchPlan) -> None:
    first, steps = plan.stages[0], plan.stages[0].steps
    sizes = [
        (steps * first.batch_tokens * k * (k + 1) // 2, first.batch_tokens * (k + 1))
        for k in range(len(plan.stages))
    ]
    ramp = lay_out(plan, [size for size in sizes if size[0] + size[1] <= plan.total_tokens])
    if len(ramp.stages) > 1:
        export = internevo.export(ramp, Setup(2, 4, strict=True))
        assert sizes_of(export.as_run) == sizes_of(ramp)


@pytest.mark.parametrize("name", RAMPS)
def test_strict_refuses_what_is_no_straight_ramp(name: str) -> None:
    with pytest.raises(BadInputError, match="straight ramps only"):
        TRAINERS[name].export(worked_example(), Setup(4, 64, strict=True))


@pytest.mark.parametrize("name", RAMPS)
def test_a_constant_batch_is_no_ramp(name: str) -> None:
    plan = BatchPlan.from_sizes([(0, 512 * 4096)], total_tokens=BILLION, seq_len=4096)
    with pytest.raises(BadInputError, match="one batch size all along"):
        TRAINERS[name].export(plan, Setup(4, 64))


@pytest.mark.parametrize("name", RAMPS)
def test_devices_are_asked_for(name: str) -> None:
    with pytest.raises(BadInputError, match="--data-parallel"):
        TRAINERS[name].export(worked_example(), Setup(micro_batch=4))


def test_maxtext_says_that_accumulation_does_not_go_with_a_ramp() -> None:
    export = maxtext.export(worked_example(), Setup(data_parallel=64))
    assert yaml.safe_load(export.text)["gradient_accumulation_steps"] == 1
    assert any("gradient_accumulation_steps must be 1" in note for note in export.notes)
    read = maxtext.parse(export.text.replace("accumulation_steps: 1", "accumulation_steps: 2"), None, Setup())
    assert any("gradient_accumulation_steps" in warning for warning in read.warnings)


def test_a_scaled_learning_rate_is_noted_and_refused_under_strict() -> None:
    sizes = [(0, 1000), (100_000, 2000)]
    plan = BatchPlan.from_sizes(sizes, total_tokens=200_000, seq_len=100, lr_scales=[1.0, 1.5])
    assert any("scales the learning rate" in note for note in maxtext.export(plan, Setup(None, 10)).notes)
    with pytest.raises(BadInputError, match="scales the learning rate"):
        maxtext.export(plan, Setup(None, 10, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("maxtext", "per_device_batch_size: 8", "--data-parallel"),
        ("maxtext", "# data-parallel: 8\nsteps: 8", "no per_device_batch_size"),
        ("maxtext", "# data-parallel: 8\nper_device_batch_size: many", "no whole number"),
        (
            "maxtext",
            "# data-parallel: 8\nenable_rampup_batch_size: true\nper_device_batch_size: 8\n"
            "per_device_batch_size_start: 8\nper_device_batch_size_increment: 2\nglobal_rampup_samples: 9",
            "MaxText wants 0 <",
        ),
        (
            "maxtext",
            "# data-parallel: 8\nenable_rampup_batch_size: true\nper_device_batch_size: 9\n"
            "per_device_batch_size_start: 2\nper_device_batch_size_increment: 2\nglobal_rampup_samples: 9",
            "no multiple of the increment",
        ),
        ("internevo", "data = dict(micro_num=4)", "no micro_bsz"),
        ("internevo", "data = dict(micro_num=4, micro_bsz=2)", "--data-parallel"),
        (
            "internevo",
            '# data-parallel: 8\ndata = dict(micro_num=4, micro_bsz=2, rampup_batch_size="1 2")',
            "line 2",
        ),
        (
            "internevo",
            '# data-parallel: 8\ndata = dict(micro_num=4, micro_bsz=2, rampup_batch_size="1 2 5")',
            "does not lead to micro_num",
        ),
        ("internevo", "data = dict(", "line 1: no Python"),
        ("composer", "global_train_batch_size: 8", "--data-parallel"),
        (
            "composer",
            "# data-parallel: 2\nglobal_train_batch_size: 9\ndevice_train_microbatch_size: 2\nmax_seq_len: 8",
            "no multiple of 2 devices x 2",
        ),
    ],
)
def test_what_a_trainer_would_refuse_is_refused_in_words(name: str, text: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        TRAINERS[name].parse(text, None, Setup())


def test_a_configuration_of_modernbert_is_read() -> None:
    """The keys and spellings of its published pre-training configuration, with 8 devices."""
    read = composer.parse(
        "# data-parallel: 8\nmax_seq_len: 1024\nglobal_train_batch_size: 4608\ndevice_train_microbatch_size: 96\n"
        "max_duration: 1_719_000_000_000tok\nscheduler:\n  name: warmup_stable_decay\n  t_warmup: 3_000_000_000tok\n"
        "  t_decay: 0tok\ntrain_loader:\n  sequence_packing: true\n"
        "  batch_size_warmup_min_size: ${device_train_microbatch_size}\n"
        "  batch_size_warmup_tokens: 50_000_000_000tok\n",
        None,
        Setup(),
    )
    assert read.batch_sequences == tuple(96 * 8 * size for size in range(1, 7))
    # sizes last in proportion to themselves: 1/15, 2/15, ... of 50B tokens, up to a step
    ends = [50e9 * part / 15 for part in (1, 3, 6, 10, 15)]
    steps = [96 * 8 * size * 1024 for size in range(1, 6)]
    assert all(
        0 <= start - end <= step for start, end, step in zip(read.starts[1:], ends, steps, strict=True)
    )
    assert read.total_sequences == 1_719_000_000_000 // 1024
    assert (read.warmup_sequences, read.decay_sequences) == (3_000_000_000 // 1024, 0)


def test_the_largest_deviation_is_where_it_is() -> None:
    plan = BatchPlan.from_sizes([(0, 100), (1000, 200)], total_tokens=3000, seq_len=100)
    run = lay_out(plan, [(0, 100), (2000, 400)])
    deviation = largest_deviation(plan, run)
    assert deviation.at_tokens == 1000
    assert deviation.ratio == pytest.approx(0.5)
    # a third of the tokens is right, a third at half the batch, a third at twice the batch
    assert deviation.mean_ratio == pytest.approx(2 ** (2 / 3))
    assert "factor of 2.00 below the plan (at 1.00K tokens)" in (deviation_note(plan, run) or "")


def test_a_plan_does_not_deviate_from_itself() -> None:
    plan = worked_example()
    assert deviation_note(plan, plan) is None
    assert largest_deviation(plan, plan).mean_ratio == 1.0


@given(plan=plans(min_stages=2), unit=st.integers(1, 5))
def test_increments_lead_from_the_first_size_to_the_last(plan: BatchPlan, unit: int) -> None:
    rise = plan.stages[-1].batch_sequences - plan.stages[0].batch_sequences
    found = increments(plan, unit)
    assert all(rise % increment == 0 and increment % unit == 0 for increment in found)
    assert all(earlier > later for earlier, later in pairwise(found))
