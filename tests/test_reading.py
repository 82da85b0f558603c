"""Reading logs: formats, columns, order and duplicates, averaged losses."""

import gzip
import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, files_read, read_logs, read_runs
from ebfit.runs.columns import normalised

LOSS = [5.0, 4.5, 4.2, 4.0, 3.9, 3.85, 3.8, 3.7, 3.66, 3.6]
STEPS = list(range(1, 11))
QUIET = ReadOptions(warmup_steps=0)  # no learning rate in most of these logs: spare them the guess


def csv(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def rows(*columns, header="step,loss", separator=","):
    lines = [header.replace(",", separator)]
    lines += [separator.join(map(str, cells)) for cells in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"


def jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read_one(path, **options):
    [run] = read_runs([path], replace(QUIET, **options))
    return run


# --- formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff", "# made by hand\n# on a Monday, late\n", "\n\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_csv_dialects(tmp_path, separator, start, newline):
    text = start + rows(STEPS, LOSS, separator=separator)
    path = tmp_path / "b64.csv"
    path.write_bytes(text.replace("\n", newline).encode())
    run = read_one(path)
    assert run.format == "csv"
    assert run.train.steps.tolist() == STEPS
    assert run.train.loss.tolist() == LOSS
    assert (run.rows, run.dropped) == (10, {})


def test_csv_comments_between_rows_are_no_rows(tmp_path):
    text = rows(STEPS, LOSS).replace("\n5,", "\n# resumed, from a checkpoint\n5,")
    run = read_one(csv(tmp_path / "b64.csv", text))
    assert run.train.steps.tolist() == STEPS
    assert run.dropped == {}


def test_csv_header_in_quotes_with_the_separator_inside(tmp_path):
    text = rows(STEPS, LOSS, header='"step","loss, mean"')
    run = read_one(csv(tmp_path / "b64.csv", text), columns={"loss": "loss, mean"})
    assert run.train.loss.tolist() == LOSS


def test_a_log_written_by_pandas(tmp_path):
    frame = pd.DataFrame({"step": STEPS, "loss": LOSS, "val_loss": [np.nan, 4.6] * 5})
    frame.to_csv(tmp_path / "b64.csv")
    frame.to_json(tmp_path / "b64.jsonl", orient="records", lines=True)
    for name in ("b64.csv", "b64.jsonl"):
        run = read_one(tmp_path / name)
        assert run.train.loss.tolist() == LOSS
        assert run.val.steps.tolist() == [2, 4, 6, 8, 10]


def test_json_lines_are_told_by_content_and_flattened(tmp_path):
    path = jsonl(
        tmp_path / "b64.log",
        [
            {"global_step": step, "train": {"loss": loss, "lr": 0.1}, "tags": ["a"]}
            for step, loss in zip(STEPS, LOSS, strict=True)
        ],
    )
    run = read_one(path)
    assert (run.format, run.train.column, run.lr) == ("jsonl", "train/loss", 0.1)
    assert run.train.loss.tolist() == LOSS


NO_NUMBERS = ["NaN", '"NaN"', "Infinity", '"-inf"', '""', '"diverged"', "1e999", "9" * 5000, "1e308"]


@pytest.mark.parametrize("cells", [*([cell] for cell in NO_NUMBERS), NO_NUMBERS])
def test_json_lines_with_all_ways_to_write_no_number(tmp_path, cells):
    lines = [f'{{"step": {step}, "loss": {5 - step / 50}}}\n' for step in range(1, 31)]
    lines += [f'{{"step": {100 + i}, "loss": {cell}}}\n' for i, cell in enumerate(cells)]
    run = read_one(csv(tmp_path / "b64.jsonl", "".join(lines)))
    assert run.train.loss.tolist() == [5 - step / 50 for step in range(1, 31)]
    assert run.dropped == {"loss is not a number": len(cells)}


def test_null_is_a_row_about_something_else(tmp_path):
    text = "".join(f'{{"step": {s}, "loss": {x}, "t": 1}}\n' for s, x in zip(STEPS, LOSS, strict=True))
    text += '{"step": 11, "loss": null}\n{"step": 12, "t": 2}\n{"t": 3}\n'
    run = read_one(csv(tmp_path / "b64.jsonl", text))
    assert run.dropped == {"no loss in the row": 2}


def test_damaged_lines_are_counted_and_the_others_read(tmp_path):
    lines = [json.dumps({"step": step, "loss": 5 - step / 100}) for step in range(1, 101)]
    lines[40] = lines[40][:9]
    lines[41] = "[1, 2]"
    run = read_one(csv(tmp_path / "b64.jsonl", "\n".join(lines) + "\n"))
    assert run.dropped == {"not a JSON object": 2}
    assert (run.rows, len(run.train.steps)) == (100, 98)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_cut_last_line_of_a_killed_run_is_dropped_and_said(tmp_path, suffix):
    if suffix == "csv":
        text = rows(STEPS, LOSS, STEPS, header="step,loss,t") + "11,3"
    else:
        text = "".join(json.dumps({"step": s, "loss": x}) + "\n" for s, x in zip(STEPS, LOSS, strict=True))
        text += '{"step": 11, "lo'
    run = read_one(csv(tmp_path / f"b64.{suffix}", text))
    assert run.dropped == {"truncated last line": 1}
    assert run.train.steps.tolist() == STEPS
    assert any("cut off" in warning for warning in run.warnings)


def test_a_whole_last_line_without_newline_is_kept(tmp_path):
    text = "".join(json.dumps({"step": s, "loss": x}) + "\n" for s, x in zip(STEPS, LOSS, strict=True))
    run = read_one(csv(tmp_path / "b64.jsonl", text.rstrip("\n")))
    assert (run.train.steps.tolist(), run.dropped) == (STEPS, {})


def test_gzip(tmp_path):
    (tmp_path / "b64.csv.gz").write_bytes(gzip.compress(rows(STEPS, LOSS).encode()))
    text = "".join(json.dumps({"step": s, "loss": x}) + "\n" for s, x in zip(STEPS, LOSS, strict=True))
    (tmp_path / "b32.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    runs = read_runs([tmp_path], QUIET)
    assert [(run.name, run.format, run.batch_tokens) for run in runs] == [
        ("b32", "jsonl", 32),
        ("b64", "csv", 64),
    ]
    assert all(run.train.loss.tolist() == LOSS for run in runs)


def grouped(unequal=False):
    return {
        "config": {"sequence_length": {"value": 512}, "seed": 3, "lr": "auto", "warmup_steps": 2},
        "history": {
            "train": {"iter": STEPS, "train_loss": LOSS, "train_lr": [0.1] * 10},
            "val": {"iter": [2, 4, 6, 8, 10], "val_loss": LOSS[:5], "val_acc": [0.1] * (3 if unequal else 5)},
            "empty": {"iter": [], "val_loss": []},
        },
    }


def test_json_with_a_list_per_column_and_group(tmp_path):
    path = tmp_path / "run.export.json"
    path.write_text(json.dumps(grouped(), indent=1))
    run = read_one(path, batch_tokens=64.0)
    assert (run.format, run.seq_len, run.seed, run.lr) == ("json_columns", 512, 3, 0.1)
    assert run.train.steps.tolist() == STEPS
    assert run.val.steps.tolist() == [2, 4, 6, 8, 10]
    assert run.dropped == {}


def test_lists_of_unequal_length_are_left_out_and_named(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(grouped(unequal=True)))
    run = read_one(path, batch_tokens=64.0)
    assert any("val/val_acc" in warning for warning in run.warnings)
    assert run.val.loss.tolist() == LOSS[:5]


def test_json_with_lists_at_the_top_and_json_with_records(tmp_path):
    (tmp_path / "b64.json").write_text(json.dumps({"step": STEPS, "loss": LOSS}))
    records = [{"step": s, "loss": x} for s, x in zip(STEPS, LOSS, strict=True)]
    (tmp_path / "b32.json").write_text(json.dumps(records))
    (tmp_path / "b16.json").write_text(json.dumps({"history": records}, indent=2))
    runs = read_runs([tmp_path], QUIET)
    assert [run.batch_tokens for run in runs] == [16, 32, 64]
    assert all(run.train.loss.tolist() == LOSS for run in runs)


def test_ebfits_own_log_takes_its_facts_from_run_json(tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    jsonl(
        folder / "metrics.jsonl",
        [
            {"step": s, "tokens": 96 * s, "batch_tokens": 96, "lr": 0.1, "train_loss": x, "val_loss": x}
            for s, x in zip(STEPS, LOSS, strict=True)
        ],
    )
    facts = {"name": "the first", "seq_len": 32, "batch_tokens": 96, "seed": 7, "warmup_steps": 1}
    (folder / "run.json").write_text(json.dumps(facts))
    [run] = read_runs([tmp_path])
    assert (run.name, run.format, run.batch_tokens, run.seq_len) == ("the first", "ebfit", 96, 32)
    assert (run.seed, run.lr, run.warnings) == (7, 0.1, [])
    assert files_read([run]) == [folder / "metrics.jsonl", folder / "run.json"]


def test_the_format_can_be_forced(tmp_path):
    path = csv(tmp_path / "b64.txt", rows(STEPS, LOSS))
    assert read_one(path, format="csv").train.loss.tolist() == LOSS
    with pytest.raises(BadInputError, match="no line of it is a whole JSON object"):
        read_one(path, format="jsonl")
    with pytest.raises(BadInputError, match="no such log format; known are ebfit"):
        read_one(path, format="tsv")


# --- columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        "step",
        "iter",
        "Iteration",
        "iterations",
        "global_step",
        "_step",
        "trainer/global_step",
        "train/step",
        "Step",
    ],
)
@pytest.mark.parametrize(
    "loss", ["loss", "train_loss", "train/loss", "train", "lm_loss", "lm loss", "loss/train", "Train Loss"]
)
def test_aliases_of_step_and_train_loss(tmp_path, step, loss):
    run = read_one(csv(tmp_path / "b64.csv", rows(STEPS, LOSS, header=f"{step},{loss}")))
    assert (run.train.column, run.val) == (loss, None)
    assert run.train.loss.tolist() == LOSS


@pytest.mark.parametrize(
    "val",
    ["val", "val_loss", "eval/loss", "eval_loss", "validation/loss", "valid_loss", "loss/val", "val/loss"],
)
@pytest.mark.parametrize("lr", ["lr", "learning_rate", "train/lr", "lr-AdamW", "optim/learning_rate_group0"])
def test_aliases_of_validation_loss_and_learning_rate(tmp_path, val, lr):
    text = rows(STEPS, LOSS, [0.25] * 10, header=f"step,{val},{lr}")
    run = read_one(csv(tmp_path / "b64.csv", text))
    assert (run.val.column, run.train, run.lr) == (val, None, 0.25)


def test_names_are_compared_without_case_and_separators():
    for name in ("Train/Loss", "train_loss", "train.loss", " train-loss", "train/train_loss"):
        assert normalised(name) == "train_loss"


def test_columns_can_be_decided(tmp_path):
    header = "step,loss,nll,held out"
    text = rows(STEPS, [9] * 10, LOSS, LOSS, header=header)
    run = read_one(csv(tmp_path / "b64.csv", text), columns={"loss": "nll", "val": "held out"})
    assert (run.train.column, run.val.column) == ("nll", "held out")
    assert run.train.loss.tolist() == LOSS
    with pytest.raises(BadInputError, match="no such column; found are 'step', 'loss', 'nll', 'held out'"):
        read_one(tmp_path / "b64.csv", columns={"loss": "none"})


def test_the_surer_of_two_train_losses_is_taken_and_said(tmp_path):
    text = rows(STEPS, [x + 1 for x in LOSS], LOSS, header="step,loss,lm loss")
    run = read_one(csv(tmp_path / "b64.csv", text))
    assert run.train.column == "lm loss"
    assert any("not 'loss'" in warning for warning in run.warnings)


def test_a_repeated_loss_under_two_names_is_not_worth_a_warning(tmp_path):
    run = read_one(csv(tmp_path / "b64.csv", rows(STEPS, LOSS, LOSS, header="step,loss,train_loss")))
    assert run.warnings == []


def test_wandbs_own_step_counts_only_where_there_is_no_other(tmp_path):
    text = rows(range(10), [s * 50 for s in STEPS], LOSS, header="_step,trainer/global_step,loss")
    run = read_one(csv(tmp_path / "b64.csv", text))
    assert run.train.steps.tolist() == [s * 50 for s in STEPS]


def test_several_validation_losses_are_asked_about(tmp_path):
    header = "step,eval/c4/CrossEntropyLoss,eval/pile/CrossEntropyLoss"
    path = csv(tmp_path / "b64.csv", rows(STEPS, LOSS, LOSS[::-1], header=header))
    with pytest.raises(
        BadInputError, match=r"'eval/c4/CrossEntropyLoss', 'eval/pile.*--columns 'val=eval/c4"
    ):
        read_one(path)
    run = read_one(path, columns={"val": "eval/pile/CrossEntropyLoss"})
    assert run.val.loss.tolist() == LOSS[::-1]


def test_several_validation_losses_beside_a_train_loss_leave_the_train_loss(tmp_path):
    header = "step,loss,eval/c4/loss,eval/pile/loss"
    run = read_one(csv(tmp_path / "b64.csv", rows(STEPS, LOSS, LOSS[::-1], [1] * 10, header=header)))
    assert run.val is None
    assert any("none was used" in warning for warning in run.warnings)


def test_a_column_that_occurs_twice_cannot_be_asked_for(tmp_path):
    path = csv(tmp_path / "b64.csv", rows(STEPS, LOSS, LOSS[::-1], header="step,loss,loss"))
    with pytest.raises(BadInputError, match="'loss' occurs 2 times"):
        read_one(path, columns={"loss": "loss"})


# --- order, duplicates, mixed rows ---------------------------------------------------------------------------


def test_train_and_validation_rows_mixed_in_one_file(tmp_path):
    lines = ["step,train_loss,val_loss,grad_norm"]
    for step in range(1, 101):
        lines.append(f"{step},{5 - step / 50},,1.0")
        if step % 10 == 0:
            lines.append(f"{step},,{5.1 - step / 50},")
        if step % 50 == 0:
            lines.append(f"{step},,,2.0")
    run = read_one(csv(tmp_path / "b64.csv", "\n".join(lines) + "\n"))
    assert (len(run.train.steps), len(run.val.steps)) == (100, 10)
    assert run.dropped == {"no loss in the row": 2}
    assert run.warnings == []


def test_nan_losses_are_counted_and_the_run_is_kept(tmp_path):
    loss = [*LOSS, *LOSS]
    loss[3], loss[4] = "nan", "inf"
    run = read_one(csv(tmp_path / "b64.csv", rows(range(1, 21), loss)))
    assert run.dropped == {"loss is not a number": 2}
    assert any("10% of the rows" in warning for warning in run.warnings)


def test_a_run_of_which_most_rows_are_lost_is_refused(tmp_path):
    loss = ["nan"] * 30 + LOSS
    with pytest.raises(BadInputError, match=r"75% of the rows.*loss is not a number: 30"):
        read_one(csv(tmp_path / "b64.csv", rows(range(1, 41), loss)))


def test_step_0_is_before_any_update(tmp_path):
    run = read_one(csv(tmp_path / "b64.csv", rows(range(10), LOSS)))
    assert run.train.steps.tolist() == list(range(1, 10))
    assert run.dropped == {"step 0": 1}


def test_of_a_repeated_step_the_later_record_wins(tmp_path):
    steps = [*range(1, 31), *range(21, 41)]
    loss = [10.0 - s / 10 for s in range(1, 31)] + [5.0 - s / 100 for s in range(21, 41)]
    run = read_one(csv(tmp_path / "b64.csv", rows(steps, loss)))
    assert run.train.steps.tolist() == list(range(1, 41))
    assert run.train.loss[19] == 8.0
    assert run.train.loss[20] == pytest.approx(4.79)
    assert run.dropped == {"duplicate step": 10}
    assert any("rows out of order: 9" in warning for warning in run.warnings)


def test_a_step_of_a_train_and_a_validation_row_is_no_duplicate(tmp_path):
    text = "step,loss,val_loss\n" + "".join(f"{s},{x},\n{s},,{x}\n" for s, x in zip(STEPS, LOSS, strict=True))
    assert read_one(csv(tmp_path / "b64.csv", text)).dropped == {}


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0.5, 9)), min_size=40, max_size=60))
def test_whatever_the_order_curves_rise_and_the_last_record_of_a_step_counts(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("any") / "b64.csv"
    path.write_text(rows([s for s, _ in records], [x for _, x in records]))
    run = read_logs([path], QUIET).runs
    expected = dict(records)
    if len(expected) < len(records) / 2:
        assert run == []  # most rows repeat a step: refused
        return
    [run] = run
    assert run.train.steps.tolist() == sorted(expected)
    assert run.train.loss.tolist() == [expected[step] for step in sorted(expected)]
    assert run.dropped.get("duplicate step", 0) == len(records) - len(expected)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([1, 2, -3, 4, 5, 6, 7, 8, 9, 10], r"b64.csv: line 4: step -3 in column 'step' is negative"),
        ([1, 2, 3, 4.5, 5, 6, 7, 8, 9, 10], r"line 5: step 4.5 .* not a whole number"),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 1e18], r"line 11: step 1e\+18 .* too large"),
    ],
)
def test_steps_that_are_none(tmp_path, steps, message):
    with pytest.raises(BadInputError, match=message):
        read_one(csv(tmp_path / "b64.csv", rows(steps, LOSS)))


