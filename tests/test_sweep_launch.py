"""Runs in processes side by side: every way in which one can end, with a stand-in for training (fake_training.py)."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from fake_training import TRAIN, VARIABLE, WHO, steady_preset  # noqa: F401 - the fixture is for every test here
from rich.console import Console
from rich.text import Text

from ebfit.errors import BadInputError
from ebfit.files import RunDocument
from ebfit.sweep.execution import Execution, Outcome, Progress
from ebfit.sweep.folders import look_into
from ebfit.sweep.grid import GridOptions, plan_runs
from ebfit.sweep.launch import Place, launch
from ebfit.sweep.progress import Bars, Lines, _bars
from ebfit.sweep.run_files import ERROR_FILE
from ebfit.sweep.session import Session, carry_out
from ebfit.sweep.worker import WorkerSettings

ONE, TWO = [Place("cpu", 1)], [Place("cpu", 1)] * 2
DATA = __file__  # every worker opens it, which takes longer for data that are made
SETTINGS = WorkerSettings(DATA, "bytes", 32, 64, Execution(), TRAIN)


def _recipes(seeds=1, batch_sizes=(64,), **changes):
    grid = GridOptions(data=DATA, val_tokens=64, batch_sizes=batch_sizes, seeds=seeds, **changes)
    return plan_runs(grid).recipes


def _session(output, places=TWO, **grid):
    return Session(output, look_into(output, _recipes(**grid)), list(places), SETTINGS, DATA, [])


class Notes:
    """Writes down what happens to the runs."""

    def __init__(self):
        self.events = []

    def started(self, run):
        self.events.append(("started", run.label))

    def progressed(self, run, progress):
        self.events.append(("progressed", run.label))

    def ended(self, run, outcome):
        self.events.append((outcome.status, run.label))

    def stopping(self):
        self.events.append(("stopping", ""))


def _carry_out(session):
    """Returns the outcomes by seed, and what was noted."""
    notes = Notes()
    runs, ended = carry_out(session, lambda waiting, jobs: nullcontext(notes))
    seeds = {run.recipe.name: run.recipe.seed for run in runs}
    return {seeds[name]: outcome for name, outcome in ended.outcomes.items()}, notes.events


def _behave(monkeypatch, **behaviours):
    """Such as ``s1="kill"``: what the run of seed 1 does."""
    monkeypatch.setenv(VARIABLE, json.dumps({seed[1:]: what for seed, what in behaviours.items()}))


def _who(folder):
    return json.loads((folder / WHO).read_text())


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until(condition, what):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail(f"waited in vain: {what}")


# --- runs that end by themselves -----------------------------------------------------------------------------------


def test_every_run_is_trained_once_by_as_many_processes_as_there_are_places(tmp_path):
    places = [Place("cpu", 3), Place("mps", 3)]
    session = _session(tmp_path, places, seeds=6)
    outcomes, events = _carry_out(session)
    assert {seed: outcome.status for seed, outcome in outcomes.items()} == dict.fromkeys(range(6), "finished")
    for kind in ("started", "finished"):
        assert sorted(label for event, label in events if event == kind) == sorted(
            run.label for run in session.runs
        )
    who = [_who(run.folder) for run in session.runs]
    assert {w["device"] for w in who} == {"cpu", "mps"}
    assert len({w["pid"] for w in who}) == 2
    assert len({(w["pid"], w["device"]) for w in who}) == 2  # each process keeps to its device
    assert {w["threads"] for w in who} == {"3"}
    assert not any(w["torch"] for w in who)  # so that the threads are set before it is loaded
    assert not any(_is_alive(w["pid"]) for w in who)


def test_the_longest_run_goes_first(tmp_path):
    session = _session(tmp_path, ONE, batch_sizes=(64, 4096, 1024), max_steps=100)
    _, events = _carry_out(session)
    started = [label for event, label in events if event == "started"]
    assert started == ["b4096-lr0.01-s0", "b1024-lr0.01-s0", "b64-lr0.01-s0"]


def test_finished_runs_are_skipped_and_others_tried_again(tmp_path, monkeypatch):
    _behave(monkeypatch, s1="fail")
    outcomes, _ = _carry_out(_session(tmp_path, seeds=2))
    assert (outcomes[0].status, outcomes[1].status) == ("finished", "failed")
    assert outcomes[1].reason == "the loss is not finite"
    _behave(monkeypatch)
    outcomes, _ = _carry_out(_session(tmp_path, seeds=3))
    assert {seed: outcome.status for seed, outcome in outcomes.items()} == {1: "finished", 2: "finished"}
    assert _carry_out(_session(tmp_path, seeds=3)) == ({}, [])


def test_a_killed_process_takes_only_its_run_with_it(tmp_path, monkeypatch):
    _behave(monkeypatch, s0="kill", s1="kill")
    outcomes, _ = _carry_out(_session(tmp_path, seeds=5))
    for seed in (0, 1):
        assert outcomes[seed].status == "failed"
        assert outcomes[seed].reason == "the process was killed (signal 9): probably out of memory"
        assert outcomes[seed].step == 1  # as it had told last
    assert [outcomes[seed].status for seed in (2, 3, 4)] == ["finished"] * 3
    _behave(monkeypatch)
    assert set(_carry_out(_session(tmp_path, seeds=5))[0]) == {0, 1}


def test_an_unforeseen_error_fails_its_run_and_the_next_one_gets_a_new_process(tmp_path, monkeypatch):
    _behave(monkeypatch, s0="raise")
    session = _session(tmp_path, ONE, seeds=2)
    outcomes, _ = _carry_out(session)
    folders = {run.recipe.seed: run.folder for run in session.runs}
    error_file = folders[0] / ERROR_FILE
    assert outcomes[0].status == "failed"
    assert outcomes[0].reason == f"RuntimeError: the device is lost (traceback in {error_file})"
    assert "fake_training.py" in error_file.read_text()
    assert outcomes[1].status == "finished"
    assert _who(folders[0])["pid"] != _who(folders[1])["pid"]


def test_a_full_disk_ends_the_sweep_in_one_sentence(tmp_path, monkeypatch):
    _behave(monkeypatch, s0="fill the disk", s1="until stopped")
    session = _session(tmp_path, seeds=3)
    notes = Notes()
    with pytest.raises(BadInputError, match=r"^\S*: cannot be written \(No space left on device\)\.$"):
        carry_out(session, lambda waiting, jobs: nullcontext(notes))
    assert notes.events.count(("stopping", "")) == 1
    documents = {run.recipe.seed: run.folder / "run.json" for run in session.runs}
    assert RunDocument.load(documents[1]).outcome.status == "interrupted"  # it was let to its checkpoint
    assert not documents[2].exists()


def test_data_that_changed_since_the_plan_end_the_sweep(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three\n" * 500)
    grid = GridOptions(data=str(text), val_tokens=64, batch_sizes=(64,), max_tokens=6_000, warmup_steps=5)
    runs = look_into(tmp_path / "runs", plan_runs(grid).recipes)
    text.write_text("one two four!\n" * 500)
    settings = WorkerSettings(str(text), "bytes", 32, 64, Execution(), TRAIN)
    with pytest.raises(BadInputError, match="data changed"):
        launch(runs, settings, ONE, Notes())


def test_a_process_that_cannot_even_start_fails_its_runs(tmp_path):
    settings = WorkerSettings(DATA, "bytes", 32, 64, Execution(), "no_such_module:train")
    ended = launch(look_into(tmp_path, _recipes(seeds=2)), settings, ONE, Notes())
    assert len(ended.outcomes) == 2
    for outcome in ended.outcomes.values():
        assert outcome.status == "failed"
        assert "No module named 'no_such_module'" in outcome.reason


# --- stopping ------------------------------------------------------------------------------------------------------

# A caller without a guard `if __name__ == "__main__"`, which must not be run a second time by the workers.
SCRIPT = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in the background of a shell
sys.path[:0] = [{tests!r}]
from test_sweep_launch import TWO, _session
from ebfit.sweep.progress import watching
from ebfit.sweep.session import carry_out
runs, ended = carry_out(_session(Path({output!r}), TWO, seeds=4), watching)
sys.exit(0 if ended.signal is None else 128 + ended.signal)
"""


