"""Console logs printed by the released trainers' own functions, read by ebfit."""

import collections
import collections.abc
import functools
import math
import operator
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from released_files import WITHOUT_DEPENDENCIES, released_piece
from released_megatron import WITH_RAMP, WITH_SCHEDULE

from ebfit.runs import ReadOptions, Run, read_runs

STEPS = range(1, 41)
INTERVAL = 5
SEQUENCES, SEQ_LEN = 96, 2048


def loss_at(step: int) -> float:
    return 6.0 - step / 64  # exact in binary, so that sums are


def mean_losses() -> list[float]:
    """Means over the intervals."""
    return [sum(map(loss_at, range(n - INTERVAL + 1, n + 1))) / INTERVAL for n in STEPS if n % INTERVAL == 0]


def read(folder: Path, lines: list[str], **options: Any) -> Run:
    (folder / "train.log").write_text("".join(f"{line}\n" for line in lines))
    (run,) = read_runs([folder / "train.log"], ReadOptions(**options))
    return run


class CpuTorch:
    """torch, whose tensors are not put on a GPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def tensor(self, values: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype)


class Settings(SimpleNamespace):
    """Arguments of a trainer: those that are not given are off."""

    def __getattr__(self, name: str) -> None:
        return None


def no_timers(*names: Any) -> Any:
    return SimpleNamespace(elapsed=lambda **how: 1.0)


no_timers.log = no_timers.write = lambda *what, **how: None  # type: ignore[attr-defined]


# --- Megatron-LM ------------------------------------------------------------------------------------------------------


def megatron_log(release: str, nan_at: int | None = None) -> list[str]:
    lines: list[str] = []
    arguments = Settings(
        train_iters=40, log_interval=INTERVAL, tensorboard_log_interval=100, world_size=8, consumed_train_samples=0,
        skipped_train_samples=0, timing_log_level=0, seq_length=SEQ_LEN, micro_batch_size=4, data_parallel_size=8,
        gtp_weight_remat_size=1,
        eval_iters=2, multiple_validation_sets=False, lr_warmup_iters=2, log_throughput=True,
        rl_use_sequence_packing=False, perform_rl_step=False,
    )  # fmt: skip
    path = Path(sys.prefix) / f"megatron-core-{release}" / "megatron/training"
    given = {
        "torch": CpuTorch(),
        "datetime": datetime,
        "get_args": lambda: arguments,
        "get_timers": lambda: no_timers,
        "get_tensorboard_writer": lambda: None,
        "get_wandb_writer": lambda: None,
        "num_floating_point_operations": lambda *what, **how: 1e12,
        "get_num_microbatches": lambda: SEQUENCES // 32,
        "reduce_max_stat_across_model_parallel_group": lambda value, **how: value,
        "has_rl_utils": False,
        "print_rank_last": lines.append,
        "math": math,
        "evaluate": lambda *what, **how: ({"lm loss": torch.tensor(4.5)}, None, False),
    }
    log = released_piece(path / "training.py", "training_log", **given)
    evaluate = released_piece(path / "training.py", "evaluate_and_print_results", **given)
    sums: dict[str, Any] = {}
    for step in STEPS:
        arguments.consumed_train_samples += SEQUENCES
        loss = float("nan") if step == nan_at else loss_at(step)
        log({"lm loss": torch.tensor([loss])}, sums, *megatron_state(log, step))
    evaluate("iteration 40", *[MagicMock()] * 3, 40, None, MagicMock())
    return lines


def megatron_state(log: Any, step: int) -> list[Any]:
    """What else `training_log` is told of a step, in the order in which this release asks for it."""
    known = {
        "learning_rate": 3e-4,
        "iteration": step,
        "loss_scale": 1.0,
        "report_memory_flag": False,
        "skipped_iter": 0,
    }
    names = log.__code__.co_varnames[2 : log.__code__.co_argcount - len(log.__defaults__ or ())]
    return [known.get(name) for name in names]


@pytest.mark.parametrize("release", [*WITH_RAMP, *WITH_SCHEDULE])
def test_megatron(release: str, tmp_path: Path) -> None:
    run = read(tmp_path, megatron_log(release), seq_len=SEQ_LEN, warmup_steps=1)
    assert run.format == "megatron"
    assert run.train.logged_steps.tolist() == [5, 10, 15, 20, 25, 30, 35, 40]
    assert run.train.loss.tolist() == pytest.approx(mean_losses(), abs=1e-6)
    assert (run.batch_tokens, run.lr) == (SEQUENCES * SEQ_LEN, 3e-4)
    assert (run.val.steps.tolist(), run.val.loss.tolist()) == ([40], [4.5])
    run = read(tmp_path, megatron_log(release, nan_at=12), seq_len=SEQ_LEN, warmup_steps=1)
    assert run.dropped == {"loss is not a number": 1}


# --- nanotron ---------------------------------------------------------------------------------------------------------


def test_nanotron(tmp_path: Path) -> None:
    path = WITHOUT_DEPENDENCIES / "nanotron/logging.py"
    lines: list[str] = []
    human_format = released_piece(path, "human_format")
    item = released_piece(path, "LogItem")
    writer = released_piece(
        path, "LoggerWriter", human_format=human_format, log_rank=lambda line, **how: lines.append(line)
    )()
    writer.global_step = 40
    for step in STEPS:
        entries = []
        for tag, value in [
            ("consumed_tokens", step * SEQUENCES * SEQ_LEN),
            ("global_batch_size", SEQUENCES),
            ("lm_loss", loss_at(step)),
            ("lr", 3e-4),
        ]:
            entries.append(item())
            entries[-1].tag, entries[-1].scalar_value, entries[-1].log_format = tag, value, "human_format"
        writer.add_scalars_from_list(entries, step)
    run = read(tmp_path, lines, batch_tokens=SEQUENCES * SEQ_LEN, warmup_steps=1)
    assert run.format == "nanotron"
    assert run.train.steps.tolist() == list(STEPS)
    assert run.train.loss.tolist() == pytest.approx([loss_at(step) for step in STEPS], abs=0.005)
    assert run.lr == 3e-4
    assert not any("batch size is" in warning for warning in run.warnings)  # the printed tokens agree


# --- InternEvo --------------------------------------------------------------------------------------------------------


def test_internevo(tmp_path: Path) -> None:
    path = WITHOUT_DEPENDENCIES / "internlm/train/pipeline.py"
    gpc = MagicMock()
    gpc.get_world_size.return_value = 4
    record = released_piece(path, "record_current_batch_training_metrics", gpc=gpc, math=math)
    lines: list[str] = []
    state = SimpleNamespace(
        num_consumed_tokens=0, step_count=0, inf_nan_skip_batches=0,
        tgs_statistic=collections.defaultdict(int, SMA_tg_50_list=MagicMock(), SMA_time_50_list=MagicMock()),
    )  # fmt: skip
    per_rank = SEQUENCES * SEQ_LEN // 4
    metric = MagicMock()
    for step in STEPS:
        metric.get_metric.return_value = {
            "real_token_num": per_rank,
            "acc": 0.1,
            "perplexity": 9.0,
            "loss_from_metric": 9.9,
        }
        record(
            get_tflops_func=lambda seconds: 100.0,
            logger=SimpleNamespace(info=lines.append),
            writer=MagicMock(),
            success_update=True,
            batch_count=step - 1,
            batch=({"cu_seqlens": [torch.arange(3)]}, torch.zeros(per_rank)),
            train_state=state,
            optimizer=SimpleNamespace(param_groups=[{"lr": 3e-4}]),
            beta2_scheduler=MagicMock(),
            trainer=MagicMock(),
            start_time=0.0,
            loss=torch.tensor(loss_at(step)),
            moe_loss=None,
            grad_norm={"0_default": 1.5},
            metric=metric,
        )
    run = read(tmp_path, lines, warmup_steps=1)
    assert run.format == "internevo"
    assert run.train.steps.tolist() == list(STEPS)
    assert run.train.loss.tolist() == [loss_at(step) for step in STEPS]
    assert (run.batch_tokens, run.lr) == (SEQUENCES * SEQ_LEN, 3e-4)


# --- Composer ---------------------------------------------------------------------------------------------------------


class Interval(int):
    unit = "batch"


def composer_logger() -> Any:
    folder = WITHOUT_DEPENDENCIES / "composer/loggers"
    shown = released_piece(
        folder / "logger.py",
        "format_log_data_value",
        torch=torch,
        collections=collections,
        operator=operator,
        reduce=functools.reduce,
    )
    logger = released_piece(
        folder / "console_logger.py",
        "ConsoleLogger",
        LoggerDestination=object,
        Time=SimpleNamespace(from_input=lambda interval, unit: Interval(interval)),
        TimeUnit=SimpleNamespace(BATCH="batch", EPOCH="epoch", ITERATION="iteration"),
        NUM_EVAL_LOGGING_EVENTS=11,
        format_log_data_value=shown,
        np=np,
        sys=sys,
    )
    return logger(log_interval=INTERVAL, stream="stdout")


def test_composer(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    logger = composer_logger()
    state = MagicMock()
    state.max_duration.unit.name = "BATCH"
    state.max_duration.value = 40
    state.dataloader_label = "eval"
    state.dataloader_len = 4
    state.evaluators = [SimpleNamespace(label="eval")]
    with path.open("w") as stream:
        logger.stream = stream
        logger.hparams = {
            "eval_interval": "10ba",
            "global_train_batch_size": SEQUENCES,
            "max_seq_len": SEQ_LEN,
        }
        stream.write("Config:\n" + "".join(f"{name}: {value}\n" for name, value in logger.hparams.items()))
        for step in STEPS:
            logger.log_metrics({"time/batch": step - 1, "time/token": (step - 1) * SEQUENCES * SEQ_LEN})
            logger.log_metrics({"loss/train/total": loss_at(step), "lr-DecoupledAdamW/group0": 0.01})
            state.timestamp.batch.__int__.return_value = step
            state.timestamp.get.return_value = step
            logger.batch_end(state, MagicMock())
            if step % 10 == 0:
                state.eval_timestamp.batch.value = 4
                logger.eval_start(state, MagicMock())
                logger.log_metrics({"metrics/eval/LanguageCrossEntropy": torch.tensor(loss_at(step) + 0.5)})
                logger.eval_end(state, MagicMock())
    (run,) = read_runs([path], ReadOptions(warmup_steps=1))
    assert run.format == "composer_text"
    assert run.train.steps.tolist() == [1, *range(INTERVAL, 41, INTERVAL)]
    assert run.train.loss.tolist() == pytest.approx(
        [loss_at(int(step)) for step in run.train.steps], abs=5e-5
    )
    assert (run.batch_tokens, run.lr) == (SEQUENCES * SEQ_LEN, 0.01)
    assert run.val.steps.tolist() == [10, 20, 30, 40]
