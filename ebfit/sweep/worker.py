"""A worker: a process that opens the data once, then trains the runs that it is handed, one after another.

It talks with the process that started it over its standard input and output, in pickled messages. It is started
with nothing of the caller in it (see `ebfit.sweep.launch`), so that the number of CPU threads can be set before
torch is loaded, and a script that starts a sweep is not run a second time.
"""

import os
import pickle
import queue
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from ebfit.errors import BadInputError
from ebfit.sweep.data import Data, open_data
from ebfit.sweep.execution import Execution, Outcome, Progress
from ebfit.sweep.recipe import Recipe
from ebfit.sweep.run_files import ERROR_FILE

Train = Callable[
    [Recipe, Data, Path, Execution, Callable[[Progress], None], Callable[[], bool]],
    Outcome,
]


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker is told first.

    Attributes
    ----------
    data, tokenizer : str
        As `ebfit.sweep.data.open_data` takes them.
    seq_len, val_tokens : int
    execution : Execution
    train : str
        ``module:function`` that trains one run, with the signature of `ebfit.sweep.train.train`.
    """

    data: str
    tokenizer: str
    seq_len: int
    val_tokens: int
    execution: Execution
    train: str


@dataclass(frozen=True)
class Assignment:
    """To the worker: train this run."""

    recipe: Recipe
    folder: Path


@dataclass(frozen=True)
class Stop:
    """To the worker: make a checkpoint of the run, and end it."""


@dataclass(frozen=True)
class Crashed:
    """From the worker: training the run raised what nobody foresaw; the worker ends with it."""

    reason: str


@dataclass(frozen=True)
class Fatal:
    """From the worker: no run can be trained, such as on a full disk."""

    reason: str


def main() -> None:
    """Work until the pipe to the caller closes; when the caller is gone, so is the worker, at once."""
    inbox, outbox = _take_over_pipes()
    settings: WorkerSettings = pickle.load(inbox)
    assignments: queue.SimpleQueue[Assignment] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(inbox, assignments, stop), daemon=True).start()

    def send(message: Progress | Outcome | Crashed | Fatal) -> None:
        try:
            pickle.dump(message, outbox)
            outbox.flush()
        except BrokenPipeError:
            os._exit(1)

    try:
        data = open_data(
            settings.data,
            seq_len=settings.seq_len,
            val_tokens=settings.val_tokens,
            tokenizer=settings.tokenizer,
        )
        module, _, function = settings.train.partition(":")
        train: Train = getattr(import_module(module), function)
        while True:
            run = assignments.get()
            outcome = _outcome(train, run, data, settings.execution, send, stop.is_set)
            send(outcome)
            if isinstance(outcome, Crashed):
                break  # what has gone wrong, such as on the GPU, may outlast the run: a new process takes over
    except BadInputError as error:
        send(Fatal(str(error)))
    except BaseException:
        traceback.print_exc()  # the last line of it is what the caller says of our end
        os._exit(1)
    os._exit(0)  # without the wait for the thread that listens


def _take_over_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Keep the pipes for messages; whatever a library prints goes to stderr."""
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return inbox, outbox


def _listen(inbox: IO[bytes], assignments: "queue.SimpleQueue[Assignment]", stop: threading.Event) -> None:
    while True:
        try:
            message: Any = pickle.load(inbox)
        except (EOFError, OSError, pickle.UnpicklingError):
            # No one is there to hear of the run, and another sweep may take its folder over any moment.
            os._exit(0)
        if isinstance(message, Stop):
            stop.set()
        else:
            assignments.put(message)


def _outcome(
    train: Train,
    run: Assignment,
    data: Data,
    execution: Execution,
    report: Callable[[Progress], None],
    stop_requested: Callable[[], bool],
) -> Outcome | Crashed:
    if dict(data.fingerprint) != dict(run.recipe.data):
        raise BadInputError(
            "the data changed since the sweep was started. Start it anew, once they no longer change."
        )
    data.check_vocabulary(run.recipe.architecture.vocab_size)
    error_file = run.folder / ERROR_FILE
    error_file.unlink(missing_ok=True)
    try:
        return train(run.recipe, data, run.folder, execution, report, stop_requested)
    except BadInputError:
        raise
    except Exception as error:
        if run.folder.is_dir():
            error_file.write_text(traceback.format_exc(), encoding="utf-8")
        first_line = next(iter(str(error).splitlines()), "")
        return Crashed(f"{type(error).__name__}: {first_line[:200]} (traceback in {error_file})")
