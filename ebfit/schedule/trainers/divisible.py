"""Does every stage of a plan fill the devices in whole micro-batches? Most trainers ask only when the stage begins."""

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Setup


def sequences_at_once(setup: Setup) -> int:
    """Return how many sequences all devices take in one forward pass; what is not given counts as 1."""
    return (setup.micro_batch or 1) * (setup.data_parallel or 1)


def check_divisible(plan: BatchPlan, setup: Setup) -> None:
    """Refuse a plan with a stage that is no whole number of micro-batches on every device.

    Raises
    ------
    BadInputError
        Naming the first such stage, and the batch sizes next to it that would do.
    """
    for number, stage in enumerate(plan.stages, start=1):
        reason = why_not_divisible(stage.batch_sequences, setup)
        if reason is not None:
            raise BadInputError(
                f"stage {number}: {reason} Make the plan with the same --micro-batch and --data-parallel."
            )


def why_not_divisible(batch_sequences: int, setup: Setup) -> str | None:
    """Return a sentence that names the sizes next to a batch that would fill the devices; None if it does so."""
    at_once = sequences_at_once(setup)
    if batch_sequences % at_once == 0:
        return None
    below = batch_sequences // at_once * at_once
    near = f"{below} or {below + at_once}" if below else f"{at_once}"
    return f"{batch_sequences} sequences are no multiple of {_product(setup)}; {near} would be."


def _product(setup: Setup) -> str:
    given = {"micro-batch": setup.micro_batch, "data-parallel": setup.data_parallel}
    names = [name for name, value in given.items() if value is not None]
    values = [str(given[name]) for name in names]
    if len(names) == 1:
        return f"{names[0]} {values[0]}"
    return f"{' x '.join(names)} = {' x '.join(values)}"
