"""The files that ebfit writes and reads back: their schemas.

Programs may rely on the keys here; a change that breaks them raises the number behind the slash.
"""

import hashlib
from math import exp, hypot, inf, isfinite, log, nan, sqrt
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.text import printable
from ebfit.writing import write_text

Status = Literal["ok", "upper_bound", "lower_bound", "not_identified"]
OverTokens = Literal["b_opt_vs_tokens", "b_min_vs_tokens"]


def _plain(value: float) -> float | int | None:
    """Write whole numbers as integers, as batch sizes mostly are."""
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() else value


Tokens = Annotated[float, PlainSerializer(_plain, when_used="json")]
# of a run that `inspect` shows though nothing tells its batch size: null in the file, NaN in memory
UnknownTokens = Annotated[Tokens, BeforeValidator(lambda value: nan if value is None else value)]


# Names in logs may hold bytes that are no Unicode, which no JSON document can.
Text = Annotated[str, PlainSerializer(printable, when_used="json")]


class _Model(BaseModel):
    model_config = ConfigDict(populate_by_name=True, extra="allow", ser_json_inf_nan="null")


class Estimate(_Model):
    """A number with its confidence interval; None where the data do not tell."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    status: Status = "not_identified"


class Input(_Model):
    """A file that went into a fit."""

    path: Text
    sha256: str


class CurveRecord(_Model):
    """A loss curve thinned for plotting, with the smooth line that was used to find crossings."""

    kind: Literal["train", "val"]
    column: Text
    lag_steps: float = 0.0
    steps: list[float]
    loss: list[float]
    smooth: list[float | None] = Field(default_factory=list)


class RunRecord(_Model):
    """What was read of one run (shared by ``ebfit.inspect/1`` and ``ebfit.fit/1``)."""

    name: Text
    path: Text
    format: str
    batch_tokens: UnknownTokens
    batch_source: Text
    seq_len: int | None
    lr: float | None
    seed: int | None
    rows: int
    dropped: dict[Text, int]
    stable_from: int
    stable_to: int
    stable_source: Text
    warnings: list[Text] = Field(default_factory=list)
    train_loss_first: float | None = None
    train_loss_last: float | None = None
    val_loss_first: float | None = None
    val_loss_last: float | None = None
    curve: CurveRecord | None = None


class PointRecord(_Model):
    """One run at one target loss: reached at ``steps``, or not within ``steps`` (censored)."""

    run: Text
    batch_tokens: Tokens
    steps: float
    tokens: float
    steps_se: float | None
    censored: bool
    seed: int | None = None


class SecondOpinionRecord(_Model):
    """What another law says of the same points, and the weight (0 to 1) it has in the intervals."""

    law: str
    weight: float
    b_min: float
    b_opt: float
    rms_log_residual: float


class TargetRecord(_Model):
    """The law fitted at one target loss."""

    loss: float
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


class SkippedTarget(_Model):
    """A target loss that was asked for and not fitted, with the reason."""

    loss: float
    group: Text | None = None
    reason: Text


class Trend(_Model):
    """A power law over targets, B = k D^exponent, D and B in tokens.

    About the line, errors of its height at the pivot and of its exponent are independent: ln B is known to
    ``quantile`` times sqrt(log_sd_at_pivot^2 + exponent_sd^2 ln(D / pivot_tokens)^2) at the confidence of the fit.
    Single targets scatter about the line by ``scatter_log_sd`` more than their errors explain.
    """

    k: float
    exponent: float
    exponent_low: float | None = None
    exponent_high: float | None = None
    d_low: float
    d_high: float
    pivot_tokens: float | None = None
    pivot_batch_tokens: float | None = None
    log_sd_at_pivot: float | None = None
    exponent_sd: float | None = None
    quantile: float | None = None
    scatter_log_sd: float | None = None
    n_targets: int | None = None

    def batch_at(self, tokens: float) -> tuple[float, float, float]:
        """Return the line at ``tokens`` consumed, and the ends of its band.

        Parameters
        ----------
        tokens : float
            D, positive; beyond ``d_low`` to ``d_high`` the line is extrapolated and the band widens.

        Returns
        -------
        tuple of float
            Value, low and high, in tokens per step. A file of an earlier version knows only the interval of the
            exponent: the band then pivots on the middle of its D. NaN for ends that nothing tells.
        """
        if (
            self.pivot_tokens is not None
            and self.pivot_batch_tokens is not None
            and self.log_sd_at_pivot is not None
            and self.exponent_sd is not None
            and self.quantile is not None
        ):
            away = log(tokens / self.pivot_tokens)
            value = self.pivot_batch_tokens * exp(self.exponent * away)
            factor = exp(self.quantile * hypot(self.log_sd_at_pivot, self.exponent_sd * away))
            return value, value / factor, value * factor
        value = self.k * tokens**self.exponent
        if self.exponent_low is None or self.exponent_high is None:
            return value, nan, nan
        away = log(tokens / sqrt(self.d_low * self.d_high))
        steepest = self.exponent_high if away > 0.0 else self.exponent_low
        flattest = self.exponent_low if away > 0.0 else self.exponent_high
        return (
            value,
            value * exp((flattest - self.exponent) * away),
            value * exp((steepest - self.exponent) * away),
        )


class LossTrend(_Model):
    """The loss of the best constant batch size after D tokens, L = l_0 + c D^-exponent.

    An end of the floor's interval is None where the targets bend too little, or lie too near, to hold it on that side.
    """

    l_0: float
    l_0_low: float | None = None
    l_0_high: float | None = None
    c: float
    exponent: float
    d_low: float
    d_high: float
    loss_low: float
    loss_high: float
    n_targets: int

    def loss_at(self, tokens: float) -> float:
        """Return the loss that the best constant batch size has after ``tokens``."""
        return self.l_0 + self.c * tokens**-self.exponent

    def tokens_at(self, loss: float) -> float:
        """Return the tokens that the best constant batch size needs to ``loss``; infinite at the floor and below."""
        return (self.c / (loss - self.l_0)) ** (1.0 / self.exponent) if loss > self.l_0 else inf


class BatchOfLoss(_Model):
    """B_opt against loss, B = k (L - l_0)^-exponent, with the floor l_0 of the `LossTrend`."""

    l_0: float
    k: float
    exponent: float
    exponent_low: float | None = None
    exponent_high: float | None = None
    loss_low: float
    loss_high: float
    n_targets: int

    def batch_at(self, loss: float) -> float:
        """Return the batch size at ``loss``, tokens per step; infinite at the floor and below."""
        return float(self.k * (loss - self.l_0) ** -self.exponent) if loss > self.l_0 else inf


class GroupTrends(_Model):
    """The trends of one group of runs, such as one model size; None where its targets identify none."""

    group: Text | None
    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None
    loss_vs_tokens: LossTrend | None = None
    b_opt_vs_loss: BatchOfLoss | None = None


class Agreement(_Model):
    """Do groups share one line? The likelihood ratio of a line each against one line, and its p-value."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


