"""Random plans, a small one, and the one that is worked through in the docs: for the tests of plans and trainers."""

import pytest
from hypothesis import strategies as st

from ebfit.batch_plan import BatchPlan, PlanError

MI = 2**20
BILLION = 10**9

# 40, 80, 120 tokens in sequences of 10, for 3, 4 and 4 steps
SMALL = BatchPlan.from_sizes(
    [(0, 40), (100, 80), (400, 120)],
    total_tokens=1000,
    seq_len=10,
    lr_scales=[1.0, 1.4, 1.7],
    start_losses=[None, 3.0, 2.5],
    warmup_tokens=60,
    decay_start_tokens=800,
)


def one_sentence(error: pytest.ExceptionInfo[PlanError]) -> str:
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 250
    return text


def worked_example(**settings: object) -> BatchPlan:
    """2Mi -> 4Mi -> 5Mi -> 6Mi tokens every 125B tokens, in sequences of 4096."""
    sizes = [(number * 125 * BILLION, batch * MI) for number, batch in enumerate((2, 4, 5, 6))]
    return BatchPlan.from_sizes(sizes, total_tokens=500 * BILLION, seq_len=4096, **settings)


@st.composite
def plans(
    draw: st.DrawFn,
    *,
    min_stages: int = 1,
    max_stages: int = 6,
    unit: int = 1,
    max_size: int = 4000,
    max_steps: int = 2_000_000,
    lr_scales: bool = False,
    start_losses: bool = False,
) -> BatchPlan:
    """A plan whose batch sizes rise from stage to stage: ``unit`` sequences times 1 to ``max_size``."""
    seq_len = draw(st.sampled_from([1, 8, 1000, 4096, 8192]))
    number = draw(st.integers(min_stages, max_stages))
    units = draw(
        st.lists(st.integers(1, max_size), min_size=number, max_size=number, unique=True).map(sorted)
    )
    batches = [unit * size * seq_len for size in units]
    steps = draw(st.lists(st.integers(1, max_steps), min_size=number, max_size=number))
    starts = [
        sum(batch * count for batch, count in zip(batches[:k], steps[:k], strict=True)) for k in range(number)
    ]
    end = starts[-1] + batches[-1] * steps[-1]
    total = end + draw(st.integers(0, batches[-1] - 1))
    decay_start = draw(st.none() | st.integers(total // 2, total))
    scales = draw(st.lists(st.floats(1.0, 4.0), min_size=number, max_size=number).map(sorted))
    return BatchPlan.from_sizes(
        list(zip(starts, batches, strict=True)),
        total_tokens=total,
        seq_len=seq_len,
        lr_scales=[1.0, *scales[1:]] if lr_scales else None,
        start_losses=[None, *(3.0 - 0.1 * k for k in range(number - 1))] if start_losses else None,
        warmup_tokens=draw(st.integers(0, total // 10)),
        decay_start_tokens=decay_start,
        policy=draw(st.sampled_from(["given", "optimal", "overhead:0.05"])),
    )
