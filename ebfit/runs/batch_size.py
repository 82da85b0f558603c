"""How many tokens a run takes per step, and where that is known from.

The sources, first hit wins: the manifest, a batch-size column, the tokens column (tokens per step), a run.json or
config, the file or folder name, ``--batch-tokens``. All of them are looked at, so that a disagreement shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ebfit.errors import BadInputError
from ebfit.runs.columns import Columns
from ebfit.runs.curves import in_step_order
from ebfit.runs.facts import Facts
from ebfit.runs.names import batch_in_name
from ebfit.runs.run import FloatArray

# Batch sizes that differ by less, relative to each other, agree.
_AGREE = 1e-3
# Odd increments of a tokens column are glitches, not another batch size, if they are few. One wrong cell makes two.
_GLITCH = 0.02


@dataclass(frozen=True)
class BatchSize:
    """Tokens per step with its source in words; `tokens` is NaN where no source knows."""

    tokens: float
    source: str
    warnings: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Claim:
    """What one source says."""

    tokens: float
    source: str
    tolerance: float = _AGREE
    rounded: bool = False
    unit_guessed: bool = False


class BatchSizeChangesError(BadInputError):
    """The batch size changes within the stable phase: the run lies on no ray E = B S."""


def find_batch_size(
    path: Path,
    label: str,
    columns: Columns,
    steps: FloatArray,
    stable: tuple[int, int],
    manifest_row: Facts | None,
    written: Sequence[Facts],
    seq_len: int | None,
    option: float | None,
) -> BatchSize:
    """Find the batch size of a run.

    Parameters
    ----------
    path : Path
        The log file, for what its name and folders say.
    label : str
        Which run this is, where one file holds several: says more than the file's name.
    columns : Columns
        The columns of the log.
    steps : ndarray, shape (rows,)
        Step of every row, NaN where it has none.
    stable : tuple of int
        First and last step of the stable phase, within which the batch size must not change.
    manifest_row : Facts or None
        The row of the manifest about this log.
    written : sequence of Facts
        What a run.json beside the log and a config inside it say.
    seq_len : int or None
        Tokens per sequence.
    option : float or None
        What ``--batch-tokens`` says.

    Raises
    ------
    BatchSizeChangesError
        If the batch size changes in the stable phase.
    BadInputError
        If no source knows the batch size. The sentences lack the file.
    """
    warnings: list[str] = []
    hints: list[str] = []
    claims: list[_Claim] = []
    if manifest_row is not None:
        claims += _from_facts(manifest_row, seq_len, hints)
    by_tokens = _from_tokens(columns, steps, stable, warnings)
    claims += _from_batch_column(columns, steps, stable, seq_len, by_tokens, warnings, hints)
    if by_tokens is not None and not by_tokens.rounded:
        claims.append(by_tokens)
    for facts in written:
        claims += _from_facts(facts, seq_len, hints)
    claims += _from_name(path, label, seq_len, claims, warnings)
    if option is not None:
        claims.append(_Claim(option, "--batch-tokens"))
    if by_tokens is not None and by_tokens.rounded:
        # Not to be believed where another source is exact, but better than nothing, and a check.
        claims.append(by_tokens)
    if not claims:
        hint = f" {hints[0]}" if hints else ""
        raise BadInputError(
            f"no batch size found.{hint} Name it per run: in the file or folder name, such as bs64 (sequences, with "
            "--seq-len), in a --manifest (a CSV with path,batch_tokens), or in a batch_tokens or tokens column. "
            "--batch-tokens is for runs that all have one."
        )
    best = claims[0]
    if best.rounded:
        warnings.append(
            f"the tokens column is rounded: the batch size is known to about {best.tolerance:.1%} only. Give "
            "--batch-tokens."
        )
    warnings += _micro_steps_warning(claims, by_tokens)
    for other in claims[1:]:
        if abs(other.tokens / best.tokens - 1) > max(best.tolerance, other.tolerance):
            warnings.append(
                f"the batch size is {best.tokens:g} tokens by the {best.source}, but {other.tokens:g} by the "
                f"{other.source}; the first was used."
            )
    if best.tokens < 1.0:
        raise BadInputError(
            f"a batch size of {best.tokens:.3g} tokens ({best.source}) is less than one token: the number seems to "
            "count millions or billions. Give --batch-tokens and, if a column is at fault, another with --columns."
        )
    warnings += _offset_warning(columns, steps, best.tokens, stable)
    assumptions = [NAMED_IN_TOKENS] if best.unit_guessed else []
    return BatchSize(best.tokens, best.source, warnings, assumptions)


def _from_facts(facts: Facts, seq_len: int | None, hints: list[str]) -> list[_Claim]:
    if facts.batch_tokens is not None:
        return [_Claim(facts.batch_tokens, facts.source)]
    if facts.batch_sequences is None:
        hints += [facts.batch_hint] if facts.batch_hint else []
        return []
    if seq_len is None:
        hints.append(f"The {facts.source} counts sequences: give --seq-len.")
        return []
    return [_Claim(facts.batch_sequences * seq_len, facts.source)]


def _from_batch_column(
    columns: Columns,
    steps: FloatArray,
    stable: tuple[int, int],
    seq_len: int | None,
    by_tokens: _Claim | None,
    warnings: list[str],
    hints: list[str],
) -> list[_Claim]:
    claims = []
    for role in ("batch_tokens", "batch_sequences"):
        values = columns.values(role)
        if values is None:
            continue
        name = columns.names[role]
        usable = (steps > 0) & (values > 0)
        inside = usable & (steps >= stable[0]) & (steps <= stable[1])
        if not inside.any():
            continue
        size = float(np.median(values[inside]))
        _check_constant(values[inside], size, f"column '{name}'")
        if (np.abs(values[usable & (steps < stable[0])] / size - 1) > _AGREE).any():
            warnings.append(_CHANGED_BEFORE)
        factor: float | None = 1.0
        if role == "batch_sequences" or _counts_sequences(name, size, seq_len, by_tokens):
            factor = seq_len
            if by_tokens is not None and abs(by_tokens.tokens / size - 1) <= by_tokens.tolerance:
                factor = 1.0  # the tokens column shows that it counts tokens
        if factor is None:
            hints.append(
                f"Column '{name}' counts sequences: give --seq-len, or --columns batch_tokens={name} if it counts "
                "tokens."
            )
            continue
        claims.append(_Claim(size * factor, f"column '{name}'"))
    return claims


def _counts_sequences(name: str, size: float, seq_len: int | None, by_tokens: _Claim | None) -> bool:
    """Tell whether a column called just B counts sequences, as the tokens column beside it shows."""
    if name.lower() != "b" or seq_len is None or by_tokens is None:
        return False
    return abs(by_tokens.tokens / (size * seq_len) - 1) <= by_tokens.tolerance


NAMED_IN_TOKENS = (
    "batch sizes in names are taken for tokens per step. If they count sequences, as bs64 mostly does, give "
    "--seq-len."
)
_CHANGED_BEFORE = (
    "the batch size changed before the stable phase, so that the tokens spent are not batch size times steps; the "
    "batch size of the stable phase was used."
)


def _check_constant(sizes: FloatArray, usual: float, source: str) -> None:
    if (np.abs(sizes / usual - 1) > _AGREE).any():
        raise BatchSizeChangesError(
            f"the batch size changes in the stable phase, between {sizes.min():.6g} and {sizes.max():.6g} ({source}), "
            "so the run lies on no ray E = B S. Leave it out, or cut the change off with --warmup-steps or "
            "--stable-until."
        )


def _from_tokens(
    columns: Columns, steps: FloatArray, stable: tuple[int, int], warnings: list[str]
) -> _Claim | None:
    """Take tokens per step from the increments of the tokens column."""
    tokens = columns.values("tokens")
    if tokens is None:
        return None
    rows = np.flatnonzero((steps >= 0) & (tokens >= 0))
    ordered = in_step_order(steps, rows)
    inside = (ordered.steps >= stable[0]) & (ordered.steps <= stable[1])
    if np.count_nonzero(inside) < 2:
        return None
    at, counts = ordered.steps[inside], tokens[ordered.rows[inside]]
    source = f"column '{columns.names['tokens']}' (tokens per step)"
    overall = float((counts[-1] - counts[0]) / (at[-1] - at[0]))
    off_line = float(np.abs(counts - counts[0] - overall * (at - at[0])).max())
    if off_line < _AGREE * overall:
        return _Claim(overall, source)
    gaps = np.diff(at)
    slopes = np.diff(counts) / gaps
    middle = float(np.median(slopes))
    if middle > 0:
        odd = np.abs(slopes / middle - 1) > _AGREE
        if np.count_nonzero(odd) <= max(2, _GLITCH * len(odd)) and not odd[-1]:
            return _Claim(middle, source)
    # The increments differ: the column is rounded, or the batch size changes.
    rounding = _rounding(counts)
    if overall > 0 and off_line <= 1.1 * rounding:
        return _Claim(overall, source, max(_AGREE, rounding / (counts[-1] - counts[0])), rounded=True)
    if overall <= 0:
        warnings.append(
            f"the column '{columns.names['tokens']}' does not rise with the steps and was not used."
        )
        return None
    _check_constant(slopes[slopes > 0], middle if middle > 0 else overall, source)
    return None


def _rounding(counts: FloatArray) -> float:
    """Return the width of the steps in which a rounded column counts late in the run.

    It may be rounded to significant digits ("1.23e9") or to a unit ("1234 million"); both are looked for.
    """
    sample = np.unique(counts[counts > 0])
    if sample.size == 0:
        return 0.0
    sample = sample[:: 1 + sample.size // 1000]
    exponents = np.floor(np.log10(sample))
    digits = next((d for d in range(1, 16) if _are_multiples(sample, 10 ** (exponents - d + 1))), 16)
    unit = next((10.0**k for k in range(int(exponents[0]), 0, -1) if _are_multiples(sample, 10.0**k)), 1.0)
    return float(max(10 ** (exponents[-1] - digits + 1), unit))


def _are_multiples(values: FloatArray, units: FloatArray | float) -> bool:
    ratio = values / units
    return bool((np.abs(ratio - np.round(ratio)) < 1e-6 * np.maximum(ratio, 1)).all())


def _from_name(
    path: Path, label: str, seq_len: int | None, better: Sequence[_Claim], warnings: list[str]
) -> list[_Claim]:
    """Take the batch size from the name of run, file or folder; better sources tell its unit where it does not."""
    named = batch_in_name(path, label)
    if named is None or named.size <= 0:
        return []
    readings = {"tokens": named.size}
    if seq_len is not None:
        readings["sequences"] = named.size * seq_len
    if named.unit is not None:
        readings = {unit: tokens for unit, tokens in readings.items() if unit == named.unit}
    for claim in better[:1]:
        agreeing = [
            unit for unit, tokens in readings.items() if abs(claim.tokens / tokens - 1) <= claim.tolerance
        ]
        if agreeing:
            readings = {agreeing[0]: readings[agreeing[0]]}
        elif named.unit is None and seq_len is None and (claim.tokens / named.size) % 1 == 0:
            warnings.append(
                f"the name seems to give the batch size in sequences, going by the {claim.source}, which was used. "
                "With --seq-len the two are checked against each other."
            )
            return []
    if not readings:
        return []
    unit = "sequences" if "sequences" in readings else "tokens"
    guessed = named.unit is None and seq_len is None
    return [_Claim(readings[unit], f"name ('{named.text}' {unit})", unit_guessed=guessed)]


def _micro_steps_warning(claims: Sequence[_Claim], by_tokens: _Claim | None) -> list[str]:
    """Notice a step column that counts micro-batches: the tokens per step are then a whole part of the batch."""
    if by_tokens is None:
        return []
    for claim in claims:
        ratio = claim.tokens / by_tokens.tokens
        micro_steps = round(ratio)
        if (
            claim is not by_tokens
            and micro_steps >= 2
            and abs(ratio / micro_steps - 1) <= by_tokens.tolerance
        ):
            return [
                f"the {by_tokens.source} is a {micro_steps}th of the {claim.source}: the steps seem to count "
                f"micro-batches, {micro_steps} to an optimizer update. Add --micro-steps {micro_steps}."
            ]
    return []


def _offset_warning(
    columns: Columns, steps: FloatArray, batch_tokens: float, stable: tuple[int, int]
) -> list[str]:
    """Check the tokens counted so far against batch size times steps."""
    tokens = columns.values("tokens")
    if tokens is None:
        return []
    rows = np.flatnonzero((steps > 0) & (steps <= stable[1]) & (tokens > 0))
    if rows.size == 0:
        return []
    last = rows[np.argmax(steps[rows])]
    expected = batch_tokens * steps[last]
    counted = float(tokens[last])
    off = abs(counted - expected) - 0.01 * expected - batch_tokens
    if off <= 0 or off <= _rounding(tokens[rows]):
        return []
    return [
        f"column '{columns.names['tokens']}' counts {counted:.4g} tokens at step {steps[last]:.0f}, where batch size "
        f"times steps is {expected:.4g}: the batch size changed, or steps are not optimizer updates."
    ]
