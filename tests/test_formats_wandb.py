"""W&B: charts downloaded as CSV, tables, and histories of runs as JSON, JSON lines and Parquet."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_logs, read_runs
from ebfit.runs.formats import FORMATS, sniff, wandb_panel

WITH_LENGTH = ReadOptions(seq_len=128, warmup_steps=1)
STEPS = range(10, 401, 10)


def _cells(value: float | None) -> list[str]:
    return ["" if value is None else repr(value)] * 3


def _chart(path: Path, lines: dict[str, dict[int, float]], axis: str = "Step") -> Path:
    """Write a chart as W&B downloads it: every cell quoted, a row per step of any run."""
    header = [axis, *(f"{name}{suffix}" for name in lines for suffix in ("", "__MIN", "__MAX"))]
    rows = [
        [str(step), *(cell for values in lines.values() for cell in _cells(values.get(step)))]
        for step in sorted(set().union(*lines.values()))
    ]
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *rows])
    return path


def _curve(start: float, steps: range = STEPS) -> dict[int, float]:
    return {step: start - step / 1000 for step in steps}


def test_a_chart_holds_a_run_for_every_line(tmp_path: Path):
    chart = _chart(
        tmp_path / "wandb_export.csv",
        {"bs64 - train/loss": _curve(4.0), "bs128 - train/loss": _curve(3.5, range(20, 401, 20))},
    )
    runs = {run.name: run for run in read_runs([chart], WITH_LENGTH)}
    assert {name: run.batch_tokens for name, run in runs.items()} == {"bs64": 64 * 128, "bs128": 128 * 128}
    assert runs["bs64"].train.steps.tolist() == list(STEPS)
    assert runs["bs128"].train.steps.tolist() == list(range(20, 401, 20))
    assert runs["bs128"].train.loss[0] == pytest.approx(3.48)
    assert not any(run.dropped for run in runs.values())


def test_names_of_runs_are_split_from_the_right(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"wsd - 85M - bs64 - lr3e-4 - train/loss": _curve(4.0)})
    [run] = read_runs([chart], WITH_LENGTH)
    assert (run.name, run.batch_tokens, run.lr) == ("wsd - 85M - bs64 - lr3e-4", 64 * 128, 3e-4)


def test_a_run_whose_name_holds_more_semicolons_than_the_chart_has_commas(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"bs64;wsd;lr3e-4;;;;; - train/loss": _curve(4.0)})
    [run] = read_runs([chart], WITH_LENGTH)
    assert (run.name, run.batch_tokens) == ("bs64;wsd;lr3e-4;;;;;", 64 * 128)


def test_the_name_of_the_run_says_more_than_that_of_the_file(tmp_path: Path):
    chart = _chart(tmp_path / "bs8_seed1.csv", {"bs64_seed2 - train/loss": _curve(4.0)})
    [run] = read_runs([chart], WITH_LENGTH)
    assert (run.batch_tokens, run.seed) == (64 * 128, 2)


def test_a_manifest_tells_the_runs_of_a_chart_apart(tmp_path: Path):
    lines = {"dry-pond-1 - train/loss": _curve(4.0), "icy-wood-2 - train/loss": _curve(3.5)}
    _chart(tmp_path / "x.csv", lines)
    manifest = tmp_path / "manifest.csv"
    manifest.write_text(
        "path,run,batch_tokens\nx.csv,dry-pond-1,8192\nx.csv,icy-wood-2,16384\nx.csv,gone-3,1\n"
    )
    runs = read_runs([], ReadOptions(manifest=manifest, warmup_steps=1))
    assert [(run.name, run.batch_tokens) for run in runs] == [("dry-pond-1", 8192), ("icy-wood-2", 16384)]
    assert any("names logs that were not read (x.csv, run gone-3)" in text for text in runs[0].warnings)
    manifest.write_text(manifest.read_text() + "x.csv,icy-wood-2,5\n")
    with pytest.raises(BadInputError, match=r"x\.csv is named twice in the manifest"):
        read_runs([], ReadOptions(manifest=manifest, warmup_steps=1))


def test_metrics_of_one_chart_are_columns_of_one_run(tmp_path: Path):
    lines = {"bs64 - train/loss": _curve(4.0), "bs64 - eval/loss": _curve(4.1, range(100, 401, 100))}
    lines["bs64 - train/learning_rate"] = dict.fromkeys(STEPS, 3e-4)
    [run] = read_runs([_chart(tmp_path / "x.csv", lines)], ReadOptions(seq_len=128))
    assert len(run.train.steps) == len(STEPS)
    assert run.val.steps.tolist() == [100, 200, 300, 400]
    assert run.lr == 3e-4


def test_two_runs_of_one_name_are_two_runs(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"bs64 - loss": _curve(4.0), "bs32 - loss": _curve(3.0)})
    chart.write_text(chart.read_text().replace("bs32", "bs64"))
    runs = read_runs([chart], WITH_LENGTH)
    assert [(run.name, run.train.loss[0]) for run in runs] == [("bs64 #1", 3.99), ("bs64 #2", 2.99)]


def test_the_trainers_step_is_surer_than_that_of_wandb(tmp_path: Path):
    calls = range(1, 41)
    lines = {
        "bs64 - train/global_step": {call: call * 50.0 for call in calls},
        "bs64 - train/loss": _curve(4.0, calls),
    }
    [run] = read_runs([_chart(tmp_path / "x.csv", lines)], WITH_LENGTH)
    assert run.train.steps.tolist() == [call * 50 for call in calls]


def test_a_step_that_counts_calls_is_said(tmp_path: Path):
    every_call = _chart(tmp_path / "bs64.csv", {"bs64 - train/loss": _curve(4.0, range(1, 41))})
    every_tenth = _chart(tmp_path / "bs32.csv", {"bs32 - train/loss": _curve(4.0)})
    runs = {run.path.name: run for run in read_runs([every_call, every_tenth], WITH_LENGTH)}
    said = "counts the calls of W&B's log function"
    assert any(said in text for text in runs["bs64.csv"].warnings)
    assert not any(said in text for text in runs["bs32.csv"].warnings)


@pytest.mark.parametrize("axis", ["Relative Time (Process)", "Relative Time (Wall)", "_runtime", "epoch"])
def test_a_chart_over_something_else_tells_no_steps(tmp_path: Path, axis: str):
    chart = _chart(tmp_path / "x.csv", {"bs64 - train/loss": _curve(4.0)}, axis)
    with pytest.raises(BadInputError) as error:
        read_runs([chart], WITH_LENGTH)
    assert f"X axis of this chart is '{axis}', which tells no steps" in str(error.value)


def test_a_chart_over_time_with_the_steps_in_it_is_read(tmp_path: Path):
    lines = {"bs64 - _step": {step: float(step) for step in STEPS}, "bs64 - train/loss": _curve(4.0)}
    [run] = read_runs([_chart(tmp_path / "x.csv", lines, "_runtime")], WITH_LENGTH)
    assert run.train.steps.tolist() == list(STEPS)


def test_a_group_of_runs_is_a_mean_and_that_is_said(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"Group: bs128 - train/loss": _curve(4.0)})
    [run] = read_runs([chart], WITH_LENGTH)
    assert run.batch_tokens == 128 * 128
    assert any("looks like a group of runs, of which a chart draws the mean" in text for text in run.warnings)


def test_points_that_are_means_are_told(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"bs64 - train/loss": _curve(4.0)})
    chart.write_text(chart.read_text().replace('"3.7","3.7","3.7"', '"3.7","3.6","3.8"'))
    [run] = read_runs([chart], WITH_LENGTH)
    assert any("means over stretches of the run" in text for text in run.warnings)


def test_a_sample_is_told(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"bs64 - train/loss": _curve(9.0, range(5, 2500, 5))})
    [run] = read_runs([chart], WITH_LENGTH)
    assert any("holds a sample of a long run, here 499 points" in text for text in run.warnings)


def test_a_chart_of_something_else_in_a_folder_is_passed_over(tmp_path: Path):
    _chart(tmp_path / "loss.csv", {"bs64 - train/loss": _curve(4.0)})
    _chart(tmp_path / "speed.csv", {"bs64 - mfu": _curve(0.4)})
    [run] = read_runs([tmp_path], WITH_LENGTH)
    assert any("1 file that is no log was skipped (speed.csv)" in text for text in run.warnings)


def test_what_is_no_chart_is_refused(tmp_path: Path):
    log = tmp_path / "bs64.csv"
    log.write_text("step,loss\n1,2\n")
    with pytest.raises(BadInputError, match="not the CSV of a W&B chart"):
        read_runs([log], ReadOptions(format="wandb_panel"))


def test_a_chart_is_claimed_by_its_own_format_alone(tmp_path: Path):
    chart = _chart(tmp_path / "x.csv", {"bs64 - train/loss": _curve(4.0)})
    head = chart.read_bytes()
    assert sniff(head, chart) is wandb_panel
    others = {"wandb_panel", "csv"}
    assert [known.NAME for known in FORMATS if known.NAME not in others and known.sniff(head, chart)] == []


@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=20)
        .map(str.strip)
        .filter(bool),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_names_come_back_whatever_they_hold(tmp_path_factory: pytest.TempPathFactory, names: list[str]):
    chart = tmp_path_factory.mktemp("chart") / "x.csv"
    lines = {f"{name} - train/loss": _curve(4.0 + index) for index, name in enumerate(names)}
    runs = wandb_panel.read(_chart(chart, lines))
    assert [run.label for run in runs] == names
    assert [run.table.column("train/loss")[0].as_py() for run in runs] == [
        3.99 + index for index in range(len(names))
    ]


def test_a_table_of_thousands_of_columns(tmp_path: Path):
    names = [f"grad_norm/layers.{layer}.feed_forward.w1.weight" for layer in range(4000)]
    log = tmp_path / "bs64.csv"
    header = ",".join(["_step", *names, "train/loss", "_runtime"])
    rows = [",".join([str(step), *[""] * 4000, str(4 - step / 1000), "1.5"]) for step in STEPS]
    log.write_text("\n".join([header, *rows]) + "\n")
    assert len(header) > 2**17
    [run] = read_runs([log], WITH_LENGTH)
    assert run.train.steps.tolist() == list(STEPS)
    assert run.train.column == "train/loss"


def test_a_table_without_a_step_says_so(tmp_path: Path):
    log = tmp_path / "bs64.csv"
    log.write_text("_runtime,train/loss\n" + "".join(f"{i},{4 - i / 100}\n" for i in range(40)))
    with pytest.raises(BadInputError, match="no step column among '_runtime', 'train/loss'"):
        read_runs([log], WITH_LENGTH)


def test_tokens_tell_the_steps_beside_a_batch_size(tmp_path: Path):
    """As tables of OLMo runs on W&B without a step have it."""
    log = tmp_path / "run.csv"
    rows = "".join(f"{s * 8192},8192,{4 - s / 1000}\n" for s in STEPS)
    log.write_text("throughput/total_tokens,batch_size_in_tokens,train/CrossEntropyLoss\n" + rows)
    [run] = read_runs([log], ReadOptions(warmup_steps=1))
    assert run.train.steps.tolist() == list(STEPS)
    assert run.batch_tokens == 8192
    assert any("steps were computed as throughput/total_tokens / batch_size" in text for text in run.warnings)


@pytest.mark.parametrize("batch", [["8192", "4096"], ["10000"]])
def test_tokens_and_a_batch_size_that_do_not_go_together_tell_no_steps(tmp_path: Path, batch: list[str]):
    log = tmp_path / "run.csv"
    rows = "".join(f"{s * 8192},{batch[s // 200 % len(batch)]},{4 - s / 1000}\n" for s in STEPS)
    log.write_text("tokens,batch_tokens,train/loss\n" + rows)
    with pytest.raises(BadInputError, match="'tokens' tell the steps only beside a column batch_tokens"):
        read_runs([log], ReadOptions(warmup_steps=1))


def test_a_chart_over_tokens_says_what_is_missing(tmp_path: Path):
    lines = {"bs64 - train/loss": {step * 8192: 4 - step / 1000 for step in STEPS}}
    with pytest.raises(BadInputError, match="no step column among 'tokens', 'train/loss'"):
        read_runs([_chart(tmp_path / "x.csv", lines, "tokens")], WITH_LENGTH)


def test_a_history_saved_by_pandas_has_a_column_without_a_name(tmp_path: Path):
    log = tmp_path / "bs64.csv"
    log.write_text(",_step,train/loss\n" + "".join(f"{i},{s},{4 - s / 1000}\n" for i, s in enumerate(STEPS)))
    [run] = read_runs([log], WITH_LENGTH)
    assert run.train.steps.tolist() == list(STEPS)


HISTORY = [
    {"_step": step, "_runtime": 1.5 * step, "_timestamp": 1.7e9 + step, "train/loss": 4 - step / 1000}
    for step in STEPS
]
EVALUATIONS = [
    {"_step": step, "_runtime": 1.0, "eval/loss": 4.1 - step / 1000} for step in range(100, 401, 100)
]


def _as_json_lines(path: Path) -> Path:
    rows = sorted(HISTORY + EVALUATIONS, key=lambda row: row["_step"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _as_json(path: Path) -> Path:
    path.write_text(json.dumps(sorted(HISTORY + EVALUATIONS, key=lambda row: row["_step"])))
    return path


def _as_parquet(path: Path) -> Path:
    pq.write_table(
        pa.Table.from_pylist(
            HISTORY + EVALUATIONS,
            pa.schema(
                [
                    ("_step", pa.int64()),
                    ("_runtime", pa.float64()),
                    ("train/loss", pa.float64()),
                    ("eval/loss", pa.float64()),
                ]
            ),
        ),
        path,
    )
    return path


@pytest.mark.parametrize("write", [_as_json_lines, _as_json, _as_parquet])
def test_a_history_is_the_same_in_every_form(tmp_path: Path, write):
    [run] = read_runs([write(tmp_path / "bs64.history")], WITH_LENGTH)
    assert run.train.steps.tolist() == list(STEPS)
    assert run.train.loss.tolist() == [row["train/loss"] for row in HISTORY]
    assert run.val.steps.tolist() == [100, 200, 300, 400]
    assert not run.dropped


def test_losses_that_were_nan_are_text_in_a_history(tmp_path: Path):
    rows = [{**row, "train/loss": "NaN"} if row["_step"] == 50 else row for row in HISTORY]
    log = tmp_path / "bs64.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [run] = read_runs([log], WITH_LENGTH)
    assert run.dropped == {"loss is not a number": 1}


def test_a_resumed_run_out_of_order_with_a_list_that_is_too_short(tmp_path: Path):
    first, again = list(range(10, 301, 10)), list(range(210, 401, 10))
    history = {
        "iter": first + again,
        "train/loss": [5.0 - s / 1000 for s in first] + [4.0 - s / 1000 for s in again],
        "train/acc": [0.5] * 3,
    }
    log = tmp_path / "bs64.json"
    log.write_text(json.dumps({"config": {"sequence_length": {"value": 128}}, "history": history}))
    [run] = read_runs([log], ReadOptions(warmup_steps=1))
    assert run.batch_tokens == 64 * 128
    assert run.dropped == {"duplicate step": 10}
    at = dict(zip(run.train.steps.tolist(), run.train.loss.tolist(), strict=True))
    assert (at[200], at[210]) == (4.8, 3.79)
    assert any(
        "lists that are not as long as their steps were left out (train/acc)" in w for w in run.warnings
    )


@pytest.mark.parametrize("cut", [10, 100, 1000, 3000])
def test_a_chart_that_is_cut_off_ends_in_a_sentence_or_is_read(tmp_path: Path, cut: int):
    chart = _chart(
        tmp_path / "bs64.csv", {"bs64 - train/loss": _curve(4.0), "bs32 - train/loss": _curve(4.0)}
    )
    chart.write_bytes(chart.read_bytes()[:-cut])
    reading = read_logs([chart], WITH_LENGTH)
    for run in reading.runs:
        assert set(run.train.steps.tolist()) <= set(STEPS)
    assert all("bs64.csv" in problem for problem in reading.problems)
