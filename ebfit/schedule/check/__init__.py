"""`ebfit schedule --check`: what is wrong with a schedule that somebody has."""

from collections import Counter
from collections.abc import Iterable, Iterator

from ebfit.files import PlanTrends
from ebfit.schedule.check.against_fit import against_fit
from ebfit.schedule.check.division import division
from ebfit.schedule.check.finding import Finding, Severity, error, warning
from ebfit.schedule.check.learning_rate import iterations_as_samples, room_for_both
from ebfit.schedule.check.order import order, stages_without_steps
from ebfit.schedule.check.run import Run
from ebfit.schedule.check.units import batch_sizes, starts
from ebfit.schedule.cost import Cost
from ebfit.schedule.trainers.base import ReadSchedule, Setup

__all__ = ["Finding", "check_schedule"]

_MOST_OF_A_KIND = 5


def check_schedule(
    read: ReadSchedule,
    *,
    format_name: str,
    seq_len: int | None = None,
    micro_batch: int | None = None,
    data_parallel: int | None = None,
    total_tokens: int | None = None,
    trends: PlanTrends | None = None,
    cost: Cost | None = None,
) -> list[Finding]:
    """Look for what would stop a run, spoil it, or hardly be meant.

    Parameters
    ----------
    read : ReadSchedule
        What a trainer's `parse` made of the file.
    format_name : str
        Of that trainer, as in ``--format``.
    seq_len : int or None
        Tokens per sequence; what the file says goes before it.
    micro_batch, data_parallel : int or None
        Sequences per device and forward pass; devices that each see other sequences.
    total_tokens : int or None
        Of the run, for files that do not say it, and to compare with those that do.
    trends : PlanTrends or None
        Of a fit, to compare the batch sizes with.
    cost : Cost or None
        Of the same fit: what a batch above B_opt costs.

    Returns
    -------
    list of Finding
        Errors first, then warnings, then notes; each in the order of the stages. A sound schedule has notes at most.

    Raises
    ------
    BadInputError
        If the schedule counts tokens and nothing says how many a sequence has.
    """
    run = Run(read, read.seq_len or seq_len, total_tokens)
    setup = Setup(micro_batch, data_parallel)
    findings = [error(f"{format_name} refuses this: {sentence}") for sentence in read.refusals]
    findings += [warning(sentence) for sentence in read.warnings]
    checks = [order(run), batch_sizes(run), division(run, setup), room_for_both(run)]
    if run.in_order:
        checks += [stages_without_steps(run), starts(run), _end(run), iterations_as_samples(run, setup)]
        if trends is not None:
            checks.append(against_fit(run, trends, cost))
    for check in checks:
        findings += _first_few(check)
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def _first_few(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out what one check says again and again, as it may of the many stages of a ramp."""
    counts: Counter[Severity] = Counter()
    for finding in findings:
        counts[finding.severity] += 1
        if counts[finding.severity] <= _MOST_OF_A_KIND:
            yield finding
    for severity, count in counts.items():
        if count > _MOST_OF_A_KIND:
            yield Finding(
                severity, f"the same is to be said of stages after these, {count - _MOST_OF_A_KIND} times."
            )


def _end(run: Run) -> Iterator[Finding]:
    """Compare where the file ends the run with where the user says it ends."""
    in_file, by_user = run.end_sequence, run.user_sequences
    if in_file is None or by_user is None or abs(in_file - by_user) < run.read.batch_sequences[-1]:
        return
    yield warning(
        f"the file ends the run after {run.amount(in_file)}, and it is to have {run.amount(by_user)}. "
        "Steps that were counted with one batch size are others where it changes: count anew."
    )
