"""Names that may play a role: of large logs no other columns are read."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs.columns import may_have_a_role, pick_columns

# fmt: off
WORDS = [
    "train", "val", "valid", "validation", "eval", "dev", "test", "loss", "lm",
    "ce", "lr", "learning", "rate", "group", "adamw", "pg", "0", "step",
    "steps", "global", "iteration", "iter", "tokens", "consumed", "seen", "num", "total",
    "batch", "size", "sequences", "gbs", "seed", "b", "metrics", "crossentropyloss", "epoch",
    "dataloader", "idx", "optim", "best", "ema", "aux", "layers", "norm",
]
# fmt: on
NAMES = st.builds(
    lambda words, joint, change: change(joint.join(words)),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.sampled_from(["_", "/", " ", "-", ".", "", "__"]),
    st.sampled_from([str, str.upper, str.title, lambda name: f"_{name}", lambda name: f"{name}_"]),
)


@given(st.lists(NAMES, min_size=1, max_size=12, unique=True))
def test_a_column_that_is_picked_may_have_a_role(names: list[str]):
    table = pa.table(
        {name: [1.0 + place, 2.0 + place, 4.0] for place, name in enumerate(["step", "loss", *names])}
    )
    try:
        picked = pick_columns(table, {}).names.values()
    except BadInputError:
        return  # as of two columns that could both be the loss
    assert all(may_have_a_role(name) for name in picked if name in names)


@pytest.mark.parametrize("name", ["layers/0/grad_norm", "epoch", "", "best_val_loss", "loss vs samples"])
def test_others_may_not(name: str):
    assert not may_have_a_role(name)
