"""plan.json: what ``ebfit schedule`` makes."""

from typing import Annotated, Literal

from pydantic import Field

from ebfit.batch_plan import BatchPlan
from ebfit.files.base import Count, Document, Estimate, File, Finite, Input, NotNegative, Text
from ebfit.files.trend import Trend

FAR = 10.0  # beyond the largest measured D by this factor, an extrapolation is called far


_AtLeastOne = Annotated[Count, Field(ge=1)]


class StageRecord(Document):
    """A stage of plan.json: whole steps with one batch size, from ``start_tokens`` and ``start_step`` on.

    ``start_loss`` is where a loop that raises the batch by loss begins it; ``b_opt_at_end`` is what the fit says of
    B_opt at its last token, and ``beyond_measured`` that token over the largest measured D.
    """

    start_tokens: Count
    start_step: Count
    batch_tokens: Count
    batch_sequences: Count
    steps: Count
    lr_scale: Finite = 1.0
    start_loss: Finite | None = None
    b_opt_at_end: Estimate | None = None
    beyond_measured: NotNegative | None = None


class PlanTrends(Document):
    """The trends of the fit that a plan follows."""

    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None


class PlanComparison(Document):
    """Whole steps of a constant batch size over the tokens of the plan."""

    name: Literal["best_constant", "first_stage", "last_stage"]
    batch_tokens: Count
    steps: Count


class PlanPrediction(Document):
    """What the best constant batch needs to the loss that the plan has at ``at_tokens``, tokens.

    The two estimates rest on two suppositions about what a run remembers of earlier batch sizes, and the truth lies
    between them: nothing but its loss, or nothing but the number of its steps. ``loss_low`` and ``loss_high`` are the
    losses, of the model that was fitted.
    """

    at_tokens: Count
    same_loss_by_loss: Estimate
    same_loss_by_steps: Estimate
    loss_low: Finite | None = None
    loss_high: Finite | None = None


class Plan(File):
    """plan.json: a batch-size schedule. `ebfit.BatchPlan` reads it in a training loop, and checks it whole."""

    what = "a plan.json"
    way_out = "Write it anew with `ebfit schedule`."

    schema_: Literal["ebfit.plan/1"] = Field("ebfit.plan/1", alias="schema")
    ebfit_version: str
    inputs: list[Input] = Field(default_factory=list)
    group: Text | None = None
    total_tokens: Count
    seq_len: Count
    policy: Text
    bound: Literal["low", "value", "high"] = "value"
    lr_rule: Literal["none", "sqrt", "linear"] = "none"
    micro_batch: _AtLeastOne | None = None
    data_parallel: _AtLeastOne | None = None
    warmup_tokens: Count = 0
    decay_start_tokens: Count | None = None
    total_steps: Count
    leftover_tokens: Count
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
