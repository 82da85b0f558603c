"""Event files that the Hugging Face Trainer and Lightning write, against what they trained."""

import warnings
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from test_real_logs import SEQ_LEN, Module, hf_trainer
from torch.utils.data import DataLoader, TensorDataset

from ebfit.runs import ReadOptions, read_runs


def test_event_files_of_the_hugging_face_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "b64"))
    trainer = hf_trainer(tmp_path / "out", report_to=["tensorboard"])
    trainer.train()
    (run,) = read_runs([tmp_path / "b64"])
    assert (run.format, run.name, run.lr) == ("tensorboard", "b64", 1e-2)
    logged = [(row["step"], row["loss"]) for row in trainer.state.log_history if "loss" in row]
    assert run.train.logged_steps.tolist() == [step for step, _ in logged]
    assert run.train.steps.tolist() == [step - 2 for step, _ in logged]  # means over five
    assert run.train.loss.tolist() == pytest.approx([loss for _, loss in logged], rel=1e-6)
    evaluated = [(row["step"], row["eval_loss"]) for row in trainer.state.log_history if "eval_loss" in row]
    assert run.val.steps.tolist() == [step for step, _ in evaluated]
    assert run.val.loss.tolist() == pytest.approx([loss for _, loss in evaluated], rel=1e-6)


def train_with_lightning(folder: Path, steps: int, checkpoint: Path | None = None) -> Module:
    torch.manual_seed(0)
    module = Module()
    trainer = pl.Trainer(
        default_root_dir=folder,
        logger=TensorBoardLogger(folder, name="b32"),
        max_steps=steps,
        log_every_n_steps=5,
        accumulate_grad_batches=2,
        val_check_interval=40,
        num_sanity_val_steps=0,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(every_n_train_steps=30, save_top_k=-1)],
    )
    noise = torch.rand(400, 1, generator=torch.Generator().manual_seed(0))
    loaders = [DataLoader(TensorDataset(data), batch_size=2) for data in (noise, noise[:20])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, *loaders, ckpt_path=checkpoint)
    return module


def test_event_files_of_lightning(tmp_path: Path) -> None:
    first = train_with_lightning(tmp_path, 100)
    (run,) = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert (run.format, run.name, run.seq_len) == ("tensorboard", "b32/version_0", SEQ_LEN)
    assert run.train.steps.tolist() == list(range(5, 101, 5))
    assert run.train.loss.tolist() == pytest.approx(
        [first.logged[step] for step in range(5, 101, 5)], rel=1e-6
    )
    assert run.val.steps.tolist() == [20, 40, 60, 80, 100]
    assert run.val.loss.tolist() == pytest.approx(
        [first.logged[-step] for step in range(20, 101, 20)], rel=1e-6
    )

    (checkpoint,) = tmp_path.rglob("*step=90.ckpt")
    second = train_with_lightning(tmp_path, 160, checkpoint)
    (run,) = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert len({piece.parent for piece in run.pieces}) == 2
    assert run.train.steps.tolist() == list(range(5, 161, 5))
    losses = [(first if step <= 90 else second).logged[step] for step in range(5, 161, 5)]
    assert run.train.loss.tolist() == pytest.approx(losses, rel=1e-6)
    assert any("version_0 goes on in version_1 from step 95" in text for text in run.warnings)
    assert not any("skipped" in text for text in run.warnings)

    train_with_lightning(tmp_path, 100)  # another run of the same name and hyperparameters
    runs = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert {run.name: len(run.train.steps) for run in runs} == {"b32/version_0": 32, "b32/version_2": 20}
