"""Step columns that count micro-batches, logs of which most is unusable, and runs made of several files."""

from pathlib import Path

import numpy as np
import pytest

from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.files import RunRecord
from ebfit.report.run_table import print_runs
from ebfit.runs import ReadOptions, read_runs


def _micro_log(folder: Path, micro_steps: int = 4) -> Path:
    """64 tokens to an update, in micro-batches that are logged one by one; the loss is that of the update."""
    per_update = 64 // micro_steps
    rows = [
        f"{micro},{per_update * micro},{4 - np.ceil(micro / micro_steps) / 100},0.1"
        for micro in range(1, 40 * micro_steps + 1)
    ]
    log = folder / "bs64.csv"
    log.write_text("step,tokens,loss,lr\n" + "\n".join(rows) + "\n")
    return log


def test_steps_that_count_micro_batches_are_noticed(tmp_path: Path):
    run = read_runs([_micro_log(tmp_path)], ReadOptions(seq_len=1))[0]
    assert (
        "the column 'tokens' (tokens per step) is a 4th of the name ('bs64' sequences): the steps seem to count "
        "micro-batches, 4 to an optimizer update. Add --micro-steps 4."
    ) in run.warnings


@pytest.mark.parametrize("micro_steps", [2, 4])
def test_micro_steps_become_optimizer_updates(tmp_path: Path, micro_steps: int):
    log = _micro_log(tmp_path, micro_steps)
    run = read_runs([log], ReadOptions(seq_len=1, micro_steps=micro_steps, warmup_steps=1))[0]
    assert run.batch_tokens == 64
    assert run.train.steps.tolist() == list(range(1, 41))
    assert run.train.loss.tolist() == pytest.approx([4 - update / 100 for update in range(1, 41)])
    assert not any("micro" in text for text in run.warnings)


def test_a_step_of_the_batch_size_is_no_micro_step(tmp_path: Path):
    log = tmp_path / "bs64.csv"
    log.write_text(
        "step,tokens,loss,lr\n" + "".join(f"{n},{64 * n},{4 - n / 100},0.1\n" for n in range(1, 41))
    )
    assert not any("micro" in text for text in read_runs([log], ReadOptions(seq_len=1))[0].warnings)


@pytest.mark.parametrize("number", ["0", "1", "-3"])
def test_micro_steps_that_make_no_sense_are_refused(tmp_path: Path, number: str, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["inspect", str(_micro_log(tmp_path)), "--micro-steps", number])
    assert stop.value.code == 2
    assert "--micro-steps must be 2 or more" in capsys.readouterr().err


def test_a_log_of_mostly_unusable_rows_is_used_where_that_is_said(tmp_path: Path):
    log = tmp_path / "b64.csv"
    losses = [f"{4 - n / 100}" if n % 3 == 0 else "nan" for n in range(1, 61)]
    log.write_text("step,loss,lr\n" + "".join(f"{n},{loss},0.1\n" for n, loss in enumerate(losses, start=1)))
    with pytest.raises(BadInputError, match=r"more than half\. Correct the log, .*, or add --allow-dropped"):
        read_runs([log])
    run = read_runs([log], ReadOptions(allow_dropped=True))[0]
    assert len(run.train.steps) == 20
    assert any("67% of the rows were dropped" in text for text in run.warnings)


def test_runs_of_several_files_are_named_so_that_a_wrong_grouping_is_seen(capsys):
    record = {"path": "", "format": "csv", "batch_tokens": 8, "batch_source": "", "seq_len": 8, "lr": None}
    record |= {"seed": None, "rows": 9, "dropped": {}, "stable_from": 1, "stable_to": 9, "stable_source": ""}
    print_runs([RunRecord(name="a", files=3, **record), RunRecord(name="b", **record)])
    assert "files: runs made of several: a of 3\n" in capsys.readouterr().out
