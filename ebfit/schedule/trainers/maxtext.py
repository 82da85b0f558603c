"""MaxText: a straight ramp from one batch size per device to another, by a fixed increment.

Facts from MaxText 0.2.5, `utils/rampup_batch.py` and `common/data_loader.py`: each size lasts until it has used
global_rampup_samples / (number of increments) samples; what the last step of a size uses beyond that is forgotten. The
sizes of the ramp leave out gradient accumulation, the size after it does not. Everything else is counted in steps.
"""

from collections.abc import Iterator
from math import ceil, floor

import yaml

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import devices_lines, devices_of, heading, with_comments
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.ramp import (
    Sizes,
    best_ramp,
    increments,
    notes_on_deviation,
    ramp_lengths,
)
from ebfit.schedule.trainers.yaml_text import find, read_yaml, whole_number

name = "maxtext"
reader = "MaxText (as of 0.2.5)"
unit = "batch in sequences per device, ramp in sequences of all devices"
suffix = ".yaml"

_MOST_SIZES = 100_000  # beyond this somebody's file is a slip of the pen


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the ramp that comes nearest to the plan.

    Raises
    ------
    BadInputError
        If the number of devices is not given, if the plan has one batch size only or sizes that do not fill the
        devices, or if ``setup.strict`` and the plan is no such ramp.
    """
    devices = devices_of(setup, name)
    check_divisible(plan, setup)
    start, final = plan.stages[0].batch_sequences, plan.stages[-1].batch_sequences

    def run(candidate: tuple[int, int]) -> Sizes:
        increment, samples = candidate
        sizes = simulate(start, increment, final, samples)
        return [(after * plan.seq_len, batch * plan.seq_len) for after, batch in sizes]

    (increment, samples), as_run = best_ramp(plan, _candidates(plan, devices), run)
    decay_start = plan.decay_start_tokens
    steps = as_run.total_steps
    config: dict[str, object] = {
        "enable_rampup_batch_size": True,
        "per_device_batch_size_start": float(start // devices),
        "per_device_batch_size_increment": float(increment // devices),
        "per_device_batch_size": float(final // devices),
        "global_rampup_samples": samples,
        "gradient_accumulation_steps": 1,
        "steps": steps,
        "warmup_steps_fraction": as_run.steps_until(plan.warmup_tokens) / steps,
    }
    if decay_start is not None:
        config["lr_schedule_type"] = "wsd"
        config["wsd_decay_steps_fraction"] = 1.0 - as_run.steps_until(decay_start) / steps
    comments = heading(reader, unit) + devices_lines(Setup(data_parallel=devices))
    return Export(
        text=comments + yaml.safe_dump(config, sort_keys=False),
        as_run=as_run,
        notes=[
            *notes_on_deviation(plan, as_run, setup, name),
            f"the sizes are for {devices} devices: MaxText multiplies them by the number it finds.",
            "gradient_accumulation_steps must be 1: the ramp leaves it out, so the batch would jump by that factor "
            "when the ramp ends. A device therefore holds its whole part of the last batch, "
            f"{final // devices} sequences, at once.",
            "steps and the fractions of warmup and decay are counted in the steps of this ramp.",
            *notes_on_lr_scale(plan, setup, name),
        ],
    )


def simulate(start: int, increment: int, final: int, rampup_samples: int) -> list[tuple[int, int]]:
    """Return (samples consumed before, batch size) of each size that MaxText steps through, over all devices.

    Parameters
    ----------
    start, increment, final : int
        Sequences over all devices; ``final - start`` is a positive multiple of ``increment``.
    rampup_samples : int
        As in global_rampup_samples.
    """
    per_size = rampup_samples / ((final - start) // increment)
    consumed = 0
    sizes = []
    for batch in range(start, final, increment):
        sizes.append((consumed, batch))
        consumed += _steps_until(per_size, batch) * batch
    return [*sizes, (consumed, final)]


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read the ramp of a MaxText configuration.

    Raises
    ------
    BadInputError
        If there is no batch size, if MaxText would refuse the ramp, or if nothing says the number of devices.
    """
    document = read_yaml(text)
    setup, warnings = with_comments(setup, text)
    devices = devices_of(setup, name)
    final = whole_number(document, "per_device_batch_size")
    if not find(document, "enable_rampup_batch_size"):
        sizes = [(0, final * devices)]
    else:
        start = whole_number(document, "per_device_batch_size_start")
        increment = whole_number(document, "per_device_batch_size_increment")
        samples = whole_number(document, "global_rampup_samples")
        if not (0 < start < final and increment > 0 and samples > 0):
            raise BadInputError(
                "MaxText wants 0 < per_device_batch_size_start < per_device_batch_size, and an increment and "
                "global_rampup_samples above 0."
            )
        if (final - start) % increment:
            raise BadInputError(
                f"per_device_batch_size - per_device_batch_size_start, {final - start}, is no multiple of the "
                f"increment, {increment}: MaxText refuses that."
            )
        if (final - start) // increment > _MOST_SIZES:
            raise BadInputError(f"the ramp has more than {_MOST_SIZES} sizes.")
        sizes = simulate(start * devices, increment * devices, final * devices, samples)
    if find(document, "gradient_accumulation_steps") not in (None, 1) and len(sizes) > 1:
        warnings.append(
            "gradient_accumulation_steps is not 1: the ramp leaves it out, so the batch jumps by that factor when the "
            "ramp ends."
        )
    steps = whole_number(document, "steps") if find(document, "steps") is not None else -1
    return ReadSchedule(
        starts=tuple(after for after, _ in sizes),
        start_unit="sequences",
        batch_sequences=tuple(batch for _, batch in sizes),
        total_steps=steps if steps > 0 else None,  # -1: as many as the learning rate's schedule has
        warnings=warnings,
    )


def _candidates(plan: BatchPlan, devices: int) -> Iterator[tuple[int, int]]:
    rise = plan.stages[-1].batch_sequences - plan.stages[0].batch_sequences
    for increment in increments(plan, devices):
        parts = rise // increment
        for samples in ramp_lengths(plan, [k * plan.seq_len / parts for k in range(1, parts + 1)]):
            yield from ((increment, max(rounded, 1)) for rounded in {floor(samples), ceil(samples)})


def _steps_until(samples: float, batch: int) -> int:
    """Return the least positive number of batches that hold so many samples, not trusting the division."""
    steps = max(ceil(samples / batch), 1)
    while steps > 1 and (steps - 1) * batch >= samples:
        steps -= 1
    while steps * batch < samples:
        steps += 1
    return steps
