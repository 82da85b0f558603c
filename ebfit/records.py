"""What fit.json and `inspect` keep of a run and of the files it was read from."""

import math
import os
from pathlib import Path

from ebfit.files import Input, RunRecord, sha256
from ebfit.runs import Run
from ebfit.runs.run import Curve


def run_record(run: Run) -> RunRecord:
    """Return the record of a run, without its curve.

    Parameters
    ----------
    run : Run
        As `ebfit.runs.read_runs` returns it.
    """
    train_first, train_last = _ends(run.train)
    val_first, val_last = _ends(run.val)
    return RunRecord(
        name=run.name,
        path=_text(run.path),
        format=run.format,
        batch_tokens=run.batch_tokens,
        batch_source=run.batch_source,
        seq_len=run.seq_len,
        lr=run.lr,
        seed=run.seed,
        model=run.model,
        data=run.data,
        rows=run.rows,
        dropped=dict(sorted(run.dropped.items())),
        stable_from=run.stable_from,
        stable_to=run.stable_to,
        stable_source=run.stable_source,
        files=max(len(run.pieces), 1),
        warnings=list(run.warnings),
        train_loss_first=train_first,
        train_loss_last=train_last,
        val_loss_first=val_first,
        val_loss_last=val_last,
    )


def input_record(path: Path) -> Input:
    """Return the record of a file that was read: its path and the digest of its bytes."""
    return Input(path=_text(path), sha256=sha256(path))


def _text(path: Path) -> str:
    """Return a path as text that can be saved, also where its bytes are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _ends(curve: Curve | None) -> tuple[float | None, float | None]:
    """Return the first and the last loss of a curve."""
    if curve is None or not len(curve.loss):
        return None, None
    first, last = float(curve.loss[0]), float(curve.loss[-1])
    return (first if math.isfinite(first) else None), (last if math.isfinite(last) else None)
