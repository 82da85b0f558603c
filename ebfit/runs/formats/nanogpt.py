"""The console log of karpathy/nanoGPT, and of the many scripts that were made from it.

An iteration prints as ``iter 10: loss 4.1234, time 123.45ms, mfu 12.34%``, an evaluation as ``step 250: train loss
3.1234, val loss 3.2345``.

Read in ``train.py`` of nanoGPT (2023 to 2025). Iterations count from 0: that of number N is logged after the update
N + 1, and its loss is that of the batch of this update, so it becomes step N + 1. An evaluation at step N comes
before the update of iteration N, after N updates. The loss is that of the last micro-batch of the first process
alone, put back to scale: noisier than that of the batch, not biased. The loss on the train data in an evaluation is
a mean over ``eval_iters`` batches; it is kept as ``train_loss_estimate`` and used only if asked for.

The batch size comes from "tokens per iteration will be: 491,520", which counts all devices and the accumulation. The
learning rate is not printed.
"""

import re
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import nothing_found, opening, read_text_log
from ebfit.runs.formats.text_rows import rows_of_matches
from ebfit.runs.raw_log import RawLog

NAME = "nanogpt"
TRAINER = "nanoGPT"
EXAMPLE = "iter 10: loss 4.1234, time 123.45ms, mfu 12.34%"

_RECORD = re.compile(
    rb"iter +(?P<index>\d+): loss (?P<loss>[^\s,]+), time "
    rb"|step +(?P<step>\d+): train loss (?P<train_loss_estimate>[^\s,]+), "
    rb"val loss (?P<val_loss>[^\s,]+?)(?=[\s,]|iter |$)"
)
_ANCHORS = (b": loss ", b": train loss ")
_SETTINGS = {
    b"tokens per iteration will be: ": re.compile(
        rb"tokens per iteration will be: (?P<batch_tokens>[\d,]+)(?=\s|$)"
    )
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds an iteration or an evaluation of nanoGPT."""
    log = opening(head, path)
    return log is not None and any(True for _ in log.matches(_RECORD, *_ANCHORS))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no iteration in it.
    """
    log = read_text_log(path)
    rows = rows_of_matches(log, _RECORD, *_ANCHORS)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=1)
