"""Training one run: the same numbers however it is carried out, and files that a reader can rely on."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ebfit
from ebfit.files import RunDocument, RunOutcome
from ebfit.sweep.architecture import Architecture
from ebfit.sweep.checkpoint import Checkpoint
from ebfit.sweep.compilation import loss_function
from ebfit.sweep.execution import Execution
from ebfit.sweep.model import Model
from ebfit.sweep.recipe import Recipe
from ebfit.sweep.run_files import CHECKPOINT
from ebfit.sweep.train import train

SEQ_LEN = 8
ARCHITECTURE = Architecture(
    n_layer=1, d_model=16, n_head=2, n_kv_head=1, d_ff=32, vocab_size=16, qk_norm=True
)


class CountingData:
    """Sequences that count upwards modulo 16 with now and then a random token: easy to learn, never quite."""

    def __init__(self) -> None:
        self.fingerprint = {"kind": "counting"}
        self.vocab_size = 16
        self.train_sequences: int | None = None
        self.warnings: list[str] = []

    def sequences(self, seed: int, first: int, count: int) -> np.ndarray:
        return np.stack([self._sequence(seed, index) for index in range(first, first + count)])

    def validation(self) -> np.ndarray:
        return self.sequences(999, 0, 32)

    def check_vocabulary(self, vocab_size: int) -> None:
        assert vocab_size >= 16

    def _sequence(self, seed: int, index: int) -> np.ndarray:
        random = np.random.default_rng([seed, index])
        counted = (random.integers(16) + np.arange(SEQ_LEN + 1)) % 16
        noise = random.random(SEQ_LEN + 1) < 0.1
        return np.where(noise, random.integers(16, size=SEQ_LEN + 1), counted).astype(np.int32)


DATA = CountingData()
RECIPE = Recipe(
    architecture=ARCHITECTURE,
    seq_len=SEQ_LEN,
    batch_sequences=4,
    seed=3,
    lr=1e-2,
    warmup_steps=5,
    steps=60,
    data=DATA.fingerprint,
    val_tokens=32 * SEQ_LEN,
)


def _train(recipe: Recipe, folder: Path, stop_after: int | None = None, **execution):
    """Train; with ``stop_after``, ask the run to stop once so many steps are done."""
    saved = Checkpoint.load(folder / CHECKPOINT, recipe.key)
    steps_done = itertools.count(saved.step if saved else 0)
    return train(
        recipe,
        DATA,
        folder,
        Execution(**execution),
        report=lambda progress: None,
        stop_requested=lambda: stop_after is not None and next(steps_done) >= stop_after,
    )


def _lines(folder: Path) -> list[str]:
    return (folder / "metrics.jsonl").read_text().splitlines()


def _records(folder: Path) -> list[dict]:
    """The records of a run, without the one number that tells of the machine."""
    records = [json.loads(line) for line in _lines(folder)]
    for record in records:
        assert record.pop("tokens_per_second") > 0
    return records


def _column(folder: Path, name: str) -> np.ndarray:
    return np.array([record[name] for record in _records(folder) if name in record])


def test_training_lowers_the_loss_and_logs_every_step(tmp_path: Path):
    outcome = _train(RECIPE, tmp_path)
    records = _records(tmp_path)
    assert [record["step"] for record in records] == list(range(1, 61))
    assert [record["tokens"] for record in records] == [32 * step for step in range(1, 61)]
    assert records[0]["train_loss"] == pytest.approx(np.log(16), abs=0.1)
    assert records[-1]["val_loss"] < 0.8 * records[0]["val_loss"]
    assert (outcome.status, outcome.step, outcome.tokens) == ("finished", 60, 1920)
    assert outcome.val_loss == pytest.approx(records[-1]["val_loss"], rel=1e-6)


def test_the_same_recipe_gives_the_same_numbers_and_another_seed_gives_others(tmp_path: Path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        _train(replace(RECIPE, seed=seed), tmp_path / name)
    assert _records(tmp_path / "a") == _records(tmp_path / "b")
    assert np.all(_column(tmp_path / "a", "train_loss") != _column(tmp_path / "c", "train_loss"))


@pytest.mark.parametrize("micro_batch", [1, 5, 16])
def test_the_micro_batch_changes_nothing_but_rounding(tmp_path: Path, micro_batch: int):
    recipe = replace(RECIPE, batch_sequences=64, steps=12)
    _train(recipe, tmp_path / "whole", micro_batch_sequences=64)
    _train(recipe, tmp_path / "pieces", micro_batch_sequences=micro_batch)
    for name in ("train_loss", "val_loss", "grad_norm"):
        whole, pieces = _column(tmp_path / "whole", name), _column(tmp_path / "pieces", name)
        np.testing.assert_allclose(pieces, whole, rtol=2e-3 if name == "grad_norm" else 2e-5)


@pytest.mark.parametrize(("given", "pieces"), [(None, {32}), (5, {5, 2})])
def test_validation_is_not_cut_into_pieces_as_small_as_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: int | None, pieces: set[int]
):
    as_usual, seen = Model.loss, set()

    def loss(model, sequences):
        if not torch.is_grad_enabled():
            seen.add(len(sequences))
        return as_usual(model, sequences)

    monkeypatch.setattr(Model, "loss", loss)
    _train(replace(RECIPE, batch_sequences=1, steps=6), tmp_path, micro_batch_sequences=given)
    assert seen == pieces


def test_two_batches_see_the_same_sequences_in_the_same_order(tmp_path: Path):
    """The first step of a batch of 8 has the mean loss of the first two of 4 when nothing is learnt between them."""
    for size in (4, 8):
        _train(replace(RECIPE, batch_sequences=size, steps=6, lr=1e-12), tmp_path / str(size))
    fours, eights = _column(tmp_path / "4", "train_loss"), _column(tmp_path / "8", "train_loss")
    np.testing.assert_allclose(eights[:3], fours.reshape(3, 2).mean(axis=1), rtol=1e-5)


@pytest.mark.parametrize("log_every", [1, 7])
@pytest.mark.parametrize("stops", [[13], [1, 30, 31], [59]])
def test_a_run_that_was_interrupted_is_the_run_that_was_not(tmp_path: Path, stops: list[int], log_every: int):
    recipe = replace(RECIPE, log_every=log_every, decay_fraction=0.3)
    _train(recipe, tmp_path / "whole")
    for stop in stops:
        outcome = _train(recipe, tmp_path / "parts", stop_after=stop)
        assert (outcome.status, outcome.step) == ("interrupted", stop)
        assert RunDocument.load(tmp_path / "parts" / "run.json").outcome.status == "interrupted"
    assert _train(recipe, tmp_path / "parts").status == "finished"
    assert _records(tmp_path / "parts") == _records(tmp_path / "whole")
    assert not (tmp_path / "parts" / CHECKPOINT).exists()


def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(tmp_path: Path):
    """Records after the checkpoint, and half a line at the end, are what a kill leaves behind."""
    _train(RECIPE, tmp_path / "whole")
    _train(RECIPE, tmp_path / "killed", stop_after=20)
    later = _lines(tmp_path / "whole")[20:25]
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write("\n".join(later) + '\n{"step": 26, "tok')
    _train(RECIPE, tmp_path / "killed")
    assert _records(tmp_path / "killed") == _records(tmp_path / "whole")


@pytest.mark.parametrize(
    "damage",
    [
        "no log",
        "log too short",
        "damaged checkpoint",
        "checkpoint of other settings",
        "other names of weights",
    ],
)
def test_what_cannot_be_continued_starts_again(tmp_path: Path, damage: str):
    _train(RECIPE, tmp_path / "whole")
    folder = tmp_path / "damaged"
    _train(RECIPE, folder, stop_after=20)
    if damage == "no log":
        (folder / "metrics.jsonl").unlink()
    elif damage == "log too short":
        (folder / "metrics.jsonl").write_text("\n".join(_lines(folder)[:15]) + "\n")
    elif damage == "damaged checkpoint":
        (folder / CHECKPOINT).write_bytes((folder / CHECKPOINT).read_bytes()[:1000])
    elif damage == "other names of weights":
        saved = Checkpoint.load(folder / CHECKPOINT, RECIPE.key)
        assert saved is not None
        saved.model = {f"old.{name}": weight for name, weight in saved.model.items()}
        saved.save(folder / CHECKPOINT)
    else:
        _train(replace(RECIPE, lr=2e-2), tmp_path / "other", stop_after=20)
        (tmp_path / "other" / CHECKPOINT).rename(folder / CHECKPOINT)
    _train(RECIPE, folder)
    assert _records(folder) == _records(tmp_path / "whole")


def test_a_run_that_crashed_goes_on_from_a_checkpoint_made_along_the_way(tmp_path: Path):
    asked = itertools.count()

    def crash_at_step_40() -> bool:
        if next(asked) == 40:
            raise KeyboardInterrupt
        return False

    _train(RECIPE, tmp_path / "whole")
    at_once = Execution(checkpoint_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        train(RECIPE, DATA, tmp_path / "crashed", at_once, lambda progress: None, crash_at_step_40)
    saved = Checkpoint.load(tmp_path / "crashed" / CHECKPOINT, RECIPE.key)
    assert saved is not None
    assert 30 <= saved.step <= 40
    _train(RECIPE, tmp_path / "crashed")
    assert _records(tmp_path / "crashed") == _records(tmp_path / "whole")


def test_a_run_that_was_killed_at_its_early_end_ends_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    recipe = replace(RECIPE, steps=2000, until_loss=2.0)
    _train(recipe, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("ebfit.sweep.train.RunOutcome", _killed_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            _train(recipe, tmp_path / "killed", checkpoint_seconds=0.0)
    assert _records(tmp_path / "killed") == _records(tmp_path / "whole")  # all but run.json was written
    _train(recipe, tmp_path / "killed")
    assert _records(tmp_path / "killed") == _records(tmp_path / "whole")


def _killed_at_the_end(**outcome):
    if outcome.get("status") == "finished":
        raise KeyboardInterrupt
    return RunOutcome(**outcome)


def test_run_json_says_what_a_killed_run_goes_on_from(tmp_path: Path):
    """It said step 0, so that a plan counted all tokens once more."""
    asked = itertools.count()

    def crash_at_step_40() -> bool:
        if next(asked) == 40:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        train(
            RECIPE, DATA, tmp_path, Execution(checkpoint_seconds=0.0), lambda progress: None, crash_at_step_40
        )
    saved = Checkpoint.load(tmp_path / CHECKPOINT, RECIPE.key)
    outcome = RunDocument.load(tmp_path / "run.json").outcome
    assert saved is not None
    assert (outcome.status, outcome.step, outcome.tokens) == ("running", saved.step, 32 * saved.step)


def test_a_machine_that_cannot_compile_trains_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Unless compiling was asked for; many machines that train have no C compiler."""
    as_usual = torch.compile

    def no_compiler(graph, inputs):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(torch, "compile", lambda function, **options: as_usual(function, backend=no_compiler))
    model = Model(ARCHITECTURE, SEQ_LEN)
    monkeypatch.setattr("ebfit.sweep.compilation._worth_it", lambda device, steps: True)
    assert loss_function(model, RECIPE, "auto", sequences=2) == model.loss
    assert loss_function(model, RECIPE, "on", sequences=2) != model.loss