def test_the_line_that_is_named_allows_for_comments_and_blank_lines(tmp_path):
    text = "# a\nstep,loss\n# b\n\n1,2\n1\n2,2\n-1,2\n"
    with pytest.raises(BadInputError, match="line 8: step -1"):
        read_one(csv(tmp_path / "b64.csv", text))
    text = '\n{"step": 1, "loss": 2}\n\n{"step": -1, "loss": 2}\n'
    with pytest.raises(BadInputError, match="line 4: step -1"):
        read_one(csv(tmp_path / "b64.jsonl", text))


# --- averaged losses -----------------------------------------------------------------------------------------


def averaged_log(path, steps, window):
    """A log of a loss that falls by 0.001 per step, as the mean over the steps of a window."""
    true = 9 - 0.001 * np.arange(0, steps[-1] + 1)
    before = np.concatenate([[0], steps[:-1]])
    loss = [true[max(1, s - window + 1) : s + 1].mean() for s in steps] if window else []
    loss = loss or [true[b + 1 : s + 1].mean() for b, s in zip(before, steps, strict=True)]
    return csv(path, rows(steps, loss, loss, header="step,loss,val"))


@pytest.mark.parametrize(
    "steps", [np.arange(10, 2001, 10), np.unique(np.geomspace(1, 5000, 120).astype(int))]
)
def test_the_mean_since_the_last_row_is_moved_to_where_it_was_reached(tmp_path, steps):
    run = read_one(averaged_log(tmp_path / "b64.csv", steps, None), train_window="interval")
    assert run.train.loss == pytest.approx(9 - 0.001 * run.train.steps, abs=1e-9)
    assert (np.diff(run.train.steps) > 0).all()
    assert run.val.steps.tolist() == steps.tolist()
    assert run.val.lag_steps == 0


