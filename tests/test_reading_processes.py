"""Console logs that are large together are read in several processes, and nothing else about them changes."""

import subprocess
import sys
from pathlib import Path

import joblib
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, each_log, read_logs, read_runs
from tests.test_formats_megatron import STEPS, megatron_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Logs of three batch sizes, one with no iteration at all, one cut off by --warmup-steps, and a table."""
    for batch in (64, 128, 256):
        text = "".join(megatron_line(step, batch) for step in STEPS)
        (tmp_path / f"train{batch}.log").write_text(text)
    (tmp_path / "short.log").write_text("".join(megatron_line(step) for step in (10, 20)))
    (tmp_path / "notes.txt").write_text("nothing of interest\n")
    (tmp_path / "manifest.csv").write_text(
        "path,batch_tokens\n"
        + "".join(f"train{batch}.log,{batch * 2048}\n" for batch in (64, 128, 256))
        + "gone.log,1\n"
    )
    return tmp_path


def _said(folder: Path) -> tuple[list[str], list[object]]:
    reading = read_logs([folder], ReadOptions(manifest=folder / "manifest.csv", seq_len=2048, warmup_steps=1))
    runs = [
        (
            run.name,
            run.batch_tokens,
            run.batch_source,
            run.warnings,
            run.train.steps.tolist(),
            run.train.loss.tolist(),
        )
        for run in reading.runs
    ]
    return reading.problems, runs


def test_processes_change_nothing(folder: Path, monkeypatch):
    alone = _said(folder)
    asked = []
    monkeypatch.setattr(
        joblib, "Parallel", lambda *a, parallel=joblib.Parallel, **k: asked.append(1) or parallel(*a, **k)
    )
    monkeypatch.setattr(each_log, "_WORTH_PROCESSES_BYTES", 0)
    assert _said(folder) == alone
    assert asked
    problems, runs = alone
    assert len(runs) == 3
    assert len(problems) == 1
    assert "short.log: only 2 of the rows" in problems[0]
    assert any("gone.log" in warning for warning in runs[0][3])
    assert not any("train64" in warning for warning in runs[0][3])


def test_one_log_or_small_ones_start_no_process(folder: Path, monkeypatch):
    def none_started(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(joblib, "Parallel", none_started)
    assert (
        len(
            read_runs(
                [folder / "train64.log", folder / "train128.log"], ReadOptions(seq_len=2048, warmup_steps=1)
            )
        )
        == 2
    )
    monkeypatch.setattr(each_log, "_WORTH_PROCESSES_BYTES", 0)
    assert len(read_runs([folder / "train64.log"], ReadOptions(seq_len=2048, warmup_steps=1))) == 1


def test_a_process_that_is_killed_ends_in_a_sentence(folder: Path, monkeypatch):
    def killed(self, tasks):
        raise TerminatedWorkerError("A worker process managed by the executor was unexpectedly terminated.")

    monkeypatch.setattr(each_log, "_WORTH_PROCESSES_BYTES", 0)
    monkeypatch.setattr(joblib.Parallel, "__call__", killed)
    with pytest.raises(
        BadInputError, match=r"\.log: a process .* of the 5 logs was killed.* Name fewer logs at once"
    ):
        read_logs([folder], ReadOptions(seq_len=2048))


def test_a_script_without_a_guard_is_not_run_again(folder: Path, tmp_path: Path):
    """The processes must not begin with the script that asked for them, as those of `multiprocessing` do."""
    script = tmp_path / "script.py"
    script.write_text(
        "from ebfit.runs import ReadOptions, each_log, read_runs\n"
        "each_log._WORTH_PROCESSES_BYTES = 0\n"
        f"paths = [{str(folder / 'train64.log')!r}, {str(folder / 'train128.log')!r}]\n"
        "runs = read_runs(paths, ReadOptions(seq_len=2048, warmup_steps=1))\n"
        "print(*(run.batch_tokens for run in runs))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == (f"{64 * 2048:.1f} {128 * 2048:.1f}\n", "")