def test_ebfit_reads_what_it_wrote(tmp_path: Path):
    recipe = replace(RECIPE, decay_fraction=0.25, steps=80)
    _train(recipe, tmp_path / recipe.name)
    (run,) = ebfit.read_runs([tmp_path])
    assert (run.name, run.batch_tokens, run.seq_len, run.lr, run.seed) == (recipe.name, 32, SEQ_LEN, 1e-2, 3)
    assert (run.stable_from, run.stable_to) == (5, 60)
    assert run.warnings == []
    document = RunDocument.load(tmp_path / recipe.name / "run.json")
    assert document.decay_start_step == 60
    assert document.recipe == recipe.as_dict()
    assert document.key == recipe.key
    assert document.parameters == ARCHITECTURE.parameters
    assert document.versions["torch"] == torch.__version__


def test_a_log_of_means_says_so(tmp_path: Path):
    _train(RECIPE, tmp_path / "every")
    _train(replace(RECIPE, log_every=10), tmp_path / "means")
    every = {record["step"]: record for record in _records(tmp_path / "every")}
    before = 0
    for record in _records(tmp_path / "means"):
        window = [every[step]["train_loss"] for step in range(before + 1, record["step"] + 1)]
        assert record["train_loss"] == pytest.approx(np.mean(window), rel=1e-6)
        assert record.get("val_loss") == every[record["step"]].get("val_loss")
        before = record["step"]
    assert before == 60
    (run,) = ebfit.read_runs([tmp_path / "means"])
    assert run.train is not None
    assert json.loads((tmp_path / "means" / "run.json").read_text())["train_loss_window"] == "interval"


