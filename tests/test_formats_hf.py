"""The state files of one output folder of the Hugging Face Trainer: which are of one run, and which of them is read."""

import json
from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs

OPTIONS = ReadOptions(batch_tokens=65_536, warmup_steps=1)


def _records(steps: range, loss_at: float = 4.0) -> list[dict[str, float]]:
    return [{"learning_rate": 3e-4, "loss": loss_at - step / 1000, "step": step} for step in steps]


def _write(folder: Path, records: list[dict[str, float]], **fields: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    state = {"global_step": 1, "log_history": records, **fields}
    (folder / "trainer_state.json").write_text(json.dumps(state, indent=2, sort_keys=True))
    return folder / "trainer_state.json"


def test_a_checkpoint_that_went_another_way_is_left_out_and_named(tmp_path: Path):
    """Resumed from step 200 after 300 had been saved; the run now stands at 500."""
    shared = _records(range(10, 201, 10))
    _write(tmp_path / "checkpoint-300", shared + _records(range(210, 301, 10), 9.0))
    _write(tmp_path / "checkpoint-500", shared + _records(range(210, 501, 10)))
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.loss.max() < 4
    assert any("checkpoint-300 went another way" in text for text in run.warnings)


def test_states_with_nothing_in_common_are_runs_of_their_own(tmp_path: Path):
    _write(tmp_path / "out" / "checkpoint-300", _records(range(10, 301, 10), 9.0))
    _write(tmp_path / "out" / "checkpoint-500", _records(range(10, 501, 10)))
    runs = read_runs([tmp_path], OPTIONS)
    assert [(run.name, len(run.train.loss)) for run in runs] == [
        ("out/checkpoint-300", 30),
        ("out/checkpoint-500", 50),
    ]


def test_a_checkpoint_from_before_the_first_record_is_no_run(tmp_path: Path):
    _write(tmp_path / "checkpoint-5", [])
    _write(tmp_path / "checkpoint-500", _records(range(10, 501, 10)))
    assert len(read_runs([tmp_path], OPTIONS)) == 1


def test_what_lies_in_a_checkpoint_besides_is_no_news(tmp_path: Path):
    folder = _write(tmp_path / "checkpoint-500", _records(range(10, 501, 10))).parent
    (folder / "tokenizer.json").write_text('{"model": {}}')
    (folder / "metrics.csv").write_text("not,a log of\nanybody\n")
    (run,) = read_runs([tmp_path], OPTIONS)
    assert not any("skipped" in text for text in run.warnings)


def test_a_run_json_in_the_output_folder_is_of_its_checkpoints(tmp_path: Path):
    _write(tmp_path / "out" / "checkpoint-500", _records(range(10, 501, 10)))
    (tmp_path / "out" / "run.json").write_text('{"batch_tokens": 4096, "seed": 7, "warmup_steps": 1}')
    (run,) = read_runs([tmp_path])
    assert (run.batch_tokens, run.seed, run.facts_path) == (4096, 7, tmp_path / "out" / "run.json")


def test_the_tokens_that_the_trainer_counted_tell_the_batch_size(tmp_path: Path):
    records = [
        {**record, "num_input_tokens_seen": 4096 * record["step"]} for record in _records(range(10, 501, 10))
    ]
    (run,) = read_runs([_write(tmp_path, records, train_batch_size=2)], ReadOptions(warmup_steps=1))
    assert run.batch_tokens == 4096


def test_several_evaluation_sets_are_asked_about(tmp_path: Path):
    records = [
        {**record, "eval_c4_loss": 4.0, "eval_code_loss": 2.0} for record in _records(range(10, 501, 10))
    ]
    log = _write(tmp_path, records)
    (run,) = read_runs([log], OPTIONS)
    assert run.val is None
    assert any("several columns could be the validation loss" in text for text in run.warnings)
    chosen = ReadOptions(batch_tokens=65_536, warmup_steps=1, columns={"val": "eval_code_loss"})
    assert set(read_runs([log], chosen)[0].val.loss) == {2.0}


@pytest.mark.parametrize("text", ['{"log_history": 3}', "[1, 2]", '{"log_history": [', "{}"])
def test_what_is_no_state_is_refused(tmp_path: Path, text: str):
    log = tmp_path / "trainer_state.json"
    log.write_text(text)
    with pytest.raises(BadInputError, match=r"trainer_state\.json"):
        read_runs([log], ReadOptions(format="hf_trainer"))


@pytest.mark.parametrize(
    "record", [3, None, {}, {"step": "x", "loss": []}, {"step": 1e400, "loss": {"a": {}}}]
)
def test_odd_records_are_counted_or_left_out(tmp_path: Path, record: object):
    records = [*_records(range(10, 501, 10)), record]
    log = _write(tmp_path, records)  # type: ignore[arg-type]
    (run,) = read_runs([log], OPTIONS)
    assert len(run.train.loss) == 50
