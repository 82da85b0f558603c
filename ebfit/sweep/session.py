"""One sweep from its options to its end: what the command does, for programs to do as well."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.sweep.execution import Execution
from ebfit.sweep.folders import PlannedRun, locked, look_into, unfinished
from ebfit.sweep.grid import GridOptions, plan_runs
from ebfit.sweep.launch import Ended, Place, Watcher, launch, places, require_torch
from ebfit.sweep.worker import WorkerSettings

TRAIN = "ebfit.sweep.train:train"
Watching = Callable[[Sequence[PlannedRun], int], AbstractContextManager[Watcher]]


@dataclass(frozen=True)
class Session:
    """A sweep that is ready to be carried out; nothing has been written yet.

    Attributes
    ----------
    output : Path
    runs : list of PlannedRun
        All runs of the grid, finished ones among them.
    places : list of Place
        Where those that are not finished are trained, side by side.
    settings : WorkerSettings
    source : str
        What the data are.
    warnings : list of str
    """

    output: Path
    runs: list[PlannedRun]
    places: list[Place]
    settings: WorkerSettings
    source: str
    warnings: list[str]


def prepare(
    grid: GridOptions,
    output: Path,
    execution: Execution,
    *,
    jobs: int | None = None,
    train: str = TRAIN,
) -> Session:
    """Plan a sweep on this machine.

    Parameters
    ----------
    grid : GridOptions
    output : Path
        The folder that gets a folder per run.
    execution : Execution
        Its device may be a choice such as ``auto`` or ``cuda`` (all GPUs).
    jobs : int or None
        Runs side by side; None: as many as the machine serves well.
    train : str
        ``module:function`` that trains one run, with the signature of `ebfit.sweep.train.train`.

    Raises
    ------
    BadInputError
        If an option makes no sense, the machine lacks torch or the device, or the folder holds runs of other settings.
    """
    require_torch()
    _refuse_a_folder_that_is_gone()
    # Threads of torch that wait for each other by spinning take the cores from whatever else runs: on a busy machine
    # a step took 200 times as long. This is read when torch is loaded, here and in the workers, which inherit it.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from ebfit.sweep.device import devices_for, precision_for

    devices = devices_for(execution.device)
    plan = plan_runs(replace(grid, precision=precision_for(devices[0], grid.precision)))
    runs = look_into(output, plan.recipes)
    recipe = plan.recipes[0]
    settings = WorkerSettings(
        data=grid.data,
        tokenizer=grid.tokenizer,
        seq_len=recipe.seq_len,
        val_tokens=recipe.val_tokens,
        execution=execution,
        train=train,
    )
    at = places(devices, recipe.architecture.parameters, len(unfinished(runs)), jobs)
    return Session(output, runs, at, settings, plan.data.source, plan.warnings)


def carry_out(session: Session, watching: Watching) -> tuple[list[PlannedRun], Ended]:
    """Train all runs of a sweep that are not finished yet.

    Parameters
    ----------
    session : Session
    watching : callable
        Given the runs to train and the number of jobs, returns a context manager around a `Watcher`.

    Returns
    -------
    runs : list of PlannedRun
        All runs of the grid, as they were before.
    ended : Ended

    Raises
    ------
    BadInputError
        If another sweep is running in the folder, or nothing can be trained, such as on a full disk.
    """
    with locked(session.output):
        # a sweep that ended since the session was prepared may have finished some of them
        runs = look_into(session.output, [run.recipe for run in session.runs])
        waiting = unfinished(runs)
        if not waiting:
            return runs, Ended({}, None)
        with watching(waiting, len(session.places)) as watcher:
            return runs, launch(waiting, session.settings, session.places, watcher)


def _refuse_a_folder_that_is_gone() -> None:
    try:
        os.getcwd()
    except OSError:  # libraries that torch loads end the process then
        raise BadInputError("the current folder is gone: change to one that exists.") from None
