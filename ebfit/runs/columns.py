"""Which column of a log plays which role: step, tokens, losses, learning rate, batch size.

Names are compared without case and separators, repeated words once: ``train/train_loss``, ``Train Loss`` and
``train_loss`` are the same. Within a role the tiers go from the surest name to the least.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ebfit.errors import BadInputError
from ebfit.runs.raw_log import Cells, NotALogError, numbers

ROLES = ("step", "tokens", "loss", "val", "lr", "batch_tokens", "batch_sequences", "seed")

_ALIASES: dict[str, tuple[str, ...]] = {
    "step": (
        "global_step trainer_global_step train_global_step",
        "step train_step",
        "iteration iterations iter train_iter train_iteration num_updates",
    ),
    "tokens": (
        "tokens consumed_tokens num_tokens tokens_seen total_tokens train_tokens consumed_train_tokens "
        "train_tokens_seen num_tokens_seen throughput_total_tokens num_input_tokens_seen "
        "train_num_input_tokens_seen n_tokens_seen",
    ),
    "loss": (
        "lm_loss train_lm_loss lm_loss_training_lm_loss ce_loss train_ce_loss train_crossentropyloss",
        "train_loss loss_train training_loss train_loss_step loss_train_total loss_metrics_global_avg_loss "
        "learning_loss reduced_train_loss",
        "loss",
        "train",
    ),
    "val": (
        "val_loss validation_loss valid_loss eval_loss dev_loss loss_val loss_validation loss_valid loss_eval "
        "val_lm_loss eval_lm_loss validation_lm_loss lm_loss_validation lm_loss_validation_lm_loss_validation "
        "validation_metrics_loss metrics_eval_languagecrossentropy",
        "val validation valid",
        "test_loss",
    ),
    "lr": (
        "lr learning_rate learning_rate_learning_rate learning_current_learning_rate",
        "train_lr train_learning_rate optim_lr optim_learning_rate",
    ),
    "batch_tokens": (
        "batch_tokens batch_size_in_tokens batch_size_tokens tokens_per_step tokens_per_batch "
        "global_batch_tokens global_batch_size_tokens",
        "b",
    ),
    "batch_sequences": (
        "batch_sequences global_batch_size gbs global_batch_size_sequences",
        "batch_size batch_size_batch_size",
    ),
    "seed": ("seed",),
}
# Names with a changing part: one data set or optimizer group of several.
_LOOSE = {
    "val": re.compile(
        r"(eval|val|valid|validation)_.*(loss|crossentropyloss|cross_entropy|ce)(_epoch)?(_dataloader_idx_\d+)?"
    ),
    "lr": re.compile(r"((train|optim)_)?(lr|learning_rate)_(adam|adamw|muon|sgd|lion|group|pg)\w*"),
}
_TIERS = {role: tuple(frozenset(tier.split()) for tier in tiers) for role, tiers in _ALIASES.items()}
_KNOWN = frozenset().union(*(tier for tiers in _TIERS.values() for tier in tiers))
_SPARSE = 0.05  # share of the numbers of the fullest column of a role below which another does not count
_NEARLY_WHOLE = 0.01  # steps
WANDB_STEP = "_step"
# What a loss pattern must not take: averages over weights, best-so-far values, parts of the loss.
_NOT_A_LOSS = re.compile(r"(?:^|_)(?:best|min|max|ema|wa|aux|z|router|balancing)(?:_|$)")


@lru_cache(maxsize=2**17)  # every role asks for all names, and tables of layers have very many
def normalised(name: str) -> str:
    """Return a column name as it is compared: lower case, words joined by ``_``, no word twice in a row."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    pieces = "_".join(words).split("_")
    return "_".join(word for index, word in enumerate(pieces) if index == 0 or word != pieces[index - 1])


def step_column(names: Sequence[str]) -> str | None:
    """Return the name of the surest step column, or None."""
    return surest_column("step", names)


def surest_column(role: str, names: Sequence[str]) -> str | None:
    """Return the name of the column that most surely plays a role, or None."""
    tiers = _tiers(role, names)
    return names[tiers[0][0]] if tiers else None


def look_like_a_log(names: Sequence[str]) -> bool:
    """Tell whether any of these column names is one of a step or a loss."""
    return any(_tiers(role, names) for role in ("step", "loss", "val"))


