"""``ebfit diff --json``: what differs between two fits."""

from typing import Any, Literal

from pydantic import Field

from ebfit.files.base import Document, Estimate, OverTokens, Text

# A batch size that differs by less, or an exponent, comes from another machine's rounding: it has not moved, however
# narrow an interval is (of data without noise, as narrow as rounding).
ROUNDING = 1e-3


class NumberChange(Document):
    """A number in two fits.

    ``moved``: what the new fit says of it lies outside the old interval. ``lost``: it had a value and has only a bound
    now, or nothing; ``found``: the reverse. ``old_outside_new``: what the old fit said lies outside the new interval.
    ``ratio`` is new over old, of values or of bounds of one side.
    """

    old: Estimate
    new: Estimate
    ratio: float | None = None
    moved: bool = False
    lost: bool = False
    found: bool = False
    old_outside_new: bool = False


class TargetChange(Document):
    """A target loss that both fits hold; numbers are None where the laws do not share them."""

    loss: float
    group: Text | None = None
    old_law: Text
    new_law: Text
    b_min: NumberChange | None = None
    b_opt: NumberChange | None = None
    b_crit: NumberChange | None = None


class GrowthChange(Document):
    """A line of growth with tokens: its exponent, and its batch size at the largest D that both fits measured.

    ``group`` is None for the line through all targets. A fit without the line counts as `not_identified`.
    """

    line: OverTokens
    group: Text | None = None
    exponent: NumberChange
    at_tokens: float | None = None
    batch_tokens: NumberChange | None = None


class LoneTarget(Document):
    """A target loss that only one of the fits holds; ``skipped`` is why the other did not fit it, where it says."""

    loss: float
    group: Text | None = None
    skipped: Text | None = None


class SettingChange(Document):
    """A setting that differs; None where a fit does not have it."""

    old: Any = None
    new: Any = None


class Renamed(Document):
    """An input with the same content under another path."""

    old: Text
    new: Text


class InputChanges(Document):
    """Which files went into one of the fits only, or have another content now."""

    added: list[Text] = Field(default_factory=list)
    removed: list[Text] = Field(default_factory=list)
    changed: list[Text] = Field(default_factory=list)
    renamed: list[Renamed] = Field(default_factory=list)


class DiffSide(Document):
    """One of the two fits."""

    path: Text | None = None
    ebfit_version: Text
    confidence: float


class Diff(Document):
    """What differs between two fits; ``moved`` and ``lost`` count numbers of targets and of growth lines."""

    schema_: Literal["ebfit.diff/1"] = Field("ebfit.diff/1", alias="schema")
    ebfit_version: str
    old: DiffSide
    new: DiffSide
    compared: int
    moved: int
    lost: int
    targets: list[TargetChange]
    only_old: list[LoneTarget] = Field(default_factory=list)
    only_new: list[LoneTarget] = Field(default_factory=list)
    growth: list[GrowthChange] = Field(default_factory=list)
    settings: dict[Text, SettingChange] = Field(default_factory=dict)
    inputs: InputChanges = Field(default_factory=InputChanges)
