"""Faults that hostile input and circumstances brought to light, each named after what went wrong."""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from fake_training import TRAIN, VARIABLE, steady_preset, write_run_json  # noqa: F401 - a fixture for every test
from rich.console import Console

from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.files import RunDocument
from ebfit.sweep.architecture import Architecture
from ebfit.sweep.data import open_data
from ebfit.sweep.estimate import time_side_by_side
from ebfit.sweep.execution import Execution, Outcome
from ebfit.sweep.folders import look_into, write_down_end
from ebfit.sweep.grid import GridOptions, plan_runs
from ebfit.sweep.launch import Place, launch
from ebfit.sweep.progress import Lines, watching
from ebfit.sweep.session import prepare
from ebfit.sweep.train import train
from ebfit.sweep.worker import WorkerSettings

OPTIONS = GridOptions(data="synthetic", val_tokens=64, batch_sizes=(64,), warmup_steps=5)


def _refusal(**changes):
    with pytest.raises(BadInputError) as refused:
        plan_runs(replace(OPTIONS, **changes))
    return str(refused.value)


# --- options -----------------------------------------------------------------------------------------------------


def test_more_jobs_than_any_machine_has_take_no_memory():
    assert time_side_by_side([3.0, 2.0, 1.0], 10**30) == 3.0


@pytest.mark.parametrize(("lr", "lr_batch"), [(1000.0, 32), (5e-324, 65_536)])
def test_a_rule_that_leaves_no_sensible_learning_rate_is_refused(lr, lr_batch):
    said = _refusal(lr=lr, lr_rule="linear", lr_batch_tokens=lr_batch)
    assert "--lr-rule linear: a batch of 64 tokens" in said


@pytest.mark.parametrize(
    ("fraction", "warmup"), [(0.999999999999999, 5), (1 - 2**-53, 10**15), (0.2, 10**15 - 1)]
)
def test_a_decay_of_nearly_all_steps_is_refused_at_once(fraction, warmup):
    """The steps that would be needed were searched for one by one, for ever."""
    assert "Raise --max-steps to" in _refusal(decay_fraction=fraction, warmup_steps=warmup, max_tokens=10**15)


def test_the_steps_that_a_refusal_asks_for_are_enough_and_one_less_is_not():
    wanted = {"decay_fraction": 0.3, "warmup_steps": 7}
    needed = int(re.search(r"--max-steps to ([\d,]+)", _refusal(max_steps=3, **wanted))[1].replace(",", ""))
    assert plan_runs(replace(OPTIONS, max_steps=needed, **wanted)).recipes[0].steps == needed
    _refusal(max_steps=needed - 1, **wanted)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_steps": 10**30},
        {"max_tokens": 10**40},
        {"val_tokens": 32 * 10**28},
        {"warmup_steps": 10**30},
        {"log_every": 10**30},
        {"evaluations_per_doubling": 10**9},
    ],
)
def test_a_count_beyond_what_indices_hold_is_refused_and_does_not_fail_in_training(changes):
    (name,) = changes
    assert _refusal(**changes).startswith(f"--{name.replace('_', '-')} ")


@pytest.mark.parametrize("option", ["--jobs", "--micro-batch"])
def test_more_at_once_than_integers_hold_is_refused_and_does_not_fail_in_training(capsys, option):
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "--data", "synthetic", option, str(10**30)])
    assert ended.value.code == 2
    assert f"{option} {10**30}: must be above 0, and at most 10^9." in capsys.readouterr().err


@pytest.mark.parametrize("size", ["d_ff", "vocab_size", "n_layer"])
def test_a_size_of_the_model_beyond_32_bits_is_refused(size):
    sizes = {"n_layer": 1, "d_model": 4, "n_head": 1, "n_kv_head": 1, "d_ff": 8}
    with pytest.raises(BadInputError, match=rf"{size}=\d+: must be above 0, and below 2\^31"):
        Architecture(**{**sizes, size: 10**20})


@pytest.mark.parametrize("sizes", [("n_layer=2147483647",), ("d_model=1073741824", "d_ff=1073741824")])
def test_a_model_of_more_parameters_than_any_machine_holds_is_refused_and_not_built(sizes):
    """Every size was below its own limit, and the process was killed for want of memory."""
    assert re.fullmatch(
        r"a model of .* has \d\.\de\+\d\d parameters, .* Lower n_layer, .*", _refusal(overrides=sizes)
    )


@pytest.mark.parametrize("lr", [1000.1, 1e300, float("inf")])
def test_a_learning_rate_that_no_log_is_read_with_is_refused(lr):
    assert _refusal(lr=lr).startswith(f"--lr {lr}: must be above 0, and at most 1,000")
    assert "--lrs" in _refusal(lrs=(0.01, lr))
    assert plan_runs(replace(OPTIONS, lr=1000.0)).recipes[0].lr == 1000.0