def test_epochs_are_counted_where_data_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _train(RECIPE, tmp_path / "endless")
    assert not any("epoch" in record for record in _records(tmp_path / "endless"))
    monkeypatch.setattr(DATA, "train_sequences", 80)
    _train(RECIPE, tmp_path / "ending")
    assert _column(tmp_path / "ending", "epoch") == pytest.approx(np.arange(1, 61) / 20)


@pytest.mark.parametrize("shape", ["linear", "1-sqrt"])
def test_the_learning_rate_warms_up_stays_and_decays(tmp_path: Path, shape):
    _train(replace(RECIPE, steps=100, decay_fraction=0.2, decay_shape=shape), tmp_path)
    lr = _column(tmp_path, "lr")
    assert lr[:5] == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.01])
    assert np.all(lr[4:80] == 0.01)
    t = np.arange(1, 21) / 21
    assert lr[80:] == pytest.approx(0.01 * (1 - (t if shape == "linear" else np.sqrt(t))))


def test_the_stable_phase_ends_at_the_loss_asked_for(tmp_path: Path):
    recipe = replace(RECIPE, steps=2000, until_loss=2.0)
    outcome = _train(recipe, tmp_path)
    losses = _column(tmp_path, "val_loss")
    assert outcome.reason == "loss < 2"
    assert losses[-4:].mean() < 2.0
    assert losses[-5:-1].mean() >= 2.0
    assert outcome.step == _column(tmp_path, "step")[-1] < 2000


