"""MLflow's file store: a run is a folder with a file per metric."""

from pathlib import Path

import pytest

from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import FORMATS, sniff

TIME = 1_767_225_600_000
STEPS = range(10, 401, 10)
OPTIONS = ReadOptions(batch_tokens=4096, warmup_steps=1)


def _run(
    folder: Path, metrics: dict[str, list[str]], params: dict[str, str] | None = None, **meta: str
) -> Path:
    """The folder of a run; metrics are lines without their time."""
    meta = {"experiment_id": "0", "lifecycle_stage": "active", "run_name": "calm-owl-7", **meta}
    folder.mkdir(parents=True)
    (folder / "meta.yaml").write_text("".join(f"{key}: {value}\n" for key, value in meta.items()))
    files = {
        f"metrics/{key}": "".join(f"{TIME} {line}\n" for line in lines) for key, lines in metrics.items()
    }
    files |= {f"params/{key}": value for key, value in (params or {}).items()}
    files |= {"tags/mlflow.user": "ada", "tags/mlflow.loggedArtifacts": '[{"path": "model"}]'}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _losses(steps: range = STEPS) -> list[str]:
    return [f"{4 - step / 1000} {step}" for step in steps]


LR = [f"0.0003 {step}" for step in STEPS]


def test_the_files_of_a_folder_are_one_run(tmp_path: Path):
    _run(
        tmp_path / "mlruns" / "0" / "a1",
        {"train/loss": _losses(), "eval_loss": _losses(range(100, 401, 100)), "learning_rate": LR},
        {"seed": "3", "block_size": "128", "learning_rate": "0.0003"},
    )
    (run,) = read_runs([tmp_path], OPTIONS)
    assert (run.format, run.name, run.seed, run.seq_len, run.lr) == ("mlflow", "calm-owl-7", 3, 128, 3e-4)
    assert run.train.steps.tolist() == list(STEPS)
    assert run.train.loss.tolist() == pytest.approx([4 - step / 1000 for step in STEPS])
    assert run.val.steps.tolist() == [100, 200, 300, 400]
    assert run.train.column == "train/loss"
    assert len(run.pieces) == 3


def test_folders_side_by_side_are_runs_and_their_other_files_no_news(tmp_path: Path, capsys):
    for name in ("bs32", "bs64"):
        _run(tmp_path / "0" / name[2:], {"loss": _losses(), "lr": LR}, {"seed": "1"}, run_name=name)
    (tmp_path / "0" / "meta.yaml").write_text("artifact_location: x\nexperiment_id: '0'\n")
    runs = read_runs([tmp_path], ReadOptions(seq_len=128))
    assert [(run.name, run.batch_tokens) for run in runs] == [("bs32", 32 * 128), ("bs64", 64 * 128)]
    assert not [text for run in runs for text in run.warnings if "skipped" in text]
    with pytest.raises(SystemExit) as stop:
        main(["inspect", str(tmp_path), "--seq-len", "128"])
    assert not stop.value.code
    assert "bs64" in capsys.readouterr().out


def test_the_last_value_of_a_step_counts(tmp_path: Path):
    """A run that was resumed at step 200 under its old id."""
    again = [f"{3 - step / 1000} {step}" for step in range(210, 401, 10)]
    _run(tmp_path / "r", {"loss": _losses() + again, "lr": LR})
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.loss[-1] == pytest.approx(2.6)
    assert run.train.loss[19] == pytest.approx(3.8)
    assert run.dropped["duplicate step"] == 20


def test_lines_with_data_sets_and_odd_values(tmp_path: Path):
    lines = _losses()
    lines[4] = "nan 50"
    lines[5] += " corpus 1a2b3c4d"
    lines[6] = "1.0 70 too many fields here"
    _run(tmp_path / "r", {"loss": lines, "lr": LR})
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.steps.tolist() == [step for step in STEPS if step not in (50, 70)]
    assert run.dropped == {"loss is not a number": 1, "not a line of a metric": 1, "no loss in the row": 1}


def test_a_line_that_is_cut_off_is_not_half_believed(tmp_path: Path):
    folder = _run(tmp_path / "r", {"loss": _losses(), "lr": LR})
    with (folder / "metrics" / "loss").open("a") as file:
        file.write(f"{TIME} 3.59 41")
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.logged_steps is None
    assert run.train.steps[-1] == 400
    assert run.dropped["truncated last line"] == 1


def test_values_without_a_step_are_refused(tmp_path: Path):
    _run(tmp_path / "r", {"loss": [str(4 - n / 1000) for n in range(40)]})
    with pytest.raises(BadInputError, match="step 0: 40"):
        read_runs([tmp_path], OPTIONS)


def test_lightnings_steps_are_moved_by_one(tmp_path: Path):
    losses = [f"{4 - n / 1000} {n - 1}" for n in STEPS]
    _run(tmp_path / "r", {"train_loss": losses, "epoch": [f"0 {n - 1}" for n in STEPS]})
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.steps.tolist() == list(STEPS)


def test_the_machines_measurements_have_no_steps_of_the_run(tmp_path: Path):
    system = [f"0.5 {n}" for n in range(5000)]
    _run(tmp_path / "r", {"loss": _losses(), "lr": LR, "system/cpu_utilization_percentage": system})
    (run,) = read_runs([tmp_path], OPTIONS)
    assert (run.stable_to, run.rows) == (400, 40)


def test_deleted_runs_and_evaluations_are_no_logs(tmp_path: Path):
    _run(tmp_path / "a", {"loss": _losses(), "lr": LR}, lifecycle_stage="deleted")
    _run(tmp_path / "b", {"accuracy": ["0.5 0"]})
    _run(tmp_path / "c", {"loss": _losses(), "lr": LR})
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.path.parent.parent.name == "c"
    assert any("2 files that are no logs were skipped" in text for text in run.warnings)


def test_the_batch_size_of_a_device_is_not_taken_for_that_of_an_update(tmp_path: Path):
    params = {"per_device_train_batch_size": "8", "gradient_accumulation_steps": "4"}
    _run(tmp_path / "r", {"loss": _losses(), "lr": LR}, params)
    with pytest.raises(BadInputError, match=r"gradient_accumulation_steps=4, per_device_train_batch_size=8;"):
        read_runs([tmp_path], ReadOptions(seq_len=128))


def test_only_mlflow_claims_a_metric(tmp_path: Path):
    log = _run(tmp_path / "r", {"loss": _losses()}) / "metrics" / "loss"
    assert [known.NAME for known in FORMATS if known.sniff(log.read_bytes(), log)] == ["mlflow"]
    assert sniff(b"1 2.5 3\n2 2.4 6\n", log) is None
