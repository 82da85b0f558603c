import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from plans import BILLION, MI, plans, worked_example

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.files import PlanTrends, Trend
from ebfit.schedule.check import Finding, check_schedule
from ebfit.schedule.cost import Cost
from ebfit.schedule.trainers import TRAINERS, ReadSchedule, Setup

# 512 -> 1024 -> 1536 sequences of 4096 tokens every 125B tokens
SOUND = ReadSchedule((0, 125 * BILLION, 250 * BILLION), "tokens", (512, 1024, 1536))
RUN = {"seq_len": 4096, "micro_batch": 8, "data_parallel": 64, "total_tokens": 500 * BILLION}


def check(read: ReadSchedule, format_name: str = "megatron", **settings: object) -> list[Finding]:
    return check_schedule(read, format_name=format_name, **settings)  # type: ignore[arg-type]


def the_one(findings: list[Finding], severity: str) -> str:
    """The message of the only finding of a severity."""
    messages = [finding.message for finding in findings if finding.severity == severity]
    assert len(messages) == 1, findings
    return messages[0]


def said_beside_notes(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "note"]


def with_starts(*starts: int, unit: str = "tokens", **more: object) -> ReadSchedule:
    return ReadSchedule(starts, unit, (512, 1024, 1536)[: len(starts)], **more)  # type: ignore[arg-type]


def with_sizes(*batches: int, **more: object) -> ReadSchedule:
    return ReadSchedule(SOUND.starts[: len(batches)], "tokens", batches, **more)  # type: ignore[arg-type]


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
    read = ReadSchedule((0, 10, 20, 30), "sequences", (16, 32, 48, 64))
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


# --- units


def test_tokens_in_place_of_sequences():
    # 4194304 sequences of 4096 tokens would be 17 billion tokens a step
    findings = check(with_sizes(1024, 1536, 4_194_304), **RUN)
    message = the_one(findings, "warning")
    assert message.startswith("stage 3 (4,194,304 sequences = 17.2B tokens")
    assert message.endswith("If 4,194,304 are tokens, write sequences: 1024.")


def test_tokens_in_place_of_sequences_of_a_small_run():
    # 65,536 tokens in steps of 1024 would be 64 steps of a run, in steps of 1024 sequences of 32 tokens they are 2
    read = ReadSchedule((0,), "sequences", (1024,))
    message = the_one(check(read, "lightning", seq_len=32, total_tokens=65_536), "warning")
    assert message.endswith("If 1,024 are tokens, write sequences: 32.")


def test_sequences_in_place_of_tokens():
    read = with_sizes(0, 0, batch_tokens=(1024, 2048))
    errors = [finding.message for finding in check(read, "olmo-core", **RUN) if finding.severity == "error"]
    assert (
        "is 0.25 of one sequence of 4,096 tokens. If 1,024 are sequences, write tokens: 4194304." in errors[0]
    )
    assert errors[1].startswith("stage 2")
    assert errors[1].endswith("8388608.")


def test_sequences_in_place_of_tokens_where_they_are_whole_sequences():
    # 4096 tokens are one sequence, and 500B tokens are 122 million steps of it
    read = with_sizes(1, batch_tokens=(4096,))
    findings = check(
        read, "olmo-core", seq_len=4096, micro_batch=1, data_parallel=1, total_tokens=500 * BILLION
    )
    message = the_one(findings, "warning")
    assert "122M steps" in message
    assert message.endswith("If 4,096 are sequences, write tokens: 16777216.")


def test_a_decimal_size_that_should_be_binary():
    read = with_sizes(488, 1024, batch_tokens=(2_000_000, 4 * MI))
    message = the_one(check(read, "olmo-core", seq_len=4096, total_tokens=500 * BILLION), "error")
    assert message.endswith("2M is 2,000,000; 2Mi, 2097152 tokens, is 512 sequences.")


def test_a_size_between_two_whole_ones():
    read = with_sizes(488, batch_tokens=(2_001_001,))
    message = the_one(check(read, "olmo-core", seq_len=4096, total_tokens=500 * BILLION), "error")
    assert message.endswith("1998848 and 2002944 would be.")


