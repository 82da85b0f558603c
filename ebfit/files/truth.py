"""truth.json: the answer to a simulated sweep."""

from typing import Any, Literal

from pydantic import Field

from ebfit.files.base import Count, Document, File, Finite, Positive, Text


class TruthRecord(Document):
    """The true numbers at a target loss, as `TargetRecord` has the estimates: tokens, and steps for s_min and s_opt.

    ``sizes_reaching`` counts the batch sizes that get there, but for noise.
    """

    loss: Finite
    b_min: Positive
    b_opt: Positive
    s_min: Positive
    e_min: Positive
    s_opt: Positive
    sizes_reaching: Count


class Truth(File):
    """truth.json: the world and the noise of `ebfit simulate`, and the answer at every target loss.

    B_opt and B_min grow with the data D = E_min as D to the power of ``tokens_exponent``.
    """

    what = "a truth.json of `ebfit simulate`"
    way_out = "Write it anew with `ebfit simulate --truth`."

    schema_: Literal["ebfit.truth/1"] = Field("ebfit.truth/1", alias="schema")
    ebfit_version: str
    world: Text
    parameters: dict[str, Finite]
    tokens_exponent: Positive
    noise: dict[str, Any]
    seed: Count
    batch_tokens: list[Count]
    seeds: Count
    seq_len: Count
    targets: list[TruthRecord]
