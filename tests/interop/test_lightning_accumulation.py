"""The released GradientAccumulationScheduler in a released Trainer, which counts the optimizer's steps."""

from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from plans import worked_example
from torch.utils.data import DataLoader, TensorDataset
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.schedule.trainers import Setup, lightning


class Counter(pl.LightningModule):
    """Notes how many micro-batches each optimizer step had."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.since_step, self.micro_batches = 0, []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.since_step += 1
        return (self.weight * batch[0]).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)

    def on_before_optimizer_step(self, _: torch.optim.Optimizer) -> None:
        self.micro_batches.append(self.since_step)
        self.since_step = 0


def names_in(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    return names


@pytest.mark.parametrize("total", [760, 767])
def test_the_trainer_does_what_the_export_says(tmp_path: Any, total: int) -> None:
    plan = BatchPlan.from_sizes([(0, 2), (120, 4), (360, 10)], total_tokens=total, seq_len=1)
    export = lightning.export(plan, Setup(micro_batch=2, data_parallel=1))
    arguments = names_in(export.text)["trainer_arguments"]
    module = Counter()
    trainer = pl.Trainer(
        **arguments,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, DataLoader(TensorDataset(torch.zeros(1000, 1)), batch_size=2))
    assert trainer.global_step == export.as_run.total_steps
    steps = iter(2 * micro_batches for micro_batches in module.micro_batches)
    assert in_stages(steps, export.as_run.total_steps) == stages_of(export.as_run) == stages_of(plan)


def walk(names: dict[str, Any]) -> Iterator[int]:
    """Micro-batches of each step by the callback's own answer for each epoch."""
    length = names["trainer_arguments"]["limit_train_batches"]
    epoch = 0
    while True:
        accumulation = names["accumulation_scheduler"].get_accumulate_grad_batches(epoch)
        yield from (min(accumulation, length - done) for done in range(0, length, accumulation))
        epoch += 1


def test_the_worked_example_over_its_whole_run() -> None:
    export = lightning.export(worked_example(), Setup(4, 64))
    walked = in_stages(walk(names_in(export.text)), export.as_run.total_steps)
    assert [(micro_batches * 256, steps) for micro_batches, steps in walked] == stages_of(export.as_run)
