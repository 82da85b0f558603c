"""MaxText's log.

A step prints as ``completed step: 10, seconds: 1.234, TFLOP/s/device: .., Tokens/s/device: .., total_weights: 65536,
loss: 4.123, lm_loss: ..``, an evaluation as ``Completed eval after train step 10, loss=4.123, ..`` (before 2026:
``eval metrics after step: 10, loss=..``).

Read in MaxText 0.2.5 (``common/metric_logger.py``, ``trainers/pre_train/train.py``, ``configs/pyconfig.py``). Steps
count from 0: that of number N is the update N + 1, and so becomes step N + 1; an evaluation "after step N" comes
after that update, and becomes N + 1, too. The loss is that of the batch of that step alone, with terms for balancing
and the like added; ``lm_loss``, where printed, is without them, and is preferred (it prints as 0.000 where there is
none).

``total_weights`` counts the tokens of the step that the loss is a mean over, without padding. Where it wavers by
little, its mean is the batch size. The learning rate is not printed; warmup and the start of the decay come from the
settings ("Config param ..") that MaxText prints at the start.
"""

import re
from dataclasses import replace
from pathlib import Path

from ebfit.runs.facts import Facts
from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import TextLog, nothing_found, number, opening, read_text_log
from ebfit.runs.formats.text_rows import first_of, rows_of_matches
from ebfit.runs.raw_log import Cells, RawLog, numbers

NAME = "maxtext"
TRAINER = "MaxText"
EXAMPLE = (
    "completed step: 10, seconds: 1.234, TFLOP/s/device: 85.123, Tokens/s/device: 12912.300, total_weights: 65536, "
    "loss: 4.123"
)

_RECORD = re.compile(
    rb"completed (?:profiler activation/deactivation )?step: (?P<index>\d+)"
    rb"(?:[^\r\n]{0,300}?, total_weights: (?P<batch_tokens>[^\s,]+))?"
    rb"[^\r\n]{0,300}?, loss: (?P<loss>[^\s,]+?)(?=[\s,]|completed|$)"
    rb"(?:[^\r\n]{0,300}?, lm_loss: (?P<lm_loss>[^\s,]+?)(?=[\s,]|completed|$))?"
    rb"|(?:Completed eval after train step|eval metrics after step:) (?P<val_index>\d+), loss=(?P<val_loss>[^\s,]+)"
)
_ANCHORS = (b"completed step: ", b"deactivation step: ")
_CONFIG = re.compile(rb"Config param (?P<name>\w+): (?P<value>\S+)")
_SETTINGS = {
    b"Config param max_target_length: ": re.compile(rb"Config param max_target_length: (?P<seq_len>\d+)\s*$"),
    b"Config param learning_rate: ": re.compile(rb"Config param learning_rate: (?P<lr>\S+)\s*$"),
}
_PADDING = 0.2  # total_weights that differ by less differ by padding, not by the batch size
_SAME = 1e-3
_MAX_STEPS = 1e12
_TOKENS = "batch_tokens"


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step of MaxText with a loss."""
    log = opening(head, path)
    return log is not None and any(match["loss"] for match in log.matches(_RECORD, *_ANCHORS))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step with a loss in it.
    """
    log = read_text_log(path)
    rows = rows_of_matches(log, _RECORD)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    columns = rows.columns
    if "val_index" in columns:
        index = columns.pop("val_index")
        columns["step"] = first_of(columns["step"], Cells(index.values + 1, index.empty))
    if "lm_loss" in columns:
        lm_loss = columns["lm_loss"]
        columns["lm_loss"] = Cells(lm_loss.values, lm_loss.empty | (lm_loss.values == 0))
    runs = runs_with_settings(rows, log, path, _SETTINGS, train_window=1)
    config = _config(log)
    return [_with_batch_size(_with_schedule(run, config, path), path) for run in runs]


def _with_batch_size(run: RawLog, path: Path) -> RawLog:
    """Take the mean of token counts that waver with padding for the batch size, in place of the counts."""
    if _TOKENS not in run.table.column_names:
        return run
    counts = numbers(run.table.column(_TOKENS)).values
    counts = counts[counts > 0]
    least, most = (counts.min(), counts.max()) if counts.size else (0.0, 0.0)
    if most <= least * (1 + _SAME) or most > least * (1 + _PADDING):
        return run
    mean = float(counts.mean())
    warning = (
        f"total_weights lie between {least:,.0f} and {most:,.0f}, as with padding; their mean, {mean:,.0f}, is taken "
        "for the tokens of a step."
    )
    facts = replace(run.facts or _no_settings(path), batch_tokens=mean)
    return replace(
        run, table=run.table.drop_columns([_TOKENS]), facts=facts, warnings=[*run.warnings, warning]
    )


def _config(log: TextLog) -> dict[bytes, bytes]:
    """Return the settings that have one value in all of the log."""
    found: dict[bytes, set[bytes]] = {}
    for line in log.matches(_CONFIG):
        found.setdefault(line["name"], set()).add(line["value"])
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _with_schedule(run: RawLog, config: dict[bytes, bytes], path: Path) -> RawLog:
    """Add the ends of warmup and of the stable phase, which the settings give as parts of the schedule."""
    total = number(config.get(b"learning_rate_schedule_steps", b""))
    if not total > 0:
        total = number(config.get(b"steps", b""))
    warmup = total * number(config.get(b"warmup_steps_fraction", b""))
    if not 0 <= warmup <= total <= _MAX_STEPS:
        return run
    if b"cosine" in config.get(b"lr_schedule_type", b"").lower():
        warning = (
            "its learning rate decays as a cosine after warmup, going by the settings in the log, so that no phase of "
            "it is stable; it cannot be compared with runs at a constant learning rate."
        )
        return replace(run, warnings=[*run.warnings, warning])
    facts = replace(run.facts or _no_settings(path), warmup_steps=int(warmup))
    decay = total * number(config.get(b"wsd_decay_steps_fraction", b""))
    if 0 < decay < total:
        facts = replace(facts, decay_start_step=int(total) - int(decay))
    return replace(run, facts=facts)


def _no_settings(path: Path) -> Facts:
    return Facts(f"settings printed in {path.name}")
