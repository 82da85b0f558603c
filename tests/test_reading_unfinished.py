"""Folders of a sweep that still runs, or some of whose runs failed early: the rest of it is read."""

import json
from pathlib import Path

import pytest

import ebfit


def _run(folder: Path, batch_tokens: int, steps: int, status: str) -> Path:
    folder.mkdir(parents=True)
    settings = {
        "name": folder.name,
        "seq_len": 32,
        "batch_tokens": batch_tokens,
        "lr": 0.01,
        "warmup_steps": 10,
    }
    (folder / "run.json").write_text(json.dumps(settings | {"seed": 0, "outcome": {"status": status}}))
    rows = [
        {
            "step": step,
            "tokens": step * batch_tokens,
            "batch_tokens": batch_tokens,
            "lr": 0.01 * min(1, step / 10),
            "train_loss": 5 - 0.01 * step,
        }
        for step in range(1, steps + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
@pytest.mark.parametrize("steps", [0, 2, 9, 12])
def test_a_run_that_is_not_finished_does_not_keep_the_others_from_being_read(
    tmp_path, steps: int, status: str
):
    """One run that diverged at its second step made `ebfit fit` refuse the whole sweep."""
    _run(tmp_path / "runs" / "good", 64, 100, "finished")
    short = _run(tmp_path / "runs" / "short", 128, steps, status)
    (good,) = ebfit.read_runs([tmp_path / "runs"])
    assert good.name == "good"
    (warning,) = good.warnings
    if steps:
        assert warning == f"short ({status}) is left out, its log does not hold enough of a stable phase yet."
    else:
        assert "metrics.jsonl" in warning
    with pytest.raises(ebfit.BadInputError, match="short"):  # named by the user, it is an error all the same
        ebfit.read_runs([short / "metrics.jsonl"])


def test_a_finished_run_that_is_as_short_is_refused(tmp_path):
    _run(tmp_path / "runs" / "good", 64, 100, "finished")
    _run(tmp_path / "runs" / "short", 128, 12, "finished")
    with pytest.raises(ebfit.BadInputError, match=r"short.metrics\.jsonl"):
        ebfit.read_runs([tmp_path / "runs"])


def test_an_unfinished_run_that_is_long_enough_counts(tmp_path):
    _run(tmp_path / "runs" / "good", 64, 100, "finished")
    _run(tmp_path / "runs" / "going_on", 128, 50, "running")
    runs = ebfit.read_runs([tmp_path / "runs"])
    assert [(run.name, run.warnings) for run in runs] == [("good", []), ("going_on", [])]


def test_a_sweep_that_has_just_begun_says_so(tmp_path):
    _run(tmp_path / "runs" / "short", 128, 3, "running")
    with pytest.raises(ebfit.BadInputError, match=r"short \(running\) is left out"):
        ebfit.read_runs([tmp_path / "runs"])
