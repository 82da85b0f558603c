"""The PyTorch loop of docs/training_loops.md takes the plan's steps; tests/interop has the loops of other packages."""

from pathlib import Path
from typing import Any

import pytest
import torch
from documents import REPOSITORY, make_workspace, python_blocks, run_code

DOCUMENT = REPOSITORY / "docs" / "training_loops.md"


def test_every_step_of_the_loop_is_the_mean_over_the_planned_sequences(tmp_path: Path):
    make_workspace(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in python_blocks(DOCUMENT):
        run_code(DOCUMENT, code, tmp_path, names)
    plan, data = names["plan"], names["data"]
    model, optimizer = names["new_model"]()
    rates: list[float] = []

    def check(*_: Any) -> None:
        first = plan.tokens_at(len(rates)) // plan.seq_len
        whole = data[first : first + plan.at_step(len(rates)) // plan.seq_len]
        alone, _ = names["new_model"]()
        alone.load_state_dict(model.state_dict())
        names["loss_of"](alone, whole).backward()
        for parameter, reference in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, reference.grad, rtol=1e-4, atol=1e-6)
        rates.append(optimizer.param_groups[0]["lr"])

    optimizer.register_step_pre_hook(check)
    names["train"](model, optimizer, 0, until=plan.total_tokens)

    assert len(rates) == plan.total_steps
    stable = [plan.steps_until(plan.warmup_tokens), plan.steps_until(plan.decay_start_tokens)]
    for step, rate in enumerate(rates):
        if stable[0] <= step < stable[1]:
            peak = names["PEAK_LR"] * plan.stage_at(plan.tokens_at(step)).lr_scale
            assert rate == pytest.approx(peak)
    assert rates[: stable[0]] == sorted(rates[: stable[0]])
    assert rates[stable[1] :] == sorted(rates[stable[1] :], reverse=True)