UNIT_WARNING = "the starts are read as"


@pytest.mark.parametrize(
    ("read", "sensible"),
    [
        # 125B and 250B tokens, divided by 4096 though tokens are due: all changes in the first 0.01%
        (with_starts(0, 30_517_578, 61_035_156), "sequences"),
        # the other way round
        (with_starts(0, 125 * BILLION, 250 * BILLION, unit="sequences"), "tokens"),
        (with_starts(0, 125 * BILLION, 250 * BILLION, unit="steps"), "tokens"),
        # steps of 2M tokens
        (with_starts(0, 40_000, 80_000), "steps"),
        (with_starts(0, 20_000, 30_000, unit="sequences"), "steps"),
        (with_starts(0, 30_517_578, 61_035_156, unit="steps"), "sequences"),
    ],
)
def test_starts_in_the_wrong_unit(read, sensible):
    [message] = [f.message for f in check(read, "other", **RUN) if UNIT_WARNING in f.message]
    assert message.startswith(f"{UNIT_WARNING} {read.start_unit}, ")
    assert f"they would make sense as {sensible}." in message


def test_a_smoke_test_of_a_long_schedule_is_no_mix_up():
    findings = check(SOUND, **{**RUN, "total_tokens": BILLION})
    assert not any(UNIT_WARNING in finding.message for finding in findings)


def test_starts_in_tokens_need_the_sequence_length():
    with pytest.raises(BadInputError, match="--seq-len"):
        check(SOUND)


def test_a_file_that_ends_elsewhere():
    # 500B tokens were turned into steps of the last size, and the first ones are smaller
    steps = 500 * BILLION // (1536 * 4096)
    read = with_starts(0, 20_000, 40_000, unit="steps", total_steps=steps)
    message = the_one(check(read, "levanter", **RUN), "warning")
    seen = 4096 * (20_000 * 512 + 20_000 * 1024 + (steps - 40_000) * 1536)
    assert f"ends the run after {seen / 1e9:.1f}B tokens, and it is to have 500.0B tokens" in message


# --- iterations that Megatron takes for samples


def learning_rate_of_megatron(
    batch_at: Callable[[int], int], iterations: int, assumed_batch: int, warmup: int, decay: int
) -> list[float]:
    """Step by step: the learning rate after each, warmup and decay linear, peak 1, as Megatron counts them."""
    end, warm, last = iterations * assumed_batch, warmup * assumed_batch, decay * assumed_batch
    rates, samples = [], 0
    for _ in range(iterations):
        samples += batch_at(samples)
        rising = min(samples / warm, 1.0) if warm else 1.0
        falling = min(max((end - samples) / last, 0.0), 1.0) if samples <= end else 0.0
        rates.append(min(rising, falling))
    return rates


def test_the_decay_of_a_ramp_that_never_completes():
    # a known bug: 20 steps of 8 and 80 of 16 are 1440 samples, where 100 x 16 = 1600 were assumed
    ramp = ReadSchedule((0, 160), "sequences", (8, 16), total_steps=100, decay_steps=20, warmup_steps=10)
    findings = check(ramp, "megatron-rampup", micro_batch=1, data_parallel=8)
    error = the_one(findings, "error")
    assert "Megatron takes 100 iterations for 1,600 samples (16 each), and the run sees 1,440: " in error
    assert "50% of the decay is done when it stops, and 50% of the peak learning rate is left" in error
    assert "--train-samples 1440 --lr-decay-samples 1440 --lr-wsd-decay-samples 320;" in error
    assert "lr_decay_iters to 90." in error
    warning = the_one(findings, "warning")
    assert "a warmup of 10 iterations for 160 samples (16 each), which ends at step 20." in warning
    assert "--lr-warmup-samples 80; in Megatron-Bridge lr_warmup_iters 5." in warning

    rates = learning_rate_of_megatron(lambda samples: 8 if samples < 160 else 16, 100, 16, 10, 20)
    assert rates[-1] == 0.5
    assert rates.index(1.0) + 1 == 20