def test_a_decay_follows_a_stable_phase_that_ended_early(tmp_path: Path):
    recipe = replace(RECIPE, steps=2000, until_loss=2.0, decay_fraction=0.2)
    _train(replace(recipe, decay_fraction=0.0), tmp_path / "stable")
    stable_end = _column(tmp_path / "stable", "step")[-1]
    outcome = _train(recipe, tmp_path / "decayed")
    document = RunDocument.load(tmp_path / "decayed" / "run.json")
    assert document.decay_start_step == stable_end
    assert outcome.step == stable_end + round(stable_end / 4)
    assert outcome.reason == "loss < 2"
    lr = _column(tmp_path / "decayed", "lr")
    assert np.all(np.diff(lr[stable_end - 1 :]) < 0)
    (run,) = ebfit.read_runs([tmp_path / "decayed"])
    assert run.stable_to == stable_end
    # An interruption in the decay, whose start is not what was planned, changes nothing either.
    _train(recipe, tmp_path / "parts", stop_after=stable_end + 3)
    assert _train(recipe, tmp_path / "parts").reason == "loss < 2"
    assert _records(tmp_path / "parts") == _records(tmp_path / "decayed")


@pytest.mark.parametrize("stop_after", [None, 25])
def test_a_loss_that_is_not_finite_ends_the_run_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int | None
):
    """Even where the run is asked to stop before anyone has looked at the loss, as after step 25."""
    as_usual, steps = Model.loss, itertools.count(1)

    def loss(model, sequences):
        is_broken = torch.is_grad_enabled() and next(steps) > 20
        return as_usual(model, sequences) * (float("nan") if is_broken else 1.0)

    monkeypatch.setattr(Model, "loss", loss)
    outcome = _train(replace(RECIPE, evaluations_per_doubling=1), tmp_path, stop_after=stop_after)
    assert (outcome.status, outcome.step) == ("failed", 21)
    assert "not finite from step 21 on: lower --lr" in outcome.reason
    assert RunDocument.load(tmp_path / "run.json").outcome.status == "failed"
    records = _records(tmp_path)
    assert [record["step"] for record in records] == list(range(1, 21))
    assert all(np.isfinite(list(record.values())).all() for record in records)


def test_memory_that_does_not_suffice_ends_the_run_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def exhausted(model, x):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("ebfit.sweep.model.Model.loss", exhausted)
    outcome = _train(RECIPE, tmp_path)
    assert outcome.status == "failed"
    for way_out in ("--micro-batch", "--jobs", "--val-tokens", "smaller model"):
        assert way_out in outcome.reason


def test_a_full_disk_is_an_error_and_leaves_the_log_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _train(RECIPE, tmp_path, stop_after=20)

    def full(path: Path, records: object) -> None:
        raise ebfit.BadInputError(f"{path}: cannot be written (No space left on device).")

    before = _records(tmp_path)
    monkeypatch.setattr("ebfit.sweep.run_log.RunLog.append", full)
    with pytest.raises(ebfit.BadInputError, match="No space left"):
        _train(RECIPE, tmp_path)
    assert _records(tmp_path) == before
    assert (tmp_path / CHECKPOINT).exists()


def test_bfloat16_stays_near_float32(tmp_path: Path):
    for precision in ("float32", "bfloat16"):
        _train(replace(RECIPE, precision=precision), tmp_path / precision)
    exact, rounded = (_column(tmp_path / name, "val_loss") for name in ("float32", "bfloat16"))
    assert not np.array_equal(exact, rounded)
    np.testing.assert_allclose(rounded, exact, atol=0.03)


def test_a_compiled_model_gives_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Through dynamo and autograd, without the code generator, which needs a compiler on the machine."""
    as_usual = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda function, **options: as_usual(function, backend="aot_eager", **options)
    )
    recipe = replace(RECIPE, batch_sequences=6, steps=8)
    for choice in ("off", "on"):
        _train(recipe, tmp_path / choice, compile=choice, micro_batch_sequences=4)
    np.testing.assert_allclose(
        _column(tmp_path / "on", "train_loss"), _column(tmp_path / "off", "train_loss"), rtol=1e-5
    )
