"""The Python API: from runs or a points table to a `Fit`, the document that `ebfit fit` writes."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

import numpy as np

from ebfit import __version__, comparing, selection, targets
from ebfit.crossings import SmoothCurve
from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.files import (
    Comparison,
    CurveRecord,
    Estimate,
    Fit,
    PointRecord,
    RunRecord,
    SecondOpinionRecord,
    SkippedTarget,
    TargetRecord,
    Trends,
)
from ebfit.fitting import (
    COUPLINGS,
    LEAST_TRIED,
    Coupling,
    Interval,
    TargetFit,
    fit_targets,
    why_no_target_fitted,
    why_not_fitted,
)
from ebfit.mixed import what_is_mixed
from ebfit.points import PointsTable
from ebfit.records import input_record, run_record
from ebfit.runs import LossKind, ReadOptions, Run, files_read
from ebfit.samples import (
    Sample,
    at_best_lr,
    choose_loss,
    one_size_where_alike,
    sample_from_curves,
    smooth_runs,
)
from ebfit.trends import Group, find_trends

LawName = Literal["revised", "classic", "surface", "auto"]
_MOST_TARGETS = 200
_MOST_REFITS = 100_000
_CURVE_ROWS = 200  # kept per run for plots


def fit(
    source: Sequence[Run] | PointsTable,
    *,
    targets: Sequence[float] | float | Literal["auto"] = "auto",
    n_targets: int = 8,
    law: LawName = "revised",
    coupling: Coupling = "pooled",
    loss: LossKind | None = None,
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    select: Mapping[str, str] | None = None,
    group_by: str | None = None,
    best_lr: bool = False,
    read_options: ReadOptions | None = None,
) -> Fit:
    """Fit a law per target loss and find B_min and B_opt with confidence intervals.

    Parameters
    ----------
    source : sequence of Run or PointsTable
        From `read_runs` or `read_points`.
    targets : float, sequence of float, or "auto"
        Target losses in the units of the logs. Of a points table: those among its targets to fit.
    n_targets : int
        How many targets "auto" picks.
    law : {"revised", "classic", "surface", "auto"}
        The first two are fitted to each target, the third to all targets of a group at once. "auto" takes the one that
        predicts left-out batch sizes best, with its coupling, and says why: see `ebfit.compare`.
    coupling : {"none", "pooled", "shared"}
        How far the targets share the shape of the revised law; see `ebfit.fitting.coupling`.
    loss : {"train", "val"}, optional
        Which loss the targets are of; by default validation where every run has enough of it.
    bootstrap : int
        Refits per target behind the intervals.
    confidence : float
        Of the intervals.
    seed : int
        Of the bootstrap; the same seed gives the same result.
    select : mapping, optional
        Only runs with these values, such as ``{"lr": "0.001"}``; see `ebfit.selection.select`.
    group_by : str, optional
        Fit runs with different values of this by themselves: ``model``, ``data``, ``lr``, ``seq_len``.
    best_lr : bool
        Of several learning rates keep, per batch size and target, the one with the fewest steps.
    read_options : ReadOptions, optional
        As given to `read_runs`, to be recorded.

    Returns
    -------
    Fit

    Raises
    ------
    BadInputError
        If an argument is out of its range or the runs do not share a loss.
    CannotAnswerError
        If no target can be fitted: too few batch sizes, or no run reaches the targets.
    """
    _check_settings(law, coupling, n_targets, bootstrap, confidence, seed)
    if not isinstance(source, PointsTable):
        source = list(source)
        if not all(isinstance(run, Run) for run in source):
            raise BadInputError("fit takes what read_runs or read_points returns, not paths.")
        if not source:
            raise BadInputError("no runs to fit.")
    requested = _checked_targets(targets)
    settings: dict[str, Any] = {
        "law": law,
        "coupling": coupling if law == "revised" else "none",
        "targets": "auto" if requested is None else requested,
        "n_targets": n_targets,
        "bootstrap": bootstrap,
        "confidence": confidence,
        "seed": seed,
    }
    warnings: list[str] = []
    if isinstance(source, PointsTable):
        if select or group_by or best_lr:
            raise BadInputError(
                "a points table has neither learning rates nor models: name groups in its column group."
            )
        samples, skipped = _points_samples(source, requested)
        warnings += source.warnings
        inputs = [input_record(source.path)]
        runs: list[RunRecord] = []
    else:
        source = selection.select(source, select or {})
        kind, reason = choose_loss(source, loss)
        settings |= {"loss": kind, "loss_reason": reason, "reading": _said(read_options)}
        settings |= {"select": dict(select or {}), "group_by": group_by, "best_lr": best_lr}
        grouped = {None: source} if group_by is None else selection.group_by(source, group_by)
        samples, skipped, runs = [], [], []
        warnings += dict.fromkeys(text for run in source for text in run.assumptions)
        for group, members in grouped.items():
            sample, records_of_group, more = _runs_sample(members, requested, n_targets, kind, group, best_lr)
            samples.append(sample)
            runs += records_of_group
            warnings += [text for text in more if text not in warnings]
        if kind == "train" and (read_options or ReadOptions()).train_window is None:
            warnings += _lag_warning(source)
        inputs = [input_record(path) for path in files_read(source, read_options)]

    comparison: list[Comparison] = []
    if law == "auto":
        choice = comparing.choose(samples)
        law, coupling, comparison = choice.law, choice.coupling, choice.comparison
        settings |= {"law_chosen": law, "coupling": coupling, "law_reason": choice.reason}
    records: list[TargetRecord] = []
    groups: list[Group] = []
    for sample in samples:
        fitted, passed_over = _fit_sample(sample, law, coupling, bootstrap, confidence, seed)
        skipped += passed_over
        records += [_target_record(sample, t, result) for t, result in fitted]
        groups.append(_group(sample, fitted))
    if not records:
        raise CannotAnswerError(_nothing_fitted(law, samples, skipped, automatic=requested is None))
    return Fit(
        schema="ebfit.fit/1",
        ebfit_version=__version__,
        settings=settings,
        inputs=inputs,
        runs=runs,
        targets=records,
        skipped_targets=skipped,
        trends=find_trends(groups, confidence) if law != "classic" else Trends(),
        comparison=comparison,
        warnings=warnings,
    )


def _check_settings(
    law: str, coupling: str, n_targets: int, bootstrap: int, confidence: float, seed: int
) -> None:
    if law not in get_args(LawName):
        raise BadInputError(f"law {law!r} is not known. Choose one of {', '.join(get_args(LawName))}.")
    if coupling not in COUPLINGS:
        raise BadInputError(f"coupling {coupling!r} is not known. Choose {', '.join(COUPLINGS)}.")
    if not 1 <= n_targets <= _MOST_TARGETS:
        raise BadInputError(
            f"--n-targets must lie between 1 and {_MOST_TARGETS}, which {n_targets} does not."
        )
    if bootstrap < 100:
        raise BadInputError(f"--bootstrap {bootstrap} is too few refits for an interval. Use 100 or more.")
    if bootstrap > _MOST_REFITS:
        raise BadInputError(
            f"--bootstrap {bootstrap} is more than any interval needs. Use {_MOST_REFITS} or fewer."
        )
    if not 0.5 <= confidence < 1.0:
        raise BadInputError(f"--confidence must lie in 0.5 <= C < 1, such as 0.95; {confidence:g} does not.")
    if seed < 0:
        raise BadInputError(f"--seed must not be negative, as {seed} is.")


def _checked_targets(targets: Sequence[float] | float | str) -> list[float] | None:
    """Return the target losses asked for, falling; None where they are to be found."""
    if isinstance(targets, str):
        if targets != "auto":
            raise BadInputError(
                f'targets {targets!r}: give a list of numbers, such as [2.4, 2.2], or "auto".'
            )
        return None
    wanted = np.atleast_1d(np.asarray(targets, dtype=float))
    if not len(wanted) or not np.isfinite(wanted).all():
        raise BadInputError("targets must be finite numbers, such as 2.4,2.2, or auto.")
    return sorted(set(wanted.tolist()), reverse=True)


def _points_samples(
    table: PointsTable, requested: Sequence[float] | None
) -> tuple[list[Sample], list[SkippedTarget]]:
    """Return the samples with the requested targets, and the requested targets that the table does not hold."""
    if requested is None:
        return table.samples, []
    chosen = [sample.only(requested) for sample in table.samples]
    held = {target for sample in chosen for target in sample.targets}
    missing = [
        SkippedTarget(loss=target, reason="the points table holds no such target")
        for target in requested
        if target not in held
    ]
    return [sample for sample in chosen if sample.targets], missing


def _runs_sample(
    runs: Sequence[Run],
    requested: Sequence[float] | None,
    n_targets: int,
    kind: LossKind,
    group: str | None,
    best_lr: bool,
) -> tuple[Sample, list[RunRecord], list[str]]:
    runs, warnings = one_size_where_alike(runs)
    curves = smooth_runs(runs, kind)
    log_batch = np.log([run.batch_tokens for run in runs])
    chosen = requested if requested is not None else targets.choose(curves, log_batch, n_targets)
    records = []
    for run, curve in zip(runs, curves, strict=True):
        record = run_record(run)
        record.curve = _curve_record(run, kind, curve)
        records.append(record)
    warnings += [
        f"{run.name}: diverged after step {curve.diverged_after:.0f}; the rest of it is left out."
        for run, curve in zip(runs, curves, strict=True)
        if curve.diverged_after is not None
    ]
    warnings += what_is_mixed(runs, kind, best_lr)
    sample = sample_from_curves(runs, curves, chosen, group)
    if best_lr:
        sample = at_best_lr(sample, [run.lr for run in runs])
    return sample, records, warnings


def _lag_warning(runs: Sequence[Run]) -> list[str]:
    """Warn where train losses stand for several steps and nobody said whether they are means over them."""
    for run in runs:
        curve = run.train
        if curve is None or run.averaging_known or curve.logged_steps is not None or len(curve.steps) < 2:
            continue
        if float(np.median(np.diff(curve.steps))) > 1.0:
            return [
                "train losses are taken for those of the step they were logged at. If they are means over the steps "
                "since the row before, as most trainers log them, add --train-window interval (else 1)."
            ]
    return []


def _said(options: ReadOptions | None) -> dict[str, Any]:
    """Return the reading options that are not as they are by default, as JSON holds them."""
    if options is None:
        return {}
    told = {field.name: getattr(options, field.name) for field in fields(options)}
    standard = ReadOptions()
    return {
        name: str(value) if name == "manifest" else dict(value) if name == "columns" else value
        for name, value in told.items()
        if value != getattr(standard, name)
    }


def _curve_record(run: Run, kind: LossKind, smooth: SmoothCurve) -> CurveRecord:
    """Thin a curve to rows spread evenly over log steps."""
    curve = run.stable_curve(kind)
    assert curve is not None, "the curve has been smoothed already"
    places = np.linspace(np.log(curve.steps[0]), np.log(curve.steps[-1]), _CURVE_ROWS)
    kept = np.unique(np.searchsorted(np.log(curve.steps), places).clip(0, len(curve.steps) - 1))
    line = np.interp(np.log(curve.steps[kept]), smooth.log_steps, smooth.loss, right=np.nan)
    return CurveRecord(
        kind=kind,
        column=curve.column,
        lag_steps=curve.lag_steps,
        steps=_six_digits(curve.steps[kept]),
        loss=_six_digits(curve.loss[kept]),
        smooth=[value if np.isfinite(value) else None for value in _six_digits(line)],
    )


def _six_digits(values: np.ndarray[Any, Any]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _fit_sample(
    sample: Sample, law: str, coupling: Coupling, bootstrap: int, confidence: float, seed: int
) -> tuple[list[tuple[int, TargetFit]], list[SkippedTarget]]:
    """Fit the targets that hold enough, and say why the others do not."""
    reasons = [why_not_fitted(law, sample.observations, t) for t in range(len(sample.targets))]
    alone = why_no_target_fitted(law, reasons.count(None))
    reasons = [reason or alone for reason in reasons]
    skipped = []
    for t, reason in enumerate(reasons):
        early = sample.unusable.get(sample.targets[t], 0)
        if reason is not None:
            if early == len(sample.run_names):
                reason = "all runs were below it before their stable phase began"
            elif early:
                reason += f" (of all runs, {early} were below it before their stable phase began)"
            skipped.append(SkippedTarget(loss=sample.targets[t], group=sample.group, reason=reason))
    able = [t for t, reason in enumerate(reasons) if reason is None]
    if not able:
        return [], skipped
    fits = fit_targets(
        law,
        sample.observations.take_targets(able),
        coupling=coupling,
        replicates=bootstrap,
        confidence=confidence,
        seed=seed,
        losses=[sample.targets[t] for t in able],
    )
    return list(zip(able, fits, strict=True)), skipped


def _target_record(sample: Sample, t: int, result: TargetFit) -> TargetRecord:
    warnings = list(result.warnings)
    early = sample.unusable.get(sample.targets[t], 0)
    if early:
        runs = "1 run was" if early == 1 else f"{early} runs were"
        warnings.append(f"{runs} below this loss before the stable phase began, and cannot count.")
    second = result.second_opinion
    return TargetRecord(
        loss=sample.targets[t],
        group=sample.group,
        law=result.law,
        **{name: _estimate(interval) for name, interval in result.numbers.items()},
        s_min=result.s_min,
        e_min=result.e_min,
        s_opt=result.s_opt,
        params={name: value for name, value in result.params.items() if np.isfinite(value)},
        rms_log_residual=result.rms_log_residual,
        misfit_log_sd=result.misfit_log_sd,
        second_opinion=None
        if second is None
        else SecondOpinionRecord(
            law=second.law,
            weight=second.weight,
            b_min=second.b_min,
            b_opt=second.b_opt,
            rms_log_residual=second.rms_log_residual,
        ),
        warnings=warnings,
        points=_point_records(sample, t),
    )


def _group(sample: Sample, fitted: Sequence[tuple[int, TargetFit]]) -> Group:
    data = sample.observations
    return Group(
        name=sample.group,
        losses=[sample.targets[t] for t, _ in fitted],
        fewest_tokens=[float(np.exp(data.mean_log_tokens(t).min())) for t, _ in fitted],
        fits=[result for _, result in fitted],
    )


def _estimate(interval: Interval) -> Estimate:
    return Estimate(value=interval.value, low=interval.low, high=interval.high, status=interval.status)


def _point_records(sample: Sample, t: int) -> list[PointRecord]:
    data = sample.observations
    records = []
    for r in np.flatnonzero(data.present[:, t]):
        steps = float(f"{np.exp(data.log_steps[r, t]):.12g}")  # exp(log(30)) is 30, not 30.000000000000004
        batch_tokens = sample.batch_tokens[r]
        censored = bool(data.censored[r, t])
        se = float(data.log_steps_se[r, t]) * steps
        records.append(
            PointRecord(
                run=sample.run_names[r],
                batch_tokens=batch_tokens,
                steps=steps,
                tokens=batch_tokens * steps,
                steps_se=None if censored or se == 0.0 else se,
                censored=censored,
                seed=sample.seeds[r],
            )
        )
    return sorted(records, key=lambda point: (point.batch_tokens, point.run, point.steps))


def _range_reached(samples: Sequence[Sample]) -> str:
    """Say down to which loss runs got, where that is known."""
    if len(samples) != 1 or samples[0].loss_range is None:
        return ""
    first, last = samples[0].loss_range
    return f" In their stable phases the runs cover losses from {first:.4g} down to {last:.4g}."


def _nothing_fitted(
    law: str, samples: Sequence[Sample], skipped: Sequence[SkippedTarget], automatic: bool
) -> str:
    """Say why there is no result at all, in two sentences."""
    most = max((sorted(set(sample.batch_tokens)) for sample in samples), key=len, default=[])
    if 0 < len(most) < LEAST_TRIED[law]:
        count = "only one batch size" if len(most) == 1 else f"only {len(most)} batch sizes"
        return (
            f"{count} ({', '.join(f'{size:,.0f}' for size in most)} tokens), and the {law} law wants at least "
            f"{LEAST_TRIED[law]}. Add runs at other batch sizes, seven or more in all."
        )
    if automatic and not skipped:
        return (
            "no loss is reached by any run within its stable phase. Train longer, or look at `ebfit inspect`."
        )
    reasons = "; ".join(f"target {item.loss:g}: {item.reason}" for item in skipped[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return (
        f"no target could be fitted: {reasons}{more}.{_range_reached(samples)} Choose targets that more runs reach, or "
        "--targets auto."
    )
