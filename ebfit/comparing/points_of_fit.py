"""From the points of a fit.json back to what a fit is made of, so that a law can be fitted to them again."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from ebfit.errors import BadInputError
from ebfit.files import Fit, PointRecord, TargetRecord
from ebfit.fitting import Observations
from ebfit.points import LARGEST_RELATIVE_SE, is_measured
from ebfit.samples import Sample

# A run, and the how-manieth row of that name it is at a target: where rows cannot be told apart, each is a run.
_Row = tuple[str, float, int | None, int]


def samples_of(fit: Fit, name: str) -> list[Sample]:
    """Return the samples that a fit was made of, one per group.

    Parameters
    ----------
    fit : Fit
    name : str
        Of the file, for messages.

    Returns
    -------
    list of Sample
        How the crossings of a run err together at several targets is not in the file: they count as independent.

    Raises
    ------
    BadInputError
        If a target stands there twice, or a point is nothing that can have been measured.
    """
    groups: dict[str | None, list[TargetRecord]] = defaultdict(list)
    for target in fit.targets:
        groups[target.group].append(target)
    return [_sample(group, targets, name) for group, targets in groups.items()]


def _sample(group: str | None, targets: Sequence[TargetRecord], name: str) -> Sample:
    targets = sorted(targets, key=lambda target: -target.loss)
    losses = [target.loss for target in targets]
    rows: dict[_Row, list[tuple[int, PointRecord]]] = defaultdict(list)
    for t, target in enumerate(targets):
        where = f"{name}: target {target.loss:g}" + (f" of group {group}" if group is not None else "")
        if losses.count(target.loss) > 1:
            raise BadInputError(f"{where}: stands there twice. Write the file anew with `ebfit fit`.")
        seen = Counter[tuple[str, float, int | None]]()
        for point in target.points:
            _check(point, where)
            run = (point.run, float(point.batch_tokens), point.seed)
            rows[*run, seen[run]].append((t, point))
            seen[run] += 1
    shape = (len(rows), len(targets))
    log_steps, censored = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    covariance = np.zeros((*shape, len(targets)))
    for r, points in enumerate(rows.values()):
        for t, point in points:
            log_steps[r, t], censored[r, t] = np.log(point.steps), point.censored
            covariance[r, t, t] = ((point.steps_se or 0.0) / point.steps) ** 2
    batch_tokens = [row[1] for row in rows]
    return Sample(
        group=group,
        targets=losses,
        observations=Observations(np.log(batch_tokens), log_steps, censored, covariance),
        batch_tokens=batch_tokens,
        run_names=[row[0] for row in rows],
        seeds=[row[2] for row in rows],
    )


def _check(point: PointRecord, where: str) -> None:
    se = point.steps_se or 0.0
    if (
        not is_measured(point.batch_tokens)
        or not is_measured(point.steps)
        or not 0.0 <= se <= LARGEST_RELATIVE_SE * point.steps
    ):
        raise BadInputError(
            f"{where}: run {point.run} with {point.batch_tokens:g} tokens per step, {point.steps:g} steps and a "
            f"standard error of {se:g} is nothing that was measured. Write the file anew with `ebfit fit`."
        )
