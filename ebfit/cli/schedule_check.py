"""``ebfit schedule --check``: read somebody's schedule and say what is wrong with it."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from ebfit.cli.schedule_output import trainer_named
from ebfit.errors import BadInputError
from ebfit.files import PlanTrends
from ebfit.schedule.check import check_schedule
from ebfit.schedule.source import Source
from ebfit.schedule.trainers import Setup
from ebfit.text import printable

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}


def check_file(
    path: Path,
    format_name: str,
    fit: Source | None,
    seq_len: int | None,
    total_tokens: int | None,
    setup: Setup,
) -> int:
    """Say what is wrong in a trainer's schedule; return the exit status, 1 where there is an error.

    Raises
    ------
    BadInputError
        If the file is no such schedule.
    CannotAnswerError
        If the fit identifies nothing to compare it with.
    """
    trainer = trainer_named(format_name)
    trends, cost = None, None
    if fit is not None:
        b_min = fit.b_min_if_known()
        b_opt = fit.b_opt() if b_min is None else fit.b_opt_if_known()
        trends = PlanTrends(b_opt_vs_tokens=b_opt, b_min_vs_tokens=b_min)
        cost = None if b_opt is None else fit.cost
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets put a mark in front
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{path}: is no text in UTF-8. Give the file that the trainer reads.") from None
    try:
        read = trainer.parse(text, seq_len, setup)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None
    findings = check_schedule(
        read,
        format_name=format_name,
        seq_len=seq_len,
        micro_batch=setup.micro_batch,
        data_parallel=setup.data_parallel,
        total_tokens=total_tokens,
        trends=trends,
        cost=cost,
    )
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(
            Text.assemble((f"{finding.severity}: ", _COLOURS[finding.severity]), printable(finding.message))
        )
    counts = [sum(finding.severity == severity for finding in findings) for severity in ("error", "warning")]
    stages = f"{len(read.starts)} stage{'s' if len(read.starts) > 1 else ''}"
    console.print(
        f"{printable(str(path))}: {stages} for {trainer.name}: {_plural(counts[0], 'error')}, "
        f"{_plural(counts[1], 'warning')}.",
        markup=False,
    )
    return 1 if counts[0] else 0


def _plural(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
