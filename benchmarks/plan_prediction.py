"""What `ebfit schedule` predicts of two runs that raised their batch, against what they did.

    python benchmarks/plan_prediction.py

For every target loss that a run reached: the tokens it took, the tokens that the best constant batch takes by the fit
(E_min), and the range that the plan up to there is predicted to be worth. The prediction holds where E_min lies in it.
"""

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import ebfit
from ebfit.files import PlanPrediction
from ebfit.schedule.planning import Wanted, given_plan
from ebfit.schedule.source import Source
from ebfit.schedule.stage_options import StageOptions
from ebfit.text import short

RUNS = Path(__file__).parent / "scheduled_runs"
TARGETS = [2.5, 2.4, 2.3, 2.2, 2.1, 2.05, 2.0, 1.95, 1.92]
SEQ_LEN = 32


@dataclass(frozen=True)
class Compared:
    """A run at a target loss: tokens it took, tokens of the best constant batch, and the prediction."""

    run: str
    loss: float
    tokens: int
    best_constant: float
    prediction: PlanPrediction

    @property
    def holds(self) -> bool:
        """Whether the best constant batch lies in the range predicted."""
        low, high = self.prediction.same_loss_by_loss.low, self.prediction.same_loss_by_steps.high
        return low is not None and high is not None and low <= self.best_constant <= high


def compare() -> Iterator[Compared]:
    """Fit the constant batches, and follow both runs to every target that they reached."""
    with contextlib.redirect_stderr(io.StringIO()):
        runs = ebfit.read_runs([RUNS / "constant"], ebfit.ReadOptions(seq_len=SEQ_LEN, warmup_steps=100))
        fit = ebfit.fit(runs, targets=TARGETS)
    source = Source(fit, "constant")
    for path in sorted(RUNS.glob("raised_*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for target in fit.targets:
            reached = next((number for number, row in enumerate(rows) if row["val"] <= target.loss), None)
            if reached is None or target.e_min is None:
                continue
            options = StageOptions(total_tokens=rows[reached]["tokens"], seq_len=SEQ_LEN)
            plan = given_plan(_stages(rows[: reached + 1]), options, Wanted(), source)
            assert plan.prediction is not None
            yield Compared(path.stem, target.loss, options.total_tokens, target.e_min, plan.prediction)


def _stages(rows: list[dict[str, int]]) -> list[tuple[int, int]]:
    """Return where each batch size began, in tokens, and the size."""
    changes = [
        (before["tokens"], row["batch_tokens"])
        for before, row in pairwise(rows)
        if row["batch_tokens"] != before["batch_tokens"]
    ]
    return [(0, rows[0]["batch_tokens"]), *changes]


def main() -> None:
    print("| run | loss | tokens | best constant batch | predicted: by loss, by steps [95%] | |")
    print("|---|---|---|---|---|---|")
    compared = list(compare())
    for item in compared:
        slow, fast = item.prediction.same_loss_by_loss, item.prediction.same_loss_by_steps
        ends = [short(end or 0.0) for end in (slow.value, fast.value, slow.low, fast.high)]
        print(
            f"| {item.run} | {item.loss:g} | {short(item.tokens)} | {short(item.best_constant)} | {ends[0]}, {ends[1]} "
            f"[{ends[2]}, {ends[3]}] | {'holds' if item.holds else 'misses'} |"
        )
    print(f"\n{sum(item.holds for item in compared)} of {len(compared)} hold.")


if __name__ == "__main__":
    main()