@pytest.mark.parametrize("chosen", [None, "float32", "bfloat16"])
def test_the_precision_of_the_options_is_that_of_the_runs_and_none_is_chosen_by_the_device(
    tmp_path, monkeypatch, chosen
):
    """Options that asked for bfloat16 were trained in float32, unless `prepare` was told a second time."""
    monkeypatch.setattr("ebfit.sweep.device.devices_for", lambda choice: ["cuda:0"])
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (8, 0))
    session = prepare(replace(OPTIONS, precision=chosen), tmp_path, Execution())
    assert session.runs[0].recipe.precision == (chosen or "bfloat16")


@pytest.mark.parametrize("number", [2**40, 2**63 + 5])
def test_a_number_that_no_vocabulary_has_is_not_taken_for_a_token(tmp_path, number):
    """It was wrapped around to 32 bits, in a model of trillions of parameters."""
    np.save(tmp_path / "x.npy", np.r_[np.zeros(5000, np.uint64), np.uint64(number)])
    with pytest.raises(BadInputError, match=rf"x.npy: holds {number}, which is no token"):
        open_data(str(tmp_path / "x.npy"), seq_len=32, val_tokens=64)


# --- folders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "left", [None, b"", b'{"step": 9}\n{"step": 1', b'{"step": 9}\n', b"[" * 10_000, b"[1]\n"]
)
def test_a_finished_run_whose_log_is_gone_or_cut_short_is_trained_again(tmp_path, left):
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    write_run_json(recipe, tmp_path / recipe.name, status="finished", step=10)
    assert [run.state for run in look_into(tmp_path, [recipe])] == ["finished"]
    log = tmp_path / recipe.name / "metrics.jsonl"
    if left is None:
        log.unlink()
    else:
        log.write_bytes(left)
    assert [run.state for run in look_into(tmp_path, [recipe])] == ["new"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_place_of_a_run_json_is_not_waited_for(tmp_path):
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    (tmp_path / recipe.name).mkdir()
    os.mkfifo(tmp_path / recipe.name / "run.json")
    with pytest.raises(BadInputError, match="is in the way"):
        look_into(tmp_path, [recipe])


@pytest.mark.parametrize("name", ["step", "tokens"])
def test_a_run_json_with_a_negative_count_is_refused_in_a_sentence(tmp_path, name):
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    write_run_json(recipe, tmp_path / recipe.name, status="interrupted")
    path = tmp_path / recipe.name / "run.json"
    document = json.loads(path.read_text())
    document["outcome"][name] = -5
    path.write_text(json.dumps(document))
    with pytest.raises(BadInputError, match=rf"run\.json: .*outcome\.{name}: .*greater than or equal to 0"):
        look_into(tmp_path, [recipe])


@pytest.mark.parametrize("name", [".checkpoint.pt", "metrics.jsonl", "error.txt"])
def test_a_folder_in_place_of_a_file_of_the_run_is_said_before_anything_is_trained(tmp_path, name):
    """It was an internal error with a traceback, or came out at the first checkpoint."""
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    write_run_json(recipe, tmp_path / recipe.name, status="interrupted", step=3)
    (tmp_path / recipe.name / name).mkdir()
    with pytest.raises(BadInputError, match=rf"{re.escape(name)}: is in the way of the file of this name"):
        look_into(tmp_path, [recipe])


def test_what_a_killed_run_left_half_written_is_gone_when_it_has_been_continued(tmp_path):
    """A checkpoint of a large model is gigabytes; its temporary file stayed for ever."""
    options = replace(OPTIONS, seeds=1, max_steps=6)
    plan = plan_runs(options)
    (recipe,) = plan.recipes
    folder = tmp_path / recipe.name
    folder.mkdir()
    for name in ("..checkpoint.pt.ab12cd", ".run.json.ab12cd", ".metrics.jsonl.ab12cd"):
        (folder / name).write_bytes(b"half")
    (folder / ".mine").write_bytes(b"keep")
    outcome = train(recipe, plan.data, folder, Execution(), lambda _: None, lambda: False)
    assert outcome.status == "finished"
    assert sorted(os.listdir(folder)) == [".mine", "metrics.jsonl", "run.json"]


def test_a_current_folder_that_is_gone_is_said_in_a_sentence(tmp_path):
    """Libraries that torch loads ended the process with a message of their own."""
    gone = tmp_path / "gone"
    code = (
        f"import os; os.mkdir({str(gone)!r}); os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        f"from ebfit.cli.main import main; main(['sweep', '-o', {str(tmp_path / 'runs')!r}, '--data', 'synthetic'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "ebfit: the current folder is gone: change to one that exists.\n"


# --- runs that do not write down their end -----------------------------------------------------------------------


def _launched(folder, monkeypatch, behaviour):
    """Train one run that ends badly; returns what its run.json says then."""
    monkeypatch.setenv(VARIABLE, json.dumps({"0": behaviour}))
    recipes = plan_runs(replace(OPTIONS, data=__file__, seeds=1)).recipes
    (run,) = look_into(folder, recipes)
    settings = WorkerSettings(__file__, "bytes", 32, 64, Execution(), TRAIN)
    with suppress(BadInputError):
        launch([run], settings, [Place("cpu", 1)], Lines([run], 1, Console(file=io.StringIO())))
    return RunDocument.load(run.folder / "run.json").outcome


@pytest.mark.parametrize(
    ("behaviour", "status", "reason"),
    [
        ("raise", "failed", "RuntimeError: the device is lost (traceback in "),
        ("kill", "failed", "the process was killed (signal 9)"),
        ("fill the disk", "interrupted", "cannot be written (No space left on device)"),
    ],
)
def test_a_run_whose_process_died_is_not_left_running(tmp_path, monkeypatch, behaviour, status, reason):
    outcome = _launched(tmp_path, monkeypatch, behaviour)
    assert outcome.status == status
    assert reason in outcome.reason
    # As it told last; an interrupted run goes on from its checkpoint, which this one does not have.
    assert outcome.step == (1 if status == "failed" else 0)


@pytest.mark.parametrize("left", [None, b"{", "a folder"])
def test_an_end_that_cannot_be_written_down_does_not_end_the_sweep(tmp_path, left):
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    (run,) = look_into(tmp_path, [recipe])
    if left is not None:
        run.folder.mkdir()
    path = run.folder / "run.json"
    if left == "a folder":
        path.mkdir()
    elif left is not None:
        path.write_bytes(left)
    write_down_end(run, Outcome("failed", "the process died", 3, 192, None, 0.0, None, None))
    assert path.read_bytes() == left if isinstance(left, bytes) else not path.is_file()


def test_the_end_of_a_run_keeps_what_an_earlier_session_knew_of_it(tmp_path):
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    write_run_json(recipe, tmp_path / recipe.name, step=500, tokens=32_000, val_loss=3.5, seconds=9.0)
    (run,) = look_into(tmp_path, [recipe])
    write_down_end(run, Outcome("failed", "no module of this name", 0, 0, None, 0.0, None, None))
    (run,) = look_into(tmp_path, [recipe])
    assert (run.state, run.outcome.reason) == ("failed", "no module of this name")
    assert (run.outcome.step, run.outcome.val_loss, run.outcome.seconds) == (500, 3.5, 9.0)


def test_a_run_that_is_finished_is_not_undone_by_a_process_that_is_killed_right_after(tmp_path):
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    write_run_json(recipe, tmp_path / recipe.name, status="finished", step=10)
    (run,) = look_into(tmp_path, [recipe])
    write_down_end(run, Outcome("interrupted", "stopped at once", 9, 576, None, 0.0, None, None))
    assert look_into(tmp_path, [recipe]) == [run]


# --- what is shown -----------------------------------------------------------------------------------------------


class _Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self):
        raise OSError(5, "Input/output error")


def test_a_reader_of_the_progress_that_goes_away_does_not_end_the_sweep(tmp_path, monkeypatch):
    """Its runs were ended without a checkpoint, and the exit status said that one had failed."""
    (recipe,) = plan_runs(replace(OPTIONS, seeds=1)).recipes
    (run,) = look_into(tmp_path, [recipe])
    monkeypatch.setattr(sys, "stderr", _Gone())
    with watching([run], 1) as watcher:
        watcher.started(run)
        watcher.stopping()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
@pytest.mark.parametrize("also_stderr", [False, True])
def test_a_reader_of_the_tables_that_goes_away_does_not_keep_the_sweep_from_training(tmp_path, also_stderr):
    """With `| head -1` nothing was trained, and the exit status said that a run had failed."""
    read, write = os.pipe()
    os.close(read)
    options = "--data synthetic --val-tokens 64 --batch-sizes 64 --seeds 1 --warmup-steps 2 --max-steps 5"
    ended = subprocess.run(
        [sys.executable, "-m", "ebfit", "sweep", "-o", "runs", "--device", "cpu", *options.split()],
        cwd=tmp_path,
        stdout=write,
        stderr=write if also_stderr else subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert ended.returncode == 0, ended.stderr
    (path,) = tmp_path.glob("runs/*/run.json")
    assert RunDocument.load(path).outcome.status == "finished"
    if not also_stderr:
        assert "[1/1] b64" in ended.stderr
        assert "Broken" not in ended.stderr


def test_a_disk_that_fills_up_under_a_checkpoint_is_named_as_that(tmp_path, monkeypatch):
    import torch

    from ebfit.sweep.checkpoint import Checkpoint

    def fail(*_):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")

    monkeypatch.setattr(torch, "save", fail)
    checkpoint = Checkpoint("k", 1, None, "", 0.0, {}, {})
    with pytest.raises(BadInputError, match="the disk may be full"):
        checkpoint.save(tmp_path / ".checkpoint.pt")
    assert os.listdir(tmp_path) == []
