"""Does the learning rate come to its end with the run?

Megatron-LM and Megatron-Bridge keep the learning rate's time in samples. Given iterations, they multiply them with one
batch size, whatever the schedule says: the final one of a ramp; with `--step-batch-size-schedule` micro-batch x
data-parallel, which stands in for the constant batch size that must then be absent. (megatron-core 0.17.0 to 0.19.2,
`get_optimizer_param_scheduler`; Megatron-Bridge 0.6.2, `_calculate_scheduler_steps`.)
"""

from collections.abc import Iterator

from ebfit.schedule.check.finding import Finding, error, warning
from ebfit.schedule.check.run import Run
from ebfit.schedule.check.walk import sequences_after, steps_until
from ebfit.schedule.trainers.base import Setup


def iterations_as_samples(run: Run, setup: Setup) -> Iterator[Finding]:
    """Find out where warmup and decay end if iterations become samples with one batch size; stages must be in order."""
    read = run.read
    counts_iterations = any(
        count is not None for count in (read.warmup_steps, read.decay_steps, read.total_steps)
    )
    if read.iterations_as == "steps" or not counts_iterations:
        return
    if read.total_sequences is not None:
        # a ramp is exported with both, of which the user chooses one; the samples are then looked at elsewhere
        return
    assumed_batch = _assumed_batch(run, setup)
    if assumed_batch is None:
        yield warning(
            "Megatron turns iterations into samples with micro-batch x data-parallel, not with this schedule, so the "
            "learning rate ends too early. Count in samples; give --micro-batch and --data-parallel to see how early."
        )
        return
    if read.total_steps is not None:
        yield from _decay(run, assumed_batch, read.total_steps)
    if read.warmup_steps:
        yield from _warmup(run, assumed_batch, read.warmup_steps)


def room_for_both(run: Run) -> Iterator[Finding]:
    """Find out whether warmup and decay fit into the run, where they are counted alike."""
    read = run.read
    for unit, warmup, decay, total in (
        ("sequences", read.warmup_sequences, read.decay_sequences, read.total_sequences),
        ("steps", read.warmup_steps, read.decay_steps, read.total_steps),
    ):
        if total is not None and (warmup or 0) + (decay or 0) > total:
            yield warning(
                f"warmup and decay take {(warmup or 0) + (decay or 0):,} {unit}, and the run has {total:,}: the decay "
                "begins before the warmup is over. Shorten one of them."
            )


def _assumed_batch(run: Run, setup: Setup) -> int | None:
    if run.read.iterations_as == "last_batch":
        return run.read.batch_sequences[-1]
    if setup.micro_batch is None or setup.data_parallel is None:
        return None
    return setup.micro_batch * setup.data_parallel


def _decay(run: Run, assumed_batch: int, iterations: int) -> Iterator[Finding]:
    assumed, seen = iterations * assumed_batch, sequences_after(run.endless_stages, iterations)
    if assumed == seen:
        return
    decay = run.read.decay_steps
    # how many samples the last iterations really are: what the decay was meant to be
    meant = None if decay is None else seen - sequences_after(run.endless_stages, max(iterations - decay, 0))
    way_out = _way_out(run, assumed_batch, seen, meant)
    told = (
        f"Megatron takes {iterations:,} iterations for {assumed:,} samples ({assumed_batch:,} each), and the run sees "
        f"{seen:,}"
    )
    if seen > assumed:
        finding = error if decay else warning
        over = steps_until(run.endless_stages, assumed)
        yield finding(
            f"{told}: a learning rate that is to fall until the end is at its lowest from step {over:,} on. {way_out}"
        )
    elif not decay:
        yield warning(
            f"{told}: a learning rate that is to fall until the end is cut off at {seen / assumed:.1%} of its time. "
            f"{way_out}"
        )
    else:
        left = min((assumed - seen) / (decay * assumed_batch), 1.0)
        yield error(
            f"{told}: {1 - left:.0%} of the decay is done when it stops, and {left:.0%} of the peak learning rate is "
            f"left if the decay is linear to 0. {way_out}"
        )


def _way_out(run: Run, assumed_batch: int, seen: int, decay: int | None) -> str:
    flags = [f"--train-samples {seen}", f"--lr-decay-samples {seen}"]
    if decay:
        flags.append(f"--lr-wsd-decay-samples {decay}")
    samples = f"Count in samples: {' '.join(flags)}"
    if run.read.iterations_as == "devices":
        return f"{samples}."
    return (
        f"{samples}, which is all that Megatron-LM takes with a ramp; in Megatron-Bridge, which takes iterations only, "
        f"set lr_decay_iters to {seen // assumed_batch}."
    )


def _warmup(run: Run, assumed_batch: int, iterations: int) -> Iterator[Finding]:
    assumed, meant = iterations * assumed_batch, sequences_after(run.endless_stages, iterations)
    ends = steps_until(run.endless_stages, assumed)
    if ends != iterations:
        bridge = (
            f"; in Megatron-Bridge lr_warmup_iters {meant // assumed_batch}"
            if run.read.iterations_as == "last_batch"
            else ""
        )
        yield warning(
            f"Megatron takes a warmup of {iterations:,} iterations for {assumed:,} samples ({assumed_batch:,} each), "
            f"which ends at step {ends:,}. Count in samples: --lr-warmup-samples {meant}{bridge}."
        )
