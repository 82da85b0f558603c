"""Warmup and decay in iterations, which Megatron takes for samples."""

from collections.abc import Callable

from checking import RUN, check, the_one, with_starts
from hypothesis import given
from hypothesis import strategies as st
from plans import BILLION

from ebfit.schedule.trainers import TRAINERS, ReadSchedule, Setup

RAMP = {"iterations_as": "last_batch", "may_skip_sizes": True}


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
    ramp = ReadSchedule(
        (0, 160), "sequences", (8, 16), total_steps=100, decay_steps=20, warmup_steps=10, **RAMP
    )
    findings = check(ramp, "megatron-rampup", micro_batch=1, data_parallel=8)
    error = the_one(findings, "error")
    assert "Megatron takes 100 iterations for 1,600 samples (16 each), and the run sees 1,440: " in error
    assert "50% of the decay is done when it stops, and 50% of the peak learning rate is left" in error
    assert "--train-samples 1440 --lr-decay-samples 1440 --lr-wsd-decay-samples 320," in error
    assert "lr_decay_iters to 90." in error
    warning = the_one(findings, "warning")
    assert "a warmup of 10 iterations for 160 samples (16 each), which ends at step 20." in warning
    assert "--lr-warmup-samples 80; in Megatron-Bridge lr_warmup_iters 5." in warning

    rates = learning_rate_of_megatron(lambda samples: 8 if samples < 160 else 16, 100, 16, 10, 20)
    assert rates[-1] == 0.5
    assert rates.index(1.0) + 1 == 20


def test_the_decay_of_a_step_schedule_that_is_over_too_early():
    # beside --step-batch-size-schedule the constant batch size is micro-batch x data-parallel, here 8
    read = ReadSchedule(
        (0, 160 * 4096), "tokens", (8, 16), total_steps=100, decay_steps=20, iterations_as="devices"
    )
    message = the_one(check(read, seq_len=4096, micro_batch=1, data_parallel=8), "error")
    assert "100 iterations for 800 samples (8 each), and the run sees 1,440: " in message
    assert "at its lowest from step 60 on." in message
    rates = learning_rate_of_megatron(lambda samples: 8 if samples < 160 else 16, 100, 8, 0, 20)
    assert rates.index(0.0) + 1 == 60


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 400), st.integers(20, 200), st.integers(1, 20))
def test_what_is_left_of_the_peak_is_what_the_trainer_leaves(start, rise, samples, iterations, decay):
    final = start + rise
    read = ReadSchedule(
        (0, samples), "sequences", (start, final), total_steps=iterations, decay_steps=decay, **RAMP
    )
    findings = check(read, "megatron-rampup", micro_batch=1, data_parallel=1)
    rates = learning_rate_of_megatron(
        lambda consumed: start if consumed < samples else final, iterations, final, 0, decay
    )
    [message] = [finding.message for finding in findings if finding.severity == "error"]
    assert f"and {rates[-1]:.0%} of the peak learning rate" in message


def test_a_learning_rate_of_unknown_decay_is_warned_about():
    ramp = ReadSchedule((0, 160), "sequences", (8, 16), total_steps=100, **RAMP)
    message = the_one(check(ramp, "megatron-rampup", micro_batch=1, data_parallel=8), "warning")
    assert "cut off at 90.0% of its time" in message


def test_iterations_of_a_step_schedule_need_the_devices():
    read = with_starts(0, 125 * BILLION, 250 * BILLION, total_steps=100_000, iterations_as="devices")
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
        iterations_as="devices",
    )
    assert check(read, **RUN) == []


def test_a_decay_that_begins_before_the_warmup_is_over():
    read = ReadSchedule((0, 1000), "steps", (8, 16), total_steps=10_000, decay_steps=9000, warmup_steps=2000)
    message = the_one(check(read, "levanter", micro_batch=1, data_parallel=8), "warning")
    assert message.startswith("warmup and decay take 11,000 steps, and the run has 10,000")


def test_a_script_of_megatron_with_a_ramp_and_iterations():
    text = "--global-batch-size 16 --rampup-batch-size 8 8 160 --train-iters 100 --lr-wsd-decay-iters 20"
    read = TRAINERS["megatron-rampup"].parse(text, None, Setup())
    message = the_one(check(read, "megatron-rampup", micro_batch=1, data_parallel=8), "error")
    assert "1,600 samples (16 each), and the run sees 1,440: 50% of the decay is done" in message
