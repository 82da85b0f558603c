"""Training the runs of a sweep in processes side by side, each on its own device or with its share of the CPU."""

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import FrameType
from typing import Any, Literal, Protocol

from ebfit.errors import BadInputError
from ebfit.sweep.estimate import ROUGH
from ebfit.sweep.execution import Outcome, Progress
from ebfit.sweep.folders import PlannedRun, write_down_end
from ebfit.sweep.worker import Assignment, Crashed, Fatal, Stop, WorkerSettings

_SMALL_MODEL = 1_000_000  # parameters; a smaller model keeps no more than one core busy
_CORES_PER_LARGE_MODEL = 4
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_SECONDS_TO_EXIT = 10.0  # for a worker that has nothing left to do
# What asks a sweep to stop: Ctrl-C, `kill` or a scheduler, a terminal that closes.
_STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Watcher(Protocol):
    """Who is told what happens to the runs."""

    def started(self, run: PlannedRun) -> None:
        """Take note that a worker has been given the run."""

    def progressed(self, run: PlannedRun, progress: Progress) -> None:
        """Take note of how far a run is; about once a second."""

    def ended(self, run: PlannedRun, outcome: Outcome) -> None:
        """Take note of how a run ended."""

    def stopping(self) -> None:
        """Take note that the runs under way have been asked to stop."""


@dataclass(frozen=True)
class Place:
    """Where one of the runs that go side by side is trained: its device, and how many CPU threads it has."""

    device: str
    threads: int


@dataclass(frozen=True)
class Ended:
    """How a sweep ended.

    Attributes
    ----------
    outcomes : mapping of str to Outcome
        By name of the run; runs that were never started have none.
    signal : int or None
        What stopped the sweep before its end.
    """

    outcomes: Mapping[str, Outcome]
    signal: int | None


def require_torch() -> None:
    """Refuse to train where torch is not installed.

    Raises
    ------
    BadInputError
        Saying how to install it.
    """
    if find_spec("torch") is None:
        raise BadInputError(
            "training needs PyTorch, which is not installed here: pip install 'ebfit[sweep]'. "
            "A plan can be made without it: --dry-run --tokens-per-second N."
        )


