"""Event files that the Hugging Face Trainer and Lightning write, against what they trained."""

import warnings
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from test_real_logs import Module, hf_trainer
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


def test_event_files_of_lightning(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Module()
    trainer = pl.Trainer(
        default_root_dir=tmp_path,
        logger=TensorBoardLogger(tmp_path, name="b32"),
        max_steps=60,
        log_every_n_steps=5,
        accumulate_grad_batches=2,
        val_check_interval=40,
        num_sanity_val_steps=0,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    noise = torch.rand(400, 1, generator=torch.Generator().manual_seed(0))
    loaders = [DataLoader(TensorDataset(data), batch_size=2) for data in (noise, noise[:20])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, *loaders)
    (run,) = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert (run.format, run.name) == ("tensorboard", "b32/version_0")
    assert run.train.steps.tolist() == list(range(5, 61, 5))
    assert run.train.loss.tolist() == pytest.approx(
        [module.logged[step] for step in range(5, 61, 5)], rel=1e-6
    )
    assert run.val.steps.tolist() == [20, 40, 60]
    assert run.val.loss.tolist() == pytest.approx([module.logged[-step] for step in (20, 40, 60)], rel=1e-6)
