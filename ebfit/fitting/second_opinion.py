"""How much a second law counts beside the revised one: by how well each explains the same points."""

import numpy as np

from ebfit.fitting.point import PointFit, log_evidence

# Laws are compared by evidence from a handful of points, whose errors are anything but independent: count it half.
_EVIDENCE_TEMPER = 0.5
_LEAST_WEIGHT = 0.005


def weight_of_second(first: PointFit, second: PointFit) -> float:
    """Return the weight of the second law, 0 to 1.

    It is one for the whole group: which law the training follows does not change from target to target.
    """
    lead = float(np.mean(log_evidence(second) - log_evidence(first)))
    weight = float(1.0 / (1.0 + np.exp(-np.clip(_EVIDENCE_TEMPER * lead, -500.0, 500.0))))
    return weight if weight > _LEAST_WEIGHT else 0.0
