"""What a plan says to people: where its batch sizes lie, what to watch, and the commands that would run it."""

from collections.abc import Sequence

import numpy as np

from ebfit.designing.choose import MOST_RUNS
from ebfit.designing.plan import Plan
from ebfit.designing.possible import NUMBERS
from ebfit.files import DesignedRun, DesignGoal, Fit
from ebfit.fitting import Observations
from ebfit.text import listed, short

_NAMES: dict[str, str] = {"b_opt": "B_opt", "b_min": "B_min"}
_SURE = 0.9  # of the laws that are possible agree on a place
_NEAR = float(np.log(1.5))
_ROUNDING = 1e-6
_UNUSED = 0.1  # share of the budget that is left over, from which it is told
_OWN_LOGS = "ebfit"


def place_of(plan: Plan, size: int, aim: int, runs: Observations) -> str:
    """Say where a batch size lies: by B_min and B_opt of the target it is trained to, and the runs so far."""
    log_batch = float(np.log(plan.candidates.batch_tokens[size]))
    values = plan.before.log_numbers[:, aim]
    b_opt, b_min = values[:, NUMBERS.index("b_opt")], values[:, NUMBERS.index("b_min")]
    if np.mean(log_batch < b_opt) >= _SURE:
        place = "close to B_min" if log_batch < np.median(b_min) + _NEAR else "below B_opt"
    elif np.mean(log_batch > b_opt) >= _SURE:
        place = "above B_opt"
    else:
        place = "about B_opt"
    reached = runs.reached_batches(aim)
    is_new = log_batch < reached[0] - _ROUNDING or log_batch > reached[-1] + _ROUNDING
    return f"{place}, new ground" if is_new else place


def warnings_of(
    goal: DesignGoal, losses: Sequence[float], plan: Plan, budget: float, is_fixed: bool
) -> list[str]:
    """Say what is open, and what the budget does not do; ``is_fixed`` if batch sizes were given."""
    number = _NAMES[goal]
    warnings = []
    for side in plan.sides:
        at = listed([f"{losses[t]:.5g}" for t in side.targets])
        beyond = f"{side.side} the batch sizes that reached the target"
        cost = next((tokens for unpaid, tokens in plan.unpaid if unpaid is side), None)
        if cost is None:
            warnings.append(
                f"{number} may lie {beyond} at {at}: one run at least goes there. What is expected there rests on the "
                "law alone: fit again after that run, and design anew."
            )
        elif np.isfinite(cost):
            warnings.append(
                f"{number} may lie {beyond} at {at}, and no run there fits the budget: the cheapest takes "
                f"{short(cost)} tokens. The interval will stay open on that side."
            )
        else:
            way_out = "allow some with --batch-sizes" if is_fixed else "see what `ebfit fit` says to run next"
            warnings.append(
                f"{number} may lie {beyond} at {at}, and at no batch size there is a run sure enough to arrive: "
                f"{way_out}."
            )
    if len(plan.runs) >= MOST_RUNS and plan.tokens < (1.0 - _UNUSED) * budget:
        warnings.append(
            f"{MOST_RUNS} runs are the most of a design: {short(budget - plan.tokens)} tokens are left over. Fit again "
            "after these."
        )
    return warnings


def commands_of(fit: Fit, rows: Sequence[DesignedRun], seq_len: int | None) -> list[str]:
    """Return the `ebfit sweep` commands that train the runs, where the fit is one of its runs."""
    of_sweep = fit.runs and all(run.format == _OWN_LOGS for run in fit.runs)
    if seq_len is None or not of_sweep or any(row.batch_tokens % seq_len for row in rows):
        return []
    rates = {run.lr for run in fit.runs}
    lr = f" --lr {rates.pop():g}" if len(rates) == 1 and None not in rates else ""
    alike: dict[tuple[float, int, int], list[DesignedRun]] = {}
    for row in rows:
        alike.setdefault((row.for_loss, row.first_seed, row.seeds), []).append(row)
    return [
        f"ebfit sweep -o designed/to_{loss:.6g} --batch-sizes {','.join(f'{row.batch_tokens:.0f}' for row in members)} "
        f"--seeds {seeds}{f' --first-seed {first}' if first else ''} --until-loss {loss:.6g} "
        f"--max-steps {max(row.steps for row in members)} --seq-len {seq_len}{lr}"
        for (loss, first, seeds), members in sorted(
            alike.items(), key=lambda item: (-item[0][0], *item[0][1:])
        )
    ]
