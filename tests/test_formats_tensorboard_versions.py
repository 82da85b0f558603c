"""Folders of Lightning's TensorBoardLogger: which versions are one run that was resumed, and which are not."""

from pathlib import Path

import pytest
from event_files import scalar, write_events
from tensorboard.compat.proto import event_pb2

from ebfit.cli.main import main
from ebfit.runs import ReadOptions, read_runs

OPTIONS = ReadOptions(batch_tokens=4096, warmup_steps=1)
SEVENTY = range(750, 1501, 50)


def _version(
    folder: Path, updates: range, loss_at: float = 4.0, begun: float = 0.0, hparams: str = "lr: 0.001\n"
) -> Path:
    """A version as Lightning writes it: steps from 0, whole epochs, and a metric of hyperparameters at step 0."""
    events: list[event_pb2.Event] = [scalar("hp_metric", -1.0, 0, begun)]
    for update in updates:
        at = begun + update
        events += [
            scalar("train_loss", loss_at - update / 1000, update - 1, at),
            scalar("epoch", update // 500, update - 1, at),
        ]
        if update % 250 == 0:
            events.append(scalar("val_loss", loss_at + 0.1 - update / 1000, update - 1, at))
    path = write_events(folder, events)
    (folder / "hparams.yaml").write_text(hparams)
    return path


def _steps(folder: Path) -> dict[str, list[int]]:
    return {run.name.split("/")[-1]: run.train.steps.tolist() for run in read_runs([folder], OPTIONS)}


@pytest.mark.parametrize("hparams", ["lr: 0.001\n", ""], ids=["same hyperparameters", "none"])
def test_two_seeds_are_two_runs(tmp_path: Path, hparams: str):
    for version, loss in enumerate((4.0, 3.0)):
        _version(tmp_path / f"version_{version}", range(50, 1001, 50), loss, 5000.0 * version, hparams)
    whole = list(range(50, 1001, 50))
    assert _steps(tmp_path) == {"version_0": whole, "version_1": whole}


def test_a_version_that_goes_on_where_another_ended_is_the_same_run(tmp_path: Path):
    """Resumed at 700, of 1000; versions are in order of their numbers, not of their names."""
    _version(tmp_path / "version_9", range(50, 1001, 50))
    _version(tmp_path / "version_10", range(750, 1501, 50), 5.0, begun=5000.0)
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.steps.tolist() == list(range(50, 1501, 50))
    assert (run.train.loss[13], run.train.loss[14]) == pytest.approx((4 - 0.7, 5 - 0.75))
    assert run.val.steps.tolist() == [250, 500, 750, 1000, 1250, 1500]
    assert run.dropped["trained again after a resumption"] == 6
    assert (run.path.parent.name, run.lr) == ("version_9", 0.001)
    assert {piece.parent.name for piece in run.pieces} == {"version_9", "version_10"}


def test_what_was_logged_past_the_checkpoint_is_left_out_even_if_it_was_not_trained_again(tmp_path: Path):
    _version(tmp_path / "version_0", range(50, 1001, 50))
    _version(tmp_path / "version_1", range(750, 901, 50), 5.0, begun=5000.0)
    (run,) = read_runs([tmp_path], OPTIONS)
    assert run.train.steps.tolist() == list(range(50, 901, 50))


def test_a_run_that_was_resumed_twice(tmp_path: Path):
    _version(tmp_path / "version_0", range(50, 601, 50))
    _version(tmp_path / "version_1", range(550, 801, 50), begun=1000.0)
    _version(tmp_path / "version_2", range(750, 1201, 50), begun=3000.0)
    assert _steps(tmp_path) == {"version_0": list(range(50, 1201, 50))}


def test_two_runs_that_were_both_resumed_stay_apart(tmp_path: Path):
    _version(tmp_path / "version_0", range(50, 1001, 50))
    _version(tmp_path / "version_1", range(50, 1001, 50), 3.0)
    _version(tmp_path / "version_2", SEVENTY, 3.0, begun=5000.0)
    _version(tmp_path / "version_3", SEVENTY, begun=5000.0)
    runs = read_runs([tmp_path], OPTIONS)
    assert [len(run.train.steps) for run in runs] == [20, 20, 16, 16]
    for run in runs[2:]:
        assert any("the log begins at step 750" in text for text in run.warnings)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"hparams": "lr: 0.002\n", "begun": 5000.0}, id="of other hyperparameters"),
        pytest.param({"begun": 100.0}, id="begun while the other still ran"),
        pytest.param({"updates": range(1150, 1501, 50), "begun": 5000.0}, id="steps are missing between"),
    ],
)
def test_a_late_version_is_not_joined_to_one_that_it_does_not_go_on_from(tmp_path: Path, other: dict):
    _version(tmp_path / "version_0", range(50, 1001, 50))
    _version(tmp_path / "version_1", **{"updates": SEVENTY, **other})
    assert list(_steps(tmp_path)) == ["version_0", "version_1"]


def test_losses_of_every_step(tmp_path: Path):
    _version(tmp_path / "version_0", range(1, 41))
    _version(tmp_path / "version_1", range(31, 61), begun=100.0)
    _version(tmp_path / "version_2", range(1, 61), 3.0, begun=200.0)
    assert _steps(tmp_path) == {"version_0": list(range(1, 61)), "version_2": list(range(1, 61))}


def test_versions_of_another_folder_are_not_looked_at(tmp_path: Path):
    _version(tmp_path / "b8" / "version_0", range(50, 1001, 50))
    _version(tmp_path / "b16" / "version_1", SEVENTY, begun=5000.0)
    assert len(read_runs([tmp_path], OPTIONS)) == 2


def test_one_version_that_is_named_alone_says_that_its_beginning_is_missing(tmp_path: Path):
    _version(tmp_path / "version_0", range(50, 1001, 50))
    log = _version(tmp_path / "version_1", SEVENTY, begun=5000.0)
    (run,) = read_runs([log], OPTIONS)
    assert run.train.steps.tolist() == list(SEVENTY)
    assert any("What came before is missing" in text for text in run.warnings)


def test_inspect_says_which_versions_are_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    _version(tmp_path / "version_0", range(50, 1001, 50))
    _version(tmp_path / "version_1", SEVENTY, begun=5000.0)
    with pytest.raises(SystemExit) as exit_:
        main(["inspect", str(tmp_path), "--batch-tokens", "4096", "--warmup-steps", "1"])
    captured = capsys.readouterr()
    shown = " ".join((captured.out + captured.err).split())
    assert not exit_.value.code, shown
    assert "version_0 goes on in version_1 from step 750: taken for one run that was resumed" in shown
    assert "runs made of several" in shown
    assert "hparams.yaml" not in shown
