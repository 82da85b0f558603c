"""The runs in sample_runs: sound as data, and fitted to the numbers that were reviewed."""

import copy
import json
import shutil
from pathlib import Path

import expected
import pytest

import ebfit
from ebfit.files import Inspection, RunDocument, to_json

RUN_FOLDERS = sorted(path.parent for path in expected.SAMPLE_RUNS.rglob("run.json"))


def test_fit_gives_the_reviewed_numbers():
    found = expected.differences(expected.read(), expected.compute())
    assert not found, "\n".join(
        [
            "Results on sample_runs moved. If that is meant, run `make update-expected` and review its diff.",
            *found,
        ]
    )


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        (("b_opt", "value"), 1.002),
        (("b_min", "low"), 1.03),
        (("b_opt", "high"), 0.97),
        (("s_min",), 1.02),
        (("e_min",), 0.998),
    ],
)
def test_comparison_sees_a_number_that_moved(path, factor):
    target = _a_target()
    moved = copy.deepcopy(target)
    place = moved if len(path) == 1 else moved[path[0]]
    place[path[-1]] *= factor
    assert [".".join(path) in line for line in expected.differences([target], [moved])] == [True]


def test_comparison_sees_a_status_a_count_and_a_target_that_changed():
    target = _a_target()
    assert expected.differences([target], [copy.deepcopy(target)]) == []
    changed = copy.deepcopy(target)
    changed["b_min"] |= {"status": "upper_bound", "low": None}
    changed["censored"] += 1
    assert len(expected.differences([target], [changed])) == 3
    assert expected.differences([target], []) == ["targets: expected [2.2], got []"]


def _a_target():
    estimate = {"value": 1000.0, "low": 900.0, "high": 1100.0, "status": "ok"}
    return {
        "loss": 2.2,
        "law": "revised",
        "reached": 9,
        "censored": 1,
        "b_min": dict(estimate),
        "b_opt": dict(estimate),
        "s_min": 120.0,
        "e_min": 1e6,
    }


def test_there_are_enough_batch_sizes_and_seeds():
    settings = [RunDocument.load(folder / "run.json") for folder in RUN_FOLDERS]
    seeds: dict[int, set[int]] = {}
    for run in settings:
        seeds.setdefault(run.batch_tokens, set()).add(run.seed)
    assert len([size for size, found in seeds.items() if found == {0, 1}]) >= 10
    assert any(run.decay_start_step is not None for run in settings)


def test_some_runs_never_reach_the_lower_targets_and_some_do():
    lowest = [min(r["val_loss"] for r in _records(folder) if "val_loss" in r) for folder in RUN_FOLDERS]
    targets = [float(text) for text in expected.TARGETS.split(",")]
    assert max(lowest) > max(targets[1:])
    assert sum(loss < min(targets) for loss in lowest) >= 7


def test_they_are_small():
    assert sum(path.stat().st_size for path in expected.SAMPLE_RUNS.rglob("*")) < 3e6


@pytest.mark.parametrize("folder", RUN_FOLDERS, ids=lambda folder: folder.name)
def test_a_log_agrees_with_the_settings_beside_it(folder: Path):
    run = RunDocument.load(folder / "run.json")
    records = _records(folder)
    steps = [record["step"] for record in records]

    assert run.name == folder.name
    assert run.outcome.status == "finished"
    assert run.batch_tokens == run.batch_sequences * run.seq_len
    assert steps == sorted(set(steps))
    assert steps[0] == 1
    assert steps[-1] == run.outcome.step
    for record in records:
        assert record["batch_tokens"] == run.batch_tokens
        assert record["tokens"] == record["step"] * run.batch_tokens
        warmup = min(1, record["step"] / run.warmup_steps)
        if run.decay_start_step is None or record["step"] <= run.decay_start_step:
            assert record["lr"] == pytest.approx(run.lr * warmup)
        else:
            assert 0 < record["lr"] < run.lr


def _records(folder: Path):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_results_that_lie_beside_the_logs_are_no_reason_for_a_warning(tmp_path: Path):
    """expected.json in sample_runs, and every fit.json written into a folder of logs, once caused one."""
    folder = shutil.copytree(expected.SAMPLE_RUNS, tmp_path / "runs")
    inspection = Inspection(ebfit_version="0.1.0", inputs=[], runs=[])
    (folder / "fit.json").write_text(to_json(inspection))
    runs = ebfit.read_runs([folder])
    assert len(runs) == len(RUN_FOLDERS)
    assert [warning for run in runs for warning in run.warnings] == []
    # Named by the user, such a file is an error all the same.
    with pytest.raises(ebfit.BadInputError, match=r"fit\.json"):
        ebfit.read_runs([folder / "fit.json"])
