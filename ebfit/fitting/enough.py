"""How much data a law wants of a target, and saying what is missing."""

import numpy as np

from ebfit.fitting.observations import Observations

# Distinct batch sizes that must have reached a target, and that must have been tried at all.
LEAST_REACHED = {"revised": 4, "classic": 3, "surface": 3}
LEAST_TRIED = {"revised": 5, "classic": 3, "surface": 4}
LEAST_TARGETS = {"revised": 1, "classic": 1, "surface": 2}
WANTED_FOR_REVISED = 7  # six parameters, and one to judge them by


def why_not_fitted(law: str, data: Observations, target: int) -> str | None:
    """Return why a target holds too little for a law, or None."""
    reached, tried = counts(data, target)
    if reached == 0:
        return "no run reaches it in its stable phase"
    if reached < LEAST_REACHED[law]:
        return (
            f"only {sizes(reached)} reached it; the {law} law wants at least {LEAST_REACHED[law]}"
            f"{f' and better {WANTED_FOR_REVISED}' if law == 'revised' else ''}"
        )
    if tried < LEAST_TRIED[law]:
        return f"only {sizes(tried)} in all; the {law} law wants at least {LEAST_TRIED[law]}"
    return None


def why_no_target_fitted(law: str, targets: int) -> str | None:
    """Return why a group has too few targets that can be fitted for any of them to be, or None."""
    if targets >= LEAST_TARGETS[law]:
        return None
    return f"the {law} law wants at least {LEAST_TARGETS[law]} targets, as one cannot tell how far the loss can fall"


def counts(data: Observations, target: int) -> tuple[int, int]:
    """Return how many distinct batch sizes reached a target, and how many were run at all."""
    tried = np.unique(data.log_batch[data.present[:, target]])
    return len(data.reached_batches(target)), len(tried)


def sizes(count: int) -> str:
    """Return the count with its noun."""
    return f"{count} batch size" if count == 1 else f"{count} batch sizes"
