"""Seeds of one batch size become one point: their mean, with the error that their scatter says it has.

What a law gets wrong at a batch size it gets wrong for every seed there, so seeds are no independent witnesses of the
law. Their scatter is a second source of error: it is estimated within batch sizes, over all of them together with a
correction where one scatters more than the rest, keeps its correlation between targets, and goes down with the number
of seeds; the misfit of the law does not.
"""

import numpy as np

from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray

# The common scatter counts for this many degrees of freedom against a batch size's own.
_OWN_SCATTER_STRENGTH = 4.0


def merge_seeds(data: Observations) -> Observations:
    """Return observations with one reached point, and at most one censored point, per batch size and target.

    Parameters
    ----------
    data : Observations
        Runs with equal ``log_batch`` are seeds of one batch size.

    Returns
    -------
    Observations
        Rows are batch sizes in rising order; a batch size at which some seeds reached a target and others ended
        above it has a second row that holds the latter. Of censored seeds the longest stands for all. Without
        seeds the observations are those given.
    """
    sizes, owner = np.unique(data.log_batch, return_inverse=True)
    if len(sizes) == len(owner):
        return data.take_runs(np.argsort(data.log_batch, kind="stable"))
    reached = data.reached
    scatter, factor = _seed_scatter(data, owner)
    targets = data.log_steps.shape[1]
    rows: list[tuple[float, FloatArray, bool, FloatArray]] = []
    for b, log_batch in enumerate(sizes):
        members = np.flatnonzero(owner == b)
        share = reached[members].astype(float)
        count = share.sum(axis=0)
        seed_covariance = factor[b] * scatter
        if count.any():
            with np.errstate(invalid="ignore"):
                share = np.where(count > 0, share / count, 0.0)
            mean = np.where(count > 0, np.sum(share * np.nan_to_num(data.log_steps[members]), axis=0), np.nan)
            # seeds are independent: the covariance of two means adds up over the seeds that are in both
            covariance = np.einsum("it,iu,itu->tu", share, share, data.covariance[members] + seed_covariance)
            rows.append((log_batch, mean, False, covariance))
        ended = data.present[members] & data.censored[members]
        if ended.any():
            last = np.where(ended, data.log_steps[members], -np.inf).max(axis=0)
            last = np.where(np.isfinite(last), last, np.nan)
            rows.append((log_batch, last, True, np.diag(np.diag(seed_covariance)) * np.isfinite(last)))
    return Observations(
        log_batch=np.array([row[0] for row in rows]),
        log_steps=np.array([row[1] for row in rows]),
        censored=np.array([np.full(targets, row[2]) for row in rows]),
        covariance=np.array([row[3] for row in rows]),
    )


def seed_sd(data: Observations) -> FloatArray:
    """Return the standard deviation of log steps between seeds of one batch size, shape (T,); 0 without seeds."""
    owner = np.unique(data.log_batch, return_inverse=True)[1]
    return np.sqrt(np.diag(_seed_scatter(data, owner)[0]))


def _seed_scatter(
    data: Observations, owner: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[FloatArray, FloatArray]:
    """Return the covariance (T, T) of a seed about its batch size's mean, and a factor on it per batch size.

    The error of the crossings is in ``data.covariance`` already and is taken off.
    """
    reached = data.reached
    sizes = owner.max() + 1
    member = np.zeros((sizes, len(owner)))
    member[owner, np.arange(len(owner))] = 1.0
    count = member @ reached
    mean = (member @ np.where(reached, data.log_steps, 0.0)) / np.maximum(count, 1.0)
    residual = np.where(reached, data.log_steps - mean[owner], 0.0)

    both = np.einsum("bi,it,iu->btu", member, reached, reached)
    degrees = np.maximum(both - 1.0, 0.0).sum(axis=0)
    crossing = np.einsum("it,iu,itu->tu", reached, reached, data.covariance) / np.maximum(
        both.sum(axis=0), 1.0
    )
    scatter = np.where(degrees > 0, residual.T @ residual / np.maximum(degrees, 1.0) - crossing, 0.0)
    values, vectors = np.linalg.eigh(0.5 * (scatter + scatter.T))
    scatter = (vectors * np.maximum(values, 0.0)) @ vectors.T

    expected = np.diag(scatter) + np.diag(crossing)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(expected > 0, residual**2 / expected, 0.0)
    seen = np.maximum((count > 1).sum(axis=1), 1)
    # of a typical target, since the targets of a run are no independent witnesses
    squares = (member @ relative).sum(axis=1) / seen
    own_degrees = np.maximum(count - 1.0, 0.0).sum(axis=1) / seen
    return scatter, (squares + _OWN_SCATTER_STRENGTH) / (own_degrees + _OWN_SCATTER_STRENGTH)
