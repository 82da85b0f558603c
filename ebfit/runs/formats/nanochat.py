"""The console log of pre-training with karpathy/nanochat, and of autoresearch, which prints the same without newlines.

A step prints as ``step 00010/21400 (0.05%) | loss: 7.123456 | lrm: 1.00 | dt: ..``, an evaluation as ``Step 00250 |
Validation bpb: 1.234567``.

Read in ``scripts/base_train.py`` of nanochat (2025 and 2026). Steps count from 0: that of number N is printed after the
update N + 1, so it becomes step N + 1. An evaluation at step N comes after N updates. The loss is an exponential moving
average over steps, with a weight of 0.9 of the past and without its bias to 0 at the start, of the last micro-batch of
the first process; every step prints. Validation is in bits per byte, which is no loss in nats per token: it is kept as
``val_bpb`` and used only if asked for.

``lrm`` multiplies all learning rates, 1 on the plateau; "Scaling LRs by .." tells a further factor for the batch
size. Their product is the learning rate here, relative to that of nanochat's reference batch. The batch size comes from
"Total batch size 524,288 => ..", in tokens; the sequence length from "Tokens / micro-batch / rank: 32 x 2048".
"""

import re
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import TextLog, nothing_found, number, opening, read_text_log
from ebfit.runs.formats.text_rows import rows_of_matches
from ebfit.runs.raw_log import RawLog

NAME = "nanochat"
TRAINER = "nanochat"
EXAMPLE = "step 00010/21400 (0.05%) | loss: 7.123456 | lrm: 1.00 | dt: 410.12ms | tok/sec: 1,278,353"

_EMA = 0.9
_RECORD = re.compile(
    # The next step on the line has the next bracket.
    rb"step (?P<index>\d+)(?:/\d+)? \([\d.]+%\) \| loss: (?P<loss>\S+) \|(?:[^(\r\n]*?\blrm: (?P<lr>\S+) \|)?"
    rb"|Step (?P<step>\d+) \| Validation bpb: (?P<val_bpb>\S+?)(?=\s|step |$)"
)
_ANCHORS = (b" | loss: ", b" | Validation bpb: ")
_LR_SCALE = re.compile(rb"Scaling LRs by (?P<scale>\S+) for batch size")
_SETTINGS = {
    b"Total batch size ": re.compile(rb"Total batch size (?P<batch_tokens>[\d,]+) =>"),
    b"Tokens / micro-batch / rank: ": re.compile(rb"Tokens / micro-batch / rank: \d+ x (?P<seq_len>\d+) ="),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step or an evaluation of nanochat."""
    log = opening(head, path)
    return log is not None and any(True for _ in log.matches(_RECORD, *_ANCHORS))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step in it.
    """
    log = read_text_log(path)
    rows = rows_of_matches(log, _RECORD, *_ANCHORS)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    if "lr" in rows.columns:
        lr = rows.columns["lr"]
        rows.columns["lr"] = lr._replace(values=lr.values * _lr_scale(log))
    warnings: list[str] = []
    if "val_bpb" in rows.columns:
        warnings.append(
            "validation is in bits per byte, which is no loss in nats per token, and was not used. --columns "
            "val=val_bpb fits it all the same; targets are in bits per byte then."
        )
    return runs_with_settings(rows, log, path, _SETTINGS, train_ema=_EMA, warnings=warnings)


def _lr_scale(log: TextLog) -> float:
    found = _LR_SCALE.search(log.data)
    scale = number(found["scale"]) if found else 1.0
    return scale if scale > 0 else 1.0
