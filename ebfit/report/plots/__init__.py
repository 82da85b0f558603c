"""The figures of a fit, as PNG files. One file per figure here, and `style` for what they share."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ebfit.files import Fit, Plan
from ebfit.writing import make_folder, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 200


def write_plots(fit: Fit, folder: str | Path) -> list[Path]:
    """Draw the figures of a fit and write them as PNG files, each whole or not at all.

    Parameters
    ----------
    fit : Fit
        What `ebfit fit` found.
    folder : str or Path
        Where to write; created if it does not exist.

    Returns
    -------
    list of Path
        The files written: ``e_of_s.png`` (and ``e_of_s_2.png``, ... beyond twelve targets), then
        ``loss_vs_tokens.png`` if the fit holds loss curves, ``batch_vs_loss.png`` if it identifies any
        batch size, and ``batch_vs_tokens.png`` if it found a trend. The same fit gives the same bytes.

    Raises
    ------
    BadInputError
        If the folder cannot be created or a file in it cannot be written.
    """
    folder = Path(folder)
    pictures = {name: _png(figure) for name, figure in figures(fit).items()}
    make_folder(folder)
    for name, picture in pictures.items():
        write_bytes(folder / name, picture)
    return [folder / name for name in pictures]


def write_plan_plot(plan: Plan, folder: Path) -> Path:
    """Draw a plan and write it as ``plan.png``, whole or not at all.

    Raises
    ------
    BadInputError
        If the folder cannot be created or the file in it cannot be written.
    """
    from ebfit.report.plots import plan as plan_figure
    from ebfit.report.plots import style

    with style.context():
        picture = _png(plan_figure.draw(plan))
    make_folder(folder)
    write_bytes(folder / "plan.png", picture)
    return folder / "plan.png"


def figures(fit: Fit) -> dict[str, "Figure"]:
    """Draw the figures of a fit.

    Returns
    -------
    dict
        File name -> matplotlib Figure, made through the object interface, without a backend.
    """
    from ebfit.report.plots import batch_vs_loss, batch_vs_tokens, e_of_s, loss_vs_tokens, style

    with style.context():
        drawn = {
            "e_of_s.png" if page == 1 else f"e_of_s_{page}.png": figure
            for page, figure in enumerate(e_of_s.draw(fit), start=1)
        }
        others = {
            "loss_vs_tokens.png": loss_vs_tokens.draw(fit),
            "batch_vs_loss.png": batch_vs_loss.draw(fit),
            "batch_vs_tokens.png": batch_vs_tokens.draw(fit),
        }
    return drawn | {name: figure for name, figure in others.items() if figure is not None}


def _png(figure: "Figure") -> bytes:
    from ebfit.report.plots import style

    buffer = io.BytesIO()
    with style.context(), warnings.catch_warnings():
        # a group may be named in a script that the font lacks: boxes in the title are no news to the user
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()