def cores() -> int:
    """Return how many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def places(devices: Sequence[str], parameters: int, runs: int, jobs: int | None) -> list[Place]:
    """Decide how many runs are trained side by side, and where.

    Parameters
    ----------
    devices : sequence of str
        Such as ``["cpu"]`` or ``["cuda:0", "cuda:1"]``; jobs are dealt out to them in turn.
    parameters : int
        Of the model.
    runs : int
        To be trained; there are never more places.
    jobs : int or None
        As the user wants it; None: one per GPU, or as many as the CPU cores serve well. Threads are divided between
        them, but for small models, which gain little from a second one.
    """
    small = parameters < _SMALL_MODEL
    if jobs is None:
        per_run = 1 if small else _CORES_PER_LARGE_MODEL
        jobs = max(cores() // per_run, 1) if list(devices) == ["cpu"] else len(devices)
    jobs = max(min(jobs, runs), 1)
    threads = 1 if small else max(cores() // jobs, 1)
    return [Place(devices[index % len(devices)], threads) for index in range(jobs)]


def launch(
    runs: Sequence[PlannedRun], settings: WorkerSettings, places: Sequence[Place], watcher: Watcher
) -> Ended:
    """Train runs side by side, the longest first.

    A run that fails, or whose process dies, takes no other with it. A first signal to stop lets every run make a
    checkpoint, a second one ends them at once.

    Parameters
    ----------
    runs : sequence of PlannedRun
        Those that are not finished yet.
    settings : WorkerSettings
        The device in it is replaced by that of the place.
    places : sequence of Place
        One worker process each.
    watcher : Watcher

    Raises
    ------
    BadInputError
        If nothing can be trained, such as on a full disk; the other runs have made a checkpoint then.
    """
    sweep = _Sweep(runs, settings, watcher)
    with _signals_put_into(sweep.events):
        try:
            return sweep.carry_out(places)
        finally:
            sweep.close()


class _Worker:
    """A worker process as its caller sees it."""

    def __init__(self, place: Place, settings: WorkerSettings, events: "queue.SimpleQueue[Any]") -> None:
        self.place = place
        self.run: PlannedRun | None = None
        self.latest: Progress | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = self._start()
        self.send(replace(settings, execution=replace(settings.execution, device=place.device)))
        self._listener = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._listener.start()

    def _start(self) -> subprocess.Popen[bytes]:
        code = f"import sys; sys.path[:] = {sys.path!r}; from ebfit.sweep.worker import main; main()"
        with _stop_signals_blocked():
            return subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=os.environ | dict.fromkeys(_THREAD_VARIABLES, str(self.place.threads)),
            )

    def send(self, message: WorkerSettings | Assignment | Stop) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        except OSError:
            pass  # it is gone, as the end of its messages will tell

    def _listen(self, events: "queue.SimpleQueue[Any]") -> None:
        assert self._process.stdout is not None
        with self._process.stdout as messages:
            while True:
                try:
                    message = pickle.load(messages)
                except (EOFError, OSError, pickle.UnpicklingError):
                    break
                events.put((self, message))
        events.put((self, None))

    def assign(self, run: PlannedRun) -> None:
        self.run, self.latest = run, None
        self.send(Assignment(run.recipe, run.folder))

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End the process: without its caller it has nothing to do."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_EXIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(_SECONDS_TO_EXIT)
        self._stderr.close()

    def why_it_died(self) -> str:
        code = self._process.wait()
        if code == -getattr(signal, "SIGKILL", 9):
            return f"the process was killed (signal {-code}): probably out of memory"
        if code < 0:
            return f"the process crashed (signal {-code}, {signal.strsignal(-code)})"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f"the process ended early: {lines[-1]}" if lines else f"the process ended with status {code}"


class _Sweep:
    """The runs that wait, the workers, and what they have told."""

    def __init__(self, runs: Sequence[PlannedRun], settings: WorkerSettings, watcher: Watcher) -> None:
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting = deque(sorted(runs, key=_rough_time_left, reverse=True))
        self._settings, self._watcher = settings, watcher
        self._workers: list[_Worker] = []
        self._outcomes: dict[str, Outcome] = {}
        self._signal: int | None = None
        self._fatal: str | None = None
        self._stopping = False

    def carry_out(self, places: Sequence[Place]) -> Ended:
        for place in places:
            self._start_worker(place)
        while any(worker.run is not None for worker in self._workers):
            try:
                event = self.events.get(timeout=1.0)  # on Windows a signal is noticed in between only
            except queue.Empty:
                continue
            if isinstance(event, int):
                self._on_signal(event)
            else:
                self._on_message(*event)
        if self._fatal is not None:
            raise BadInputError(self._fatal)
        return Ended(self._outcomes, self._signal)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _start_worker(self, place: Place) -> None:
        if self._waiting:
            worker = _Worker(place, self._settings, self.events)
            self._workers.append(worker)
            self._assign(worker)

    def _assign(self, worker: _Worker) -> None:
        if self._waiting:
            run = self._waiting.popleft()
            self._watcher.started(run)
            worker.assign(run)

    def _on_message(self, worker: _Worker, message: Progress | Outcome | Crashed | Fatal | None) -> None:
        run = worker.run
        if run is None:
            return
        if isinstance(message, Progress):
            worker.latest = message
            self._watcher.progressed(run, message)
        elif isinstance(message, Outcome):
            self._on_end(worker, run, message)
            self._assign(worker)
        else:  # the process is gone, or on its way
            self._on_death(worker, run, message)
            self._workers.remove(worker)
            worker.close()
            self._start_worker(worker.place)

    def _on_death(self, worker: _Worker, run: PlannedRun, message: Crashed | Fatal | None) -> None:
        if isinstance(message, Fatal):
            self._fatal = self._fatal or message.reason
            status: Literal["interrupted", "failed"] = "interrupted"
            reason = message.reason
            self._stop()
        elif self._signal is not None:
            status, reason = "interrupted", "stopped at once"
        else:
            status, reason = "failed", message.reason if message is not None else worker.why_it_died()
        step, tokens = (worker.latest.step, worker.latest.tokens) if worker.latest else (0, 0)
        val_loss = worker.latest.val_loss if worker.latest else None
        outcome = Outcome(status, reason, step, tokens, val_loss, 0.0, None, None)
        write_down_end(run, outcome)
        self._on_end(worker, run, outcome)

    def _on_end(self, worker: _Worker, run: PlannedRun, outcome: Outcome) -> None:
        worker.run = None
        self._outcomes[run.recipe.name] = outcome
        self._watcher.ended(run, outcome)

    def _on_signal(self, number: int) -> None:
        if self._signal is None:
            self._signal = number
            self._stop()
        else:
            for worker in self._workers:
                worker.kill()

    def _stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._waiting.clear()
        self._watcher.stopping()
        for worker in self._workers:
            worker.send(Stop())


def _rough_time_left(run: PlannedRun) -> float:
    return ROUGH.seconds(run.recipe, run.steps_done)


@contextmanager
def _signals_put_into(events: "queue.SimpleQueue[Any]") -> Iterator[None]:
    """Turn signals to stop into events, where this is the thread that gets them."""

    def put(number: int, _frame: FrameType | None) -> None:
        events.put(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:  # as under nohup
                signal.signal(number, put)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _stop_signals_blocked() -> Iterator[None]:
    """Start processes that never get these signals: a terminal and a scheduler send them to all, but we decide."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
