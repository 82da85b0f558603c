"""Two fits compared: did B_min or B_opt move out of their intervals, and what else differs?

What a fit says of a number is its value, or where it has none all that its bound allows. What it allows is the
interval, or all on the allowed side of a bound, or everything where it is not identified. A number has **moved** if
what the new fit says of it lies wholly outside what the old one allowed. The old fit is the one that decisions were
taken by, so its interval is the measure: with more runs of the same kind a new value stays inside it as often as the
interval promises, while an old, vague value may well lie outside the new, narrow interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isclose, isfinite
from typing import Any

from ebfit import __version__
from ebfit.errors import BadInputError
from ebfit.files import (
    ROUNDING,
    Diff,
    DiffSide,
    Estimate,
    Fit,
    GroupTrends,
    GrowthChange,
    Input,
    InputChanges,
    LoneTarget,
    NumberChange,
    OverTokens,
    Renamed,
    SettingChange,
    TargetChange,
    TargetRecord,
    Trend,
    Trends,
)

_SAME_LOSS = 1e-9  # relative
_LINES: tuple[OverTokens, ...] = ("b_min_vs_tokens", "b_opt_vs_tokens")
_SENTENCES = {"loss_reason"}  # settings that are told in words and follow from others


def diff(old: Fit, new: Fit, *, old_path: str | None = None, new_path: str | None = None) -> Diff:
    """Compare two fits.

    Parameters
    ----------
    old, new : Fit
        ``old`` is the measure: a number has moved if it left the interval that ``old`` gave it.
    old_path, new_path : str, optional
        Where they come from, to be recorded.

    Returns
    -------
    Diff

    Raises
    ------
    BadInputError
        If they have neither a target loss nor a growth line in common.
    """
    pairs, only_old, only_new = _matched(old.targets, new.targets)
    targets = [_target_change(*pair) for pair in pairs]
    growth = list(_growth(old, new))
    numbers = _numbers(targets, growth)
    if not _numbers(targets, []) and not any(_are_values(line.exponent) for line in growth):
        raise BadInputError(
            _nothing_shared(old_path or "the old fit", new_path or "the new fit", bool(pairs))
        )
    return Diff(
        schema="ebfit.diff/1",
        ebfit_version=__version__,
        old=DiffSide(path=old_path, ebfit_version=old.ebfit_version, confidence=old.confidence),
        new=DiffSide(path=new_path, ebfit_version=new.ebfit_version, confidence=new.confidence),
        compared=len(numbers),
        moved=sum(number.moved for number in numbers),
        lost=sum(number.lost for number in numbers),
        targets=targets,
        only_old=[_lone(target, new) for target in only_old],
        only_new=[_lone(target, old) for target in only_new],
        growth=growth,
        settings=dict(_settings(old.settings, new.settings)),
        inputs=_inputs(old.inputs, new.inputs),
    )


def number_change(old: Estimate, new: Estimate, *, relative: bool = True) -> NumberChange:
    """Compare what two fits say of a number.

    Parameters
    ----------
    old, new : Estimate
    relative : bool
        Whether its size is a matter of factors, as that of batch sizes is, and not of differences, as for exponents.
    """
    has_old, has_new = _value(old) is not None, _value(new) is not None
    return NumberChange(
        old=old,
        new=new,
        ratio=_ratio(old, new) if relative else None,
        moved=_is_outside(_said(new), _allowed(old), relative),
        lost=has_old and not has_new,
        found=has_new and not has_old,
        old_outside_new=_is_outside(_said(old), _allowed(new), relative),
    )


def _value(estimate: Estimate) -> float | None:
    return estimate.value if estimate.status == "ok" else None


def _are_values(number: NumberChange) -> bool:
    return _value(number.old) is not None and _value(number.new) is not None


def _said(estimate: Estimate) -> tuple[float, float]:
    value = _value(estimate)
    return _allowed(estimate) if value is None else (value, value)


def _allowed(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of the interval; one that lacks the numbers its status promises allows everything."""
    low = estimate.low if estimate.status in ("ok", "lower_bound") else None
    high = estimate.high if estimate.status in ("ok", "upper_bound") else None
    value = _value(estimate)
    if estimate.status == "ok" and value is None:
        return -inf, inf
    ends = -inf if low is None else low, inf if high is None else high
    return ends if value is None else (min(ends[0], value), max(ends[1], value))


def _is_outside(said: tuple[float, float], allowed: tuple[float, float], relative: bool) -> bool:
    return _is_beyond(said[0], allowed[1], relative) or _is_beyond(allowed[0], said[1], relative)


def _is_beyond(a: float, b: float, relative: bool) -> bool:
    rounding = {"rel_tol": ROUNDING} if relative else {"rel_tol": 0.0, "abs_tol": ROUNDING}
    return a > b and not isclose(a, b, **rounding)


def _ratio(old: Estimate, new: Estimate) -> float | None:
    if old.status != new.status:
        return None
    end = {"ok": "value", "upper_bound": "high", "lower_bound": "low"}.get(old.status)
    before, after = (getattr(estimate, end) if end else None for estimate in (old, new))
    return after / before if before is not None and after is not None and before > 0.0 < after else None


