"""Lightning's metrics.csv: steps from 0, rows by kind, further headers, and versions that continue one another."""

from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import FORMATS, lightning_csv, sniff

HEADER = "epoch,lr-AdamW,step,train_loss,val_loss"
OPTIONS = ReadOptions(batch_tokens=4096, warmup_steps=1)


def _rows(updates: range, loss_at: float = 4.0) -> list[str]:
    """A learning rate and a train loss for each of these updates, and a validation at every fifth."""
    rows = []
    for number, update in enumerate(updates, start=1):
        step, loss = update - 1, loss_at - update / 1000
        rows += [f",0.001,{step},,", f"0,,{step},{loss},"]
        if number % 5 == 0:
            rows.append(f"0,,{step},,{loss + 0.1}")
    return rows


def _write(folder: Path, rows: list[str], hparams: str = "lr: 0.001\n", header: str = HEADER) -> Path:
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_bytes("\r\n".join([header, *rows, ""]).encode())
    (folder / "hparams.yaml").write_text(hparams)
    return folder / "metrics.csv"


def test_steps_count_the_update_that_is_logged(tmp_path: Path):
    log = _write(tmp_path / "b64" / "lightning_logs" / "version_0", _rows(range(50, 1001, 50)))
    (run,) = read_runs([log], ReadOptions(seq_len=128, warmup_steps=1))
    assert run.format == "lightning_csv"
    assert run.train.steps.tolist() == list(range(50, 1001, 50))
    assert run.train.loss[0] == pytest.approx(3.95)
    assert run.val.steps.tolist() == [250, 500, 750, 1000]
    assert (run.lr, run.batch_tokens, run.averaging_known) == (0.001, 64 * 128, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "epoch,step,train_loss\n" + "".join(f"0,{n},3.1\n" for n in range(50, 900, 50)), id="from 1"
        ),
        pytest.param(
            "epoch,step,train_loss\n" + "".join(f"0,{n},3.1\n" for n in range(1, 40)), id="every step"
        ),
        pytest.param(
            "epoch,step,loss\n" + "".join(f"{n / 9},{n},3.1\n" for n in range(40)), id="parts of epochs"
        ),
        pytest.param(
            "epoch,step,loss\n" + "".join(f"0,{n},3.1\n" for n in range(0, 400, 10)), id="0, 10, 20"
        ),
    ],
)
def test_a_table_whose_steps_are_not_lightnings_is_left_as_it_is(tmp_path: Path, text: str):
    log = tmp_path / "metrics.csv"
    log.write_text(text)
    assert sniff(text.encode(), log).NAME == "csv"


def test_what_a_validation_logs_per_batch_has_no_step(tmp_path: Path):
    """Its step is the number of the validation batch; a long validation would end the run later than it did."""
    batches = [f",,{batch},,,9.9" for batch in range(5000)]
    rows = [f"0,0.001,{update - 1},{4 - update / 1000},," for update in range(10, 401, 10)]
    log = _write(
        tmp_path / "version_0",
        [*rows, *batches, "0,,399,,3.5,"],
        header="epoch,lr-AdamW,step,train_loss_step,val_loss_epoch,val_loss_step",
    )
    (run,) = read_runs([log], OPTIONS)
    assert (run.stable_to, run.val.steps.tolist(), run.val.loss.tolist()) == (400, [400], [3.5])
    assert run.train.column == "train_loss_step"


def test_a_second_header_in_mid_file_begins_other_columns(tmp_path: Path):
    first = [f"0,{update - 1},{4 - update / 1000}" for update in range(10, 101, 10)]
    second = [f"0,0.001,{update - 1},{4 - update / 1000}" for update in range(110, 201, 10)]
    text = "\r\n".join(["epoch,step,train_loss", *first, "epoch,lr-AdamW,step,train_loss", *second, ""])
    log = tmp_path / "metrics.csv"
    log.write_text(text, newline="")
    (run,) = read_runs([log], OPTIONS)
    assert run.train.steps.tolist() == list(range(10, 201, 10))
    assert run.train.loss.tolist() == pytest.approx([4 - step / 1000 for step in range(10, 201, 10)])
    assert lightning_csv.read(log)[0].locate(10) == "line 13"


def test_versions_that_stand_side_by_side_are_runs_of_their_own(tmp_path: Path):
    for version, loss in enumerate((4.0, 3.0, 2.0)):
        _write(tmp_path / f"version_{version}", _rows(range(50, 1001, 50), loss))
    runs = read_runs([tmp_path], OPTIONS)
    assert [(run.name, run.train.loss[0]) for run in runs] == [
        ("version_0", 3.95),
        ("version_1", 2.95),
        ("version_2", 1.95),
    ]


