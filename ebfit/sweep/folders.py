"""What is in the output folder already: which runs are done, which continue, and whether they belong to this sweep."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ebfit.errors import BadInputError
from ebfit.files import RunDocument, RunOutcome, to_json
from ebfit.sweep.execution import Outcome
from ebfit.sweep.recipe import Recipe
from ebfit.sweep.run_files import CHECKPOINT, ERROR_FILE, METRICS, RUN_JSON
from ebfit.writing import check_folder, make_folder, write_text

State = Literal["new", "interrupted", "finished", "failed"]

_TAIL_BYTES = 4096  # more than a record has
_SCHEMA = "ebfit.run/"
_LOCK = ".sweep.lock"  # hidden, so that a search for logs passes it over
# What may differ between the runs of one sweep; runs that differ in anything else do not belong on one curve. Steps
# follow from the batch size.
_GRID = {"batch_sequences", "seed", "lr", "steps"}


@dataclass(frozen=True)
class PlannedRun:
    """A run of the sweep and its folder.

    Attributes
    ----------
    recipe : Recipe
    folder : Path
    state : {"new", "interrupted", "finished", "failed"}
        Finished runs are skipped, interrupted ones continue, failed ones are tried again.
    outcome : RunOutcome
        As the folder tells it; of a new run, nothing yet.
    """

    recipe: Recipe
    folder: Path
    state: State
    outcome: RunOutcome

    @property
    def steps_done(self) -> int:
        """Steps that need not be taken again."""
        return self.outcome.step if self.state == "interrupted" else 0

    @property
    def label(self) -> str:
        """Return the name without the checksum, which is unique among the runs of one sweep."""
        return self.recipe.name.rpartition("-")[0]


def look_into(output: Path, recipes: Sequence[Recipe]) -> list[PlannedRun]:
    """Find out how far each run is; nothing is written.

    Files and folders that no sweep made are left alone.

    Parameters
    ----------
    output : Path
        The folder that holds a folder per run; it need not exist.
    recipes : sequence of Recipe

    Raises
    ------
    BadInputError
        If the folder cannot be used, or holds runs that were made with other settings.
    """
    check_folder(output)
    if (output / RUN_JSON).exists():
        raise BadInputError(
            f"{output}: is the folder of a single run. Name the folder above it, or choose another with -o."
        )
    found = _documents(output)
    wanted = _plain(recipes[0])
    for folder, document in found.items():
        if differences := _differences(document.recipe, wanted):
            raise BadInputError(
                f"{folder}: was made with {_listed(differences)}. "
                "Choose another folder with -o, or repeat those settings."
            )
        if folder.name != document.name:
            raise BadInputError(
                f"{folder}: holds the run {document.name}. Give the folder that name again, or move it away."
            )
    _refuse_twins(recipes, found)
    return [_planned(recipe, output / recipe.name, found) for recipe in recipes]


def unfinished(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs that are still to be trained."""
    return [run for run in runs if run.state != "finished"]


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Keep the folder for this sweep, so that no second one trains the same runs; the folder is made if need be.

    The lock goes with the process, however that ends.

    Raises
    ------
    BadInputError
        If another sweep has it.
    """
    from filelock import FileLock, Timeout

    make_folder(output)
    lock = FileLock(output / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BadInputError(
            f"{output}: another sweep is running in this folder. Wait for it, or choose another folder with -o."
        ) from None
    except OSError as error:
        raise BadInputError(
            f"{output}: cannot be locked ({error.strerror}). Choose another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def write_down_end(run: PlannedRun, outcome: Outcome) -> None:
    """Write into run.json how a run ended that could not do so itself.

    Nothing is raised where that is not possible either: run.json then still has the run as ``running``.
    """
    with suppress(BadInputError, OSError):
        path = run.folder / RUN_JSON
        document = RunDocument.load(path)
        if document.outcome.status == "finished":  # and what came after that is no loss
            return
        known: dict[str, Any] = {"status": outcome.status, "reason": outcome.reason}
        # An interrupted run goes on from its checkpoint, which the numbers that are there belong to.
        if outcome.status == "failed" and outcome.step > document.outcome.step:
            known |= {"step": outcome.step, "tokens": outcome.tokens, "val_loss": outcome.val_loss}
        document.outcome = document.outcome.model_copy(update=known)
        write_text(path, to_json(document))


def _documents(output: Path) -> dict[Path, RunDocument]:
    """Read the run.json of every run that a sweep made."""
    if not output.is_dir():
        return {}
    try:
        folders = sorted(Path(entry) for entry in os.scandir(output) if entry.is_dir())
    except OSError as error:
        raise BadInputError(f"{output}: the folder cannot be listed ({error.strerror}).") from None
    return {folder: RunDocument.load(folder / RUN_JSON) for folder in folders if _is_ours(folder / RUN_JSON)}


def _refuse_twins(recipes: Sequence[Recipe], found: Mapping[Path, RunDocument]) -> None:
    """Refuse to train a run beside a shorter or longer one of itself: a fit would count the same curve twice."""
    there = {
        (document.batch_tokens, document.seed, document.lr): (folder, document.recipe.get("steps"))
        for folder, document in found.items()
    }
    for recipe in recipes:
        folder, steps = there.get((recipe.batch_tokens, recipe.seed, recipe.lr), (None, None))
        if folder is not None and steps != recipe.steps:
            raise BadInputError(
                f"{folder}: has this batch size, seed and learning rate, and {steps} steps, not {recipe.steps}. "
                "Choose another folder with -o, or move it away."
            )


def _is_ours(path: Path) -> bool:
    if not path.is_file():  # reading a pipe could wait for ever
        return False
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and str(document.get("schema")).startswith(_SCHEMA)


def _planned(recipe: Recipe, folder: Path, found: Mapping[Path, RunDocument]) -> PlannedRun:
    _refuse_what_is_no_file(folder)
    document = found.get(folder)
    if document is None:
        if os.path.lexists(folder) and (not folder.is_dir() or _holds_something(folder)):
            raise BadInputError(
                f"{folder}: is in the way of the run of this name, and holds no {RUN_JSON} of it. "
                "Move it away, or choose another folder with -o."
            )
        return PlannedRun(recipe, folder, "new", RunOutcome())
    if document.outcome.status == "finished" and not _log_reaches(folder, document.outcome.step):
        return PlannedRun(recipe, folder, "new", RunOutcome())
    # A process that is gone wrote `running`: the folder is ours now.
    status = document.outcome.status
    return PlannedRun(recipe, folder, "interrupted" if status == "running" else status, document.outcome)


def _refuse_what_is_no_file(folder: Path) -> None:
    """Refuse a folder, a pipe or the like in the place of a file that the run would write."""
    for path in (folder / name for name in (METRICS, CHECKPOINT, ERROR_FILE)):
        if path.exists() and not path.is_file():
            raise BadInputError(f"{path}: is in the way of the file of this name. Move it away.")


def _log_reaches(folder: Path, step: int) -> bool:
    """Whether the log ends where the run did: it may have been deleted since, or not have been copied whole."""
    try:
        with (folder / METRICS).open("rb") as file:
            file.seek(-min(_TAIL_BYTES, os.fstat(file.fileno()).st_size), os.SEEK_END)
            last = json.loads(file.read().splitlines()[-1])
    except (OSError, ValueError, IndexError, RecursionError):
        return False
    return isinstance(last, dict) and last.get("step") == step


def _holds_something(folder: Path) -> bool:
    """Whether there is more than what a run leaves that was killed before its run.json had its name."""
    return any(not name.startswith(".") for name in os.listdir(folder))


def _plain(recipe: Recipe) -> Any:
    """Return the settings as run.json holds them."""
    return json.loads(json.dumps(recipe.as_dict()))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], place: str = "") -> list[str]:
    """Return what differs, in words: ``d_model 64, not 32``."""
    words = []
    for name in dict.fromkeys([*new, *old]):
        before, now = old.get(name), new.get(name)
        if before == now or (not place and name in _GRID):
            continue
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            words += _differences(before, now, f"{place}{name}.")
        else:
            label = f"data {name}" if place == "data." else name
            words.append(f"{label} {_shown(before)}, not {_shown(now)}")
    return words


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 24 else f"{text[:12]}..."


def _listed(differences: Sequence[str]) -> str:
    more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
    return "; ".join(differences[:3]) + more