@pytest.fixture
def sweep_process(tmp_path, monkeypatch):
    """Starts a sweep in a process of its own, as a terminal does; returns it once two runs are under way."""
    started = []

    def start(behaviour):
        _behave(monkeypatch, s0=behaviour, s1=behaviour)
        script = SCRIPT.format(tests=str(Path(__file__).parent), output=str(tmp_path))
        process = subprocess.Popen(
            [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        _wait_until(lambda: len(list(tmp_path.glob(f"*/{WHO}"))) == 2, "two runs under way")
        return process, [_who(path.parent)["pid"] for path in tmp_path.glob(f"*/{WHO}")]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_lets_every_run_make_a_checkpoint(tmp_path, sweep_process, number, status):
    """A terminal and a scheduler send it to the workers too, whose runs must not be cut off by that."""
    process, workers = sweep_process("until stopped")
    os.killpg(process.pid, getattr(signal, number))
    _, err = process.communicate(timeout=20)
    assert process.returncode == status, err
    assert "Traceback" not in err
    assert "every run makes a checkpoint" in err
    outcomes = [RunDocument.load(path).outcome.status for path in tmp_path.glob("*/run.json")]
    assert outcomes == ["interrupted", "interrupted"]  # and the other two were not started
    assert not any(map(_is_alive, workers))


def test_a_second_ctrl_c_does_not_wait(sweep_process):
    process, workers = sweep_process("for ever")
    os.killpg(process.pid, signal.SIGINT)
    for line in process.stderr:
        if "checkpoint" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not any(map(_is_alive, workers))


def test_workers_do_not_outlive_a_caller_that_is_killed(sweep_process):
    process, workers = sweep_process("for ever")
    process.kill()
    _wait_until(lambda: not any(map(_is_alive, workers)), "the end of the workers")


# --- what is seen of it --------------------------------------------------------------------------------------------


def _shown(runs, watcher):
    first, second = runs
    watcher.started(first)
    watcher.progressed(first, Progress(10, 100, 640, 5.25, None, 1234.0))
    watcher.progressed(first, Progress(90, 100, 5760, 3.0, 2.75, 1234.0))
    watcher.ended(first, Outcome("finished", "all steps done", 100, 6400, 2.5, 1.0, 1234.0, None))
    watcher.started(second)
    watcher.stopping()
    watcher.ended(second, Outcome("failed", "out of \x1b[31m memory", 0, 0, None, 0.0, None, None))


def test_lines_tell_how_runs_get_on(tmp_path, capsys):
    now = iter(range(0, 1000, 10))
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    runs = look_into(tmp_path, _recipes(seeds=2))
    _shown(runs, Lines(runs, 1, console, now.__next__))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0] == "b64-lr0.01-s0: starts"
    assert lines[1] == "b64-lr0.01-s0: step 10 of 100, loss 5.250, 1.23K tokens/s"
    assert lines[2].startswith("b64-lr0.01-s0: step 90 of 100, loss 2.750, 1.23K tokens/s")
    assert lines[3] == "[1/2] b64-lr0.01-s0: finished: all steps done, step 100, loss 2.500, 1.23K tokens/s"
    assert lines[-1] == "[2/2] b64-lr0.01-s1: failed: out of \\x1b[31m memory, step 0"


def test_lines_are_not_printed_for_every_step(tmp_path, capsys):
    run = look_into(tmp_path, _recipes())[0]
    now = 0.0
    lines = Lines([run], 1, Console(stderr=True, soft_wrap=True), lambda: now)
    lines.started(run)
    for step in range(1, 1001):
        now += 0.1
        lines.progressed(run, Progress(step, 1000, step * 64, 3.0, None, 640.0))
    printed = capsys.readouterr().err.splitlines()[1:]
    assert len(printed) == 10  # every tenth of the steps
    now += 1000.0
    lines.progressed(run, Progress(1001, 10**6, 1001 * 64, 3.0, None, 640.0))
    assert "step 1,001" in capsys.readouterr().err  # however slow it is


def test_a_run_that_passes_one_epoch_is_warned_of_once(tmp_path, capsys):
    run, other = look_into(tmp_path, _recipes(seeds=2))[:2]
    lines = Lines([run, other], 1, Console(stderr=True, soft_wrap=True), lambda: 0.0)
    for planned, epochs in ((run, (0.5, 1.0, 1.01, 2.5)), (other, (0.9, None))):
        lines.started(planned)
        for step, epoch in enumerate(epochs, start=1):
            lines.progressed(planned, Progress(step, 1000, step * 64, 3.0, None, 640.0, epoch))
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert warnings == [f"warning: {run.label}: trains on its data a second time; repeated data teach less."]


def test_bars_on_a_terminal_fit_80_columns(tmp_path):
    runs = look_into(tmp_path, _recipes(seeds=2, batch_sizes=(8192,), max_tokens=10**12, lr=0.003536))
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, highlight=False)
    with _bars(console) as bars:
        watcher = Bars(runs, 1, bars)
        watcher.started(runs[0])
        watcher.progressed(runs[0], Progress(10_000, 20_000, 640, 5.25, None, 123_456.0))
        time.sleep(0.01)
        watcher.progressed(runs[0], Progress(10_001, 20_000, 640, 5.25, None, 123_456.0))
        bars.refresh()
        lines = [Text.from_ansi(line).plain for line in screen.getvalue().splitlines()]
    shown = [line for line in lines if "10,001/20,000" in line][-1]
    for part in ("b8192-lr0.003536-s0", "5.250", "123K tok/s"):
        assert part in shown
    assert max(map(len, lines)) <= 80