def test_the_decay_of_a_step_schedule_that_is_over_too_early():
    # beside --step-batch-size-schedule the constant batch size is micro-batch x data-parallel, here 8
    read = ReadSchedule((0, 160 * 4096), "tokens", (8, 16), total_steps=100, decay_steps=20)
    message = the_one(check(read, seq_len=4096, micro_batch=1, data_parallel=8), "error")
    assert "100 iterations for 800 samples (8 each), and the run sees 1,440: " in message
    assert "at its lowest from step 60 on." in message
    rates = learning_rate_of_megatron(lambda samples: 8 if samples < 160 else 16, 100, 8, 0, 20)
    assert rates.index(0.0) + 1 == 60


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 400), st.integers(20, 200), st.integers(1, 20))
def test_what_is_left_of_the_peak_is_what_the_trainer_leaves(start, rise, samples, iterations, decay):
    final = start + rise
    read = ReadSchedule((0, samples), "sequences", (start, final), total_steps=iterations, decay_steps=decay)
    findings = check(read, "megatron-rampup", micro_batch=1, data_parallel=1)
    rates = learning_rate_of_megatron(
        lambda consumed: start if consumed < samples else final, iterations, final, 0, decay
    )
    [message] = [finding.message for finding in findings if finding.severity == "error"]
    assert f"and {rates[-1]:.0%} of the peak learning rate" in message


def test_a_learning_rate_of_unknown_decay_is_warned_about():
    ramp = ReadSchedule((0, 160), "sequences", (8, 16), total_steps=100)
    message = the_one(check(ramp, "megatron-rampup", micro_batch=1, data_parallel=8), "warning")
    assert "cut off at 90.0% of its time" in message


def test_iterations_of_a_step_schedule_need_the_devices():
    read = with_starts(0, 125 * BILLION, 250 * BILLION, total_steps=100_000)
    message = the_one(check(read, seq_len=4096), "warning")
    assert "give --micro-batch and --data-parallel to see how early" in message


def test_trainers_that_count_the_learning_rate_in_steps_are_left_alone():
    read = ReadSchedule((0, 1000), "steps", (8, 16), total_steps=10_000, decay_steps=2000, warmup_steps=100)
    assert check(read, "levanter", seq_len=4096, micro_batch=1, data_parallel=8) == []


def test_samples_are_what_they_are():
    read = with_starts(
        0,
        125 * BILLION,
        250 * BILLION,
        total_sequences=500 * BILLION // 4096,
        warmup_sequences=10**6,
        decay_sequences=10**7,
    )
    assert check(read, **RUN) == []


def test_a_decay_that_begins_before_the_warmup_is_over():
    read = ReadSchedule((0, 1000), "steps", (8, 16), total_steps=10_000, decay_steps=9000, warmup_steps=2000)
    message = the_one(check(read, "levanter", micro_batch=1, data_parallel=8), "warning")
    assert message.startswith("warmup and decay take 11,000 steps, and the run has 10,000")


# --- against a fit: B_opt = 4M tokens at 250B, B_min a quarter of it, both rising with D^0.5


def trend(batch_at_pivot: float, d_high: float = 500e9) -> Trend:
    return Trend(
        k=batch_at_pivot / math.sqrt(250e9),
        exponent=0.5,
        d_low=1e9,
        d_high=d_high,
        pivot_tokens=250e9,
        pivot_batch_tokens=batch_at_pivot,
        log_sd_at_pivot=0.05,
        exponent_sd=0.01,
        quantile=1.96,
    )


TRENDS = PlanTrends(b_opt_vs_tokens=trend(4e6), b_min_vs_tokens=trend(1e6))


def test_sizes_between_b_min_and_b_opt_give_nothing():
    assert check(SOUND, **RUN, trends=TRENDS) == []


