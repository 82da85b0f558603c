"""What was read of runs, and run.json of `ebfit sweep`."""

from typing import Any, Literal

from pydantic import Field

from ebfit.files.base import Document, File, Input, Text, UnknownTokens


class CurveRecord(Document):
    """A loss curve thinned for plotting, with the smooth line that was used to find crossings."""

    kind: Literal["train", "val"]
    column: Text
    lag_steps: float = 0.0
    steps: list[float]
    loss: list[float]
    smooth: list[float | None] = Field(default_factory=list)


class RunRecord(Document):
    """What was read of one run (shared by ``ebfit.inspect/1`` and ``ebfit.fit/1``)."""

    name: Text
    path: Text
    format: str
    batch_tokens: UnknownTokens
    batch_source: Text
    seq_len: int | None
    lr: float | None
    seed: int | None
    model: Text | None = None
    data: Text | None = None
    rows: int
    dropped: dict[Text, int]
    stable_from: int
    stable_to: int
    stable_source: Text
    files: int = 1
    warnings: list[Text] = Field(default_factory=list)
    train_loss_first: float | None = None
    train_loss_last: float | None = None
    val_loss_first: float | None = None
    val_loss_last: float | None = None
    curve: CurveRecord | None = None


class Inspection(Document):
    """``ebfit inspect --json``: what was read, run by run; a run in `problems` cannot be fitted as it is."""

    schema_: Literal["ebfit.inspect/1"] = Field("ebfit.inspect/1", alias="schema")
    ebfit_version: str
    inputs: list[Input]
    runs: list[RunRecord]
    warnings: list[Text] = Field(default_factory=list)
    problems: list[Text] = Field(default_factory=list)


class RunOutcome(Document):
    """How far a run of `ebfit sweep` has come, and why it ended where it did."""

    status: Literal["running", "finished", "interrupted", "failed"] = "running"
    reason: Text = ""
    step: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    val_loss: float | None = None
    seconds: float = 0.0
    tokens_per_second: float | None = None
    flops_utilisation: float | None = None


class RunDocument(File):
    """run.json: the settings of a run of `ebfit sweep`, enough to repeat it, and its outcome.

    ``recipe`` holds every setting that decides the numbers of the run, and ``key`` is its checksum.
    ``decay_start_step`` is the last step at the full learning rate, null without a decay or before it is known.
    """

    what = "a run.json of `ebfit sweep`"
    way_out = "Move it away, or choose another folder."

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
