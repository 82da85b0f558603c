"""Faults that hostile input and circumstances brought to light, each named after what went wrong."""

import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fake_training import steady_preset, write_run_json  # noqa: F401 - the fixture is for every test here

from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.sweep.architecture import Architecture
from ebfit.sweep.data import open_data
from ebfit.sweep.estimate import time_side_by_side
from ebfit.sweep.execution import Execution
from ebfit.sweep.folders import look_into
from ebfit.sweep.grid import GridOptions, plan_runs
from ebfit.sweep.progress import watching
from ebfit.sweep.train import train

OPTIONS = GridOptions(data="synthetic", val_tokens=64, batch_sizes=(64,), warmup_steps=5)


def _refusal(**changes):
    with pytest.raises(BadInputError) as refused:
        plan_runs(replace(OPTIONS, **changes))
    return str(refused.value)


# --- options -----------------------------------------------------------------------------------------------------


def test_more_jobs_than_any_machine_has_take_no_memory():
    assert time_side_by_side([3.0, 2.0, 1.0], 10**30) == 3.0


@pytest.mark.parametrize(("lr", "lr_batch"), [(1e308, 32), (5e-324, 65_536)])
def test_a_rule_that_leaves_no_finite_learning_rate_is_refused(lr, lr_batch):
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
