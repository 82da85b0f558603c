"""Our export through Megatron-LM's own arguments, calculator and learning rate, every step of the run."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import plans, worked_example
from released_megatron import WITH_RAMP, WITH_SCHEDULE, Megatron, arguments_of, sizes

from ebfit.batch_plan import BatchPlan
from ebfit.schedule.trainers import Setup, megatron


@pytest.fixture(scope="module", params=WITH_SCHEDULE)
def trainer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Megatron]:
    with Megatron(request.param, tmp_path_factory.mktemp("megatron") / "log") as running:
        yield running


def test_the_worked_example_runs_as_planned(trainer: Megatron):
    plan = worked_example(warmup_tokens=10**10, decay_start_tokens=4 * 10**11)
    run = trainer.run(arguments_of(megatron.export(plan, Setup(8, 32, strict=True)).text), 8, 32)
    assert run["sizes"] == [[512, 59605], [1024, 29803], [1280, 23842], [1536, 19867]]
    # the learning rate is counted to the sequence: up at the end of the warmup, down from the decay on, to nothing
    assert run["first_step_at_peak"] == plan.steps_until(plan.warmup_tokens)
    assert run["last_step_at_peak"] == plan.steps_until(4 * 10**11) - 1
    assert run["last_rate"] == 0.0


@given(data=st.data(), micro_batch=st.integers(1, 4), data_parallel=st.integers(1, 8))
@settings(max_examples=40)
def test_any_plan_runs_as_planned(
    trainer: Megatron, data: st.DataObject, micro_batch: int, data_parallel: int
):
    plan = data.draw(plans(unit=micro_batch * data_parallel, max_steps=300))
    export = megatron.export(plan, Setup(micro_batch, data_parallel, strict=True))
    run = trainer.run(arguments_of(export.text), micro_batch, data_parallel)
    assert run["sizes"] == sizes(plan) == sizes(export.as_run)
    assert run["consumed"] * plan.seq_len == plan.stages[-1].end_tokens


def test_a_batch_that_does_not_fill_the_devices_stops_the_run_when_its_stage_begins(trainer: Megatron):
    plan = BatchPlan.from_sizes([(0, 8), (80, 12)], total_tokens=200, seq_len=1)
    arguments = arguments_of(megatron.export(plan, Setup()).text)
    assert "not divisible" in trainer.run(arguments, 8)["error"]


def test_iterations_beside_the_schedule_end_the_learning_rate_far_too_early(trainer: Megatron):
    schedule = ["--seq-length", "1", "--step-batch-size-schedule", "0:8 80:16"]
    decay = ["--lr-decay-style", "WSD", "--train-iters", "100", "--lr-wsd-decay-iters", "20"]
    run = trainer.run([*schedule, *decay])
    assert run["sizes"] == [[8, 10], [16, 90]]
    assert (
        run["last_step_at_peak"] == 80 // 8
    )  # 80 sequences, which 80 iterations of micro-batch x data-parallel are


@pytest.mark.parametrize(
    ("arguments", "seq_len"),
    [
        (["--step-batch-size-schedule", "0:8 80:16", "--global-batch-size", "8"], 1),
        (["--step-batch-size-schedule", "80:16"], 1),
        (["--step-batch-size-schedule", "0:8 1000:16 1001:32"], 64),
        (["--step-batch-size-schedule", "0:8", "--decrease-batch-size-if-needed"], 1),
        (["--step-batch-size-schedule", "0:8", "--lr-warmup-iters", "3"], 1),
    ],
)
def test_what_we_say_megatron_refuses_it_refuses(trainer: Megatron, arguments: list[str], seq_len: int):
    arguments = [*arguments, "--seq-length", str(seq_len), "--train-samples", "100"]
    assert megatron.parse(_quoted(arguments), seq_len, Setup()).refusals
    assert "error" in trainer.run(arguments)


@given(st.lists(st.tuples(st.integers(0, 10**7), st.sampled_from(["", "K", ".5K", "e2"])), max_size=4))
@settings(max_examples=30)
def test_a_schedule_is_read_as_megatron_reads_it(trainer: Megatron, thresholds: list[tuple[int, str]]):
    starts = ["0", *(f"{number}{suffix}" for number, suffix in thresholds)]
    text = ", ".join(f"{start}:{batch}" for batch, start in enumerate(starts, start=1))
    read = megatron.parse(text, 1, Setup())
    arguments = ["--seq-length", "1", "--step-batch-size-schedule", text, "--train-samples", "3000"]
    run = trainer.run(arguments)
    assert bool(read.refusals) == ("error" in run)
    if not read.refusals:
        assert [batch for batch, _ in run["sizes"]] == _sizes_in_use(
            list(zip(read.starts, read.batch_sequences, strict=True)), 3000
        )


def test_from_0_18_on_the_ramp_is_ignored(trainer: Megatron):
    ramp = ["--rampup-batch-size", "2", "2", "100", "--global-batch-size", "8"]
    arguments = ["--seq-length", "1", *ramp, "--train-samples", "800"]
    assert trainer.run(arguments)["sizes"] == [[8, 100]]


@pytest.mark.parametrize("release", WITH_RAMP)
def test_before_0_18_there_is_no_schedule(release: str, tmp_path):
    with Megatron(release, tmp_path / "log") as before:
        arguments = ["--seq-length", "1", "--step-batch-size-schedule", "0:8", "--train-samples", "80"]
        assert "error" in before.run(arguments)


def _quoted(arguments: list[str]) -> str:
    return " ".join(f'"{argument}"' if " " in argument else argument for argument in arguments)


def _sizes_in_use(stages: list[tuple[int, int]], total: int) -> list[int]:
    """Return the batch sizes of a run that takes each from its threshold on, step by step."""
    used, consumed = [], 0
    while consumed < total:
        batch = [batch for start, batch in stages if start <= consumed][-1]
        if used[-1:] != [batch]:
            used.append(batch)
        consumed += batch
    return used
