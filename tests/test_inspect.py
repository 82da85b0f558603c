"""``ebfit inspect`` and what all commands share: exit statuses, streams, errors as sentences."""

import errno
import hashlib
import json
import signal
import subprocess
import sys
import time

import pytest

from ebfit.cli import main as cli
from ebfit.errors import CannotAnswerError
from ebfit.files import Inspection

EBFIT = [sys.executable, "-m", "ebfit.cli.main"]


def log(path, batch=64, lr=0.1, steps=range(10, 510, 10)):
    lines = [f"{s},{5 / s**0.1:.5f},{lr},{s * batch}" for s in steps]
    path.write_text("step,loss,lr,tokens\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def run_ebfit(capsys, monkeypatch):
    """Run a command line in this process, on an 80-column terminal; return status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as exit_:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


def test_the_table_shows_every_run_within_80_columns(tmp_path, run_ebfit):
    for batch in (64, 128):
        log(tmp_path / f"run{batch}.csv", batch)
    with (tmp_path / "run64.csv").open("a") as file:
        file.write("500,2.5,0.1,32000\n510,nan,0.1,32640\n")
    status, out, err = run_ebfit("inspect", tmp_path)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for text in ("run64", "run128", "duplicate step: 1", "10 - 510", "batch size from: column 'tokens'"):
        assert text in out
    assert "stable phase from: constant lr 0.1" in out
    assert "train 3.972 to 2.500" in out


def test_a_name_in_brackets_is_not_taken_for_colour(tmp_path, run_ebfit):
    log(tmp_path / "[bold]x[/red].csv".replace("/", "_"))
    _, out, _ = run_ebfit("inspect", tmp_path)
    assert "[bold]x[_red]" in out


def test_json_is_one_document_and_nothing_else(tmp_path, run_ebfit):
    path = log(tmp_path / "b64.csv")
    (tmp_path / "notes.txt").write_text("hello\n")
    status, out, err = run_ebfit("inspect", tmp_path, "--json")
    document = Inspection.model_validate_json(out)
    assert (status, json.loads(out)["schema"]) == (0, "ebfit.inspect/1")
    [run] = document.runs
    assert (run.batch_tokens, run.batch_source, run.rows) == (64, "column 'tokens' (tokens per step)", 50)
    assert (run.stable_from, run.stable_to, run.lr) == (10, 500, 0.1)
    assert run.train_loss_first == 3.97164
    assert document.inputs[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "notes.txt" in err


def test_equal_warnings_are_said_once(tmp_path, run_ebfit):
    for batch in (8, 16, 32, 64, 128):
        path = tmp_path / f"b{batch}.csv"
        path.write_text("step,loss\n" + "".join(f"{s},{5 - s / 99}\n" for s in range(1, 50 + batch)))
    _, _, err = run_ebfit("inspect", tmp_path)
    assert err.count("no learning rate") == 1
    assert err.startswith("warning: all runs: ")
    log(tmp_path / "b256.csv", 256)
    _, _, err = run_ebfit("inspect", tmp_path)
    assert "warning: b8, b16, b32 and 2 more: the log has no learning rate" in err


def test_a_run_that_cannot_be_used_is_shown_with_the_reason(tmp_path, run_ebfit):
    log(tmp_path / "b64.csv")
    decaying = "".join(f"{s},{5 - s / 99},{1 - s / 100}\n" for s in range(1, 100))
    (tmp_path / "other.csv").write_text("step,loss,lr\n" + decaying)
    (tmp_path / "empty.csv").write_text("")
    status, out, err = run_ebfit("inspect", tmp_path)
    assert status == 2
    assert "b64" in out
    assert "unknown" in out
    assert err.count("cannot be used: ") == 3
    for sentence in ("empty.csv: the file is empty", "other.csv: the learning rate is never constant"):
        assert sentence in err
    assert "other.csv: no batch size found" in err
    status, out, _ = run_ebfit("inspect", tmp_path, "--json")
    document = json.loads(out)
    assert status == 2
    assert [run["name"] for run in document["runs"]] == ["b64", "other"]
    assert document["runs"][1]["batch_tokens"] is None
    assert len(document["problems"]) == 3


def test_the_options_reach_the_reading(tmp_path, run_ebfit):
    lines = "".join(f"{s},{5 - s / 99},{9 - s / 99},{s % 7}\n" for s in range(10, 100))
    (tmp_path / "x.txt").write_text("it;er,nll,held,out\n".replace(";", "") + lines)
    (tmp_path / "m.csv").write_text("path,batch_sequences\nx.txt,3\n")
    options = [
        "--columns",
        "step=iter,loss=nll",
        "--columns",
        "val=held",
        "--format",
        "csv",
        "--seq-len",
        "1Ki",
    ]
    options += [
        "--manifest",
        tmp_path / "m.csv",
        "--warmup-steps",
        "20",
        "--stable-until",
        "90",
        "--train-window",
        "5",
    ]
    status, out, _ = run_ebfit("inspect", tmp_path / "x.txt", "--json", *options)
    [run] = json.loads(out)["runs"]
    assert status == 0
    assert (run["batch_tokens"], run["seq_len"], run["stable_from"], run["stable_to"]) == (3072, 1024, 20, 90)
    assert (run["train_loss_first"], run["val_loss_first"]) == pytest.approx((5 - 10 / 99, 9 - 10 / 99))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch-tokens", "12Q"], "'12Q' is not a size"),
        (["--seq-len", "0"], "not a positive whole number"),
        (["--columns", "loss"], "write ROLE=NAME"),
        (["--columns", "colour=red"], "write ROLE=NAME"),
        (["--train-window", "some"], "give a number of steps, or interval"),
        (["--train-ema", "1.5"], "--train-ema"),
        (["--format", "xml"], "no such log format"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_bad_usage_is_exit_2(tmp_path, run_ebfit, options, message):
    status, out, err = run_ebfit("inspect", log(tmp_path / "b64.csv"), *options)
    assert (status, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_a_column_name_may_hold_commas_and_equals_signs(tmp_path, run_ebfit):
    text = 'step,"loss, a=b"\n' + "".join(f"{s},{5 - s / 99}\n" for s in range(1, 50))
    (tmp_path / "b64.csv").write_text(text)
    status, _, _ = run_ebfit("inspect", tmp_path, "--columns", "loss=loss, a=b,step=step")
    assert status == 0


def test_unknown_commands_and_no_command(run_ebfit):
    assert run_ebfit("inspekt")[0] == 2
    status, out, err = run_ebfit()
    assert status == 2
    assert "inspect" in out + err


def test_errors_are_sentences_unless_debug_is_given(tmp_path, run_ebfit, monkeypatch):
    status, _, err = run_ebfit("inspect", tmp_path / "gone")
    assert status == 2
    assert err == f"ebfit: {tmp_path / 'gone'}: no such file or folder. Check the path.\n"
    with pytest.raises(Exception, match="no such file"):
        cli.main(["inspect", str(tmp_path / "gone"), "--debug"])

    def fails(*_):
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr("ebfit.runs.read_logs", fails)
    status, _, err = run_ebfit("inspect", tmp_path)
    assert status == 2
    assert len(err.splitlines()) == 1
    assert "--debug" in err
    assert "ZeroDivisionError: by accident" in err
    with pytest.raises(ZeroDivisionError):
        cli.main(["--debug", "inspect", str(tmp_path)])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CannotAnswerError("too few batch sizes"), 1),
        (KeyboardInterrupt(), 130),
        (MemoryError(), 2),
        (OSError(errno.ENOSPC, "no space"), 2),
    ],
)
def test_exit_statuses(tmp_path, run_ebfit, monkeypatch, error, status):
    def fails(*_):
        raise error

    monkeypatch.setattr("ebfit.runs.read_logs", fails)
    got, _, err = run_ebfit("inspect", tmp_path)
    assert got == status
    assert "Traceback" not in err


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    for number in range(400):
        log(tmp_path / f"b{number + 1}.csv", number + 1)
    process = subprocess.Popen(
        [*EBFIT, "inspect", tmp_path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read().decode()
    process.wait()
    process.stderr.close()
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_ctrl_c_is_130(tmp_path):
    pipe = tmp_path / "b64.csv"
    log(pipe)
    code = (
        "import sys, time; import ebfit.runs as r\n"
        "def wait(*_): print('ready', flush=True); time.sleep(60)\n"
        "r.read_logs = wait\n"
        f"from ebfit.cli.main import main; main(['inspect', {str(pipe)!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_help_lists_the_commands_and_imports_nothing_heavy():
    code = (
        "import sys; from ebfit.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'scipy', 'lmfit', 'matplotlib', 'pydantic', 'torch'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    assert "inspect" in out
    assert "fit" in out


def test_the_version(run_ebfit):
    status, out, _ = run_ebfit("--version")
    assert status == 0
    assert out.startswith("ebfit ")
