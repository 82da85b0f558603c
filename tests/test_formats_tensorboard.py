"""TensorBoard's event files, as its own writers write them."""

import gzip
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from event_files import record_offsets, scalar, write_events
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util
from torch.utils.tensorboard import SummaryWriter

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_logs, read_runs
from ebfit.runs.formats import FORMATS, many_columns, sniff, tensorboard
from ebfit.runs.formats.tfrecord import Block, TornRecord, blocks, first_record, masked_crc

STEPS = range(10, 401, 10)
QUIET = ReadOptions(warmup_steps=1)


def _start(step: int, at: float) -> event_pb2.Event:
    log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    return event_pb2.Event(wall_time=at, step=step, session_log=log)


def _losses(start: float, steps: Iterable[int] = STEPS, at: float = 1000.0) -> list[event_pb2.Event]:
    return [scalar("train/loss", start - step / 1000, step, at + step) for step in steps]


def test_what_torch_writes_is_read(tmp_path: Path):
    with SummaryWriter(tmp_path / "b64") as writer:
        for step in STEPS:
            writer.add_scalar("train/loss", 4 - step / 1000, step)
            writer.add_scalar("train/learning_rate", 1e-3, step)
            if step % 100 == 0:
                writer.add_scalar("eval/loss", 4.1 - step / 1000, step)
                writer.add_histogram("weights", np.zeros(9), step)
    [run] = read_runs([tmp_path])
    assert (run.format, run.name, run.batch_tokens, run.lr) == ("tensorboard", "b64", 64, 1e-3)
    assert run.train.steps.tolist() == list(STEPS)
    assert run.train.loss == pytest.approx([4 - step / 1000 for step in STEPS], rel=1e-6)
    assert run.val.steps.tolist() == [100, 200, 300, 400]
    assert not run.dropped


@pytest.mark.parametrize("tensor", [False, True])
def test_a_scalar_is_a_simple_value_or_a_tensor(tmp_path: Path, tensor: bool):
    write_events(tmp_path / "b64", [scalar("loss", 4 - s / 1000, s, 10.0 + s, tensor=tensor) for s in STEPS])
    [run] = read_runs([tmp_path], QUIET)
    assert run.train.loss.tolist() == [round(4 - step / 1000, 6) for step in STEPS]


def test_a_restart_with_purge_step_undoes_what_came_after_it(tmp_path: Path):
    """As TensorBoard itself shows the run."""
    folder = tmp_path / "b64"
    with SummaryWriter(folder) as writer:
        for step in STEPS:
            writer.add_scalar("train/loss", 4 - step / 1000, step)
    with SummaryWriter(folder, purge_step=255, filename_suffix=".again") as writer:
        for step in range(260, 351, 10):
            writer.add_scalar("train/loss", 3 - step / 1000, step)
    [run] = read_runs([tmp_path], QUIET)
    shown = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload().Scalars("train/loss")
    assert run.train.steps.tolist() == [point.step for point in shown]
    assert run.train.loss == pytest.approx([point.value for point in shown], rel=1e-6)
    assert run.train.steps[-1] == 350
    assert run.dropped == {"undone by a restart from an earlier step": 15}


def test_of_a_step_that_was_logged_again_the_later_counts(tmp_path: Path):
    # the file of the later one sorts first
    write_events(tmp_path / "b64", _losses(3.0, range(310, 501, 10), at=9000.0), ".a")
    write_events(tmp_path / "b64", _losses(4.0), ".b")
    [run] = read_runs([tmp_path], QUIET)
    at = dict(zip(run.train.steps.tolist(), run.train.loss.tolist(), strict=True))
    assert len(at) == 50
    assert (at[300], at[310], at[500]) == pytest.approx((3.7, 2.69, 2.5))
    assert run.dropped == {"duplicate step": 10}
    assert len(run.pieces) == 2


def test_steps_that_begin_anew_are_another_run(tmp_path: Path):
    write_events(tmp_path / "b64", _losses(4.0), ".a")
    events = [scalar("eval/loss", 9.0, 0, 8999.0), *_losses(3.0, range(10, 201, 10), at=9000.0)]
    write_events(tmp_path / "b64", events, ".b")
    first, second = read_runs([tmp_path], QUIET)
    assert [(run.name, len(run.train.steps)) for run in (first, second)] == [
        ("b64/run 1", 40),
        ("b64/run 2", 20),
    ]
    assert second.train.loss[0] == pytest.approx(2.99)


def test_a_run_that_has_hardly_begun_is_counted(tmp_path: Path):
    write_events(tmp_path / "b64", _losses(4.0), ".a")
    write_events(tmp_path / "b64", _losses(3.0, [10, 20], at=9000.0), ".b")
    [run] = read_runs([tmp_path], QUIET)
    assert run.train.loss[0] == pytest.approx(3.99)
    assert run.dropped == {"of a run that has hardly begun": 2}


