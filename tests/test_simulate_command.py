"""`ebfit simulate` as a user meets it: files that `ebfit fit` reads, the answer beside them, nothing lost."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from full_disk import disk_full_after, needs_limits

import ebfit
from ebfit import simulate
from ebfit.errors import BadInputError
from ebfit.files import RunDocument, Truth
from ebfit.simulate import PRESETS, logs

SMALL = ("--batch-sizes", "64Ki,1Mi", "--max-steps", 2000)  # two short runs


@pytest.fixture
def command(ebfit, monkeypatch, tmp_path):
    """Run a command in this process and in an empty folder; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return ebfit


def _files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


# --- what is written -------------------------------------------------------------------------------------------------


def test_the_logs_are_fitted_without_options_and_the_intervals_hold_the_truth(command):
    status, out, err = command("simulate", "sim", "--truth", "truth.json", "--world", "surface", "--seed", 1)
    assert (status, err) == (0, "")
    next_command = re.search(r"next: ebfit (.*)", out)[1].split()
    truth = Truth.load("truth.json")
    assert truth.world == "surface"
    assert sum(len(content) for content in _files("sim").values()) < 10_000_000

    status, _, err = command(*next_command, "--bootstrap", 100, "-o", "fit.json")
    assert (status, err) == (0, "")
    fitted = ebfit.Fit.load("fit.json").targets
    assert [target.loss for target in fitted] == [target.loss for target in truth.targets]
    b_opts = [(target.b_opt, true.b_opt) for target, true in zip(fitted, truth.targets, strict=True)]
    assert sum(b_opt.status == "ok" for b_opt, _ in b_opts) >= 4
    assert all(abs(np.log(b_opt.value / true)) < 0.3 for b_opt, true in b_opts if b_opt.value)


@pytest.mark.parametrize("settings", [(), ("--set", "window=7"), ("--noise", "harsh"), ("--format", "csv")])
@pytest.mark.parametrize("log_every", [(), ("--log-every", 50)])
def test_runs_in_memory_are_the_runs_that_are_read_from_the_files(command, settings, log_every):
    status, _, err = command("simulate", "sim", "--truth", "truth.json", *settings, *log_every)
    assert (status, err) == (0, "")
    read = {run.name: run for run in ebfit.read_runs(["sim"])}

    truth = Truth.load("truth.json")
    swept = simulate.sweep(
        simulate.World(truth.world, truth.parameters),
        simulate.Noise(**truth.noise),
        targets=[target.loss for target in truth.targets],
        batch_tokens=truth.batch_tokens,
        seed=truth.seed,
        rows=simulate.Rows(every=log_every[1] if log_every else None),
    )
    for made in swept.as_runs():
        run = read.pop(made.name)
        for name in (
            "batch_tokens",
            "seq_len",
            "lr",
            "seed",
            "rows",
            "stable_from",
            "stable_to",
            "averaging_known",
        ):
            assert getattr(run, name) == getattr(made, name), name
        assert run.warnings == run.problems == run.assumptions == []
        for kind in ("train", "val"):
            left, right = run.stable_curve(kind), made.stable_curve(kind)
            assert np.array_equal(left.steps, right.steps)
            assert np.array_equal(left.loss, right.loss)
    assert not read


def test_the_same_command_writes_the_same_bytes(command):
    options = ("--truth", "truth.json", "--noise", "harsh", "--seeds", 2, *SMALL, "--seed")
    seen = []
    for seed in (5, 5, 6):
        assert command("simulate", "sim", *options, seed)[0] == 0
        seen.append((_files("sim"), Path("truth.json").read_bytes()))
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]
    assert seen[0][0].keys() == seen[2][0].keys()


def test_json_is_the_truth_and_nothing_else(command):
    status, out, err = command("simulate", "sim", "--truth", "truth.json", "--json", *SMALL)
    assert (status, err) == (0, "")
    assert out == Path("truth.json").read_text()


def test_a_truth_survives_being_read_and_written(tmp_path):
    swept = simulate.sweep(simulate.draw_world("neither", 3), PRESETS["harsh"], max_steps=100)
    document = logs.truth_of(swept)
    document.save(tmp_path / "truth.json")
    assert Truth.load(tmp_path / "truth.json") == document
    assert (
        simulate.World(document.world, document.parameters).truth_at(document.targets[0].loss)
        == swept.truth[0]
    )
    assert simulate.Noise(**document.noise) == swept.noise