def test_a_mean_over_a_fixed_window(tmp_path):
    steps = np.arange(10, 2001, 10)
    run = read_one(averaged_log(tmp_path / "b64.csv", steps, 50), train_window=50)
    assert run.train.loss == pytest.approx(9 - 0.001 * run.train.steps, abs=1e-9)
    assert run.train.lag_steps == 24.5
    assert (run.train.steps > 0).all()


def test_an_exponential_moving_average(tmp_path):
    steps = np.arange(10, 5001, 10)
    loss, average = 9 - 0.001 * steps, []
    for value in loss:
        average.append(value if not average else 0.9 * average[-1] + 0.1 * value)
    run = read_one(csv(tmp_path / "b64.csv", rows(steps, average)), train_ema=0.9)
    assert run.train.lag_steps == pytest.approx(90, rel=0.01)  # 0.9 / (1 - 0.9) rows of 10 steps
    late = run.train.steps > 2000
    assert run.train.loss[late] == pytest.approx(9 - 0.001 * run.train.steps[late], abs=1e-6)


def test_the_window_reaches_back_to_a_row_whose_loss_was_no_number(tmp_path):
    steps = np.arange(10, 201, 10)
    loss = [5.0] * 20
    loss[9] = "nan"
    run = read_one(csv(tmp_path / "b64.csv", rows(steps, loss)), train_window="interval")
    assert run.train.lag_steps == 4.5
    assert (steps[steps != 100] - run.train.steps == 4.5).all()


