"""`ebfit fit` as a user meets it: exit statuses, sentences, files, and nothing overwritten by a failure."""

import json
import os
import re

import pytest
from strategies import noisy_rows, write_points, write_run, write_sweep

from ebfit.cli.main import main
from ebfit.files import Fit

OLD = "an older result"
QUICK = ("--bootstrap", 100)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return write_sweep(tmp_path_factory.mktemp("sweep") / "logs", [1000 * 2**k for k in range(8)])


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    return write_points(tmp_path_factory.mktemp("points") / "points.csv", noisy_rows())


def _assert_refused(result, status, *says):
    code, out, err = result
    assert (code, out) == (status, ""), err
    assert "Traceback" not in err
    assert "internal error" not in err
    assert err.startswith("ebfit: ")
    for words in says:
        assert words in err
    # one or two sentences, a little more where problems are counted
    assert 1 <= len(re.findall(r"[.!?)](?:\s|$)", err)) <= 4, err
    assert len(err) < 700


# --- bad input ---------------------------------------------------------------------------------------------------


def _log(loss="2.5", step=lambda i: 10 * (i + 1), header="step,loss,lr", rows=40):
    return header + "\n" + "".join(f"{step(i)},{loss},0.01\n" for i in range(rows))


BAD_LOGS = {
    "empty": (b"", "empty"),
    "a pickle": (
        b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "",
    ),
    "binary": (bytes(range(256)) * 20, ""),
    "no loss column": (_log(header="step,accuracy,lr").encode(), "loss"),
    "all NaN": (_log(loss="nan").encode(), "loss"),
    "negative steps": (_log(step=lambda i: -10 * (i + 1)).encode(), "step"),
    "a header alone": (b"step,loss,lr\n", ""),
}


@pytest.mark.parametrize(("content", "says"), BAD_LOGS.values(), ids=BAD_LOGS)
def test_a_log_that_cannot_be_used_is_named(tmp_path, ebfit, content, says):
    log, output = tmp_path / "b1024.csv", tmp_path / "fit.json"
    log.write_bytes(content)
    output.write_text(OLD)
    _assert_refused(ebfit("fit", log, "-o", output), 2, "b1024.csv", says)
    assert output.read_text() == OLD
    assert sorted(os.listdir(tmp_path)) == ["b1024.csv", "fit.json"]


def test_a_path_that_is_not_there(tmp_path, ebfit):
    _assert_refused(ebfit("fit", tmp_path / "gone"), 2, "gone")
    _assert_refused(ebfit("fit", tmp_path / "*.csv"), 2, "*.csv")
    _assert_refused(ebfit("fit", "--points", tmp_path / "gone.csv"), 2, "gone.csv", "no such file")


def test_a_folder_without_logs(tmp_path, ebfit):
    (tmp_path / "notes.txt").write_text("nothing here")
    _assert_refused(ebfit("fit", tmp_path), 2, str(tmp_path))


def test_no_batch_size_is_found(tmp_path, ebfit):
    log = tmp_path / "run.csv"
    log.write_text(_log())
    _assert_refused(ebfit("fit", log), 2, "run.csv", "batch")


def test_two_batch_sizes_cannot_answer(tmp_path, ebfit):
    output = tmp_path / "fit.json"
    output.write_text(OLD)
    for size in (1000, 2000):
        write_run(tmp_path / f"b{size}", size)
    _assert_refused(ebfit("fit", tmp_path, "-o", output), 1, "only 2 batch sizes", "1,000, 2,000 tokens")
    assert output.read_text() == OLD


def test_two_batch_sizes_in_a_table_cannot_answer(tmp_path, ebfit):
    rows = [row for row in noisy_rows() if row["batch_tokens"] > 25_000]
    table = write_points(tmp_path / "points.csv", rows)
    _assert_refused(ebfit("fit", "--points", table), 1, "only 2 batch sizes")


def test_a_target_that_no_run_reaches_cannot_be_answered(sweep, tmp_path, ebfit):
    output = tmp_path / "fit.json"
    output.write_text(OLD)
    result = ebfit("fit", sweep, "--targets", "1.0", "-o", output)
    _assert_refused(result, 1, "target 1: no run reaches it")
    assert output.read_text() == OLD


def test_a_target_that_the_table_does_not_hold(points, ebfit):
    _assert_refused(ebfit("fit", "--points", points, "--targets", "9.5"), 1, "9.5")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2.4,-5,100,0,False", "batch_tokens is '-5'"),
        ("2.4,1000,nan,0,False", "steps is 'nan'"),
        ("2.4,1000,100,0,perhaps", "censored is 'perhaps'"),
        ("high,1000,100,0,False", "target_loss is 'high'"),
    ],
)
def test_a_bad_cell_of_a_table_is_named_with_its_line(points, tmp_path, ebfit, row, says):
    table, output = tmp_path / "points.csv", tmp_path / "fit.json"
    output.write_text(OLD)
    table.write_text(points.read_text() + row + "\n")
    line = len(points.read_text().splitlines()) + 1
    _assert_refused(ebfit("fit", "--points", table, "-o", output), 2, f"{table}, line {line}: {says}")
    assert output.read_text() == OLD


def test_one_bad_log_among_good_ones_is_not_left_out_in_silence(tmp_path, ebfit):
    write_sweep(tmp_path / "logs", [1000 * 2**k for k in range(7)])
    bad = tmp_path / "logs" / "b500" / "metrics.jsonl"
    bad.parent.mkdir()
    bad.write_text('{"step": 1, "train_loss": NaN, "lr": 0.01}\n' * 20)
    _assert_refused(ebfit("fit", tmp_path / "logs"), 2, str(bad))


# --- bad output ----------------------------------------------------------------------------------------------------


