"""Do the stages follow one another: from 0 on, each after the one before, none without a step, none smaller?"""

from collections.abc import Iterator

from ebfit.schedule.check.finding import Finding, error, note, warning
from ebfit.schedule.check.run import Run


def order(run: Run) -> Iterator[Finding]:
    """Look at starts and sizes as they are written."""
    starts, batches = run.read.starts, run.read.batch_sequences
    if starts[0] != 0 and not run.read.order_is_checked:
        yield error(
            f"{run.stage(0)} does not start at 0, so nothing says which batch size the run begins with. "
            "Give the first stage the start 0."
        )
    for index in range(len(starts)):
        written = batches if run.read.batch_tokens is None else run.read.batch_tokens
        if written[index] < 1:
            yield error(f"{run.stage(index)} has no batch: its size must be positive.")
        if index and starts[index] <= starts[index - 1] and not run.read.order_is_checked:
            yield error(
                f"{run.stage(index)} does not start after {run.stage(index - 1)}: starts must rise. "
                "Put the stages in order, and leave out one of two with the same start."
            )
        if index and written[index] < written[index - 1]:
            yield warning(
                f"{run.stage(index)} is smaller than {run.stage(index - 1)}: the batch size falls, though B_min and "
                "B_opt rise as the loss falls. Is a digit missing, or are two stages exchanged?"
            )


def stages_without_steps(run: Run) -> Iterator[Finding]:
    """Name the stages that never begin, and those that are over after less than a step; only of stages in order."""
    never = [
        index
        for index, stage in enumerate(run.stages)
        if stage.steps == 0 and run.endless_stages[index].steps != 0
    ]
    if never:
        end = run.end_sequence
        runs_to = "" if end is None else f", which is at {run.amount(end)}"
        yield warning(
            f"{run.stage(never[0])} never begins: less than one whole step of it is left before the end of the run"
            f"{runs_to}. Leave it out, or let it start earlier.{_and_more(never)}"
        )
    hurried = [
        index
        for index in range(len(run.stages) - 1)
        if index not in never and _shorter_than_a_step(run, index)
    ]
    if hurried:
        first = hurried[0]
        taken = "it is passed over" if run.endless_stages[first].steps == 0 else "it still takes a whole one"
        finding = note if run.read.may_skip_sizes else warning
        yield finding(
            f"{run.stage(first)} is shorter than one of its steps: {taken}. Leave it out, or let the next stage start "
            f"later.{_and_more(hurried)}"
        )


def _shorter_than_a_step(run: Run, index: int) -> bool:
    read, stage = run.read, run.endless_stages[index]
    length = read.starts[index + 1] - read.starts[index]
    if read.start_unit == "steps":
        return length < 1
    per_sequence = (run.seq_len or 1) if read.start_unit == "tokens" else 1
    return stage.steps == 0 or length < stage.batch * per_sequence


def _and_more(indices: list[int]) -> str:
    if len(indices) == 1:
        return ""
    others = ", ".join(str(index + 1) for index in indices[1:4])
    return f" So with stage {others}{' and more' if len(indices) > 4 else ''}."
