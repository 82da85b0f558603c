"""`ebfit sweep` as a user meets it: the plan, exit statuses, sentences, and nothing touched by a refusal."""

import json
import os
import re
import subprocess
import sys

import pytest
from fake_training import steady_preset, write_run_json  # noqa: F401 - the fixture is for every test here

from ebfit.files import RunDocument, RunOutcome
from ebfit.sweep.execution import Outcome
from ebfit.sweep.folders import PlannedRun
from ebfit.sweep.grid import GridOptions, plan_runs
from ebfit.sweep.launch import Ended
from ebfit.sweep.tables import print_summary

PLAN = ("--dry-run", "--tokens-per-second", "1M", "--data", "synthetic")
SMALL = ("--data", "synthetic", "--val-tokens", 64, "--warmup-steps", 2, "--device", "cpu", "--jobs", 1)


@pytest.fixture
def ebfit(ebfit, monkeypatch, tmp_path):
    """Run a command in this process and in an empty folder; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return ebfit


def _assert_refused(result, *says):
    status, out, err = result
    assert (status, out) == (2, ""), err
    assert err.startswith("ebfit: ")
    assert "internal error" not in err
    for words in says:
        assert words in err
    assert 1 <= len(re.findall(r"[.!?)](?:\s|$)", err)) <= 3, err


# --- the plan ------------------------------------------------------------------------------------------------------


def test_a_dry_run_shows_every_batch_size_and_trains_nothing(ebfit, tmp_path):
    status, out, _ = ebfit(
        "sweep",
        *PLAN,
        "--batch-sizes",
        "64..256,1Ki",
        "--seeds",
        2,
        "--max-tokens",
        "2M",
        "--max-steps",
        10_000,
    )
    assert status == 0
    rows = [line.split()[:6] for line in out.splitlines() if re.match(r" *[\d,]+ +[\d,]+ +0\.01 ", line)]
    assert rows == [
        ["64", "2", "0.01", "2", "10,000", "640K"],
        ["128", "4", "0.01", "2", "10,000", "1.28M"],
        ["256", "8", "0.01", "2", "7,812", "2.00M"],
        ["1,024", "32", "0.01", "2", "1,953", "2.00M"],
    ]
    assert "8 runs to train, 11.8M tokens: about " in out
    assert "1,000,000 tokens per second" in out
    assert "levels off" in out
    assert os.listdir(tmp_path) == []


def test_the_time_of_a_plan_follows_speed_and_jobs(ebfit):
    """1000 steps of 1000 sequences of 32 tokens at 32,000 tokens per second: 1000 s a run, and few validations."""
    grid = (
        "--batch-sizes",
        32_000,
        "--max-steps",
        1000,
        "--max-tokens",
        "1T",
        "--val-tokens",
        32,
        "--seeds",
        4,
    )
    for speed, jobs, time in (("32K", 1, "1 h 6 min"), ("32K", 2, "33 min"), ("64K", 4, "8 min")):
        _, out, _ = ebfit("sweep", *PLAN[:2], speed, *PLAN[3:], *grid, "--jobs", jobs)
        assert f"about {time}" in out


@pytest.mark.parametrize("preset", ["tiny", "10m", "60m", "125m", "350m", "1b"])
def test_every_preset_makes_a_plan_that_fits_80_columns(ebfit, preset):
    status, out, _ = ebfit("sweep", *PLAN, "--preset", preset, "--lr-rule", "sqrt")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "without embeddings" in " ".join(out.split())


def test_a_plan_and_the_help_need_no_torch(tmp_path):
    script = """
