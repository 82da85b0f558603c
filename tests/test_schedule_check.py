import math

import pytest
from checking import RUN, SOUND, check, said_beside_notes, the_one, with_sizes, with_starts
from hypothesis import assume, given
from plans import BILLION, plans, worked_example

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.check import Finding, check_schedule
from ebfit.schedule.trainers import TRAINERS, ReadSchedule, Setup


def test_a_sound_schedule_gives_nothing():
    assert check(SOUND, **RUN) == []


@pytest.mark.parametrize(
    ("batches", "total_tokens"),
    [((1, 4, 16), 3_000_000), ((64, 128, 512), 2_000_000), ((1, 2, 4), 200_000)],
)
def test_small_sound_schedules_give_nothing(batches, total_tokens):
    # the sizes of sample_runs: 32 to 16,384 tokens, in sequences of 32
    read = ReadSchedule((0, total_tokens // 4 // 32, total_tokens // 2 // 32), "sequences", batches)
    assert (
        check(read, "lightning", seq_len=32, micro_batch=1, data_parallel=1, total_tokens=total_tokens) == []
    )


def test_a_short_ramp_in_a_long_run_gives_nothing():
    # 4M -> 8M tokens after 252M, 16M after 2.87T, of 15.6T: published for Llama 3 405B
    read = ReadSchedule((0, 252_000_000, 2_870 * BILLION), "tokens", (1024, 1024, 2048))
    assert check(read, seq_len=8192, micro_batch=1, data_parallel=128, total_tokens=15_600 * BILLION) == []


# --- devices


def test_the_run_dies_where_a_stage_does_not_fill_the_devices():
    message = the_one(check(with_sizes(512, 1000, 1536), **RUN), "error")
    assert message.startswith("stage 2 (1,000 sequences = 4.10M tokens, from 125.0B tokens on): ")
    assert "512 or 1024 would be" in message
    # 125B tokens in steps of 512 x 4096, the last of which begins before them
    steps = math.ceil(125 * BILLION / (512 * 4096))
    assert f"after {steps:,} steps and 125.0B tokens" in message


def test_a_first_stage_that_does_not_fill_the_devices_never_begins():
    assert "The run would not begin." in the_one(check(with_sizes(500, 1024, 1536), **RUN), "error")


def test_what_is_not_known_of_the_devices_is_said():
    neither = check(SOUND, seq_len=4096)
    assert the_one(neither, "note").startswith("--micro-batch and --data-parallel are not given")
    assert said_beside_notes(neither) == []
    one = check(with_sizes(512, 1000, 1536), seq_len=4096, data_parallel=64)
    assert the_one(one, "note").startswith("--micro-batch is not given")
    assert "no multiple of data-parallel 64" in the_one(one, "error")


def test_a_stage_that_never_begins_kills_no_run():
    findings = check(with_sizes(512, 1024, 1400), **{**RUN, "total_tokens": 200 * BILLION})
    assert "stage 3" in the_one(findings, "warning")
    assert [finding for finding in findings if finding.severity == "error"] == []


# --- order


def test_starts_that_do_not_begin_at_0():
    findings = check(with_starts(BILLION, 125 * BILLION, 250 * BILLION), "olmo-core", **RUN)
    assert the_one(findings, "error").startswith(
        "stage 1 (512 sequences = 2.10M tokens, from 1.000B tokens on) does not start at 0"
    )


@pytest.mark.parametrize("second", [0, 250])
def test_starts_that_do_not_rise(second):
    findings = check(with_starts(0, second * BILLION, 125 * BILLION), "olmo-core", **RUN)
    late = 2 if second == 0 else 3
    assert the_one(findings, "error").startswith(f"stage {late} (")


def test_a_batch_that_falls():
    message = the_one(check(with_sizes(1024, 512, 1536), **RUN), "warning")
    assert message.startswith("stage 2 (512 sequences")
    assert "the batch size falls" in message


def test_a_size_of_nothing():
    assert "its size must be positive" in the_one(check(with_sizes(512, 0, 1536), **RUN), "error")


def test_a_stage_beyond_the_end_never_begins():
    message = the_one(check(SOUND, **{**RUN, "total_tokens": 200 * BILLION}), "warning")
    assert message.startswith("stage 3 (1,536 sequences = 6.29M tokens, from 250.0B tokens on) never begins")


def test_a_stage_shorter_than_its_step():
    # stage 2 is 1 step of stage 1 long, and its own steps are twice as long
    step = 512 * 4096
    message = the_one(
        check(with_starts(0, 1000 * step, 1001 * step), seq_len=4096, micro_batch=8, data_parallel=64),
        "warning",
    )
    assert message.startswith("stage 2 (")
    assert "shorter than one of its steps: it still takes a whole one" in message


def test_a_stage_that_is_passed_over():
    step = 512 * 4096
    read = with_starts(0, 1000 * step + 4096, 1000 * step + 8192)
    message = the_one(check(read, seq_len=4096, micro_batch=8, data_parallel=64), "warning")
    assert "it is passed over" in message


def test_a_ramp_may_pass_over_sizes():
    read = ReadSchedule((0, 10, 20, 30), "sequences", (16, 32, 48, 64), may_skip_sizes=True)
    findings = check(
        read, "megatron-rampup", seq_len=32, micro_batch=1, data_parallel=16, total_tokens=640_000
    )
    assert said_beside_notes(findings) == []
    assert "stage 1 (16 sequences = 512 tokens, from 0 sequences on) is shorter" in the_one(findings, "note")


def test_what_the_parser_found_is_passed_on():
    read = with_starts(0, 125 * BILLION, refusals=["this is refused."], warnings=["this is odd."])
    findings = check(read, "olmo-core", **RUN)
    assert the_one(findings, "error") == "olmo-core refuses this: this is refused."
    assert the_one(findings, "warning") == "this is odd."


def test_what_is_true_of_many_stages_is_said_of_the_first_ones():
    ramp = ReadSchedule(tuple(range(0, 100_000, 1000)), "steps", tuple(range(3, 203, 2)))
    findings = check(ramp, "internevo", micro_batch=2, data_parallel=1)
    errors = [finding.message for finding in findings if finding.severity == "error"]
    assert len(errors) == 6
    assert errors[-1] == "the same is to be said of stages after these, 95 times."


def test_numbers_that_no_trainer_counts_to():
    with pytest.raises(BadInputError, match="above 2\\^63"):
        check(with_starts(0, 10**400), **RUN)


# --- what ebfit itself writes


EXACT = ["json", "yaml", "csv", "megatron", "levanter"]


def check_export(plan: BatchPlan, format_name: str, micro_batch: int, data_parallel: int) -> list[Finding]:
    trainer = TRAINERS[format_name]
    text = trainer.export(plan, Setup(micro_batch, data_parallel)).text
    return check_schedule(
        trainer.parse(text, plan.seq_len, Setup()),
        format_name=format_name,
        seq_len=plan.seq_len,
        micro_batch=micro_batch,
        data_parallel=data_parallel,
        total_tokens=plan.total_tokens,
    )


@pytest.mark.parametrize("format_name", EXACT)
@given(plans(unit=12))
def test_plans_of_ebfit_are_sound(format_name, plan):
    # of a size that a training run has: dozens of steps, none of them of a billion tokens, changes that matter
    assume(plan.total_tokens // plan.stages[-1].batch_tokens >= 20)
    assume(plan.stages[-1].batch_tokens <= 2**28)
    assume(len(plan.stages) == 1 or plan.stages[-1].start_tokens >= 1e-3 * plan.total_tokens)
    assert said_beside_notes(check_export(plan, format_name, 3, 4)) == []


@pytest.mark.parametrize("format_name", [name for name in TRAINERS if name != "phases"])
def test_the_worked_example_is_sound(format_name):
    plan = worked_example(warmup_tokens=BILLION, decay_start_tokens=400 * BILLION)
    assert said_beside_notes(check_export(plan, format_name, 4, 32)) == []


def test_decimal_thresholds_of_megatron_are_sound():
    # 125B tokens are no whole number of sequences, which Megatron rounds down: by less than one sequence
    read = TRAINERS["megatron"].parse("0:512 125B:1024 250B:1536", 4096, Setup())
    assert check(read, **RUN) == []