def test_a_log_that_starts_late_has_no_window_of_thousands_of_steps(tmp_path):
    run = read_one(csv(tmp_path / "b64.csv", rows(range(2000, 2100, 10), LOSS)), train_window="interval")
    assert run.train.steps[0] == 2000 - 4.5


def test_run_json_may_say_how_the_loss_was_averaged(tmp_path):
    csv(tmp_path / "b64.csv", rows(range(10, 101, 10), LOSS))
    (tmp_path / "run.json").write_text('{"train_loss_window": "interval"}')
    assert read_one(tmp_path / "b64.csv").train.lag_steps == 4.5
    assert read_one(tmp_path / "b64.csv", train_window=3).train.lag_steps == 1


# --- files, folders, names -----------------------------------------------------------------------------------


def sweep(folder, sizes=(64, 128, 256)):
    for size in sizes:
        csv(folder / f"b{size}.csv", rows(STEPS, LOSS))
    return folder


def summary(runs):
    return [(run.name, str(run.path), run.batch_tokens) for run in runs]


def test_folders_files_and_globs_in_any_order(tmp_path):
    sweep(tmp_path)
    whole = summary(read_runs([tmp_path], QUIET))
    assert [name for name, _, _ in whole] == ["b64", "b128", "b256"]
    files = [tmp_path / f"b{size}.csv" for size in (256, 64, 128)]
    assert summary(read_runs(files, QUIET)) == whole
    assert summary(read_runs([tmp_path / "*.csv"], QUIET)) == whole
    assert summary(read_runs([str(tmp_path / "b[0-9]*.csv"), tmp_path, files[0]], QUIET)) == whole


