"""The check of a design: its runs simulated, the whole fit repeated, and the intervals that really come out."""

from dataclasses import dataclass, replace

import numpy as np

from ebfit.designing.foresight import Errors, along_a_run
from ebfit.designing.possible import NUMBERS, Possible
from ebfit.fitting.coupling import Coupling
from ebfit.fitting.observations import Observations
from ebfit.fitting.targets import fit_targets
from ebfit.laws import FloatArray

_REPLICATES = 200


@dataclass(frozen=True)
class Rehearsal:
    """What N simulations of T targets gave; the last axis goes over `NUMBERS`.

    Attributes
    ----------
    half_width : ndarray, shape (N, T, 2)
        Of the intervals, natural log; NaN where the number was not bracketed.
    error : ndarray, shape (N, T, 2)
        Log of the estimate over the truth of the simulation; NaN there as well.
    """

    half_width: FloatArray
    error: FloatArray


def rehearse(
    data: Observations,
    possible: list[Possible],
    seed_sd: FloatArray,
    crossing_sd: FloatArray,
    log_batch: FloatArray,
    log_length: FloatArray,
    *,
    coupling: Coupling,
    confidence: float,
    count: int,
    seed: int,
) -> Rehearsal:
    """Simulate the new runs by laws that are possible, and fit them together with those of the sweep.

    Parameters
    ----------
    data : Observations
        Of the sweep, seeds not merged.
    possible : list of Possible
    seed_sd, crossing_sd : ndarray, shape (T,)
        As `foresee` takes them.
    log_batch, log_length : ndarray, shape (R,)
        Of the new runs: tokens per step, and steps trained.
    coupling, confidence
        As of the fit.
    count : int
        Simulations; laws are taken in turn.
    seed : int
        Of the noise and the bootstrap.
    """
    laws = [(part, k) for part in possible for k in range(len(part.free))]
    order = np.random.default_rng(seed).permutation(len(laws))
    half_widths, errors = [], []
    for i in range(count):
        part, k = laws[order[i % len(laws)]]
        true = replace(part, free=part.free[k : k + 1])
        rng = np.random.default_rng([seed, i])
        new = _simulated(true, Errors.of(part.misfit_sd, seed_sd, crossing_sd), log_batch, log_length, rng)
        fits = fit_targets(
            "revised",
            joined(data, new),
            coupling=coupling,
            replicates=_REPLICATES,
            confidence=confidence,
            seed=i,
        )
        log_truth = true.log_numbers()[0][0]
        found = np.full((2, *log_truth.shape), np.nan)
        for t, fit in enumerate(fits):
            for j, name in enumerate(NUMBERS):
                number = fit.numbers[name]
                if number.value is not None and number.low is not None and number.high is not None:
                    found[0, t, j] = 0.5 * np.log(number.high / number.low)
                    found[1, t, j] = np.log(number.value) - log_truth[t, j]
        half_widths.append(found[0])
        errors.append(found[1])
    return Rehearsal(np.array(half_widths), np.array(errors))


def joined(data: Observations, new: Observations) -> Observations:
    """Return the runs of both."""
    return Observations(
        np.concatenate([data.log_batch, new.log_batch]),
        np.concatenate([data.log_steps, new.log_steps]),
        np.concatenate([data.censored, new.censored]),
        np.concatenate([data.covariance, new.covariance]),
    )


def _simulated(
    true: Possible,
    errors: Errors,
    log_batch: FloatArray,
    log_length: FloatArray,
    rng: np.random.Generator,
) -> Observations:
    expected = true.log_steps(log_batch)[0][0].T  # (R, T)
    sizes, owner = np.unique(log_batch, return_inverse=True)
    targets = expected.shape[1]
    size = rng.multivariate_normal(
        np.zeros(targets), along_a_run(errors.size), size=len(sizes), method="eigh"
    )
    run = rng.multivariate_normal(
        np.zeros(targets), along_a_run(errors.seed), size=len(log_batch), method="eigh"
    )
    crossing = errors.crossing * rng.standard_normal(expected.shape)
    log_steps = expected + size[owner] + run + crossing
    censored = log_steps > log_length[:, None]
    return Observations(
        log_batch=log_batch,
        log_steps=np.where(censored, log_length[:, None], log_steps),
        censored=censored,
        covariance=np.where(censored, 0.0, errors.crossing**2)[:, :, None] * np.eye(targets),
    )
