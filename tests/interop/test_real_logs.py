"""Logs that released trainers write, read by ebfit, against what was trained and logged."""

import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import mlflow
import pytest
import torch
import transformers
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset, TensorDataset

from ebfit.runs import ReadOptions, read_runs

SEQ_LEN = 16


class Sequences(Dataset):
    """Random sequences, the same every time."""

    def __init__(self, number: int):
        self.tokens = torch.randint(97, (number, SEQ_LEN), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class Losses(transformers.Trainer):
    """Keeps the loss of every micro-batch; NaN from a step on, if asked to."""

    nan_from: int | None = None

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        if self.nan_from is not None and self.state.global_step >= self.nan_from:
            loss = loss * float("nan")
        self.__dict__.setdefault("losses", []).append(loss.item())
        return loss


def hf_trainer(folder: Path, **settings: Any) -> Losses:
    transformers.set_seed(0)
    config = transformers.GPT2Config(vocab_size=97, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1)
    arguments = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "logging_steps": 5,
        "eval_strategy": "steps",
        "eval_steps": 20,
        "save_steps": 20,
        "max_steps": 60,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "report_to": [],
        "use_cpu": True,
        "include_num_input_tokens_seen": "all",
        "disable_tqdm": True,
    }
    return Losses(
        model=transformers.GPT2LMHeadModel(config),
        args=transformers.TrainingArguments(str(folder), **{**arguments, **settings}),
        train_dataset=Sequences(400),
        eval_dataset=Sequences(8),
    )


def test_the_checkpoints_of_the_hugging_face_trainer(tmp_path: Path) -> None:
    trainer = hf_trainer(tmp_path / "out")
    trainer.train()
    trainer.save_state()
    (run,) = read_runs([tmp_path])
    assert (run.format, run.name, run.lr) == ("hf_trainer", "out", 1e-2)
    assert run.batch_tokens == 2 * 2 * SEQ_LEN  # by the tokens that it counted
    assert run.train.logged_steps.tolist() == list(range(5, 61, 5))
    assert run.train.steps.tolist() == [step - 2 for step in range(5, 61, 5)]
    of_steps = torch.tensor(trainer.losses).reshape(-1, 2).sum(1)  # each is its share of the mean already
    assert run.train.loss.tolist() == pytest.approx(of_steps.reshape(-1, 5).mean(1).tolist(), rel=1e-4)
    evaluations = [row["eval_loss"] for row in trainer.state.log_history if "eval_loss" in row]
    assert (run.val.steps.tolist(), run.val.loss.tolist()) == ([20, 40, 60], evaluations)
    assert len(run.pieces) == 4
    assert not any("skipped" in text for text in run.warnings)


def test_the_hugging_face_trainer_hides_nan_behind_zeros(tmp_path: Path) -> None:
    trainer = hf_trainer(tmp_path / "out", eval_strategy="no")
    trainer.nan_from = 40
    trainer.train()
    trainer.save_state()
    (run,) = read_runs([tmp_path])
    assert run.train.logged_steps.tolist() == list(range(5, 41, 5))
    assert run.dropped["loss is not a number"] == 4


class Module(pl.LightningModule):
    """Logs a known loss, and how many updates the optimizer has made."""

    def __init__(self, seq_len: int = SEQ_LEN, batch_size: int = 2):
        super().__init__()
        self.save_hyperparameters()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.logged: dict[int, float] = {}

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = (self.weight - 3).square().sum() + batch[0].mean()
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.logged[self.global_step + 1] = loss.item()
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", (self.weight - 3).square().sum(), on_step=True, on_epoch=True)

    def on_validation_end(self) -> None:
        self.logged[-self.global_step] = self.trainer.callback_metrics["val_loss"].item()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def train_with_lightning(folder: Path, steps: int, checkpoint: Path | None = None) -> Module:
    torch.manual_seed(0)
    module = Module()
    trainer = pl.Trainer(
        default_root_dir=folder,
        logger=CSVLogger(folder),
        max_steps=steps,
        log_every_n_steps=5,
        accumulate_grad_batches=2,
        val_check_interval=40,
        num_sanity_val_steps=0,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[LearningRateMonitor(), ModelCheckpoint(every_n_train_steps=30, save_top_k=-1)],
    )
    noise = torch.rand(400, 1, generator=torch.Generator().manual_seed(0))
    loaders = (
        DataLoader(TensorDataset(noise), batch_size=2),
        DataLoader(TensorDataset(noise[:20]), batch_size=2),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, *loaders, ckpt_path=checkpoint)
    return module


def test_lightnings_metrics(tmp_path: Path) -> None:
    first = train_with_lightning(tmp_path / "b32", 100)
    (run,) = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert (run.format, run.lr, run.seq_len, run.batch_tokens) == (
        "lightning_csv",
        1e-2,
        SEQ_LEN,
        32 * SEQ_LEN,
    )
    assert run.train.steps.tolist() == list(range(5, 101, 5))
    assert run.train.loss.tolist() == pytest.approx([first.logged[step] for step in range(5, 101, 5)])
    assert run.val.steps.tolist() == [20, 40, 60, 80, 100]
    assert run.val.loss.tolist() == pytest.approx([first.logged[-step] for step in range(20, 101, 20)])

    (checkpoint,) = tmp_path.rglob("*step=90.ckpt")
    second = train_with_lightning(tmp_path / "b32", 160, checkpoint)
    (run,) = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert len(run.pieces) == 2
    assert run.train.steps.tolist() == list(range(5, 161, 5))
    losses = [(first if step <= 90 else second).logged[step] for step in range(5, 161, 5)]
    assert run.train.loss.tolist() == pytest.approx(losses)


def test_the_file_store_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    for batch in (32, 64):
        with mlflow.start_run(run_name=f"bs{batch}"):
            mlflow.log_params({"seq_len": SEQ_LEN, "seed": 3, "learning_rate": 1e-3})
            mlflow.set_tag("note", '{"loss": [1, 2]}')
            for step in range(10, 401, 10):
                mlflow.log_metrics({"train/loss": 4 - step / 1000, "lr": 1e-3}, step=step)
                mlflow.log_metric("system/cpu", 0.5, step=step * 1000)
            mlflow.log_metric("train/loss", float("nan"), step=410)
            mlflow.log_metric("val_loss", 3.7, step=400)
    with mlflow.start_run() as deleted:
        for step in range(10, 401, 10):
            mlflow.log_metric("loss", 1.0, step=step)
    mlflow.delete_run(deleted.info.run_id)
    runs = read_runs([tmp_path / "mlruns"])
    assert [(run.name, run.batch_tokens) for run in runs] == [("bs32", 32 * SEQ_LEN), ("bs64", 64 * SEQ_LEN)]
    for run in runs:
        assert (run.format, run.lr, run.seed, run.stable_to) == ("mlflow", 1e-3, 3, 410)
        assert run.train.steps.tolist() == list(range(10, 401, 10))
        assert run.train.loss.tolist() == pytest.approx([4 - step / 1000 for step in range(10, 401, 10)])
        assert (run.val.steps.tolist(), run.val.loss.tolist()) == ([400], [3.7])
        assert run.dropped["loss is not a number"] == 1
