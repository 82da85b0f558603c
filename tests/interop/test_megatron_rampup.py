"""Our ramp through the arguments, calculator and learning rate of the last Megatron-LM that has it, every step."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import plans, worked_example
from released_megatron import WITH_RAMP, Megatron, arguments_of, sizes

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers import Setup, megatron_rampup
from ebfit.schedule.trainers.megatron_rampup import Ramp


@pytest.fixture(scope="module", params=WITH_RAMP)
def trainer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Megatron]:
    with Megatron(request.param, tmp_path_factory.mktemp("megatron") / "log") as running:
        yield running


def test_the_worked_example_runs_as_we_say(trainer: Megatron):
    plan = worked_example(warmup_tokens=10**10, decay_start_tokens=4 * 10**11)
    export = megatron_rampup.export(plan, Setup(8, 32))
    run = trainer.run(arguments_of(export.text), 8, 32)
    assert run["sizes"] == sizes(export.as_run)
    assert run["first_step_at_peak"] == export.as_run.steps_until(plan.warmup_tokens)
    assert run["last_step_at_peak"] == export.as_run.steps_until(4 * 10**11) - 1
    assert run["last_rate"] == 0.0


@given(data=st.data(), micro_batch=st.integers(1, 4), data_parallel=st.integers(1, 8))
@settings(max_examples=40)
def test_any_ramp_runs_as_we_say(
    trainer: Megatron, data: st.DataObject, micro_batch: int, data_parallel: int
):
    plan = data.draw(plans(unit=micro_batch * data_parallel, min_stages=2, max_steps=300))
    export = megatron_rampup.export(plan, Setup(micro_batch, data_parallel))
    run = trainer.run(arguments_of(export.text), micro_batch, data_parallel)
    assert run["sizes"] == sizes(export.as_run)
    assert run["consumed"] * plan.seq_len == export.as_run.stages[-1].end_tokens


@given(
    start=st.integers(1, 50),
    increment=st.integers(1, 50),
    rises=st.integers(1, 40),
    samples=st.integers(1, 9000),
)
@settings(max_examples=60)
def test_a_ramp_is_walked_in_leaps_as_megatron_walks_it_step_by_step(
    trainer: Megatron, start: int, increment: int, rises: int, samples: int
):
    ramp = Ramp(start, increment, samples, start + increment * rises)
    arguments = [
        *(
            "--rampup-batch-size",
            str(start),
            str(increment),
            str(samples),
            "--global-batch-size",
            str(ramp.final),
        ),
        *("--seq-length", "1", "--train-samples", str(samples + 3 * ramp.final)),
    ]
    run = trainer.run(arguments)
    leaps = ramp.sizes(run["consumed"])
    assert [batch for batch, _ in run["sizes"]] == [batch for _, batch in leaps]
    ends = [*(consumed for consumed, _ in leaps[1:]), run["consumed"]]
    assert [batch * steps for batch, steps in run["sizes"]] == [
        end - consumed for end, (consumed, _) in zip(ends, leaps, strict=True)
    ]


def test_a_plan_of_two_stages_is_a_ramp_of_one_rise(trainer: Megatron):
    plan = BatchPlan.from_sizes([(0, 8), (800, 24)], total_tokens=8000, seq_len=1)
    export = megatron_rampup.export(plan, Setup(strict=True))
    assert trainer.run(arguments_of(export.text))["sizes"] == [[8, 100], [24, 300]] == sizes(plan)


@pytest.mark.parametrize(
    "ramp",
    ["8 8 100 --global-batch-size 8", "8 3 100 --global-batch-size 16", "8 8 0 --global-batch-size 16"],
)
def test_what_we_refuse_megatron_refuses(trainer: Megatron, ramp: str):
    arguments = ["--seq-length", "1", "--rampup-batch-size", *ramp.split(), "--train-samples", "800"]
    with pytest.raises(BadInputError):
        megatron_rampup.parse(" ".join(arguments), 1, Setup())
    assert "error" in trainer.run(arguments)
