"""A sample is what one fit is made of: the runs of one group, their targets and what they took to reach them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ebfit import crossings
from ebfit.crossings import SmoothCurve
from ebfit.errors import BadInputError
from ebfit.fitting import Observations
from ebfit.fitting.batched import BoolArray
from ebfit.laws import FloatArray
from ebfit.runs import LossKind, Run

_ALIKE = 0.01  # relative difference below which batch sizes of a sweep are the same one
DENSE_ROWS = 15  # rows of validation loss in the stable phase from which crossings can be read


@dataclass(frozen=True)
class Sample:
    """The observations of one group.

    Attributes
    ----------
    group : str or None
        Name of the group, such as a model size.
    targets : list of float
        Target losses, falling, as the columns of ``observations``.
    observations : Observations
    batch_tokens : list of float
        Tokens per step, as the rows of ``observations``.
    run_names : list of str
        As the rows of ``observations``.
    seeds : list of int or None
    unusable : dict
        Target loss -> how many runs had passed it before their stable phase began.
    loss_range : tuple of float or None
        Highest and lowest smoothed loss of the runs; None where only points are known.
    """

    group: str | None
    targets: list[float]
    observations: Observations
    batch_tokens: list[float]
    run_names: list[str]
    seeds: list[int | None]
    unusable: dict[float, int] = field(default_factory=dict)
    loss_range: tuple[float, float] | None = None

    def only(self, targets: Sequence[float]) -> "Sample":
        """Return the part that is about some of the targets."""
        index = [t for t, target in enumerate(self.targets) if target in targets]
        about_them = self.take_runs(np.flatnonzero(self.observations.present[:, index].any(axis=1)))
        return replace(
            about_them,
            targets=[self.targets[t] for t in index],
            observations=about_them.observations.take_targets(index),
            unusable={target: count for target, count in self.unusable.items() if target in targets},
        )

    def take_runs(self, index: NDArray[np.intp]) -> "Sample":
        """Return some runs, or all in another order."""
        return replace(
            self,
            observations=self.observations.take_runs(index),
            batch_tokens=[self.batch_tokens[r] for r in index],
            run_names=[self.run_names[r] for r in index],
            seeds=[self.seeds[r] for r in index],
        )


def at_best_lr(sample: Sample, rates: Sequence[float | None]) -> Sample:
    """Keep, of every batch size and target, the learning rate that reached it in the fewest steps.

    Parameters
    ----------
    sample : Sample
    rates : sequence of float or None, length R
        The learning rate of every run; runs without one count as of one rate.

    Returns
    -------
    Sample
        Seeds of the chosen rate all stay; where none reached the target, all runs stay as censored ones. Being the
        least of several, the steps kept are a little too few where runs are noisy.
    """
    data = sample.observations
    log_steps = data.log_steps.copy()
    rate = np.array([np.nan if value is None else value for value in rates])
    for size in np.unique(data.log_batch):
        here = data.log_batch == size
        for t in range(log_steps.shape[1]):
            reached = here & data.reached[:, t]
            if not reached.any():
                continue
            means = {
                value: float(log_steps[reached & _same(rate, value), t].mean())
                for value in np.unique(rate[reached])
            }
            best = min(means, key=lambda value: means[value])
            log_steps[here & ~_same(rate, best), t] = np.nan
    observations = replace(data, log_steps=log_steps, censored=data.censored & np.isfinite(log_steps))
    kept = np.flatnonzero(observations.present.any(axis=1))
    return replace(sample, observations=observations).take_runs(kept)


def _same(rates: FloatArray, value: float) -> BoolArray:
    """Tell which learning rates are ``value``, NaN being equal to itself."""
    return np.isnan(rates) if np.isnan(value) else rates == value


def one_size_where_alike(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Give runs whose batch sizes differ by less than they can be known one batch size, their median.

    Sizes read off a rounded tokens column come out a little different for every run; taken as they are, seeds of
    one batch size would pass for different batch sizes.
    """
    sizes = np.unique([run.batch_tokens for run in runs])
    cluster = np.cumsum(np.diff(np.log(sizes), prepend=np.log(sizes[0])) > _ALIKE)
    common: dict[float, float] = {}
    warnings: list[str] = []
    for c in np.unique(cluster):
        members = sizes[cluster == c]
        middle = float(np.quantile(members, 0.5, method="lower"))
        common |= {float(size): middle for size in members}
        if len(members) > 1:
            listed = ", ".join(f"{size:,.6g}" for size in members[:4]) + (", ..." if len(members) > 4 else "")
            warnings.append(
                f"batch sizes of {listed} tokens are taken for one, {middle:,.6g}: they differ too little."
            )
    return [replace(run, batch_tokens=common[float(run.batch_tokens)]) for run in runs], warnings