import sys
from ebfit.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code
assert "torch" not in sys.modules
"""
    for arguments in (["sweep", *PLAN], ["sweep", "--help"]):
        result = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr


def test_without_torch_training_says_how_to_get_it(ebfit, monkeypatch, tmp_path):
    monkeypatch.setattr("ebfit.sweep.launch.find_spec", lambda name: None)
    _assert_refused(ebfit("sweep"), "pip install 'ebfit[sweep]'", "--tokens-per-second")
    assert os.listdir(tmp_path) == []


# --- training ------------------------------------------------------------------------------------------------------


def test_a_sweep_is_trained_once_shown_and_read_by_inspect(ebfit, tmp_path):
    """Training is real here; how it trains is tested in test_sweep_train.py."""
    command = ("sweep", *SMALL, "--batch-sizes", "64,128", "--max-steps", 30, "-o", "some runs")
    status, out, err = ebfit(*command)
    assert status == 0, err
    assert "1 layer, width 32" in out
    assert "next: ebfit inspect 'some runs', or more batch sizes: ebfit fit wants 5 or more" in out
    assert "[2/2] b" in err
    logs = sorted(tmp_path.glob("some runs/*/metrics.jsonl"))
    assert [len(log.read_text().splitlines()) for log in logs] == [30, 30]
    assert [RunDocument.load(log.parent / "run.json").outcome.status for log in logs] == ["finished"] * 2
    before = {log: log.stat().st_mtime_ns for log in logs}

    status, again, err = ebfit(*command)
    assert (status, err) == (0, "")
    assert again[again.index("tok/s") :] == out[out.index("tok/s") :]  # the table, read from the folders
    assert {log: log.stat().st_mtime_ns for log in logs} == before

    status, out, _ = ebfit("inspect", "some runs", "--json")
    assert status == 0
    assert {run["batch_tokens"] for run in json.loads(out)["runs"]} == {64, 128}


def _canned(monkeypatch, outcomes, signal=None):
    """Let the sweep end in a certain way; outcomes by seed."""

    def carry_out(session, _):
        named = {
            run.recipe.name: outcomes[run.recipe.seed] for run in session.runs if run.recipe.seed in outcomes
        }
        return session.runs, Ended(named, signal)

    monkeypatch.setattr("ebfit.sweep.session.carry_out", carry_out)


FINISHED = Outcome("finished", "all steps done", 100, 6400, 2.5, 10.0, 640.0, 0.41)
FAILED = Outcome("failed", "the loss is not finite from step 7 on: lower --lr", 7, 448, None, 1.0, None, None)


def test_failed_runs_are_named_and_the_status_is_1(ebfit, monkeypatch):
    _canned(monkeypatch, {0: FINISHED, 1: FAILED})
    status, out, err = ebfit("sweep", *SMALL, "--batch-sizes", "64..1024", "--seeds", 2)
    assert status == 1
    assert re.search(
        r"failed: runs/b64-lr0\.01-s1-\w{8}: the loss is not finite from step 7 on: lower --lr\n", err
    )
    assert "-s0" not in err
    assert "model FLOPs utilisation: 41%" in out
    assert "next: ebfit fit runs" in out


def test_a_stopped_sweep_says_how_it_goes_on(ebfit, monkeypatch):
    _canned(monkeypatch, {0: FINISHED}, signal=2)
    status, out, err = ebfit("sweep", *SMALL, "--batch-sizes", "64", "--seeds", 2)
    assert status == 130
    assert "the same command continues" in err
    assert "not started" in out
    assert "next:" not in out


def test_the_summary_fits_80_columns(capsys):
    grid = GridOptions(
        data="synthetic", val_tokens=64, batch_sizes=(2**20,), lr=0.003536, max_tokens=10**12, seeds=11
    )
    runs = [PlannedRun(recipe, None, "new", RunOutcome()) for recipe in plan_runs(grid).recipes]
    long = Outcome(
        "failed",
        "the process was killed (signal 9): probably out of memory",
        12_345,
        10**10,
        2.5,
        1e5,
        1e6,
        None,
    )
    print_summary(runs, {run.recipe.name: long for run in runs})
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "b1048576-lr0.003536-s10" in out
    assert "12,345" in out


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--preset", "huge"], ["--preset huge"]),
        (["--batch-sizes", "64,many"], ["--batch-sizes 64,many", "'many'"]),
        (["--batch-sizes", "64..128:0"], ["64..128:0"]),
        (["--batch-sizes", "100"], ["96 and 128"]),
        (["--batch-sizes", ""], ["--batch-sizes"]),
        (["--lrs", "0.1,x"], ["--lrs 0.1,x"]),
        (["--jobs", "0"], ["--jobs 0"]),
        (["--micro-batch", "-1"], ["--micro-batch -1"]),
        (["--checkpoint-seconds", "nan"], ["--checkpoint-seconds"]),
        (["--tokens-per-second", "1M"], ["--dry-run"]),
        (["--data", "nowhere.txt"], ["nowhere.txt"]),
        (["--device", "cuda:99"], ["--device cuda:99", "cpu"]),
        (["--set", "width=3"], ["--set width=3"]),
    ],
)
def test_bad_options_are_named_and_nothing_is_written(ebfit, tmp_path, options, says):
    _assert_refused(ebfit("sweep", *options), *says)
    assert os.listdir(tmp_path) == []


def test_runs_of_other_settings_in_the_folder(ebfit, tmp_path):
    grid = GridOptions(data="synthetic", val_tokens=64, batch_sizes=(64,), max_steps=10, warmup_steps=2)
    (recipe,) = plan_runs(grid).recipes
    write_run_json(recipe, tmp_path / "runs" / recipe.name, status="finished")
    before = (tmp_path / "runs" / recipe.name / "run.json").read_bytes()
    for more in ((), ("--dry-run",)):
        result = ebfit("sweep", *SMALL, "--batch-sizes", "64", "--set", "d_ff=128", *more)
        _assert_refused(result, recipe.name, "d_ff 64, not 128", "-o")
        assert os.listdir(tmp_path / "runs") == [recipe.name]
        assert sorted(os.listdir(tmp_path / "runs" / recipe.name)) == ["metrics.jsonl", "run.json"]
        assert (tmp_path / "runs" / recipe.name / "run.json").read_bytes() == before
