"""ModernBERT's training code on MosaicML Composer: a ramp by one micro-batch per device at a time, over tokens.

Facts from AnswerDotAI/ModernBERT, `src/sequence_packer.py` (`BatchSizeWarmupScheduler`) and its pre-training yamls: it
acts with sequence packing only; a size of m micro-batches lasts m / (sum of all sizes before the last) of the warmup
tokens, which makes it the same number of steps for each; tokens are counted on each device, without padding. Composer
itself (0.32.1) and LLM Foundry (0.22.0) have no such warmup. Durations of Composer can be tokens, and here they are.
"""

import re
from itertools import accumulate
from math import ceil
from typing import Any

import yaml

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import (
    devices_lines,
    devices_of,
    heading,
    micro_batch_of,
    with_comments,
)
from ebfit.schedule.trainers.divisible import check_divisible, sequences_at_once
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.ramp import Sizes, best_ramp, notes_on_deviation, ramp_lengths
from ebfit.schedule.trainers.yaml_text import find, read_yaml, whole_number

name = "composer"
reader = "ModernBERT's training code on MosaicML Composer (as of 2025)"
unit = "last batch in sequences, first batch in sequences per device, warmup in tokens"
suffix = ".yaml"

_MOST_SIZES = 20_000  # beyond this somebody's file is a slip of the pen
_MOST_WALKED = 300_000  # sizes, over all ramps that are tried
_MEETING_POINTS = 16  # sizes of the ramp whose begin is tried at each stage of the plan


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the warmup that comes nearest to the plan.

    Raises
    ------
    BadInputError
        If the micro-batch or the number of devices is not given, if the plan has one batch size only or sizes that do
        not fill the devices, or if ``setup.strict`` and the plan is no such ramp.
    """
    devices, micro_batch = devices_of(setup, name), micro_batch_of(setup, name)
    check_divisible(plan, setup)
    at_once = sequences_at_once(setup)
    first, last = plan.stages[0].batch_sequences // at_once, plan.stages[-1].batch_sequences // at_once
    if first == last:
        raise BadInputError(
            "the plan has one batch size all along, and a warmup cannot say that. "
            "Set global_train_batch_size alone."
        )

    def run(warmup_tokens: int) -> Sizes:
        sizes = simulate(first, last, warmup_tokens, devices, micro_batch * plan.seq_len)
        return [(tokens * devices, micro_batches * at_once * plan.seq_len) for tokens, micro_batches in sizes]

    warmup_tokens, as_run = best_ramp(
        plan, _candidates(plan, first, last), run, most_tried=max(_MOST_WALKED // (last - first), 8)
    )
    decay_start = plan.decay_start_tokens
    decay_tokens = 0 if decay_start is None else plan.total_tokens - decay_start
    config = {
        "max_seq_len": plan.seq_len,
        "global_train_batch_size": last * at_once,
        "device_train_microbatch_size": micro_batch,
        "train_loader": {
            "sequence_packing": True,
            "batch_size_warmup_min_size": first * micro_batch,
            "batch_size_warmup_tokens": f"{warmup_tokens}tok",
        },
        "max_duration": f"{plan.total_tokens}tok",
        "scheduler": {
            "name": "warmup_stable_decay",
            "t_warmup": f"{plan.warmup_tokens}tok",
            "t_decay": f"{decay_tokens}tok",
        },
    }
    return Export(
        text=heading(reader, unit) + devices_lines(setup) + yaml.safe_dump(config, sort_keys=False),
        as_run=as_run,
        notes=[
            *notes_on_deviation(plan, as_run, setup, name),
            f"the sizes are for {devices} devices; batch_size_warmup_min_size is per device.",
            "the warmup of the batch acts with sequence_packing (and so without streaming) only, and counts tokens "
            "without padding: with padding everything comes later by its part.",
            *notes_on_lr_scale(plan, setup, name),
        ],
    )


def simulate(
    first: int, last: int, warmup_tokens: int, devices: int, micro_batch_tokens: int
) -> list[tuple[int, int]]:
    """Return (tokens per device before, micro-batches per device) of each size, in order.

    Parameters
    ----------
    first, last : int
        Micro-batches per device.
    warmup_tokens : int
        Over all devices.
    devices, micro_batch_tokens : int
        A micro-batch holds so many tokens, none of them padding.
    """
    per_device = ceil(warmup_tokens / devices)
    per_unit = per_device / sum(range(first, last))
    consumed = 0
    sizes: list[tuple[int, int]] = []
    for size, before_next in zip(range(first, last), accumulate(range(first, last)), strict=True):
        end = min(ceil(per_unit * before_next), per_device)
        if consumed < end:
            sizes.append((consumed, size))
            step = size * micro_batch_tokens
            consumed += -(-(end - consumed) // step) * step
    return [*sizes, (consumed, last)]


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read the warmup of a ModernBERT configuration.

    Raises
    ------
    BadInputError
        If a key is missing or is no number, if ModernBERT would refuse it, or if nothing says the number of devices.
    """
    document = read_yaml(text)
    setup, warnings = with_comments(setup, text)
    devices = devices_of(setup, name)
    batch = whole_number(document, "global_train_batch_size")
    micro_batch = whole_number(document, "device_train_microbatch_size")
    length = find(document, "max_seq_len") or seq_len
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise BadInputError("max_seq_len is no positive whole number; give --seq-len.")
    if micro_batch < 1 or batch % (devices * micro_batch):
        raise BadInputError(
            f"global_train_batch_size, {batch}, is no multiple of {devices} devices x {micro_batch} sequences."
        )
    at_once = devices * micro_batch
    last = batch // at_once
    sizes = [(0, last)]
    if find(document, "batch_size_warmup_tokens") is not None:
        first = _first(document, micro_batch)
        if not 0 < first < last or last - first > _MOST_SIZES:
            raise BadInputError(
                "batch_size_warmup_min_size must be above 0 and below the last size per device."
            )
        warmup_tokens = _tokens(document, "batch_size_warmup_tokens")
        assert warmup_tokens is not None
        sizes = simulate(first, last, warmup_tokens, devices, micro_batch * length)
    if find(document, "sequence_packing") is not True and len(sizes) > 1:
        warnings.append("sequence_packing is not true: without it the warmup of the batch size does nothing.")
    return ReadSchedule(
        starts=tuple(tokens * devices for tokens, _ in sizes),
        start_unit="tokens",
        batch_sequences=tuple(size * at_once for _, size in sizes),
        seq_len=length,
        warmup_sequences=_sequences(_tokens(document, "t_warmup"), length),
        decay_sequences=_sequences(_tokens(document, "t_decay"), length),
        total_sequences=_sequences(_tokens(document, "max_duration"), length),
        may_skip_sizes=True,
        warnings=warnings,
    )