def test_the_same_file_through_links_is_read_once(tmp_path):
    sweep(tmp_path / "logs")
    (tmp_path / "again").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "loop").symlink_to(tmp_path)
    (tmp_path / "logs" / "b64-link.csv").symlink_to(tmp_path / "logs" / "b64.csv")
    os.link(tmp_path / "logs" / "b64.csv", tmp_path / "b64-hard.csv")
    assert len(read_runs([tmp_path], QUIET)) == 3
    assert len(read_runs([tmp_path / "logs", tmp_path / "again"], QUIET)) == 3


def test_hidden_files_are_left_alone(tmp_path):
    sweep(tmp_path)
    csv(tmp_path / ".b512.csv", "broken")
    csv(tmp_path / ".cache" / "b512.csv", "broken")
    assert len(read_runs([tmp_path], QUIET)) == 3


def test_files_that_are_no_logs_are_counted(tmp_path):
    sweep(tmp_path)
    csv(tmp_path / "notes.txt", "nothing to see, really")
    csv(tmp_path / "points.csv", "target_loss,batch_tokens,steps\n2,64,100\n")
    csv(tmp_path / "config.yaml", "a: 1\n")
    runs = read_runs([tmp_path], QUIET)
    assert [run.name for run in runs] == ["b64", "b128", "b256"]
    assert all("3 files that are no logs were skipped (config.yaml," in run.warnings[-1] for run in runs)


