"""comparison.json: what ``ebfit compare`` found. A part of it stands in fit.json, where ``fit --law auto`` made it."""

from typing import Any, Literal

from pydantic import Field

from ebfit.files.base import Count, Document, File, Finite, Input, NotNegative, Text, Tokens


class Errors(Document):
    """How far a law was off where a batch size was left out: absolute errors of log steps.

    ``lobo_median`` and ``lobo_p90`` are of batch sizes between others that reached the target; None where there is
    no such. ``name`` is that of the law with its coupling.
    """

    name: str
    law: str
    coupling: str
    lobo_median: NotNegative | None
    lobo_p90: NotNegative | None


class LawErrors(Errors):
    """The errors of a law over all targets.

    Attributes
    ----------
    lobo_mean : float or None
        Mean over batch sizes of their mean error over targets, edges too, by which laws are ranked; None for what does
        not extrapolate, as of the next three.
    p_value : float or None
        How easily chance makes this law as much worse than the best as it is; 1 for the best.
    edge_median, edge_p90 : float or None
        Of the smallest and the largest batch size that reached each target.
    ended_right : int or None
        Of the batch sizes that never reached a target, for how many the law says so.
    aicc, parameters : float or None
        Akaike's corrected criterion, and how many parameters the data determine.
    """

    lobo_mean: NotNegative | None
    p_value: NotNegative | None
    edge_median: NotNegative | None
    edge_p90: NotNegative | None
    ended_right: Count | None
    aicc: Finite | None
    parameters: NotNegative | None


class LeftOutPoint(Document):
    """A batch size that was left out at a target: what it took, and what each law said (None: never).

    ``ended``: no run of it reached the target, and ``steps`` are those of the longest. ``between``: other batch sizes
    on both sides did. A law that makes no prediction here is not in ``predicted``.
    """

    batch_tokens: Tokens
    steps: float
    ended: bool
    between: bool
    predicted: dict[str, float | None]


class ComparedTarget(Document):
    """The errors at one target."""

    loss: Finite
    group: Text | None = None
    laws: list[Errors]
    left_out: list[LeftOutPoint]


class Counts(Document):
    """What the errors are made of: predictions of batch sizes between others, at the edge, and that never arrived."""

    batch_sizes: Count
    between: Count
    edge: Count
    ended: Count


class Recommendation(Document):
    """Which law to fit, the options of `ebfit fit` for it, and why: sentences about it."""

    law: str
    coupling: str
    options: dict[str, str]
    why: Text


class LawComparison(File):
    """comparison.json: what ``ebfit compare`` found."""

    what = "a comparison of laws"
    way_out = "Write it anew with `ebfit compare`."

    schema_: Literal["ebfit.compare/1"] = Field("ebfit.compare/1", alias="schema")
    ebfit_version: str
    settings: dict[str, Any] = Field(default_factory=dict)
    inputs: list[Input] = Field(default_factory=list)
    counts: Counts
    laws: list[LawErrors]
    targets: list[ComparedTarget]
    recommendation: Recommendation
    warnings: list[Text] = Field(default_factory=list)
