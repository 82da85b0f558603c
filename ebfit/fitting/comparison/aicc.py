"""Akaike's criterion, corrected for small samples (Hurvich and Tsai, 1989), of laws over all targets of a group.

Targets crossed by one run err together, and would count a run's luck once per target. So the likelihood is that of
`ebfit.fitting.shared_error`: normal errors whose misfit is correlated between targets, the more the closer they lie.
How large it is and how far it reaches is estimated for every law anew, two parameters more. Of the law's own parameters
those count that the data determine, not what weak priors hold.
"""

import numpy as np
from scipy.special import log_ndtr

from ebfit.fitting.comparison.contestants import Fitted, Refit
from ebfit.fitting.shared_error import SharedError
from ebfit.laws import FloatArray

_FIRST_MISFIT = 0.02  # log steps; where the search starts
_FARTHEST = 100.0  # log steps; as good as never


def aicc(refit: Refit, fitted: Fitted) -> float | None:
    """Return the criterion of what was fitted to ``refit``; only differences over the same data mean anything.

    None where it is no law, or has about as many parameters as there are points.
    """
    if fitted.parameters is None:
        return None
    data, losses = refit.data, np.array(refit.losses)
    used = fitted.parameters + (2.0 if len(losses) > 1 else 1.0)
    spare = float(data.reached.sum()) - used - 1.0
    if spare <= 0.0:
        return None
    log_likelihood = _log_likelihood(refit, fitted.log_steps(data.log_batch).T)
    return -2.0 * log_likelihood + 2.0 * used + 2.0 * used * (used + 1.0) / spare


def _log_likelihood(refit: Refit, predicted: FloatArray) -> float:
    data = refit.data
    residual = np.clip(np.nan_to_num(predicted - data.log_steps), -_FARTHEST, _FARTHEST)
    start = SharedError.of(data, np.array(refit.losses), _FIRST_MISFIT)
    # without parameters of a law the restricted likelihood is the likelihood itself
    no_parameters = np.zeros((*residual.shape, 0))
    error = start.fitted(np.where(data.reached, residual, 0.0), no_parameters, np.zeros(0))
    whitening, log_determinant = error.whitening()
    z = (whitening @ residual[..., None])[..., 0]
    of_reached = -0.5 * float(np.sum(z[data.reached] ** 2)) + log_determinant
    return of_reached + float(np.sum(log_ndtr(z[error.one_sided])))
