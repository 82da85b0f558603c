"""The options for reading logs, which `inspect` and `fit` share."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ebfit.cli.sizes import parse_size
from ebfit.errors import BadInputError

if TYPE_CHECKING:
    from ebfit.runs import ReadOptions

_PANEL = "Reading logs"
_ROLE_NAMES = {"train": "loss"}


def size(text: str) -> int:
    """Parse a size option; what is wrong is said together with the option's name.

    Raises
    ------
    typer.BadParameter
        If it is no size.
    """
    try:
        return parse_size(text)
    except BadInputError as error:
        raise typer.BadParameter(str(error)) from None


def steps(text: str) -> int:
    """Parse a number of steps, which may be 0.

    Raises
    ------
    typer.BadParameter
        If it is no number of steps.
    """
    return 0 if text.strip() == "0" else size(text)


def parse_targets(text: str) -> list[float] | Literal["auto"]:
    """Read target losses, or ``auto``.

    Raises
    ------
    BadInputError
        If a part is no number.
    """
    return "auto" if text.strip().lower() == "auto" else parse_losses(text, ", or auto")


def parse_losses(text: str, or_else: str = "") -> list[float]:
    """Read target losses; the sentence on what is none says what there is to give ``or_else``.

    Raises
    ------
    BadInputError
        If a part is no number.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInputError(f"--targets {text}: give losses such as 2.4,2.2{or_else}.") from None


Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH", help="Logs: files, folders (searched) or quoted globs.", show_default=False
    ),
]
ManifestFile = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="CSV with a row per log: path, batch_tokens (or batch_sequences and seq_len), seed, lr, model, data, "
        "name.",
        rich_help_panel=_PANEL,
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="Which column is which: step, loss, val, lr, tokens, batch_tokens, batch_sequences, seed.",
        rich_help_panel=_PANEL,
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Read all files as this format.", rich_help_panel=_PANEL),
]
SeqLen = Annotated[
    int | None,
    typer.Option(
        "--seq-len",
        metavar="TOKENS",
        parser=size,
        help="Tokens per sequence, where logs or names count sequences.",
        rich_help_panel=_PANEL,
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens",
        metavar="TOKENS",
        parser=size,
        help="Tokens per step, of runs that do not say it themselves.",
        rich_help_panel=_PANEL,
    ),
]
WarmupSteps = Annotated[
    int | None,
    typer.Option(
        "--warmup-steps", metavar="STEPS", parser=steps, help="First stable step.", rich_help_panel=_PANEL
    ),
]
StableUntil = Annotated[
    int | None,
    typer.Option(
        "--stable-until", metavar="STEP", parser=size, help="Last stable step.", rich_help_panel=_PANEL
    ),
]
AllowNonStable = Annotated[
    bool,
    typer.Option(
        "--allow-non-stable",
        help="Use curves whose learning rate is never constant; not comparable to WSD runs.",
        rich_help_panel=_PANEL,
    ),
]
MicroSteps = Annotated[
    int | None,
    typer.Option(
        "--micro-steps",
        metavar="N",
        help="The step column counts micro-batches, N to an optimizer update.",
        rich_help_panel=_PANEL,
    ),
]
AllowDropped = Annotated[
    bool,
    typer.Option(
        "--allow-dropped",
        help="Use logs of which more than half the rows with a loss cannot be used.",
        rich_help_panel=_PANEL,
    ),
]
TrainWindow = Annotated[
    str | None,
    typer.Option(
        "--train-window",
        metavar="STEPS|interval",
        help="The train loss is a mean over so many steps, or over all since the row before.",
        rich_help_panel=_PANEL,
    ),
]
TrainEma = Annotated[
    float | None,
    typer.Option(
        "--train-ema",
        metavar="BETA",
        help="The train loss is a moving average over rows, with this weight of the past.",
        rich_help_panel=_PANEL,
    ),
]


def read_options(
    manifest: Path | None = None,
    columns: Sequence[str] | None = None,
    format_name: str | None = None,
    seq_len: int | None = None,
    batch_tokens: int | None = None,
    warmup_steps: int | None = None,
    stable_until: int | None = None,
    allow_non_stable: bool = False,
    micro_steps: int | None = None,
    allow_dropped: bool = False,
    train_window: str | None = None,
    train_ema: float | None = None,
) -> "ReadOptions":
    """Make `ReadOptions` of the options above.

    Raises
    ------
    BadInputError
        If a value makes no sense.
    """
    from ebfit.runs import ReadOptions

    return ReadOptions(
        manifest=manifest,
        columns=_columns(columns or ()),
        format=format_name,
        seq_len=seq_len,
        batch_tokens=batch_tokens,
        warmup_steps=warmup_steps,
        stable_until=stable_until,
        allow_non_stable=allow_non_stable,
        micro_steps=micro_steps,
        allow_dropped=allow_dropped,
        train_window=_window(train_window),
        train_ema=train_ema,
    )


def _columns(texts: Sequence[str]) -> dict[str, str]:
    """Split ``loss=a,val=b``; a comma ends a name only where another role follows, as names may hold commas."""
    from ebfit.runs.columns import ROLES

    roles = "|".join([*ROLES, *_ROLE_NAMES])
    columns: dict[str, str] = {}
    for text in texts:
        for part in re.split(rf",(?=(?:{roles})=)", text):
            role, equals, name = part.partition("=")
            role = _ROLE_NAMES.get(role.strip(), role.strip())
            if not equals or not name or role not in ROLES:
                raise BadInputError(
                    f"--columns {part}: write ROLE=NAME, where ROLE is one of {', '.join(ROLES)}."
                )
            columns[role] = name
    return columns


def _window(text: str | None) -> int | Literal["interval"] | None:
    if text is None:
        return None
    if text == "interval":
        return "interval"
    try:
        return parse_size(text)
    except BadInputError:
        raise BadInputError(f"--train-window {text}: give a number of steps, or interval.") from None
