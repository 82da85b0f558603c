"""Console logs of GPT-NeoX, and of the first versions of Megatron-LM that it goes back to.

As those of `megatron`, without what was consumed and without the batch size: `` samples/sec: 123.4 | iteration 100/
1000 | elapsed time per iteration (ms): .. | learning rate: 1.0E-04 | .. | lm_loss: 2.3E+00 | ..``, and ``
validation results at iteration 1000 | lm_loss value: 2.3E+00 | ..``.

Read in ``logging.py``, ``training.py`` and ``neox_arguments/arguments.py`` of GPT-NeoX, 2021 to 2025. Iterations count
from 1; the loss is the mean over all since the line before. The batch size is the ``train_batch_size`` of the
arguments that are printed at the start: it counts sequences, over all devices and accumulation steps (``batch_size``
there is that of one device and step). Without them it must be given.
"""

from pathlib import Path

from ebfit.runs.formats import megatron
from ebfit.runs.formats.printed_settings import Settings
from ebfit.runs.formats.text_lines import nothing_found, opening, read_text_log
from ebfit.runs.raw_log import RawLog

NAME = "neox"
TRAINER = "GPT-NeoX"
EXAMPLE = "samples/sec: 98.2 | iteration 100/ 1000 | .. | learning rate: 1.0E-04 | .. | lm_loss: 2.3E+00 | .."

_SETTINGS: Settings = {
    **megatron.setting("seq_length", "seq_len"),
    **megatron.setting("train_batch_size", "batch_sequences"),
    **megatron.setting("lr", "lr"),
    **megatron.setting("seed", "seed"),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text with iterations that do not count samples or tokens."""
    log = opening(head, path)
    if log is None:
        return False
    records = log.records(megatron.START, *megatron.ANCHORS)
    counted = [megatron.counts_samples(record) for record in records if megatron.is_iteration(record)]
    return bool(counted) and not any(counted)


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log, one after the other.

    Raises
    ------
    NotALogError
        If there is no iteration in it.
    """
    log = read_text_log(path)
    rows = megatron.iterations(log)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return megatron.runs_of(rows, log, path, _SETTINGS)