def test_a_stage_below_b_min():
    # 262,144 tokens are B_min at 250B (0.262144)^2 = 17.2B tokens; at 500B it is 1.41M
    read = ReadSchedule((0,), "tokens", (64,))
    settings = {**RUN, "micro_batch": 1}
    message = the_one(check(read, **settings, trends=TRENDS), "warning")
    assert message.startswith(
        "stage 1 (64 sequences = 262K tokens, from 0 tokens on) is below B_min from 17.2B tokens on"
    )
    assert "B_min is 1.41M (1.28M to 1.56M)" in message


def test_a_stage_far_above_b_opt():
    # at 125B tokens B_opt is 2.83M, at 250B 4M; 3584 sequences are 14.7M
    read = with_sizes(3584, 3584, 3584)
    message = the_one(check(read, **RUN, trends=TRENDS), "warning")
    assert message.startswith("stage 1 (3,584 sequences = 14.7M tokens, from 0 tokens on) is 5.2 times B_opt")


def test_far_above_b_opt_is_what_costs_a_fifth_more_where_the_fit_tells():
    log_ratio = [math.log(1 / 8), 0.0, math.log(3.0), math.log(64.0)]
    grid = np.arange(-7.0, 16.0, 0.005)
    cost = Cost(grid, np.interp(grid, log_ratio, [0.0, 0.0, math.log(1.5), math.log(8.0)]))
    # 2.04, 2.16 and 1.53 times B_opt at the ends of the stages
    read = ReadSchedule((0, 125 * BILLION, 250 * BILLION), "tokens", (1408, 2112, 2112))
    settings = {**RUN, "micro_batch": 1}
    assert check(read, **settings, trends=TRENDS) == []
    messages = [
        f.message for f in check(read, **settings, trends=TRENDS, cost=cost) if f.severity == "warning"
    ]
    assert [message[:7] for message in messages] == ["stage 1", "stage 2"]
    assert "30% more tokens to the same loss" in messages[0]  # 1.5 ** (ln 2.04 / ln 3)


def test_a_schedule_beyond_what_was_measured_is_told_once():
    trends = PlanTrends(b_opt_vs_tokens=trend(4e6, 5e9), b_min_vs_tokens=trend(1e6, 5e9))
    message = the_one(check(SOUND, **RUN, trends=trends), "note")
    assert "measured up to 5.00B tokens, and the schedule goes to 500B, 100 times as far" in message


def test_without_an_end_the_last_stage_is_compared_where_it_begins():
    settings = {**RUN, "total_tokens": None}
    assert "stage 3" in the_one(check(SOUND, **settings, trends=TRENDS), "note")


# --- what ebfit itself writes


EXACT = ["json", "yaml", "csv", "megatron", "levanter"]


def check_export(plan: BatchPlan, format_name: str, micro_batch: int, data_parallel: int) -> list[Finding]:
    trainer = TRAINERS[format_name]
    text = trainer.export(plan, Setup(micro_batch, data_parallel)).text
    return check_schedule(
        trainer.parse(text, plan.seq_len),
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
    read = TRAINERS["megatron"].parse("0:512 125B:1024 250B:1536", 4096)
    assert check(read, **RUN) == []


def test_a_script_of_megatron_with_a_ramp_and_iterations():
    text = "--global-batch-size 16 --rampup-batch-size 8 8 160 --train-iters 100 --lr-wsd-decay-iters 20"
    read = TRAINERS["megatron-rampup"].parse(text, None)
    message = the_one(check(read, "megatron-rampup", micro_batch=1, data_parallel=8), "error")
    assert "1,600 samples (16 each), and the run sees 1,440: 50% of the decay is done" in message


def test_sequences_in_the_callback_of_olmo_core():
    text = (
        "BatchSizeSchedulerCallback(batch_sizes=[512, 1024], "
        "schedule=[Duration.tokens(0), Duration.tokens(125_000_000_000)])"
    )
    findings = check(TRAINERS["olmo-core"].parse(text, 4096), "olmo-core", **RUN)
    assert [finding.message.partition(" is ")[2] for finding in findings] == [
        "0.125 of one sequence of 4,096 tokens. If 512 are sequences, write tokens: 2097152.",
        "0.25 of one sequence of 4,096 tokens. If 1,024 are sequences, write tokens: 4194304.",
    ]