def _numbers(targets: Sequence[TargetChange], growth: Sequence[GrowthChange]) -> list[NumberChange]:
    of_targets = [number for target in targets for number in (target.b_min, target.b_opt, target.b_crit)]
    of_lines = [number for line in growth for number in (line.exponent, line.batch_tokens)]
    return [number for number in of_targets + of_lines if number is not None]


def _matched(
    old: Sequence[TargetRecord], new: Sequence[TargetRecord]
) -> tuple[list[tuple[TargetRecord, TargetRecord]], list[TargetRecord], list[TargetRecord]]:
    """Return the pairs of equal group and loss, and what only the old or the new fit holds; losses fall in a group."""
    pairs, only_old, only_new = [], [], []
    for group in dict.fromkeys(target.group for target in [*old, *new]):
        left, right = (
            sorted((target for target in targets if target.group == group), key=lambda target: target.loss)
            for targets in (old, new)
        )
        while left and right:
            if _is_same(left[-1].loss, right[-1].loss):
                pairs.append((left.pop(), right.pop()))
            elif left[-1].loss > right[-1].loss:
                only_old.append(left.pop())
            else:
                only_new.append(right.pop())
        only_old += reversed(left)
        only_new += reversed(right)
    return pairs, only_old, only_new


def _is_same(a: float, b: float) -> bool:
    return isclose(a, b, rel_tol=_SAME_LOSS)


def _target_change(old: TargetRecord, new: TargetRecord) -> TargetChange:
    def change(before: Estimate | None, after: Estimate | None) -> NumberChange | None:
        return None if before is None or after is None else number_change(before, after)

    return TargetChange(
        loss=old.loss,
        group=old.group,
        old_law=old.law,
        new_law=new.law,
        b_min=change(old.b_min, new.b_min),
        b_opt=change(old.b_opt, new.b_opt),
        b_crit=change(old.b_crit, new.b_crit),
    )


def _lone(target: TargetRecord, other: Fit) -> LoneTarget:
    reasons = [
        item.reason
        for item in other.skipped_targets
        if item.group == target.group and _is_same(item.loss, target.loss)
    ]
    return LoneTarget(loss=target.loss, group=target.group, skipped=reasons[0] if reasons else None)


def _growth(old: Fit, new: Fit) -> Iterator[GrowthChange]:
    """Compare the lines over all targets and those of groups that both fits have."""
    new_groups = {group.group: group for group in new.trends.groups}
    places: list[tuple[str | None, Trends | GroupTrends, Trends | GroupTrends]] = [
        (None, old.trends, new.trends)
    ]
    places += [
        (group.group or "(no group)", group, new_groups[group.group])
        for group in old.trends.groups
        if group.group in new_groups
    ]
    for name, before, after in places:
        for line in _LINES:
            lines: list[Trend | None] = [getattr(before, line), getattr(after, line)]
            if lines != [None, None]:
                yield _growth_change(line, name, *lines)


def _growth_change(line: OverTokens, group: str | None, old: Trend | None, new: Trend | None) -> GrowthChange:
    change = GrowthChange(
        line=line, group=group, exponent=number_change(_exponent(old), _exponent(new), relative=False)
    )
    if old is not None and new is not None and max(old.d_low, new.d_low) <= min(old.d_high, new.d_high):
        change.at_tokens = min(old.d_high, new.d_high)
        change.batch_tokens = number_change(*(_on_line(trend, change.at_tokens) for trend in (old, new)))
    return change


def _exponent(trend: Trend | None) -> Estimate:
    if trend is None:
        return Estimate()
    return Estimate(value=trend.exponent, low=trend.exponent_low, high=trend.exponent_high, status="ok")


def _on_line(trend: Trend, tokens: float) -> Estimate:
    value, low, high = (end if isfinite(end) else None for end in trend.batch_at(tokens))
    return Estimate(value=value, low=low, high=high, status="ok")


def _settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, SettingChange]]:
    for key in dict.fromkeys([*old, *new]):
        if key not in _SENTENCES and old.get(key) != new.get(key):
            yield key, SettingChange(old=old.get(key), new=new.get(key))


def _inputs(old: Sequence[Input], new: Sequence[Input]) -> InputChanges:
    before, after = ({file.path: file.sha256 for file in files} for files in (old, new))
    added = {path: sha for path, sha in after.items() if path not in before}
    removed = {path: sha for path, sha in before.items() if path not in after}
    paths_by_content: dict[str, list[str]] = {}
    for path, sha in added.items():
        paths_by_content.setdefault(sha, []).append(path)
    renamed = [
        Renamed(old=path, new=paths_by_content[sha].pop(0))
        for path, sha in removed.items()
        if paths_by_content.get(sha)
    ]
    return InputChanges(
        added=[path for paths in paths_by_content.values() for path in paths],
        removed=[path for path in removed if path not in {item.old for item in renamed}],
        changed=[path for path, sha in before.items() if path in after and after[path] != sha],
        renamed=renamed,
    )


def _nothing_shared(old: str, new: str, same_targets: bool) -> str:
    if same_targets:
        return f"{old} and {new} were fitted with laws that have no number in common: fit both with the same --law."
    return f"{old} and {new} have no target loss in common: fit both with the same --targets."
