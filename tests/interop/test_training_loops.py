"""The callbacks of docs/training_loops.md in the released Hugging Face Trainer and Lightning.

The code is taken from the document itself. Each optimizer step is looked at: which sequences it saw, and whether its
gradient is that of the mean loss over all of them.
"""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import transformers
from documents import REPOSITORY, fenced_blocks
from torch.utils.data import DataLoader, IterableDataset

from ebfit import BatchPlan

SEQ_LEN, VOCABULARY, MICRO_BATCH = 8, 97, 2


def plan_of(sizes: list[tuple[int, int]], total: int, **settings: Any) -> BatchPlan:
    """Starts, sizes and total in sequences."""
    tokens = [(start * SEQ_LEN, size * SEQ_LEN) for start, size in sizes]
    return BatchPlan.from_sizes(tokens, total_tokens=total * SEQ_LEN, seq_len=SEQ_LEN, **settings)


# Every stage starts at a multiple of its own batch: what both trainers can follow step by step.
ALIGNED = plan_of(
    [(0, 4), (16, 8), (48, 12)],
    total=87,
    lr_scales=[1.0, 1.4, 1.7],
    warmup_tokens=10 * SEQ_LEN,
    decay_start_tokens=60 * SEQ_LEN,
)
# 20 is no multiple of 8, so that stage begins one step late, at 24; 60 is none of 28, so that one begins at 112.
UNALIGNED = plan_of([(0, 4), (20, 8), (60, 28)], total=490)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the document defines: first its plain Python, then what needs a trainer."""
    monkeypatch.chdir(tmp_path)
    blocks = list(fenced_blocks((REPOSITORY / "docs" / "training_loops.md").read_text(encoding="utf-8")))
    found: dict[str, Any] = {"__name__": "__main__"}
    for wanted in ("python", "py"):
        for language, line, lines in blocks:
            if language == wanted:
                exec(compile("\n" * (line - 1) + "\n".join(lines), "docs/training_loops.md", "exec"), found)
    return found


def as_trainers_run(plan: BatchPlan, sequences_before: int = 0) -> list[int]:
    """Sequences of every step, where a change waits until micro-batches since the start are a multiple of it."""
    batches = [plan.stage_at(sequences_before * SEQ_LEN).batch_sequences]
    seen = sequences_before
    while True:
        planned = plan.stage_at(seen * SEQ_LEN).batch_sequences
        if (seen - sequences_before) % planned == 0:
            batches[-1] = planned
        seen += batches[-1]
        if (seen + batches[-1]) * SEQ_LEN > plan.total_tokens:
            return batches
        batches.append(batches[-1])


def batches_of(plan: BatchPlan) -> list[int]:
    return [plan.at_step(step) // SEQ_LEN for step in range(plan.total_steps)]


class Sequences:
    """Sequence k begins with token k: so it is known again in a micro-batch."""

    def __init__(self, number: int):
        assert number <= 10 * VOCABULARY
        draw = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(VOCABULARY, (number, SEQ_LEN), generator=draw)
        self.tokens[:, 0] = torch.arange(number) % VOCABULARY
        self.tokens[:, 1] = torch.arange(number) // VOCABULARY

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[number], "labels": self.tokens[number]}


def numbers_of(tokens: torch.Tensor) -> list[int]:
    return (tokens[:, 0] + VOCABULARY * tokens[:, 1]).tolist()


class Watch:
    """Notes the sequences of each optimizer step and checks its gradient against one pass over all of them."""

    def __init__(self, loss_of: Callable[[Any, torch.Tensor], torch.Tensor]):
        self.loss_of = loss_of
        self.steps: list[list[int]] = []
        self.learning_rates: list[float] = []
        self.pending: list[torch.Tensor] = []

    def micro_batch(self, tokens: torch.Tensor) -> None:
        self.pending.append(tokens.clone())

    def before_step(self, model: torch.nn.Module, optimizer: Any) -> None:
        whole = torch.cat(self.pending)
        alone = copy.deepcopy(model)
        alone.zero_grad()
        self.loss_of(alone, whole).backward()
        for parameter, reference in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, reference.grad, rtol=1e-4, atol=1e-6)
        self.steps.append(numbers_of(whole))
        self.learning_rates.append(optimizer.param_groups[0]["lr"])
        self.pending = []

    @property
    def batches(self) -> list[int]:
        return [len(step) for step in self.steps]

    @property
    def seen(self) -> list[int]:
        return [number for step in self.steps for number in step]


# --- Hugging Face


class HuggingFaceWatch(transformers.TrainerCallback):
    def __init__(self, stop_after: int | None):
        self.watch = Watch(lambda model, tokens: model(input_ids=tokens, labels=tokens).loss)
        self.stop_after = stop_after

    def on_pre_optimizer_step(self, args, state, control, model, optimizer, **kwargs):
        self.watch.before_step(model, optimizer)

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.stop_after:
            control.should_save = control.should_training_stop = True


def tiny_llama() -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=VOCABULARY, **shape))


def hugging_face(
    names: dict[str, Any],
    plan: BatchPlan,
    folder: Path,
    dataset: Any,
    stop_after: int | None = None,
    **begin: Any,
) -> tuple[Any, Watch]:
    """The document's Trainer for a plan, and what watches it."""
    names["plan"] = plan
    trainer = names["make_trainer"](
        plan,
        tiny_llama(),
        dataset,
        MICRO_BATCH,
        **begin,
        output_dir=str(folder),
        use_cpu=True,
        max_grad_norm=0.0,  # clipping would hide the gradient
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    callback = HuggingFaceWatch(stop_after)
    trainer.add_callback(callback)
    training_step = trainer.training_step

    def watched(model: Any, inputs: Any, *rest: Any) -> Any:
        callback.watch.micro_batch(inputs["input_ids"])
        return training_step(model, inputs, *rest)

    trainer.training_step = watched
    return trainer, callback.watch


def test_hugging_face_follows_a_plan_step_by_step(names: dict[str, Any], tmp_path: Path):
    trainer, watch = hugging_face(names, ALIGNED, tmp_path, Sequences(87))
    trainer.train()
    assert watch.batches == batches_of(ALIGNED) == [4] * 4 + [8] * 4 + [12] * 3
    assert watch.seen == list(range(84))
    assert watch.learning_rates == pytest.approx(
        [1e-3 * names["lr_factor"](ALIGNED.tokens_at(step)) for step in range(11)]
    )


@pytest.mark.parametrize("surplus", [0, 1, 13])
def test_hugging_face_waits_for_a_moment_that_fits_both_accumulations(
    names: dict[str, Any], tmp_path: Path, surplus: int
):
    trainer, watch = hugging_face(names, UNALIGNED, tmp_path, Sequences(490 + surplus))
    trainer.train()
    assert len(watch.steps) == UNALIGNED.total_steps
    assert watch.batches == as_trainers_run(UNALIGNED)[: UNALIGNED.total_steps]
    assert watch.batches == [4] * 6 + [8] * 11 + [28] * (UNALIGNED.total_steps - 17)
    assert watch.seen == list(range(len(watch.seen)))


def test_hugging_face_follows_a_plan_of_one_stage(names: dict[str, Any], tmp_path: Path):
    plan = plan_of([(0, 6)], total=26)
    trainer, watch = hugging_face(names, plan, tmp_path, Sequences(26))
    trainer.train()
    assert watch.batches == [6] * 4


@pytest.mark.parametrize(
    ("plan", "stop_after"), [(ALIGNED, 2), (ALIGNED, 5), (ALIGNED, 9), (UNALIGNED, 6), (UNALIGNED, 13)]
)
def test_hugging_face_resumes(names: dict[str, Any], tmp_path: Path, plan: BatchPlan, stop_after: int):
    dataset = Sequences(plan.total_tokens // SEQ_LEN)
    trainer, before = hugging_face(names, plan, tmp_path, dataset, stop_after)
    trainer.train()
    checkpoint = transformers.trainer_utils.get_last_checkpoint(str(tmp_path))
    state = json.loads((Path(checkpoint) / "trainer_state.json").read_text())
    consumed, step = state["num_input_tokens_seen"], state["global_step"]
    assert (consumed, step) == (sum(before.batches) * SEQ_LEN, stop_after)

    resumed, after = hugging_face(names, plan, tmp_path, dataset, consumed=consumed, step=step)
    resumed.train(resume_from_checkpoint=checkpoint)
    assert before.seen + after.seen == list(range(len(before.seen + after.seen)))
    assert after.batches == as_trainers_run(plan, len(before.seen))[: len(after.batches)]
    assert len(after.batches) == resumed.args.max_steps - step
    unseen = plan.total_tokens // SEQ_LEN - len(before.seen + after.seen)
    assert unseen < 2 * plan.stages[-1].batch_sequences


class WithoutLength(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        yield from (Sequences(100)[number] for number in range(100))


def test_hugging_face_callback_refuses_what_cannot_work(names: dict[str, Any], tmp_path: Path):
    too_short, _ = hugging_face(names, ALIGNED, tmp_path, Sequences(80))
    with pytest.raises(ValueError, match="has to last for the whole run"):
        too_short.train()

    skipping, _ = hugging_face(names, ALIGNED, tmp_path, Sequences(87))
    skipping.args.ignore_data_skip = False
    with pytest.raises(ValueError, match="ignore_data_skip"):
        skipping.train()

    not_counting, _ = hugging_face(names, ALIGNED, tmp_path, Sequences(87))
    not_counting.args.include_num_input_tokens_seen = "no"
    not_counting.args.gradient_accumulation_steps = 2
    with pytest.raises(ValueError, match="include_num_input_tokens_seen"):
        not_counting.train()

    streaming, _ = hugging_face(names, ALIGNED, tmp_path, Sequences(87))
    streaming.train_dataset = WithoutLength()
    with pytest.raises(TypeError, match="len"):
        streaming.train()


def test_a_schedule_in_steps_turns_where_the_plan_says(names: dict[str, Any]):
    """The document's steps for get_wsd_schedule, with the document's plan."""
    plan, scheduler, optimizer = names["plan"], names["scheduler"], names["optimizer"]
    peak, rates = names["PEAK_LR"], []
    for _ in range(plan.total_steps + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    for step in range(plan.total_steps):
        tokens = plan.tokens_at(step)
        if plan.warmup_tokens <= tokens and plan.tokens_at(step - 1) < plan.decay_start_tokens:
            assert rates[step] == pytest.approx(peak)
        else:
            assert rates[step] < peak
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


# --- Lightning


def bigram_loss(layers: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    logits = layers(tokens[:, :-1]).flatten(0, 1)
    return torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())


class LightningModel(lightning.LightningModule):
    def __init__(self, names: dict[str, Any], plan: BatchPlan):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Embedding(VOCABULARY, 8), torch.nn.Linear(8, VOCABULARY))
        self.names, self.plan, self.watch = names, plan, Watch(bigram_loss)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        self.watch.micro_batch(batch)
        return bigram_loss(self.layers, batch)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.watch.before_step(self.layers, optimizer)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        factor = self.names["lr_factor"]
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: factor(self.plan.tokens_at(step))
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def in_lightning(
    names: dict[str, Any],
    plan: BatchPlan,
    folder: Path,
    number: int,
    max_steps: int,
    checkpoint: Path | None = None,
) -> tuple[Any, Watch]:
    """Train with the document's callback and stream; return the trainer and what it did."""
    names["plan"] = plan
    follow = names["FollowPlanInLightning"](plan, MICRO_BATCH)
    model = LightningModel(names, plan)
    trainer = lightning.Trainer(
        default_root_dir=str(folder),
        accelerator="cpu",
        devices=1,
        max_steps=max_steps,
        callbacks=[follow],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(names["FromConsumed"](Sequences(number).tokens, follow), batch_size=MICRO_BATCH)
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return trainer, model.watch


def test_lightning_follows_a_plan_step_by_step(names: dict[str, Any], tmp_path: Path):
    _, watch = in_lightning(names, ALIGNED, tmp_path, 87, ALIGNED.total_steps)
    assert watch.batches == batches_of(ALIGNED)
    assert watch.seen == list(range(84))
    assert watch.learning_rates == pytest.approx(
        [1e-3 * names["lr_factor"](ALIGNED.tokens_at(step)) for step in range(11)]
    )


def test_lightning_waits_for_a_moment_that_fits_both_accumulations(names: dict[str, Any], tmp_path: Path):
    _, watch = in_lightning(names, UNALIGNED, tmp_path, 490, UNALIGNED.total_steps)
    assert watch.batches == as_trainers_run(UNALIGNED)[: UNALIGNED.total_steps]


@pytest.mark.parametrize(
    ("plan", "stop_after"), [(ALIGNED, 2), (ALIGNED, 4), (ALIGNED, 9), (UNALIGNED, 5), (UNALIGNED, 13)]
)
def test_lightning_resumes_as_if_never_stopped(
    names: dict[str, Any], tmp_path: Path, plan: BatchPlan, stop_after: int
):
    number = plan.total_tokens // SEQ_LEN
    trainer, before = in_lightning(names, plan, tmp_path, number, stop_after)
    trainer.save_checkpoint(tmp_path / "stopped.ckpt")
    _, after = in_lightning(names, plan, tmp_path, number, plan.total_steps, tmp_path / "stopped.ckpt")
    _, whole = in_lightning(names, plan, tmp_path, number, plan.total_steps)
    assert before.steps + after.steps == whole.steps
    assert before.learning_rates + after.learning_rates == pytest.approx(whole.learning_rates)