class Trends(_Model):
    """The power laws of a fit; None where fewer than three targets identify one.

    Of several groups, ``groups`` holds those of each, the lines over tokens here are one line through the targets of
    all, and ``agreement`` tells whether that is right. What goes by loss is each group's own.
    """

    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None
    loss_vs_tokens: LossTrend | None = None
    b_opt_vs_loss: BatchOfLoss | None = None
    groups: list[GroupTrends] = Field(default_factory=list)
    agreement: dict[OverTokens, Agreement] = Field(default_factory=dict)


class Comparison(_Model):
    """How well a law predicts a batch size it has not seen: absolute errors of log S."""

    law: str
    coupling: str
    lobo_median: float
    lobo_p90: float


class Fit(_Model):
    """fit.json: what ``ebfit fit`` found."""

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

    def save(self, path: str | Path) -> None:
        """Write fit.json atomically.

        Raises
        ------
        BadInputError
            If the path is a folder or cannot be written.
        """
        write_text(Path(path), to_json(self))

    @classmethod
    def load(cls, path: str | Path) -> "Fit":
        """Read fit.json.

        Raises
        ------
        BadInputError
            If the file is missing, is no JSON, or does not follow the schema.
        """
        return _load(cls, path, "a fit.json", "Write it anew with `ebfit fit`.")


class Inspection(_Model):
    """``ebfit inspect --json``: what was read, run by run; a run in `problems` cannot be fitted as it is."""

    schema_: Literal["ebfit.inspect/1"] = Field("ebfit.inspect/1", alias="schema")
    ebfit_version: str
    inputs: list[Input]
    runs: list[RunRecord]
    warnings: list[Text] = Field(default_factory=list)
    problems: list[Text] = Field(default_factory=list)


class RunOutcome(_Model):
    """How far a run of `ebfit sweep` has come, and why it ended where it did."""

    status: Literal["running", "finished", "interrupted", "failed"] = "running"
    reason: Text = ""
    step: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    val_loss: float | None = None
    seconds: float = 0.0
    tokens_per_second: float | None = None
    flops_utilisation: float | None = None


