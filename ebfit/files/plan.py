"""plan.json: what ``ebfit schedule`` makes."""

from typing import Literal

from pydantic import Field

from ebfit.batch_plan import BatchPlan
from ebfit.files.base import Document, Estimate, File, Input, Text
from ebfit.files.trend import Trend

FAR = 10.0  # beyond the largest measured D by this factor, an extrapolation is called far


class StageRecord(Document):
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


class PlanTrends(Document):
    """The trends of the fit that a plan follows."""

    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None


class PlanComparison(Document):
    """Whole steps of a constant batch size over the tokens of the plan."""

    name: Literal["best_constant", "first_stage", "last_stage"]
    batch_tokens: int
    steps: int


class PlanPrediction(Document):
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


class Plan(File):
    """plan.json: a batch-size schedule. `ebfit.BatchPlan` reads it in a training loop, and checks it whole."""

    what = "a plan.json"
    way_out = "Write it anew with `ebfit schedule`."

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

    def batch_plan(self) -> BatchPlan:
        """Return the plan as a training loop uses it.

        Raises
        ------
        PlanError
            If its stages contradict each other.
        """
        return BatchPlan.from_dict(self.model_dump(by_alias=True))