def test_output_into_a_folder_or_where_there_is_none(points, tmp_path, ebfit):
    (tmp_path / "file").write_text(OLD)
    for output, says in [
        (tmp_path, "is a folder"),
        (tmp_path / "gone" / "fit.json", "no such folder"),
        (tmp_path / "file" / "fit.json", "no such folder"),
    ]:
        _assert_refused(ebfit("fit", "--points", points, "-o", output), 2, str(output.parent), says)
    assert (tmp_path / "file").read_text() == OLD
    assert os.listdir(tmp_path) == ["file"]


def test_output_that_is_not_writable(points, tmp_path, ebfit, monkeypatch):
    output = tmp_path / "fit.json"
    output.write_text(OLD)
    # tests may run as root, who may write anywhere: the answer other users get is put in
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK)
    _assert_refused(ebfit("fit", "--points", points, "-o", output), 2, str(output), "not writable")
    assert output.read_text() == OLD


def test_a_disk_that_fills_while_writing(points, tmp_path, ebfit, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    output = tmp_path / "fit.json"
    output.write_text(OLD)
    monkeypatch.setattr(os, "fsync", full)
    _assert_refused(
        ebfit("fit", "--points", points, *QUICK, "-o", output), 2, str(output), "No space left on device"
    )
    assert output.read_text() == OLD
    assert os.listdir(tmp_path) == ["fit.json"]


def test_plots_where_a_file_stands(points, tmp_path, ebfit):
    (tmp_path / "plots").write_text(OLD)
    result = ebfit("fit", "--points", points, "--plots", tmp_path / "plots")
    _assert_refused(result, 2, "no folder that can be written to")


# --- bad usage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--bootstrap", "5"], "--bootstrap"),
        (["--confidence", "1"], "--confidence"),
        (["--confidence", "0.2"], "--confidence"),
        (["--seed", "-1"], "--seed"),
        (["--n-targets", "0"], "--n-targets"),
        (["--targets", "2.4,low"], "--targets"),
        (["--targets", "nan"], "target"),
        (["--targets", ""], "--targets"),
    ],
)
def test_options_out_of_their_range_are_named(points, ebfit, options, says):
    _assert_refused(ebfit("fit", "--points", points, *options), 2, says)


@pytest.mark.parametrize("options", [["--law", "linear"], ["--bootstrap", "many"], ["--no-such-option"]])
def test_usage_that_is_wrong_ends_with_2(points, ebfit, options):
    status, out, err = ebfit("fit", "--points", points, *options)
    assert (status, out) == (2, "")
    assert options[0] in err
    assert "Traceback" not in err


def test_logs_and_a_table_are_one_too_many_and_none_is_one_too_few(points, sweep, ebfit):
    for arguments in ((), (sweep, "--points", points)):
        _assert_refused(ebfit("fit", *arguments), 2, "either logs", "--points FILE")


# --- what works ----------------------------------------------------------------------------------------------------


def test_logs_become_a_table_and_a_file(sweep, tmp_path, ebfit):
    output = tmp_path / "fit.json"
    status, out, _ = ebfit("fit", sweep, "--targets", "2.1,2.0", *QUICK, "-o", output)
    assert status == 0
    assert "B_min" in out
    assert "B_opt" in out
    assert f"wrote {output}" in out.replace("\n", "")
    fit = Fit.load(output)
    assert [target.loss for target in fit.targets] == [2.1, 2.0]
    assert len(fit.runs) == 8
    b_opt = fit.targets[0].b_opt
    assert b_opt.status == "ok"
    assert b_opt.low < 3125.0 < b_opt.high  # 50^(1/0.6) ((0.6 + 0.4) / 0.4)^(1/0.6), DESIGN 3.4


def test_without_output_nothing_is_written(points, tmp_path, ebfit, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = ebfit("fit", "--points", points, *QUICK)
    assert status == 0
    assert "-o fit.json" in out
    assert os.listdir(tmp_path) == []


def test_json_is_one_document_and_the_file_is_the_same(points, tmp_path, ebfit):
    output = tmp_path / "fit.json"
    status, out, _ = ebfit("fit", "--points", points, *QUICK, "--json", "-o", output)
    assert status == 0
    Fit.model_validate(json.loads(out))
    assert out == output.read_text()


def test_warnings_go_to_stderr_and_leave_the_json_alone(tmp_path, ebfit):
    table = write_points(tmp_path / "points.csv", [row | {"note": "x"} for row in noisy_rows()])
    status, out, err = ebfit("fit", "--points", table, *QUICK, "--targets", "2.4,7.5", "--json")
    assert status == 0
    fit = Fit.model_validate(json.loads(out))
    assert "columns not used: note" in err
    assert "target skipped: 7.5: the points table holds no such target" in err
    assert [item.loss for item in fit.skipped_targets] == [7.5]


def test_a_requested_target_that_is_skipped_says_why(sweep, ebfit):
    status, _, err = ebfit("fit", sweep, "--targets", "2.1,1.2", *QUICK)
    assert status == 0
    assert "target skipped: 1.2: no run reaches it" in err


def test_classic_prints_its_critical_batch_size_or_that_there_is_none(points, ebfit):
    status, out, _ = ebfit("fit", "--points", points, *QUICK, "--law", "classic", "--json")
    assert status == 0
    for target in json.loads(out)["targets"]:
        assert target["b_crit"] == {"value": None, "low": None, "high": None, "status": "not_identified"}
        assert any("--law revised" in warning for warning in target["warnings"])


def test_debug_shows_the_error_itself(tmp_path):
    with pytest.raises(Exception, match="no such file"):
        main(["fit", "--points", str(tmp_path / "gone.csv"), "--debug"])
