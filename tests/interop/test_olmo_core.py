"""The released BatchSizeSchedulerCallback, fed with our export and walked over the whole run."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from olmo_core.data.data_loader import TextDataLoaderBase
from olmo_core.exceptions import OLMoConfigurationError
from olmo_core.train.callbacks import BatchSizeSchedulerCallback
from olmo_core.train.train_module import TransformerTrainModule
from plans import BILLION, plans, worked_example
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.schedule.trainers import Setup, olmo_core

PEAK = 4e-4


class Loader(TextDataLoaderBase):
    """A data loader without data: the released one's batch size and its counter of batches."""

    total_batches = None

    def __init__(self, global_batch_size: int) -> None:
        super().__init__(collator=None, work_dir="/nowhere", global_batch_size=global_batch_size)

    def state_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    load_state_dict = reshuffle = _iter_batches = get_mock_batch = state_dict


class Module(TransformerTrainModule):
    """A train module without a model: an optimizer whose learning rate the callback scales."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self) if isinstance(self, torch.nn.Module) else None
        self.optim = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
        self.scheduler = None


def names_in(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text, names)
    return names


def walk(names: dict[str, Any]) -> Iterator[tuple[int, float]]:
    """(batch tokens, learning rate) of every step, as the trainer asks the callback before it loads a batch."""
    loader, module = Loader(names["GLOBAL_BATCH_SIZE"]), Module()
    trainer = SimpleNamespace(
        data_loader=loader,
        train_module=module,
        callbacks={},
        global_step=0,
        global_train_tokens_seen=0,
        epoch=1,
        max_duration=names["max_duration"],
    )
    callback: BatchSizeSchedulerCallback = names["batch_size_scheduler"]
    callback.trainer = trainer
    callback.post_attach()
    while True:
        callback.pre_load_batch()
        yield loader.global_batch_size, module.optim.param_groups[0]["lr"]
        loader.batches_processed += 1
        trainer.global_step += 1
        trainer.global_train_tokens_seen += loader.global_batch_size


@settings(max_examples=50)
@given(plans(max_size=30, max_steps=60, lr_scales=True))
def test_the_callback_does_what_the_export_says(plan: BatchPlan) -> None:
    export = olmo_core.export(plan, Setup())
    walked = in_stages(walk(names_in(export.text)), export.as_run.total_steps)
    assert [(tokens // plan.seq_len, steps) for (tokens, _), steps in walked] == stages_of(export.as_run)
    scales = [lr / PEAK for (_, lr), _ in walked]
    assert scales == pytest.approx([stage.lr_scale for stage in export.as_run.stages])


def test_the_worked_example_over_its_whole_run() -> None:
    export = olmo_core.export(worked_example(), Setup(4, 64))
    walked = in_stages(walk(names_in(export.text)), export.as_run.total_steps)
    assert [(tokens // 4096, steps) for (tokens, _), steps in walked] == stages_of(export.as_run)


def test_the_planned_sizes_themselves_are_refused() -> None:
    """Why the export changes them: the callback does not take 4Mi -> 5Mi."""
    names = names_in(olmo_core.export(worked_example(), Setup()).text)
    durations, sizes = zip(
        *(
            (names["Duration"].tokens(stage.start_tokens), stage.batch_tokens)
            for stage in worked_example().stages
        ),
        strict=True,
    )
    with pytest.raises(OLMoConfigurationError, match="integer factor"):
        BatchSizeSchedulerCallback(batch_sizes=list(sizes), schedule=list(durations))


def test_the_learning_rate_rises_and_falls_where_the_plan_says() -> None:
    plan = worked_example(warmup_tokens=BILLION, decay_start_tokens=450 * BILLION)
    export = olmo_core.export(plan, Setup(4, 64))
    names = names_in(export.text)
    end = names["max_duration"].value
    assert end == export.as_run.stages[-1].end_tokens
    tokens = [BILLION // 2, BILLION, 450 * BILLION, (450 * BILLION + end) // 2, end]
    rates = [names["scheduler"].get_lr(1.0, at, end) for at in tokens]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.0], abs=1e-9)
