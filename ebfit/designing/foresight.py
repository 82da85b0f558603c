"""What new runs would tell, before they are trained: B_opt, B_min and the steps of runs as one Gaussian.

At every law that the fit leaves possible, B_opt and B_min of the targets and the log steps S(B) of batch sizes are
linear in the free parameters near the law. With the prior of these (that of the fit, pooled over targets as there) all
are jointly normal; what was measured, and what a run would measure, conditions them. That is the information matrix of
the fit, written in the numbers that are looked at in place of its parameters, so that any laws can be averaged over.

Errors are those of the fit: the misfit of the law at a batch size, which all runs of that batch size share; the luck of
a seed; the crossing of a target. The first two belong to a run at all its targets.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

from ebfit.designing.possible import NUMBERS, Possible
from ebfit.fitting.coupled import SCALES
from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray

# Log tokens or log steps: what is known of the scales of a target without its runs, next to nothing.
_SCALE_SD = 3.0
# Of the errors that targets of one run share. Fewer than one whole, as differences between targets are not exact.
_SHARED = 0.8
# Where no batch size has two seeds, this part of the scatter's variance counts as theirs, the rest as the batch size's.
_SEED_PART = 0.5
# What seeds share at a batch size is seen by few of them: it counts for this part of their variance at least.
_LEAST_OF_SIZE = 0.1
_SMALLEST_SD = 1e-3  # of log steps: exact data leave nothing to design, and nothing is known better
_ROUNDING = 1e-9  # relative, by which a variance is raised, so that rounding leaves it positive
_SMALLEST_WEIGHT = 1e-6
_STEEPEST = 1e3  # derivatives of log S beyond it belong to batch sizes at the edge of what is possible


@dataclass(frozen=True)
class Errors:
    """Standard deviations of log steps, shape (T,) each.

    Attributes
    ----------
    size : ndarray
        What all runs of a batch size have in common.
    seed : ndarray
        What each run has by itself.
    crossing : ndarray
        What each target of each run has by itself.
    in_covariance : bool
        Whether the covariance of merged runs holds that of seeds already.
    """

    size: FloatArray
    seed: FloatArray
    crossing: FloatArray
    in_covariance: bool

    @classmethod
    def of(cls, misfit_sd: FloatArray, seed_sd: FloatArray, crossing_sd: FloatArray) -> "Errors":
        """Return the errors of runs of a sweep whose seeds differ by ``seed_sd``, 0 where none has two."""
        misfit = np.maximum(misfit_sd, _SMALLEST_SD)
        if np.any(seed_sd > 0.0):
            size = np.sqrt(np.maximum(misfit**2, _LEAST_OF_SIZE * seed_sd**2))
            return cls(size, np.maximum(seed_sd, _SMALLEST_SD), crossing_sd, True)
        return cls(np.sqrt(1.0 - _SEED_PART) * misfit, np.sqrt(_SEED_PART) * misfit, crossing_sd, False)

    @property
    def total(self) -> FloatArray:
        """Of one run at one target."""
        return np.sqrt(self.size**2 + self.seed**2 + self.crossing**2)

    @property
    def of_size(self) -> FloatArray:
        """Covariance between targets of what a batch size has, shape (T, T)."""
        return along_a_run(self.size)

    @property
    def of_run(self) -> FloatArray:
        """Covariance between targets of what a run has by itself, shape (T, T)."""
        return along_a_run(self.seed) + np.diag(self.crossing**2)


def along_a_run(sd: FloatArray) -> FloatArray:
    """Return the covariance (T, T) of errors of standard deviations (T,) that the targets of a run nearly share."""
    return np.outer(sd, sd) * (_SHARED + (1.0 - _SHARED) * np.eye(len(sd)))


@dataclass(frozen=True)
class Foresight:
    """The joint distribution, at each of K possible laws, of what is wanted and of what new runs would show.

    Attributes
    ----------
    covariance : ndarray, shape (K, M, M)
        Of `NUMBERS` of the T targets, then of the log steps of C batch sizes at T targets; M = (2 + C) T.
    log_steps : ndarray, shape (K, C, T)
        That these laws expect of a run; infinite where it never gets there.
    log_numbers : ndarray, shape (K, T, 2)
    run_covariance : ndarray, shape (K, T, T)
        Of the log steps of a run, but for what all runs of its batch size share.
    total_sd : ndarray, shape (K, T)
        Of a run's log steps.
    """

    covariance: FloatArray
    log_steps: FloatArray
    log_numbers: FloatArray
    run_covariance: FloatArray
    total_sd: FloatArray

    @property
    def targets(self) -> int:
        """T."""
        return self.log_steps.shape[2]

    def log_sd(self, number: str, targets: list[int]) -> FloatArray:
        """Return log standard deviations of log B_opt or log B_min, averaged over the laws, shape (t,)."""
        rows = NUMBERS.index(number) * self.targets + np.asarray(targets)
        variance = np.maximum(self.covariance[:, rows, rows], 1e-300)
        return 0.5 * np.log(variance).mean(axis=0)

    def spread(self, number: str, targets: list[int]) -> float:
        """Return what a design makes small: the log standard deviation of a number.

        Its variance is averaged over targets, so that no target is forgotten for a cheaper one, and the logarithm of
        that over laws, so that none counts for more because it leaves more open.
        """
        rows = NUMBERS.index(number) * self.targets + np.asarray(targets)
        return float(0.5 * np.log(np.maximum(self.covariance[:, rows, rows].mean(axis=1), 1e-300)).mean())

    def after(self, size: int, log_length: float) -> "Foresight":
        """Return it with one run more, of batch size number ``size``, trained for so many log steps."""
        rows, _, noise = self._run(size, log_length)
        return replace(self, covariance=_conditioned(self.covariance, rows, noise))

    def after_all(self, runs: list[tuple[int, float]]) -> "Foresight":
        """Return it with several runs more, of sizes and log lengths."""
        if not runs:
            return self
        parts = [self._run(size, log_length) for size, log_length in runs]
        t = self.targets
        noise = np.zeros((len(self.covariance), len(runs) * t, len(runs) * t))
        for i, (_, _, block) in enumerate(parts):
            noise[:, i * t : (i + 1) * t, i * t : (i + 1) * t] = block
        rows = np.concatenate([part[0] for part in parts])
        return replace(self, covariance=_conditioned(self.covariance, rows, noise))

    def gains(self, number: str, targets: list[int], log_length: FloatArray) -> FloatArray:
        """Return by how much one run more shrinks the `spread` of a number.

        Parameters
        ----------
        number : {"b_opt", "b_min"}
        targets : list of int
            That count.
        log_length : ndarray, shape (C, A)
            Lengths that a run of each batch size might have; infinite where none is wanted.

        Returns
        -------
        ndarray, shape (C, A)
        """
        k, c, t = self.log_steps.shape
        wanted = NUMBERS.index(number) * t + np.asarray(targets)
        first = len(NUMBERS) * t
        blocks = self.covariance[:, first:, first:].reshape(k, c, t, c, t)
        own = blocks[:, np.arange(c), :, np.arange(c), :].swapaxes(0, 1)  # (K, C, T, T)
        cross = (
            self.covariance[:, wanted, first:].reshape(k, len(wanted), c, t).swapaxes(1, 2)
        )  # (K, C, w, T)
        before = self.covariance[:, wanted, wanted]  # (K, w)
        gains = np.zeros(log_length.shape)
        for a in range(log_length.shape[1]):
            noise = self._noise(self.log_steps, np.nan_to_num(log_length[:, a], posinf=0.0)[None, :, None])
            solved = np.linalg.solve(own + noise, cross.swapaxes(-1, -2))  # (K, C, T, w)
            removed = np.einsum("kcwt,kctw->kcw", cross, solved)
            left = np.clip(before[:, None] - removed, 1e-12 * before[:, None], before[:, None])
            gains[:, a] = 0.5 * (np.log(before.mean(axis=1))[:, None] - np.log(left.mean(axis=2))).mean(
                axis=0
            )
        return np.where(np.isfinite(log_length), gains, 0.0)

    def _run(self, size: int, log_length: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
        t = self.targets
        rows = len(NUMBERS) * t + size * t + np.arange(t)
        log_steps = self.log_steps[:, size]
        return rows, log_steps, self._noise(log_steps[:, None], log_length)[:, 0]

    def _noise(self, log_steps: FloatArray, log_length: FloatArray | float) -> FloatArray:
        """Return the error of runs (K, C, T, T), larger where a run likely ends above the target."""
        weight = information_left(log_length - log_steps, self.total_sd[:, None])
        root = np.sqrt(weight)
        return self.run_covariance[:, None] / (root[..., :, None] * root[..., None, :])


def foresee(
    possible: list[Possible],
    data: Observations,
    seed_sd: FloatArray,
    crossing_sd: FloatArray,
    log_batch: FloatArray,
) -> Foresight:
    """Return what new runs at some batch sizes would tell beyond what the runs of a sweep do.

    Parameters
    ----------
    possible : list of Possible
    data : Observations
        Of the sweep, seeds merged.
    seed_sd, crossing_sd : ndarray, shape (T,)
        Standard deviations of log steps between seeds, 0 where not known, and of a typical crossing.
    log_batch : ndarray, shape (C,)
        Of the new runs.
    """
    parts = [_of_one_law(laws, data, seed_sd, crossing_sd, log_batch) for laws in possible]
    return Foresight(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Foresight.__dataclass_fields__)
    )


def information_left(room: FloatArray, sd: FloatArray) -> FloatArray:
    """Return the share of the information of a point that is left if the run may end above the target.

    Parameters
    ----------
    room : ndarray
        Log of the steps that the run has over those that it is expected to need.
    sd : ndarray
        Standard deviation of the latter.

    Returns
    -------
    ndarray
        Fisher information about the expected log steps of a normal observation that is cut off at ``room``, relative
        to that without the cut.
    """
    a = np.clip(room / sd, -30.0, 30.0)
    density = norm.pdf(a)
    return np.clip(
        norm.cdf(a) - a * density + np.exp(2.0 * norm.logpdf(a) - log_ndtr(-a)), _SMALLEST_WEIGHT, 1.0
    )


def _of_one_law(
    possible: Possible,
    data: Observations,
    seed_sd: FloatArray,
    crossing_sd: FloatArray,
    log_batch: FloatArray,
) -> Foresight:
    errors = Errors.of(possible.misfit_sd, seed_sd, crossing_sd)
    sizes = np.unique(np.concatenate([data.log_batch, log_batch]))
    log_steps, by_free = possible.log_steps(sizes)
    by_free = np.clip(np.nan_to_num(by_free), -_STEEPEST, _STEEPEST)
    log_numbers, numbers_by_free = possible.log_numbers()
    k, t, n = log_steps.shape
    joint = _prior_covariance(
        possible, np.concatenate([numbers_by_free, by_free], axis=2)
    )  # (K, T, 2+n, T, 2+n)
    measured = len(NUMBERS) + np.arange(n)
    joint[:, :, measured, :, measured] += errors.of_size
    joint = (
        joint.swapaxes(1, 2).swapaxes(3, 4).reshape(k, (len(NUMBERS) + n) * t, -1)
    )  # numbers and sizes, then targets

    place = np.searchsorted(sizes, data.log_batch)
    run, target = np.nonzero(data.present)
    rows = (len(NUMBERS) + place[run]) * t + target
    noise = np.where(run[:, None] == run, data.covariance[run[:, None], target[:, None], target], 0.0)
    if not errors.in_covariance:
        noise = noise + np.where(run[:, None] == run, along_a_run(errors.seed)[target[:, None], target], 0.0)
    noise = noise + _SMALLEST_SD**2 * np.eye(len(rows))
    room = data.log_steps[run, target] - log_steps[:, target, place[run]]
    weight = np.where(data.censored[run, target], information_left(room, errors.total[target]), 1.0)
    root = np.sqrt(weight)
    joint = _conditioned(joint, rows, noise / (root[:, :, None] * root[:, None, :]))

    new = np.searchsorted(sizes, log_batch)
    kept = np.concatenate(
        [np.arange(len(NUMBERS) * t), ((len(NUMBERS) + new)[:, None] * t + np.arange(t)).ravel()]
    )
    return Foresight(
        covariance=joint[:, kept[:, None], kept],
        log_steps=log_steps[:, :, new].swapaxes(1, 2),
        log_numbers=log_numbers,
        run_covariance=np.broadcast_to(errors.of_run, (k, t, t)),
        total_sd=np.broadcast_to(errors.total, (k, t)),
    )


def _prior_covariance(possible: Possible, by_free: FloatArray) -> FloatArray:
    """Return the covariance of quantities with derivatives (K, T, n, p) before any run; shape (K, T, n, T, n)."""
    scales = _SCALE_SD * by_free[..., :SCALES]
    shapes = possible.law.prior.sd[SCALES:] * by_free[..., SCALES:]
    is_pooled = np.isfinite(possible.omega)
    k, t, n, _ = by_free.shape
    flat = shapes.reshape(k, t * n, -1)
    joint = (flat @ flat.swapaxes(-1, -2)).reshape(k, t, n, t, n) if is_pooled else np.zeros((k, t, n, t, n))
    own = scales @ scales.swapaxes(-1, -2)
    own = own + (possible.omega**2 if is_pooled else 1.0) * (shapes @ shapes.swapaxes(-1, -2))
    at = np.arange(t)
    joint[:, at, :, at, :] += own.swapaxes(0, 1)
    return joint


def _conditioned(covariance: FloatArray, rows: np.ndarray, noise: FloatArray) -> FloatArray:
    """Return the covariance (K, M, M) once its ``rows`` (m,) are measured with errors of covariance (K, m, m)."""
    cross = covariance[:, rows]
    measured = cross[:, :, rows] + noise
    at = np.arange(len(rows))
    measured[:, at, at] *= 1.0 + _ROUNDING
    root = np.linalg.cholesky(measured)
    half = np.linalg.solve(root, cross)
    return covariance - half.swapaxes(-1, -2) @ half