def test_a_version_that_goes_on_where_another_ended_is_the_same_run(tmp_path: Path):
    """Resumed at 700, of 1000; versions are in order of their numbers, not of their names."""
    _write(tmp_path / "version_9", _rows(range(50, 1001, 50)))
    _write(tmp_path / "version_10", _rows(range(750, 1501, 50), 5.0))
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.steps.tolist() == list(range(50, 1501, 50))
    assert run.train.loss[13] == pytest.approx(4 - 0.7)
    assert run.train.loss[14] == pytest.approx(5 - 0.75)
    assert run.dropped["trained again after a resumption"] == 8  # six train losses, two validations
    assert [piece.parent.name for piece in run.pieces] == ["version_10", "version_9"]
    assert run.path.parent.name == "version_9"


def test_a_resumed_run_is_joined_to_none_of_two_that_it_could_be_of(tmp_path: Path):
    _write(tmp_path / "version_0", _rows(range(50, 1001, 50)))
    _write(tmp_path / "version_1", _rows(range(50, 1001, 50), 3.0))
    _write(tmp_path / "version_2", _rows(range(750, 1501, 50), 3.0))
    runs = read_runs([tmp_path], OPTIONS)
    assert [len(run.train.steps) for run in runs] == [20, 20, 16]
    assert any("the log begins at step 750" in text for text in runs[2].warnings)


def test_hyperparameters_tell_which_run_went_on(tmp_path: Path):
    _write(tmp_path / "version_0", _rows(range(50, 1001, 50)), "lr: 0.001\nbatch_size: 8\n")
    _write(tmp_path / "version_1", _rows(range(50, 1001, 50), 3.0), "lr: 0.001\nbatch_size: 16\n")
    _write(tmp_path / "version_2", _rows(range(1050, 1501, 50), 3.0), "lr: 0.001\nbatch_size: 16\n")
    runs = {run.name: run for run in read_runs([tmp_path], OPTIONS)}
    assert {name: len(run.train.steps) for name, run in runs.items()} == {"version_0": 20, "version_1": 30}


def test_hyperparameters_that_change_between_two_readings_are_looked_at_again(tmp_path: Path):
    _write(tmp_path / "version_0", _rows(range(50, 1001, 50)))
    log = _write(tmp_path / "version_1", _rows(range(1050, 1501, 50)))
    assert len(read_runs([tmp_path], OPTIONS)) == 1
    (log.parent / "hparams.yaml").write_text("lr: 0.002\nnote: changed by hand\n")
    assert len(read_runs([tmp_path], OPTIONS)) == 2


def test_the_batch_size_of_the_module_is_not_taken_for_that_of_an_update(tmp_path: Path):
    log = _write(tmp_path / "version_0", _rows(range(50, 1001, 50)), "batch_size: 8\nseq_len: 128\nseed: 3\n")
    with pytest.raises(BadInputError, match=r"The batch_size \(8\) in hparams.yaml may leave out devices"):
        read_runs([log], ReadOptions(warmup_steps=1))
    (run,) = read_runs([log], OPTIONS)
    assert (run.seq_len, run.seed) == (128, 3)


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "!!python/object/apply:os.system ['false']", "a: " + "[" * 5000]
)
def test_hyperparameters_that_cannot_be_read_are_left_alone(tmp_path: Path, text: str):
    log = _write(tmp_path / "version_0", _rows(range(50, 1001, 50)), text)
    assert len(read_runs([log], OPTIONS)) == 1


def test_litgpt_counts_micro_batches(tmp_path: Path):
    rows = [f"0,{n},0.001,{4 - n / 1000},{n - 1},{n * 256},{n * 512}" for n in range(8, 401, 8)]
    log = _write(
        tmp_path / "version_0", rows, header="epoch,iter,learning_rate,loss,step,tokens,total_tokens"
    )
    (run,) = read_runs([log], ReadOptions(micro_steps=4, warmup_steps=1))
    assert run.train.steps.tolist() == list(range(2, 101, 2))
    assert run.batch_tokens == 4 * 512
    assert any("count micro-batches" in text for text in run.warnings)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "step,step,epoch\n1,2,3\n", "step,epoch\n"])
def test_what_is_no_log_of_lightning_is_refused(tmp_path: Path, text: str):
    log = tmp_path / "metrics.csv"
    log.write_text(text)
    with pytest.raises(BadInputError, match=r"metrics\.csv"):
        read_runs([log], ReadOptions(format="lightning_csv"))


def test_only_lightning_and_csv_claim_it(tmp_path: Path):
    log = _write(tmp_path / "version_0", _rows(range(50, 1001, 50)))
    claimed = [known.NAME for known in FORMATS if known.sniff(log.read_bytes(), log)]
    assert claimed == ["lightning_csv", "csv"]