def choose_loss(runs: Sequence[Run], wanted: LossKind | None) -> tuple[LossKind, str]:
    """Choose between validation and train loss, one for all runs, and say why.

    Parameters
    ----------
    runs : sequence of Run
    wanted : {"train", "val"} or None
        The user's choice, if any.

    Returns
    -------
    kind : {"train", "val"}
    reason : str

    Raises
    ------
    BadInputError
        If no loss is there for all runs.
    """
    rows = {kind: [_stable_rows(run, kind) for run in runs] for kind in ("train", "val")}
    if wanted is not None:
        _check_rows(runs, rows[wanted], wanted)
        return wanted, f"{wanted} loss, as asked for"
    if min(rows["val"]) >= DENSE_ROWS:
        return "val", f"validation loss: every run has {DENSE_ROWS} rows of it or more in its stable phase"
    if min(rows["train"]) >= crossings.MIN_ROWS:
        if max(rows["val"]) == 0:
            return "train", "train loss: there is no validation loss"
        sparse = runs[int(np.argmin(rows["val"]))]
        return "train", f"train loss: {sparse.name} has only {min(rows['val'])} rows of validation loss"
    kind: LossKind = "val" if min(rows["val"]) > min(rows["train"]) else "train"
    _check_rows(runs, rows[kind], kind)
    return kind, f"{kind} loss: the only one that all runs have"


def smooth_runs(runs: Sequence[Run], kind: LossKind) -> list[SmoothCurve]:
    """Smooth the stable phase of every run."""
    curves = []
    for run in runs:
        curve = run.stable_curve(kind)
        assert curve is not None, "choose_loss has seen to it"
        curves.append(crossings.smooth(curve.steps, curve.loss))
    return curves


def sample_from_curves(
    runs: Sequence[Run], curves: Sequence[SmoothCurve], targets: Sequence[float], group: str | None = None
) -> Sample:
    """Find where every run crosses every target.

    Parameters
    ----------
    runs : sequence of Run, length R
    curves : sequence of SmoothCurve, length R
    targets : sequence of float, length T
    group : str, optional
        What the runs have in common.
    """
    targets = sorted(set(targets), reverse=True)
    found = [crossings.find(curve, targets) for curve in curves]
    outcomes = np.array([item.outcome for item in found])
    return Sample(
        group=group,
        targets=list(targets),
        observations=Observations(
            log_batch=np.log([run.batch_tokens for run in runs]),
            log_steps=np.array([item.log_steps for item in found]),
            censored=outcomes == "censored",
            covariance=np.array([item.covariance for item in found]),
        ),
        batch_tokens=[float(run.batch_tokens) for run in runs],
        run_names=[run.name for run in runs],
        seeds=[run.seed for run in runs],
        unusable={target: int(np.sum(outcomes[:, t] == "before_start")) for t, target in enumerate(targets)},
        loss_range=(max(float(c.loss[0]) for c in curves), min(float(c.loss[-1]) for c in curves)),
    )


def _stable_rows(run: Run, kind: LossKind) -> int:
    curve = run.stable_curve(kind)
    return 0 if curve is None else len(curve.steps)


def _check_rows(runs: Sequence[Run], rows: Sequence[int], kind: LossKind) -> None:
    for run, count in zip(runs, rows, strict=True):
        if count < crossings.MIN_ROWS:
            raise BadInputError(
                f"{run.path}: run {run.name} has {count} rows of {kind} loss in its stable phase "
                f"(steps {run.stable_from} to {run.stable_to}); {crossings.MIN_ROWS} are needed. "
                "Leave the run out, or choose the other loss with --loss."
            )