def test_every_folder_is_a_run(tmp_path: Path):
    for name in ("b64", "b128", "b256/version_0"):
        write_events(tmp_path / name, _losses(4.0))
    runs = read_runs([tmp_path], QUIET)
    assert [(run.name, run.batch_tokens) for run in runs] == [
        ("b64", 64),
        ("b128", 128),
        ("b256/version_0", 256),
    ]


def test_the_name_of_the_machine_is_no_batch_size(tmp_path: Path):
    path = write_events(tmp_path / "run", _losses(4.0))
    path.rename(path.with_name("events.out.tfevents.1767225600.dgx-b200.4711.0"))
    with pytest.raises(BadInputError, match="no batch size found"):
        read_runs([tmp_path], QUIET)


def test_megatron_logs_over_samples_too_and_its_arguments(tmp_path: Path):
    """Tags, arguments and steps as in training/training.py and training/global_vars.py of Megatron-LM (core 0.18.2)."""
    with SummaryWriter(tmp_path / "run") as writer:
        for name, value in {
            "seq_length": 128,
            "global_batch_size": 64,
            "rampup_batch_size": None,
            "seed": 7,
        }.items():
            writer.add_text(name, str(value), global_step=0)
        for iteration in STEPS:
            samples = iteration * 64
            for tag, value in {
                "learning-rate": 1e-3,
                "batch-size": 64,
                "lm loss": 4 - iteration / 1000,
            }.items():
                writer.add_scalar(tag, value, iteration)
                writer.add_scalar(f"{tag} vs samples", value, samples)
    [run] = read_runs([tmp_path])
    assert (run.batch_tokens, run.seq_len, run.seed, run.lr) == (64 * 128, 128, 7, 1e-3)
    assert run.train.steps.tolist() == list(STEPS)
    assert run.stable_to == 400


def test_a_ramped_batch_size_is_no_batch_size(tmp_path: Path):
    with SummaryWriter(tmp_path / "run") as writer:
        for name, value in {
            "seq_length": 128,
            "global_batch_size": 64,
            "rampup_batch_size": "[8, 8, 100]",
        }.items():
            writer.add_text(name, value if isinstance(value, str) else str(value))
        for step in STEPS:
            writer.add_scalar("lm loss", 4 - step / 1000, step)
    with pytest.raises(BadInputError, match="no batch size found"):
        read_runs([tmp_path], QUIET)