class RunDocument(_Model):
    """run.json: the settings of a run of `ebfit sweep`, enough to repeat it, and its outcome.

    ``recipe`` holds every setting that decides the numbers of the run, and ``key`` is its checksum.
    ``decay_start_step`` is the last step at the full learning rate, null without a decay or before it is known.
    """

    schema_: Literal["ebfit.run/1"] = Field("ebfit.run/1", alias="schema")
    name: Text
    key: str
    seq_len: int
    batch_tokens: int
    batch_sequences: int
    lr: float
    warmup_steps: int
    decay_start_step: int | None
    seed: int
    train_loss_window: int | Literal["interval"]
    parameters: int
    parameters_without_embeddings: int
    model: dict[str, Any]
    data: dict[str, Any]
    recipe: dict[str, Any]
    device: dict[str, Any]
    versions: dict[str, str]
    outcome: RunOutcome = Field(default_factory=RunOutcome)

    @classmethod
    def load(cls, path: str | Path) -> "RunDocument":
        """Read run.json.

        Raises
        ------
        BadInputError
            If the file cannot be read, is no JSON, or was not written by `ebfit sweep`.
        """
        return _load(cls, path, "a run.json of `ebfit sweep`", "Move it away, or choose another folder.")


class StageRecord(_Model):
    """A stage of plan.json: whole steps with one batch size, from ``start_tokens`` and ``start_step`` on.

    ``start_loss`` is where a loop that raises the batch by loss begins it; ``b_opt_at_end`` is what the fit says of
    B_opt at its last token, and ``beyond_measured`` that token over the largest measured D.
    """

    start_tokens: int
    start_step: int
    batch_tokens: int
    batch_sequences: int
    steps: int
    lr_scale: float = 1.0
    start_loss: float | None = None
    b_opt_at_end: Estimate | None = None
    beyond_measured: float | None = None


class PlanTrends(_Model):
    """The trends of the fit that a plan follows."""

    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None


class PlanComparison(_Model):
    """Whole steps of a constant batch size over the tokens of the plan."""

    name: Literal["best_constant", "first_stage", "last_stage"]
    batch_tokens: int
    steps: int


class PlanPrediction(_Model):
    """What the best constant batch needs to the loss that the plan has at ``at_tokens``, tokens.

    The two estimates rest on two suppositions about what a run remembers of earlier batch sizes, and the truth lies
    between them: nothing but its loss, or nothing but the number of its steps. ``loss_low`` and ``loss_high`` are the
    losses, of the model that was fitted.
    """

    at_tokens: int
    same_loss_by_loss: Estimate
    same_loss_by_steps: Estimate
    loss_low: float | None = None
    loss_high: float | None = None


class Plan(_Model):
    """plan.json: a batch-size schedule. `ebfit.BatchPlan` reads it in a training loop, and checks it whole."""

    schema_: Literal["ebfit.plan/1"] = Field("ebfit.plan/1", alias="schema")
    ebfit_version: str
    inputs: list[Input] = Field(default_factory=list)
    group: Text | None = None
    total_tokens: int
    seq_len: int
    policy: str
    bound: Literal["low", "value", "high"] = "value"
    lr_rule: Literal["none", "sqrt", "linear"] = "none"
    micro_batch: int | None = None
    data_parallel: int | None = None
    warmup_tokens: int = 0
    decay_start_tokens: int | None = None
    total_steps: int
    leftover_tokens: int
    stages: list[StageRecord]
    comparison: list[PlanComparison] = Field(default_factory=list)
    prediction: PlanPrediction | None = None
    trends: PlanTrends | None = None
    warnings: list[Text] = Field(default_factory=list)

    def save(self, path: str | Path) -> None:
        """Write plan.json atomically.

        Raises
        ------
        BadInputError
            If the path is a folder or cannot be written.
        """
        write_text(Path(path), to_json(self))

    def batch_plan(self) -> BatchPlan:
        """Return the plan as a training loop uses it.

        Raises
        ------
        PlanError
            If its stages contradict each other.
        """
        return BatchPlan.from_dict(self.model_dump(by_alias=True))

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        """Read plan.json.

        Raises
        ------
        BadInputError
            If the file is missing, is no JSON, or does not follow the schema.
        """
        return _load(cls, path, "a plan.json", "Write it anew with `ebfit schedule`.")


_Document = TypeVar("_Document", bound=_Model)


def _load(kind: type[_Document], path: str | Path, what: str, way_out: str) -> _Document:
    try:
        return kind.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise BadInputError(
            f"{path}: not {what} that this version reads: {place}: {first['msg']}. {way_out}"
        ) from None


def to_json(document: BaseModel) -> str:
    """Serialise a document the way all ebfit files are written: indented, keys as in the schema."""
    return document.model_dump_json(by_alias=True, indent=1) + "\n"


def sha256(path: Path) -> str:
    """Return the hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