@pytest.mark.parametrize(
    "damage", ['{"schema": "ebfit.fit/1"}', "[]", "", '{"schema": "ebfit.truth/1", "seed": "x"}']
)
def test_what_is_no_truth_is_said_to_be_none(tmp_path, damage):
    (tmp_path / "truth.json").write_text(damage)
    with pytest.raises(BadInputError, match=r"truth\.json: not a truth\.json of `ebfit simulate`"):
        Truth.load(tmp_path / "truth.json")


def test_run_json_says_what_a_run_was_and_how_it_ended(command):
    harsh = ("--set", "cut_short=0.9", "--set", "diverged=0", "--set", "window=interval")
    assert command("simulate", "sim", *SMALL, *harsh)[0] == 0
    documents = [RunDocument.load(path) for path in sorted(Path("sim").glob("*/run.json"))]
    assert "interrupted" in {document.outcome.status for document in documents}
    for document in documents:
        last = json.loads((Path("sim") / document.name / "metrics.jsonl").read_text().splitlines()[-1])
        assert last["step"] == document.outcome.step
        assert last["tokens"] == document.outcome.tokens == last["step"] * document.batch_tokens
        assert document.train_loss_window == "interval"


def test_settings_reach_the_world_and_the_noise(command):
    settings = (
        "--set",
        "b_opt=128Ki",
        "--set",
        "loss=2.5",
        "--set",
        "seed_sd=0.04",
        "--set",
        "window=interval",
    )
    assert command("simulate", "sim", "--truth", "t.json", "--targets", 2.5, *settings, *SMALL)[0] == 0
    truth = Truth.load("t.json")
    assert truth.targets[0].b_opt == pytest.approx(131072, rel=1e-12)
    assert truth.parameters["loss"] == 2.5
    assert (truth.noise["seed_sd"], truth.noise["window"]) == (0.04, "interval")


def test_the_table_fits_80_columns(command):
    status, out, _ = command("simulate", "sim", "--seed", 3)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "world exact, noise realistic, seed 3" in " ".join(out.split())


# --- what is not lost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_before", ["jsonl", "csv"])
def test_an_earlier_simulation_is_replaced(command, format_before):
    many = ("--batch-sizes", "64Ki..4Mi", "--max-steps", 100, "--format", format_before)
    assert command("simulate", "sim", "--truth", "sim/truth.json", *many)[0] == 0
    assert command("simulate", "sim", "--truth", "sim/answer.json", *SMALL)[0] == 0
    assert sorted(os.listdir("sim")) == ["answer.json", "b1048576-s0", "b65536-s0"]
    assert os.listdir(".") == ["sim"]
    assert len(ebfit.read_runs(["sim"])) == 2


@pytest.mark.parametrize(
    "path", ["notes.txt", "fit.json", "b65536-s0/notes.txt", "b7/metrics.jsonl", ".hidden"]
)
def test_a_folder_with_anything_else_is_left_alone(command, path):
    assert command("simulate", "sim", *SMALL)[0] == 0
    other = Path("sim") / path
    other.parent.mkdir(exist_ok=True)
    other.write_text("mine")
    before = _files("sim")
    status, out, err = command("simulate", "sim", *SMALL, "--seed", 1)
    assert (status, out) == (2, "")
    assert f"sim: holds {Path(path).parts[0]}, which no `ebfit simulate` wrote." in err
    assert _files("sim") == before


def test_runs_of_a_real_sweep_are_left_alone(command, repository):
    import shutil

    shutil.copytree(repository / "sample_runs", "real")
    before = _files("real")
    status, _, err = command("simulate", "real")
    assert status == 2
    assert "which no `ebfit simulate` wrote" in err
    assert _files("real") == before


