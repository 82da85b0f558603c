"""Settings besides batch size and seed in which runs of one fit differ."""

from collections.abc import Sequence

import numpy as np

from ebfit.mixed.common_steps import BoolArray
from ebfit.runs import Run
from ebfit.selection import distinct
from ebfit.text import listed

_SAME_RATE = 1.01
_WAYS_OUT = {
    "lr": ("learning rates", "--select lr=VALUE, --group-by lr, or --best-lr"),
    "model": ("models", "--group-by model, or --select model=NAME"),
    "data": ("data", "--group-by data, or --select data=NAME"),
    "seq_len": ("sequence lengths", "--group-by seq_len, or --select seq_len=N"),
}


def mixed_settings(runs: Sequence[Run], best_lr: bool) -> list[str]:
    """Return sentences on what runs of one fit differ in besides batch size and seed, and what to do.

    Parameters
    ----------
    runs : sequence of Run
    best_lr : bool
        Whether different learning rates are provided for.
    """
    sentences = []
    for key, (what, way_out) in _WAYS_OUT.items():
        values = distinct(runs, key)
        if key == "lr" and (best_lr or (values and float(values[-1]) <= _SAME_RATE * float(values[0]))):
            continue
        if len(values) < 2:
            continue
        sentences.append(
            f"the runs have different {what} ({listed(values)}), and the law holds for runs that differ in batch "
            f"size alone: give `ebfit fit` {way_out}."
        )
    return sentences


def same_rate(runs: Sequence[Run]) -> BoolArray:
    """Tell which runs have one learning rate, as far as a few digits tell; shape (R, R), no where it is not known."""
    rates = np.array([np.nan if run.lr is None else run.lr for run in runs], dtype=float)
    return np.maximum(rates[:, None], rates) <= _SAME_RATE * np.minimum(rates[:, None], rates)


def may_be_compared(runs: Sequence[Run]) -> BoolArray:
    """Tell of which runs nothing says that they are of different models or data; shape (R, R)."""
    comparable = np.ones((len(runs), len(runs)), dtype=bool)
    for values in ([run.model for run in runs], [run.data for run in runs]):
        number = {value: index for index, value in enumerate(dict.fromkeys(values))}
        codes = np.array([-1 if value is None else number[value] for value in values])
        comparable &= (codes[:, None] == codes) | (codes[:, None] < 0) | (codes < 0)
    return comparable
