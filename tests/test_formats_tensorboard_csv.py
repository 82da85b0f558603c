"""The CSV that TensorBoard downloads: a tag per file, which is named in the name of the file alone."""

import shutil
from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import FORMATS, sniff, tensorboard_csv

STEPS = range(10, 401, 10)
QUIET = ReadOptions(warmup_steps=1)


def _csv(path: Path, values: dict[int, float], at: float = 1.7e9) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{at + step},{step},{value}\n" for step, value in values.items())
    path.write_text("Wall time,Step,Value\n" + rows)
    return path


LOSSES = {step: 4 - step / 1000 for step in STEPS}


def test_tags_of_a_run_that_were_downloaded_are_one_run(tmp_path: Path):
    _csv(tmp_path / "run-b64_seed1-tag-train_loss.csv", LOSSES)
    _csv(tmp_path / "run-b64_seed1-tag-eval_loss.csv", dict.fromkeys((100, 200, 300, 400), 4.1))
    _csv(tmp_path / "run-b64_seed1-tag-train_learning_rate.csv", dict.fromkeys(STEPS, 1e-3))
    _csv(tmp_path / "run-b128-tag-train_loss.csv", LOSSES)
    small, large = read_runs([tmp_path])[0], read_runs([tmp_path / "run-b128-tag-train_loss.csv"], QUIET)[0]
    assert (small.format, small.name, small.batch_tokens, small.lr) == (
        "tensorboard_csv",
        "b64_seed1",
        64,
        1e-3,
    )
    assert (small.seed, len(small.pieces)) == (1, 3)
    assert small.train.loss.tolist() == list(LOSSES.values())
    assert small.val.steps.tolist() == [100, 200, 300, 400]
    assert not small.dropped
    assert (large.name, large.batch_tokens) == ("b128", 128)


def test_a_tag_that_was_downloaded_twice_counts_once(tmp_path: Path):
    first = _csv(tmp_path / "run-b64-tag-train_loss.csv", LOSSES)
    shutil.copy(first, tmp_path / "run-b64-tag-train_loss (1).csv")
    [run] = read_runs([tmp_path], QUIET)
    assert len(run.train.steps) == 40
    assert not run.dropped


def test_a_run_named_like_a_tag(tmp_path: Path):
    [run] = read_runs([_csv(tmp_path / "run-b64-tag-x-tag-loss.csv", LOSSES)], QUIET)
    assert run.name == "b64-tag-x"


def test_the_run_without_a_name_is_named_after_the_folder(tmp_path: Path):
    [run] = read_runs([_csv(tmp_path / "b64" / "run-.-tag-loss.csv", LOSSES)], QUIET)
    assert run.name == "b64"


def test_a_sample_is_told(tmp_path: Path):
    _csv(tmp_path / "run-b64-tag-loss.csv", {step: 4 - step / 1e4 for step in range(1, 1001)})
    [run] = read_runs([tmp_path], QUIET)
    assert any("a sample of 1000 points of a tag" in text for text in run.warnings)


def test_a_download_whose_name_was_changed(tmp_path: Path):
    with pytest.raises(
        BadInputError, match=r"Name it 'run-b64-tag-train_loss\.csv', if it is the train loss"
    ):
        read_runs([_csv(tmp_path / "b64.csv", LOSSES)], QUIET)


def test_a_download_is_claimed_by_its_own_format_first(tmp_path: Path):
    path = _csv(tmp_path / "run-b64-tag-loss.csv", LOSSES)
    head = path.read_bytes()
    assert sniff(head, path) is tensorboard_csv
    others = {"tensorboard_csv", "csv"}
    assert [known.NAME for known in FORMATS if known.NAME not in others and known.sniff(head, path)] == []


def test_a_download_with_odd_cells(tmp_path: Path):
    path = _csv(tmp_path / "run-b64-tag-loss.csv", LOSSES)
    path.write_text(path.read_text() + "1.7e9,inf,2.0\n1.7e9,1.5,2.0\nnan,410,NaN\n1.7e9,420,3.5\n1.7e9,43")
    [run] = read_runs([path], QUIET)
    assert run.train.steps.tolist() == [*STEPS, 420]
    assert run.dropped == {"no step": 2, "loss is not a number": 1, "truncated last line": 1}
