"""fit.json: what ``ebfit fit`` found."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from ebfit.files.base import Document, Estimate, File, Finite, Input, Text, Tokens
from ebfit.files.run import RunRecord
from ebfit.files.trend import Trends


class PointRecord(Document):
    """One run at one target loss: reached at ``steps``, or not within ``steps`` (censored)."""

    run: Text
    batch_tokens: Annotated[Tokens, Field(gt=0.0, allow_inf_nan=False)]
    steps: float
    tokens: float
    steps_se: float | None
    censored: bool
    seed: int | None = None


class SecondOpinionRecord(Document):
    """What another law says of the same points, and the weight (0 to 1) it has in the intervals."""

    law: str
    weight: float
    b_min: float
    b_opt: float
    rms_log_residual: float


class TargetRecord(Document):
    """The law fitted at one target loss."""

    loss: Finite
    group: Text | None = None
    law: str
    b_min: Estimate | None = None
    b_opt: Estimate | None = None
    b_crit: Estimate | None = None
    s_min: float | None = None
    e_min: float | None = None
    s_opt: float | None = None
    params: dict[str, float] = Field(default_factory=dict)
    rms_log_residual: float | None = None
    misfit_log_sd: float | None = None
    second_opinion: SecondOpinionRecord | None = None
    warnings: list[Text] = Field(default_factory=list)
    points: list[PointRecord] = Field(default_factory=list)

    @model_serializer(mode="wrap")
    def _without_numbers_of_other_laws(self, as_usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = as_usual(self)
        other = ("b_min", "b_opt") if self.law == "classic" else ("b_crit",)
        return {key: value for key, value in document.items() if not (key in other and value is None)}


class SkippedTarget(Document):
    """A target loss that was asked for and not fitted, with the reason."""

    loss: Finite
    group: Text | None = None
    reason: Text


class Comparison(Document):
    """How well a law predicts a batch size it has not seen: absolute errors of log S."""

    law: str
    coupling: str
    lobo_median: float
    lobo_p90: float


class Fit(File):
    """fit.json: what ``ebfit fit`` found."""

    what = "a fit.json"
    way_out = "Write it anew with `ebfit fit`."

    schema_: Literal["ebfit.fit/1"] = Field("ebfit.fit/1", alias="schema")
    ebfit_version: str
    settings: dict[str, Any]
    inputs: list[Input]
    runs: list[RunRecord]
    targets: list[TargetRecord]
    skipped_targets: list[SkippedTarget] = Field(default_factory=list)
    trends: Trends = Field(default_factory=Trends)
    comparison: list[Comparison] = Field(default_factory=list)
    warnings: list[Text] = Field(default_factory=list)

    @field_validator("settings")
    @classmethod
    def _confidence_is_a_share(cls, settings: dict[str, Any]) -> dict[str, Any]:
        confidence = settings.get("confidence", 0.95)
        if not (isinstance(confidence, float) and 0.0 < confidence < 1.0):
            raise ValueError("confidence must be a number between 0 and 1")
        return settings

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        return float(self.settings.get("confidence", 0.95))
