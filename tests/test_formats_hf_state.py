"""The Hugging Face Trainer's state: what of it is the curve of a run."""

import json
from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import FORMATS, sniff


def _state(steps: range, **last: object) -> dict[str, object]:
    """A trainer_state.json: a train loss every ten steps, validations, and the summary of the run at its end."""
    history: list[dict[str, object]] = []
    for step in steps:
        history.append(
            {
                "epoch": step / 100,
                "grad_norm": 1.0,
                "learning_rate": 3e-4,
                "loss": 4 - step / 1000,
                "step": step,
            }
        )
        if step % 50 == 0:
            history.append(
                {"epoch": step / 100, "eval_loss": 4.1 - step / 1000, "eval_runtime": 1.0, "step": step}
            )
    if last:
        history.append({"epoch": 1.0, "step": steps[-1], "total_flos": 1e12, "train_loss": 3.9, **last})
    return {"global_step": steps[-1], "train_batch_size": 8, "log_history": history}


def _write(path: Path, state: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(state, indent=2))
    return path


WITH_BATCH = ReadOptions(batch_tokens=65_536, warmup_steps=1)


def test_the_state_of_a_hugging_face_trainer_is_read(tmp_path: Path):
    _write(tmp_path / "run" / "trainer_state.json", _state(range(10, 501, 10), train_runtime=1.0))
    (run,) = read_runs([tmp_path], WITH_BATCH)
    assert (run.format, run.name, run.lr) == ("hf_trainer", "run", 3e-4)
    assert run.train.logged_steps.tolist() == list(range(10, 501, 10))
    # the mean over 10 steps: 4.5 steps late
    assert run.train.steps.tolist() == [step - 4.5 for step in range(10, 501, 10)]
    assert run.train.loss.tolist() == pytest.approx([4 - step / 1000 for step in range(10, 501, 10)])
    assert run.val.steps.tolist() == list(range(50, 501, 50))


def test_the_mean_over_the_run_is_no_point_of_the_curve(tmp_path: Path):
    _write(tmp_path / "trainer_state.json", _state(range(10, 501, 10), train_runtime=1.0))
    (run,) = read_runs([tmp_path], WITH_BATCH)
    assert 3.9 not in run.train.loss[-1:]
    assert len(run.train.loss) == 50


def test_the_batch_size_of_one_device_is_not_taken_for_that_of_all(tmp_path: Path):
    log = _write(tmp_path / "trainer_state.json", _state(range(10, 501, 10)))
    with pytest.raises(
        BadInputError, match=r"train_batch_size \(8\) that the Hugging Face Trainer logs leaves out"
    ):
        read_runs([log], ReadOptions(seq_len=128, warmup_steps=1))


def test_checkpoints_of_one_run_are_one_run(tmp_path: Path):
    for last in (100, 200, 300):
        _write(
            tmp_path / "out" / f"checkpoint-{last}" / "trainer_state.json", _state(range(10, last + 1, 10))
        )
    (run,) = read_runs([tmp_path], WITH_BATCH)
    assert run.name == "out"
    assert run.train.logged_steps[-1] == 300
    assert len(run.pieces) == 3


def test_a_loss_of_zero_is_what_is_left_of_nan(tmp_path: Path):
    state = _state(range(10, 501, 10))
    state["log_history"][3]["loss"] = 0.0
    (run,) = read_runs([_write(tmp_path / "trainer_state.json", state)], WITH_BATCH)
    assert run.dropped["loss is not a number"] == 1
    assert any("1 records have a loss of exactly 0" in text for text in run.warnings)


def test_a_state_is_claimed_by_its_own_format_alone(tmp_path: Path):
    log = _write(tmp_path / "x.json", _state(range(10, 101, 10)))
    head = log.read_bytes()
    assert sniff(head, log).NAME == "hf_trainer"
    others = {"hf_trainer", "json_columns"}
    assert [known.NAME for known in FORMATS if known.NAME not in others and known.sniff(head, log)] == []
