"""Two real runs that raised their batch: what is predicted of them from constant batches holds."""

import importlib.util
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "plan_prediction.py"


def test_what_raising_the_batch_saved_lies_within_the_prediction(monkeypatch):
    spec = importlib.util.spec_from_file_location("plan_prediction", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plan_prediction", benchmark)  # dataclasses look themselves up there
    spec.loader.exec_module(benchmark)
    compared = list(benchmark.compare())
    assert len(compared) == 18
    assert [item for item in compared if not item.holds] == []
    # and the range says something: both runs were ahead of the best constant batch, by a quarter and more at the end
    ahead = [item.best_constant / item.tokens for item in compared if item.loss <= 2.2]
    assert min(ahead) > 1.05
    assert all(
        item.prediction.same_loss_by_steps.high < 5 * item.prediction.same_loss_by_loss.low
        for item in compared
    )