def test_steps_of_lightning_count_from_zero(tmp_path: Path):
    """Lightning logs whole epochs, and a record every 50 updates at steps 49, 99, and so on."""
    events = []
    for step in range(49, 2000, 50):
        events += [
            scalar("train_loss", 4 - step / 5000, step, float(step)),
            scalar("epoch", step // 500, step, 1.0),
        ]
    write_events(tmp_path / "b64", events)
    [run] = read_runs([tmp_path], QUIET)
    assert run.train.steps.tolist() == list(range(50, 2001, 50))


def test_of_thousands_of_tags_what_a_run_needs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(many_columns, "MAX_CELLS", 100)
    events = [scalar(f"layer_{index}/norm", 1.0, step, 1.0) for step in STEPS for index in range(5)]
    write_events(tmp_path / "b64", events + _losses(4.0))
    [run] = read_runs([tmp_path], QUIET)
    assert len(run.train.steps) == 40
    assert any(
        "of many tags only those were read that a run needs (1 of them)" in text for text in run.warnings
    )


def test_a_file_without_a_loss_in_a_folder_is_passed_over(tmp_path: Path):
    write_events(tmp_path / "b64", _losses(4.0))
    write_events(tmp_path / "b64" / "hparams", [])
    [run] = read_runs([tmp_path], QUIET)
    assert run.path.parent.name == "b64"


def test_without_the_extra_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_events(tmp_path / "b64", _losses(4.0))
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(BadInputError, match=r"pip install 'ebfit\[tensorboard\]'"):
        read_runs([tmp_path], QUIET)


def test_tensorflow_is_not_imported(tmp_path: Path):
    log = write_events(tmp_path / "b64", _losses(4.0))
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('imported')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom ebfit.runs.formats import tensorboard\n"
    code += f"from pathlib import Path\nprint(len(tensorboard.read(Path({str(log)!r}))))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "1\n"), run.stderr


@pytest.mark.parametrize("pack", [gzip.compress, None], ids=["gzip", "plain"])
def test_it_is_recognised_by_its_content_alone(tmp_path: Path, pack: Callable[[bytes], bytes] | None):
    path = write_events(tmp_path / "x", _losses(4.0))
    data = path.read_bytes()
    other = tmp_path / "b64.bin"
    other.write_bytes(pack(data) if pack else data)
    assert [known.NAME for known in FORMATS if known.sniff(data, other)] == ["tensorboard"]
    [run] = read_runs([other], ReadOptions(warmup_steps=1, batch_tokens=64))
    assert run.format == "tensorboard"


def test_records_of_something_else_are_not_claimed(tmp_path: Path):
    path = tmp_path / "examples.tfrecord"
    with path.open("wb") as file:
        RecordWriter(file).write(b"an example")
    assert first_record(path.read_bytes()) == b"an example"
    assert sniff(path.read_bytes(), path) is None


def test_a_file_that_ends_within_a_record(tmp_path: Path):
    path = write_events(tmp_path / "b64", _losses(4.0))
    path.write_bytes(path.read_bytes()[:-3])
    [run] = read_runs([tmp_path], QUIET)
    assert run.train.steps.tolist() == list(STEPS)[:-1]
    assert run.dropped == {"truncated last record": 1}


def test_a_damaged_record_is_counted_and_the_others_are_read(tmp_path: Path):
    path = write_events(tmp_path / "b64", _losses(4.0))
    data = bytearray(path.read_bytes())
    data[record_offsets(data)[20] + 30] ^= 1
    path.write_bytes(data)
    [run] = read_runs([tmp_path], QUIET)
    assert len(run.train.steps) == 39
    assert run.dropped == {"damaged record": 1}


def test_after_a_damaged_length_nothing_is_found_and_that_is_said(tmp_path: Path):
    path = write_events(tmp_path / "b64", _losses(4.0))
    data = bytearray(path.read_bytes())
    data[record_offsets(data)[20]] ^= 1
    path.write_bytes(data)
    [run] = read_runs([tmp_path], QUIET)
    assert len(run.train.steps) < 20
    assert run.dropped == {"damaged record": 1}
    assert any("is damaged at byte" in text and "cannot be read" in text for text in run.warnings)


def test_a_tensor_that_claims_to_be_huge_is_no_scalar(tmp_path: Path):
    huge = summary_pb2.Summary.Value(tag="loss", tensor=tensor_util.make_tensor_proto(np.float32(1.0)))
    for _ in range(3):
        huge.tensor.tensor_shape.dim.add(size=2**20)
    event = event_pb2.Event(step=5, summary=summary_pb2.Summary(value=[huge]))
    write_events(tmp_path / "b64", [event, *_losses(4.0)])
    [run] = read_runs([tmp_path], QUIET)
    assert len(run.train.steps) == 40


def test_a_length_beyond_the_file_is_no_memory(tmp_path: Path):
    path = tmp_path / "x"
    with path.open("wb") as file:
        RecordWriter(file).write(b"x" * 9)
    with path.open("rb") as file:
        assert [type(block) for block in blocks(file)] == [Block]
    length = (2**60).to_bytes(8, "little")
    path.write_bytes(path.read_bytes() + length + masked_crc(length).to_bytes(4, "little") + b"abc")
    with path.open("rb") as file:
        assert list(blocks(file))[1:] == [TornRecord(25, lost=False)]


def test_what_is_no_event_file_is_refused(tmp_path: Path):
    path = tmp_path / "b64.csv"
    path.write_text("step,loss\n" + "1,2.0\n" * 9)
    with pytest.raises(BadInputError, match="no event file of TensorBoard"):
        read_runs([path], ReadOptions(format="tensorboard"))


def test_damaged_files_end_in_a_sentence_or_are_read(tmp_path: Path):
    whole = write_events(tmp_path / "whole", _losses(4.0)).read_bytes()
    rng = random.Random(0)
    path = tmp_path / "b64.events"
    for number in range(300):
        data = bytearray(whole)
        at = rng.randrange(len(data))
        if number % 3 == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif number % 3 == 1:
            data = data[:at]
        else:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        path.write_bytes(data)
        reading = read_logs([path], ReadOptions(format="tensorboard", warmup_steps=1))
        assert all(path.name in problem for problem in reading.problems)
        for run in reading.runs:
            # what is read is what was written
            assert set(run.train.steps.tolist()) <= set(STEPS)
            assert run.train.loss == pytest.approx(4 - run.train.steps / 1000, rel=1e-6)


def test_a_restart_after_every_step(tmp_path: Path):
    events = []
    for step in range(1, 20_001):
        events += [scalar("train/loss", 4 - step / 1e5, step, float(step)), _start(step + 1, step + 0.5)]
    path = write_events(tmp_path / "b64", events)
    [raw] = tensorboard.read(path)
    assert raw.table.num_rows == 20_000
    assert not raw.dropped