def may_have_a_role(name: str) -> bool:
    """Tell whether a column of this name may be picked, unless the user names others."""
    plain = normalised(name)
    return plain in _KNOWN or any(_is_loosely(role, plain) for role in _LOOSE)


@dataclass
class Columns:
    """The columns of a log by role, as numbers.

    Attributes
    ----------
    names : dict
        Role -> the column's name in the log; roles without a column are absent.
    cells : dict
        Role -> the column's cells.
    warnings : list of str
        Choices between several columns, in plain sentences.
    """

    names: dict[str, str] = field(default_factory=dict)
    cells: dict[str, Cells] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def values(self, role: str) -> Any:
        """Return a role's numbers, shape (rows,), or None."""
        return self.cells[role].values if role in self.cells else None


def pick_columns(table: Any, wanted: Mapping[str, str]) -> Columns:
    """Find the columns of a log.

    Parameters
    ----------
    table : pyarrow.Table
        The rows of a log.
    wanted : mapping
        Role -> column name, where the user decides (``--columns``).

    Raises
    ------
    BadInputError
        If a wanted column is absent, there is no step or loss column, or no loss column is clearly the one.
    NotALogError
        If there is neither a step nor a loss column.
    """
    names = list(table.column_names)
    columns = Columns()
    for role in ROLES:
        if role in wanted:
            columns.names[role] = wanted[role]
            columns.cells[role] = numbers(table.column(_index_of(wanted[role], role, names)))
        else:
            _pick(role, table, names, columns)
    if "step" not in columns.names:
        _steps_by_tokens(columns)
    has_loss = "loss" in columns.names or "val" in columns.names
    if "step" in columns.names and has_loss:
        return columns
    found = _listed(names)
    for role in ("step",) if has_loss else ("loss", "val"):
        for tier in _tiers(role, names)[:1]:
            if role not in columns.names and numbers(table.column(tier[0])).empty.all():
                raise BadInputError(
                    f"the column '{names[tier[0]]}' is empty. Name another with --columns {role}=NAME."
                )
    if "step" in columns.names:
        candidates = [names[index] for tier in _tiers("val", names) for index in tier]
        if candidates:
            raise BadInputError(
                f"several columns could be the loss ({_listed(candidates, 3)}). "
                f"Choose one with --columns 'val={candidates[0]}'."
            )
        raise BadInputError(f"no loss column among {found}. Name it with --columns loss=NAME.")
    if has_loss:
        tokens = columns.names.get("tokens")
        count = (
            f" The tokens in '{tokens}' tell the steps only beside a column batch_tokens that goes with them."
            if tokens is not None
            else ""
        )
        raise BadInputError(f"no step column among {found}. Name it with --columns step=NAME.{count}")
    raise NotALogError(
        f"neither a step nor a loss column among {found}. Name them with --columns step=NAME,loss=NAME."
    )


def _pick(role: str, table: Any, names: Sequence[str], columns: Columns) -> None:
    """Take the surest column of a role; say so where others of that role say something else."""
    taken = {name for other, name in columns.names.items() if other != role}
    candidates = []
    for tier, indices in enumerate(_tiers(role, names)):
        for index in indices:
            if names[index] in taken:
                continue
            cells = numbers(table.column(index))
            if np.isfinite(cells.values).any() or not cells.empty.all():
                candidates.append((tier, index, cells))
    if not candidates:
        return
    counts = [int(np.count_nonzero(np.isfinite(cells.values))) for _, _, cells in candidates]
    # A column with next to no numbers beside a full one is a summary, such as the mean over the run at its end.
    candidates = [
        found for found, count in zip(candidates, counts, strict=True) if count >= _SPARSE * max(counts)
    ]
    tier, index, cells = candidates[0]
    others = [names[i] for _, i, other in candidates[1:] if not _same(cells, other)]
    if role == "val" and any(t == tier for t, i, _ in candidates[1:] if names[i] in others):
        # Losses on different data sets: none is the one, and a wrong guess would not be noticed.
        columns.warnings.append(
            f"several columns could be the validation loss ({_listed([names[index], *others], 3)}); none was "
            f"used. Choose one with --columns 'val={names[index]}'."
        )
        return
    if others and role in ("step", "loss", "val", "tokens"):
        what = {"loss": "train loss", "val": "validation loss"}.get(role, role)
        columns.warnings.append(
            f"the {what} is taken from column '{names[index]}', not {_listed(others, 2)}; "
            f"--columns {role}=NAME decides otherwise."
        )
    if names[index] == WANDB_STEP and _counts_calls(cells):
        columns.warnings.append(
            f"'{WANDB_STEP}' counts the calls of W&B's log function. Unless the trainer logs once at every update, "
            "these are no optimizer steps: export the trainer's own step, too, or as the X axis of the chart."
        )
    columns.names[role] = names[index]
    columns.cells[role] = cells


