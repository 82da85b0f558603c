"""What is written *about* a run, outside its rows: a run.json, a manifest row, a config inside the log."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ebfit.errors import BadInputError
from ebfit.text import short

RUN_JSON = "run.json"
MAX_RUN_JSON_BYTES = 16 * 2**20

# The keys of run.json come first; the others are what trainers call the same thing in their configs. Their
# `batch_size` is not here: it may or may not leave out devices and accumulation, and a guess would be wrong.
_KEYS = {
    "seq_len": ("seq_len", "sequence_length", "seq_length", "max_seq_len", "block_size", "context_length"),
    "batch_tokens": ("batch_tokens",),
    "batch_sequences": ("batch_sequences",),
    "lr": ("lr", "learning_rate"),
    "seed": ("seed",),
    "warmup_steps": ("warmup_steps",),
    "decay_start_step": ("decay_start_step",),
}
_WHOLE = {"seq_len", "seed", "warmup_steps", "decay_start_step"}
_MAY_BE_ZERO = {"seed", "warmup_steps"}


@dataclass(frozen=True)
class Facts:
    """What one source says about a run; None where it says nothing.

    Attributes
    ----------
    source : str
        Where this was written, in words.
    batch_hint : str or None
        A sentence for who has to give the batch size: why the one that stands there is none, and what makes it one.
    """

    source: str
    name: str | None = None
    seq_len: int | None = None
    batch_tokens: float | None = None
    batch_sequences: float | None = None
    lr: float | None = None
    seed: int | None = None
    warmup_steps: int | None = None
    decay_start_step: int | None = None
    model: str | None = None
    data: str | None = None
    train_loss_window: int | Literal["interval"] | None = None
    batch_hint: str | None = None


def facts_from(mapping: Mapping[str, Any], source: str, *, strict: bool) -> Facts:
    """Read the facts out of a mapping.

    Parameters
    ----------
    mapping : mapping
        A run.json, a manifest row, a config.
    source : str
        Where the mapping stands, for messages.
    strict : bool
        Whether a value of the wrong kind is an error (our own files) or is passed over (a trainer's config).

    Raises
    ------
    BadInputError
        If strict, and a value is not a positive number (not negative for a seed or the warmup).
    """
    found: dict[str, Any] = {}
    for fact, keys in _KEYS.items():
        key = next((key for key in keys if mapping.get(key) is not None), None)
        if key is None:
            continue
        value = _number(mapping[key], whole=fact in _WHOLE, zero=fact in _MAY_BE_ZERO)
        if value is not None:
            found[fact] = value
        elif strict:
            kind = "a whole number" if fact in _WHOLE else "a number"
            least = "not below 0" if fact in _MAY_BE_ZERO else "above 0"
            shown = repr(mapping[key])[:40]
            raise BadInputError(f"{source}: {key} must be {kind} {least}, not {shown}. Correct it.")
    if isinstance(mapping.get("name"), str) and mapping["name"].strip():
        found["name"] = mapping["name"].strip()
    found["model"] = _model(mapping)
    found["data"] = _data(mapping, strict=strict)
    window = mapping.get("train_loss_window")
    if window == "interval":
        found["train_loss_window"] = "interval"
    elif window is not None:
        found["train_loss_window"] = _number(window, whole=True, zero=False)
        if found["train_loss_window"] is None and strict:
            raise BadInputError(
                f'{source}: train_loss_window must be a number of steps or "interval", not {window!r}. Correct it.'
            )
    return Facts(source=source, **found)


def _model(mapping: Mapping[str, Any]) -> str | None:
    """Return what tells a model from others: its name, its number of parameters, or all its sizes."""
    model = next((mapping[key] for key in ("model", "model_name") if mapping.get(key)), None)
    parameters = mapping.get("parameters")
    if isinstance(model, str):
        return model.strip() or None
    if isinstance(parameters, int) and not isinstance(parameters, bool) and parameters > 0:
        return f"{short(parameters)} parameters"
    return _written_out(model) if isinstance(model, Mapping) else None


def _data(mapping: Mapping[str, Any], *, strict: bool) -> str | None:
    """Return what tells a data set from others: its name, its kind and checksum, or all that is said of it."""
    data = next((mapping[key] for key in ("data", "dataset") if mapping.get(key)), None)
    if isinstance(data, str):
        return data.strip() or None
    # In a trainer's config a mapping holds settings of loading, too, such as a batch size.
    if not strict or not isinstance(data, Mapping):
        return None
    named = [data[key] for key in ("kind", "name", "tokenizer") if isinstance(data.get(key), str)]
    checksums = [data[key][:8] for key in ("sha256", "validation_sha256") if isinstance(data.get(key), str)]
    return " ".join(named + checksums) if checksums else _written_out(data)


def _written_out(mapping: Mapping[str, Any]) -> str | None:
    plain = {key: value for key, value in mapping.items() if isinstance(value, int | float | str)}
    return " ".join(f"{key}={plain[key]}" for key in sorted(plain)) or None


def facts_beside(log: Path) -> Facts | None:
    """Read the run.json in the folder of a log; None where there is none.

    Raises
    ------
    BadInputError
        If it cannot be read, or is no JSON object with sensible values.
    """
    path = log.parent / RUN_JSON
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MAX_RUN_JSON_BYTES:
            raise BadInputError(f"{path}: too large for a run.json. Move it away, or write it anew.")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        raise BadInputError(f"{path}: not valid JSON. Correct it, or move it away from the log.") from None
    if not isinstance(document, dict):
        raise BadInputError(f"{path}: holds no JSON object. Correct it, or move it away from the log.")
    return facts_from(document, str(path), strict=True)


def how_far(log: Path) -> str | None:
    """Tell why a run of `ebfit sweep` is not finished: ``running``, ``failed`` or ``interrupted``; None if it may be.

    Such a run may have next to nothing in its log, and that is no fault of the log.
    """
    path = log.parent / RUN_JSON
    try:
        if not path.is_file() or path.stat().st_size > MAX_RUN_JSON_BYTES:
            return None
        status = json.loads(path.read_bytes())["outcome"]["status"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return status if status in ("running", "failed", "interrupted") else None


def _number(value: Any, *, whole: bool, zero: bool) -> int | float | None:
    """Return a number that is finite and positive (or zero, if that may be), or None."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e18:
        return None
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        return None
    if whole:
        return int(value) if value == int(value) else None
    return float(value)