def test_one_broken_log_in_a_folder_is_an_error_that_names_it(tmp_path):
    sweep(tmp_path)
    csv(tmp_path / "b512.csv", "step,lr\n1,2\n2,3\n")
    with pytest.raises(BadInputError, match=r"b512.csv: no loss column.*Found in a folder"):
        read_runs([tmp_path], QUIET)
    assert [run.name for run in read_logs([tmp_path], QUIET).runs] == ["b64", "b128", "b256"]


@pytest.mark.parametrize("content", [b"", b"\0\1\2" * 50, b"no log at all\n"])
def test_a_log_by_name_that_is_none_by_content_is_not_passed_over(tmp_path, content):
    sweep(tmp_path)
    (tmp_path / "b512.csv").write_bytes(content)
    with pytest.raises(BadInputError, match=r"b512\.csv"):
        read_runs([tmp_path], QUIET)


def test_runs_get_names_of_their_own(tmp_path):
    for folder in ("a/b64", "b/b64"):
        csv(tmp_path / folder / "metrics.csv", rows(STEPS, LOSS))
    csv(tmp_path / "c" / "b64" / "train.csv", rows(STEPS, LOSS))
    csv(tmp_path / "c" / "b64" / "loss.csv", rows(STEPS, LOSS))
    csv(tmp_path / "b128.csv", rows(STEPS, LOSS))
    names = [run.name for run in read_runs([tmp_path], QUIET)]
    assert names == ["a/b64", "b/b64", "b64/loss", "b64/train", "b128"]


def test_paths_that_lead_nowhere(tmp_path):
    for path, message in (
        ("missing", "no such file or folder"),
        ("*.csv", "matches no file"),
        (".", "no logs found"),
    ):
        with pytest.raises(BadInputError, match=message):
            read_runs([tmp_path / path], QUIET)
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    with pytest.raises(BadInputError, match="a link to a file that does not exist"):
        read_runs([tmp_path / "broken"], QUIET)
    with pytest.raises(BadInputError, match="no path given"):
        read_runs([])


def test_options_that_make_no_sense():
    for options, message in (
        ({"seq_len": 0}, "--seq-len"),
        ({"batch_tokens": -1.0}, "--batch-tokens"),
        ({"warmup_steps": -1}, "--warmup-steps"),
        ({"warmup_steps": 10, "stable_until": 10}, "--stable-until"),
        ({"train_window": 0}, "--train-window"),
        ({"train_ema": 1.0}, "--train-ema"),
        ({"train_ema": 0.9, "train_window": 3}, "not both"),
    ):
        with pytest.raises(BadInputError, match=message):
            ReadOptions(**options)