def _steps_by_tokens(columns: Columns) -> None:
    """Take steps from a count of tokens, where the tokens of a step stand beside it and are the same all along."""
    if "tokens" not in columns.names or "batch_tokens" not in columns.names:
        return
    sizes = columns.cells["batch_tokens"].values
    sizes = np.unique(sizes[np.isfinite(sizes)])
    if len(sizes) != 1 or sizes[0] <= 0:
        return
    tokens = columns.cells["tokens"]
    steps = tokens.values / sizes[0]
    whole = np.round(steps)
    if (np.abs(steps - whole)[np.isfinite(steps)] > _NEARLY_WHOLE).any():
        return
    name = f"{columns.names['tokens']} / {columns.names['batch_tokens']}"
    columns.names["step"], columns.cells["step"] = name, Cells(whole, tokens.empty)
    columns.warnings.append(f"there is no step column; steps were computed as {name}.")


def _tiers(role: str, names: Sequence[str]) -> list[list[int]]:
    """Return column indices by tier, surest first; empty tiers are left out."""
    return _tiers_of(role, tuple(names))


@lru_cache(maxsize=200)  # the logs of a sweep all have the same columns
def _tiers_of(role: str, names: tuple[str, ...]) -> list[list[int]]:
    plain = [normalised(name) for name in names]
    tiers = [
        sorted(
            (i for i, name in enumerate(plain) if name in tier),
            key=lambda i: names[i].startswith("_"),
        )
        for tier in _TIERS[role]
    ]
    if role == "step":
        # W&B's own `_step` counts calls of its log function: any other step column is surer.
        own = [i for tier in tiers for i in tier if names[i].startswith("_")]
        tiers = [[i for i in tier if i not in own] for tier in tiers] + [own]
    if role in _LOOSE:
        known = {i for tier in tiers for i in tier}
        tiers.append([i for i, name in enumerate(plain) if i not in known and _is_loosely(role, name)])
    return [tier for tier in tiers if tier]


def _is_loosely(role: str, plain: str) -> bool:
    """Tell whether a name, as it is compared, is one with a changing part."""
    return _LOOSE[role].fullmatch(plain) is not None and not (role == "val" and _NOT_A_LOSS.search(plain))


def _counts_calls(cells: Cells) -> bool:
    """Tell whether steps may be a count of log calls: those of a trainer that logs every so many updates are not."""
    steps = cells.values[np.isfinite(cells.values) & (np.abs(cells.values) < 1e15)]
    return len(steps) > 1 and bool(np.gcd.reduce(np.diff(steps).astype(np.int64)) == 1)


def _index_of(name: str, role: str, names: Sequence[str]) -> int:
    if names.count(name) > 1:
        raise BadInputError(
            f"the column '{name}' occurs {names.count(name)} times. Rename one in the header."
        )
    if name in names:
        return names.index(name)
    alike = [index for index, other in enumerate(names) if normalised(other) == normalised(name)]
    if len(alike) == 1:
        return alike[0]
    raise BadInputError(f"--columns {role}={name}: no such column; found are {_listed(names)}.")


def _same(one: Cells, other: Cells) -> bool:
    both = np.isfinite(one.values) & np.isfinite(other.values)
    return bool(both.any() and np.allclose(one.values[both], other.values[both], rtol=1e-6, atol=0))


def _listed(names: Sequence[str], at_most: int = 8) -> str:
    shown = ", ".join(f"'{name[:60]}'" for name in names[:at_most])
    return shown + (f" and {len(names) - at_most} more" if len(names) > at_most else "")