def _candidates(plan: BatchPlan, first: int, last: int) -> list[int]:
    before = list(accumulate(range(first, last)))
    some = before[:: ceil(len(before) / _MEETING_POINTS)]
    return [max(round(tokens), 1) for tokens in ramp_lengths(plan, [part / before[-1] for part in some])]


def _first(document: Any, micro_batch: int) -> int:
    value = find(document, "batch_size_warmup_min_size")
    if value == "${device_train_microbatch_size}":
        return 1
    smallest = whole_number(document, "batch_size_warmup_min_size")
    if smallest % micro_batch:
        raise BadInputError(
            f"batch_size_warmup_min_size, {smallest}, is no multiple of device_train_microbatch_size, {micro_batch}."
        )
    return smallest // micro_batch


def _tokens(document: Any, key: str) -> int | None:
    """Tokens of a duration such as 50_000_000_000tok; None if it is not given, or in other units."""
    value = find(document, key)
    if key == "batch_size_warmup_tokens" and isinstance(value, int) and 0 < value < 2**63:
        return value
    found = re.fullmatch(r"([0-9_]{1,23})tok", str(value))
    if found is None or not found[1].replace("_", ""):
        if key == "batch_size_warmup_tokens":
            raise BadInputError(f"{key} is {value!r}, no number of tokens such as 50_000_000_000tok.")
        return None
    return int(found[1].replace("_", ""))


def _sequences(tokens: int | None, seq_len: int) -> int | None:
    return None if tokens is None else tokens // seq_len
