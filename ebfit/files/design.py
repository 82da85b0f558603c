"""``ebfit design --json``: the runs to train next, and how much narrower intervals they are worth."""

from typing import Any, Literal

from pydantic import Field

from ebfit.files.base import Document, File, Input, Positive, Status, Text, Tokens

DesignGoal = Literal["b_opt", "b_min"]


class DesignedRun(Document):
    """Runs of one batch size and length; ``seeds`` of them, ``tokens`` in all.

    ``for_loss`` is the target that they are long enough for; ``seeds_so_far`` is how many runs of this batch size the
    fit holds, and ``first_seed`` the first of the seeds that no run of it has; ``place`` is where the batch size lies
    as far as the fit knows.
    """

    batch_tokens: Tokens
    seeds: int
    seeds_so_far: int
    first_seed: int
    steps: int
    tokens: Tokens
    for_loss: float
    place: Text


class HalfWidths(Document):
    """Half-width of an interval in natural log: 0.1 is 10% to either side.

    ``before`` is that of the fit, None where the number is not bracketed; ``after`` is expected once the runs are
    trained. ``bracketed`` is the share, of the laws that the fit leaves possible, whose value lies within the batch
    sizes that reach the target then.
    """

    status: Status
    before: float | None
    after: float
    bracketed: float


class Rehearsed(Document):
    """What simulated designs gave: medians over those where the number was bracketed, ``ok`` their share.

    ``rms_error`` is that of the log of the estimates.
    """

    ok: float
    half_width: float | None
    rms_error: float | None


class DesignedTarget(Document):
    """What the design does for one target loss; ``wanted`` if it was made for it."""

    loss: float
    wanted: bool
    b_opt: HalfWidths
    b_min: HalfWidths
    rehearsed_b_opt: Rehearsed | None = None
    rehearsed_b_min: Rehearsed | None = None


class Design(File):
    """The runs to train next."""

    what = "a design"
    way_out = "Write it anew with `ebfit design`."

    schema_: Literal["ebfit.design/1"] = Field("ebfit.design/1", alias="schema")
    ebfit_version: str
    settings: dict[str, Any] = Field(default_factory=dict)
    inputs: list[Input] = Field(default_factory=list)
    goal: DesignGoal
    group: Text | None = None
    seq_len: int | None = None
    confidence: float
    budget_tokens: Positive
    total_tokens: Tokens
    runs: list[DesignedRun]
    targets: list[DesignedTarget]
    simulations: int = 0
    commands: list[Text] = Field(default_factory=list)
    warnings: list[Text] = Field(default_factory=list)
