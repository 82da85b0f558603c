"""Does every stage fill the devices? Trainers ask when a stage begins, which may be weeks into the run."""

from collections.abc import Iterator

from ebfit.schedule.check.finding import Finding, error, note
from ebfit.schedule.check.run import Run
from ebfit.schedule.trainers.base import Setup
from ebfit.schedule.trainers.divisible import why_not_divisible


def division(run: Run, setup: Setup) -> Iterator[Finding]:
    """Name the stages that are no whole number of micro-batches on every device."""
    given = {"--micro-batch": setup.micro_batch, "--data-parallel": setup.data_parallel}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == 2:
        yield note(
            f"{' and '.join(missing)} are not given, so nothing tells whether every stage fills the devices."
        )
        return
    if missing:
        yield note(f"{missing[0]} is not given: a stage may fill the devices here and not with it.")
    for index, batch in enumerate(run.read.batch_sequences):
        reason = why_not_divisible(batch, setup) if batch > 0 else None
        if reason is not None and not (run.in_order and run.stages[index].steps == 0):
            yield error(f"{run.stage(index)}: {reason} {_when(run, index)}")


def _when(run: Run, index: int) -> str:
    if index == 0:
        return "The run would not begin."
    if not run.in_order:
        return "The run would end there."
    stage = run.stages[index]
    return (
        f"The run would end there, after {stage.first_step:,} steps and {run.amount(stage.first_sequence)}."
    )