def _killed_at(call, moment):
    """Simulate into ./sim in a process that is killed at the n-th call of a function of `os`."""
    script = f"""
        import os, signal, sys
        from ebfit.cli.main import main
        real, calls = os.{call}, []
        def deadly(*arguments):
            calls.append(1)
            if len(calls) == {moment}:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)
        os.{call} = deadly
        main(["simulate", "sim", "--truth", "sim/truth.json", "--batch-sizes", "64Ki..1Mi", "--max-steps", "200"])
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False
    )
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.mark.parametrize(("call", "moment"), [("fsync", 1), ("fsync", 6), ("rename", 1)])
def test_a_killed_simulation_leaves_no_sweep_or_the_old_one(command, call, moment):
    _killed_at(call, moment)
    assert not os.path.exists("sim")
    assert all(name.startswith(".") for name in os.listdir("."))
    assert command("simulate", "sim", *SMALL)[0] == 0
    before = _files("sim")
    _killed_at(call, moment)
    assert _files("sim") == before


@needs_limits
def test_a_full_disk_leaves_the_old_simulation_and_nothing_else(command):
    assert command("simulate", "sim", *SMALL)[0] == 0
    before = _files("sim")
    with disk_full_after(20_000):
        status, out, err = command("simulate", "sim", *SMALL, "--seed", 1, "--rows-per-doubling", 200)
    assert (status, out) == (2, "")
    assert "sim: cannot be written (File too large)." in err
    assert _files("sim") == before
    assert os.listdir(".") == ["sim"]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_an_interrupt_while_the_folder_is_exchanged_leaves_the_old_one(command, monkeypatch, fails_at):
    assert command("simulate", "sim", *SMALL)[0] == 0
    before = _files("sim")
    real, calls = os.rename, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == fails_at:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(os, "rename", interrupted)
    assert command("simulate", "sim", *SMALL, "--seed", 1)[0] == 130
    assert _files("sim") == before
    assert os.listdir(".") == ["sim"]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sim", "--noise-scale", "-1"], "factor of 0 or above"),
        (["sim", "--noise-scale", "nan"], "factor of 0 or above"),
        (["sim", "--noise-scale", "1e9"], "must lie between"),
        (["sim", "--set", "seed_sd"], "write NAME=VALUE"),
        (["sim", "--set", "seed_sd=much"], "--set seed_sd=much: give a number"),
        (["sim", "--set", "colour=1"], "no such setting. The world exact has loss, "),
        (["sim", "--set", "seed_sd=1e-2", "--set", "seed_sd=0"], "given twice"),
        (["sim", "--set", "m=2"], "m=2: must lie between 0 and 1"),
        (["sim", "--set", "loss_floor=3.9", "--set", "loss=4", "--targets", "3.5"], "never reached"),
        (["sim", "--targets", "nan"], "a target loss of nan"),
        (["sim", "--targets", "2.4;2.2"], "give losses such as 2.4,2.2"),
        (["sim", "--targets", "0,-1"], "a target loss of 0"),
        (["sim", "--n-targets", "0"], "between 1 and 1000"),
        (["sim", "--n-sizes", "10000000"], "between 1 and 1000"),
        (["sim", "--batch-sizes", "1000"], "not a multiple of the sequence length"),
        (["sim", "--batch-sizes", "64K..1K"], "write the smaller first"),
        (["sim", "--batch-sizes", "twelve"], "'twelve' is not a size"),
        (["sim", "--batch-sizes", "1e30"], "from 1 to 1e+15"),
        (["sim", "--seeds", "0"], "0 seeds"),
        (["sim", "--seed", "-1"], "seed -1"),
        (["sim", "--log-every", "1", "--seeds", "500"], "Log fewer"),
        (["sim", "--max-steps", "5"], "give 20 or more"),
        (["sim", "--rows-per-doubling", "0"], "1 to 1000"),
        (["."], "is the folder you are in"),
        (["file"], "no folder that can be written to"),
        (["file/sim"], "no folder that can be written to"),
        (["x" * 300], "File name too long"),
        (["sim", "--truth", "sim"], "is where the runs go"),
        (["sim", "--truth", "sim/b1-s0/truth.json"], "is where the runs go"),
        (["sim", "--truth", "sim/truth"], "ends in .json"),
        (["sim", "--truth", "nowhere/truth.json"], "no such folder"),
        (["sim", "--truth", "."], "is a folder"),
        (["link"], "link"),
    ],
)
def test_options_without_sense_are_refused_in_a_sentence_and_write_nothing(command, arguments, says):
    Path("file").write_text("mine")
    os.symlink("link", "link")
    before = sorted(os.listdir("."))
    status, out, err = command("simulate", *arguments)
    assert (status, out) == (2, ""), err
    assert err.startswith("ebfit: ")
    assert "internal error" not in err
    assert says in err
    assert 1 <= len(re.findall(r"[.!?)](?:\s|$)", err)) <= 3, err
    assert sorted(os.listdir(".")) == before
