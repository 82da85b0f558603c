"""Training one run: from a recipe and data to a folder with metrics.jsonl and run.json."""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ebfit.errors import CannotAnswerError
from ebfit.files import RunOutcome, to_json
from ebfit.sweep.batches import Batches, micro_batch_sizes
from ebfit.sweep.checkpoint import Checkpoint
from ebfit.sweep.clock import Clock
from ebfit.sweep.compilation import loss_function
from ebfit.sweep.data import Data
from ebfit.sweep.device import describe, products_in, ran_out_of_memory
from ebfit.sweep.document import run_document
from ebfit.sweep.evaluation import Validation, evaluation_steps
from ebfit.sweep.execution import Execution, Outcome, Progress
from ebfit.sweep.learning_rate import WarmupStableDecay
from ebfit.sweep.micro_batch import largest_micro_batch
from ebfit.sweep.model import Model
from ebfit.sweep.optimizer import make_optimizer
from ebfit.sweep.recipe import Recipe
from ebfit.sweep.run_files import CHECKPOINT, METRICS, RUN_JSON
from ebfit.sweep.run_log import RunLog
from ebfit.sweep.stopping import reason_to_stop
from ebfit.writing import make_folder, remove_leftovers, write_text

_OUT_OF_MEMORY = "out of memory: lower --micro-batch, --jobs or --val-tokens, or take a smaller model."
# Losses stay on the device until so many steps are done, or so much time has passed, since reading one waits for it.
_STEPS_ON_DEVICE = 512
_SECONDS_ON_DEVICE = 1.0
_SECONDS_BETWEEN_REPORTS = 0.5
# Also where the batch is smaller: measured for `tiny`, one sequence at a time takes 4 times as long.
_VALIDATION_TOKENS_AT_ONCE = 4096
# Of its time that a run may spend on checkpoints: those of a large model take minutes.
_SHARE_FOR_CHECKPOINTS = 0.05


def train(
    recipe: Recipe,
    data: Data,
    folder: Path,
    execution: Execution,
    report: Callable[[Progress], None],
    stop_requested: Callable[[], bool],
) -> Outcome:
    """Train a run, from its checkpoint if the folder has one.

    Parameters
    ----------
    recipe : Recipe
    data : Data
        The data that the recipe's fingerprint is of.
    folder : Path
        Of this run alone; made if need be.
    execution : Execution
    report : callable
        Told of the progress about once a second.
    stop_requested : callable
        Asked after every step; once true the run makes a checkpoint and returns, ``interrupted``.

    Returns
    -------
    Outcome
        ``failed`` if the loss is no longer finite or memory does not suffice.

    Raises
    ------
    BadInputError
        If the folder cannot be written to, as on a full disk, or the data hold a token that the model does not have.
    """
    make_folder(folder)
    for name in (METRICS, RUN_JSON, CHECKPOINT):
        remove_leftovers(folder / name)
    run = _TrainingRun(recipe, data, folder, execution, report)
    try:
        return run.until_done(stop_requested)
    except CannotAnswerError as error:
        return run.end("failed", str(error))
    except (RuntimeError, MemoryError) as error:
        if not ran_out_of_memory(error):
            raise
        return run.end("failed", _OUT_OF_MEMORY)


class _TrainingRun:
    """The state of one run in training."""

    def __init__(
        self,
        recipe: Recipe,
        data: Data,
        folder: Path,
        execution: Execution,
        report: Callable[[Progress], None],
    ) -> None:
        self.recipe, self.data, self.folder = recipe, data, folder
        self.execution, self.report = execution, report
        self.device = torch.device(execution.device)
        self.log = RunLog(folder / METRICS)
        self.clock = Clock()
        self.step = 0
        self.decay_start_step = _planned_decay_start(recipe)
        self.why_done = "all steps done"
        self.validations: list[tuple[int, float]] = []
        # Train loss and gradient norm of the steps since the last record.
        self.unlogged: list[tuple[float, float]] = []

    def until_done(self, stop_requested: Callable[[], bool]) -> Outcome:
        recipe = self.recipe
        self._prepare()
        with Batches(self.data, recipe, self.device, self.micro_batch, self.step) as batches:
            while self.step < self.last_step:
                if stop_requested():
                    if self.step:
                        self._drain()
                        self._save_checkpoint()
                    return self.end("interrupted", "stopped")
                self._take_step(batches)
                self._after_step()
        outcome = self.end("finished", self.why_done)
        self.checkpoint_path.unlink(missing_ok=True)
        return outcome

    @property
    def val_loss(self) -> float | None:
        """The last one."""
        return self.validations[-1][1] if self.validations else None

    def end(self, status: Literal["finished", "interrupted", "failed"], reason: str) -> Outcome:
        """Write down how the run ended."""
        rate = self.clock.tokens_per_second
        peak = describe(self.execution.device, self.recipe.precision).get("peak_flops")
        flops = self.recipe.architecture.flops_per_token(self.recipe.seq_len)
        outcome = Outcome(
            status=status,
            reason=reason,
            step=self.step,
            tokens=self.step * self.recipe.batch_tokens,
            val_loss=self.val_loss,
            seconds=self.clock.seconds,
            tokens_per_second=rate,
            flops_utilisation=rate * flops / peak if rate and peak else None,
        )
        self._write_document(RunOutcome(**asdict(outcome)))
        return outcome

    # Preparation

    def _prepare(self) -> None:
        recipe = self.recipe
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            # The first optimizer of a process is left in a cycle, by the modules that torch loads with it. It holds
            # the memory of that run's weights and moments.
            gc.collect()
            torch.set_float32_matmul_precision("high")  # TF32 where products are not in bfloat16
        self.model = Model(recipe.architecture, recipe.seq_len)
        self.model.initialise(recipe.seed)
        self.model.to(self.device)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(self.parameters, recipe.optimizer)
        # Before a checkpoint fills the optimizer's memory, so that it comes out as in a run that begins.
        self.micro_batch = self._micro_batch()
        self._continue_from_checkpoint()
        sequences = micro_batch_sizes(recipe.batch_sequences, self.micro_batch)[0]
        self.loss_of = loss_function(self.model, recipe, self.execution.compile, sequences)
        self.validation = Validation(self.data.validation(), self.device, self.micro_batch)
        # Train loss and gradient norm of the steps that were not fetched yet.
        self.on_device: list[tuple[Tensor, Tensor]] = []
        self.first_step_here = self.step + 1
        self.last_checkpoint = self.last_report = time.perf_counter()
        self.checkpoint_took = 0.0
        self._plan()
        self._write_document(self._so_far())
        self.clock.start_lap()

    def _plan(self) -> None:
        """Work out what follows from where the decay begins, which an early end of the stable phase moves."""
        recipe = self.recipe
        share = recipe.decay_fraction
        if self.decay_start_step is None:
            decay_steps = 0
            self.last_step = recipe.steps
        elif self.decay_start_step == _planned_decay_start(recipe):
            decay_steps = recipe.steps - self.decay_start_step
            self.last_step = recipe.steps
        else:
            decay_steps = max(1, round(self.decay_start_step * share / (1 - share)))
            self.last_step = self.decay_start_step + decay_steps
        self.lr = WarmupStableDecay(
            recipe.lr, recipe.warmup_steps, self.decay_start_step, decay_steps, recipe.decay_shape
        )
        steps = evaluation_steps(recipe.warmup_steps, self.last_step, recipe.evaluations_per_doubling)
        self.evaluation_steps = {*steps.tolist(), self.decay_start_step}

    def _micro_batch(self) -> int:
        """Return the most sequences that go through the model at once, in training and in validation."""
        recipe, given = self.recipe, self.execution.micro_batch_sequences
        if given is not None:
            return given
        of_validation = min(recipe.val_tokens, _VALIDATION_TOKENS_AT_ONCE) // recipe.seq_len
        most = max(recipe.batch_sequences, of_validation)
        return largest_micro_batch(self.model, recipe.seq_len, most, recipe.precision)

    # Training

    def _take_step(self, batches: Batches) -> None:
        self.step += 1
        lr = self.lr.at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss: Tensor | None = None
        for share, sequences in batches.next():
            with products_in(self.recipe.precision, self.device):
                part = self.loss_of(sequences)
            if share < 1.0:
                part = part * share
            part.backward()
            loss = part.detach() if loss is None else loss + part.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.optimizer.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        assert loss is not None
        self.on_device.append((loss, norm))

    def _after_step(self) -> None:
        """Validate, log and save where it is time for that."""
        evaluate = self.step in self.evaluation_steps
        full = len(self.on_device) == _STEPS_ON_DEVICE
        if evaluate or full or self.clock.lap_seconds > _SECONDS_ON_DEVICE:
            self._drain(evaluate=evaluate)
            # An early end is not part of a checkpoint.
            if self._time_for_checkpoint() and self.step < self.last_step:
                self._save_checkpoint()

    def _time_for_checkpoint(self) -> bool:
        waited = time.perf_counter() - self.last_checkpoint
        least = self.execution.checkpoint_seconds
        return waited > least and (least == 0 or waited > self.checkpoint_took / _SHARE_FOR_CHECKPOINTS)

    def _drain(self, *, evaluate: bool = False) -> None:
        """Fetch the losses from the device, validate if it is time, write the records, and report.

        Raises
        ------
        CannotAnswerError
            If a loss is not finite; the records before it have been written.
        """
        count = len(self.on_device)
        losses = _fetched([loss for loss, _ in self.on_device])
        norms = _fetched([norm for _, norm in self.on_device])
        self.on_device.clear()
        first = self.step - count + 1
        rate = self.clock.lap(count * self.recipe.batch_tokens, counts=first > self.first_step_here)
        val_loss = None
        if evaluate:
            with self.clock.paused():
                val_loss = self.validation.loss(self.loss_of, self.recipe.precision)
        records = []
        not_finite = None
        for step, loss, norm in zip(range(first, self.step + 1), losses, norms, strict=True):
            if not math.isfinite(loss) or not math.isfinite(norm):
                not_finite = step
                break
            self.unlogged.append((loss, norm))
            evaluated = val_loss if step == self.step else None
            if step % self.recipe.log_every == 0 or evaluated is not None:
                records.append(self._record(step, rate, evaluated))
        if not_finite is not None or (val_loss is not None and not math.isfinite(val_loss)):
            self.log.append(records if not_finite else records[:-1])
            self.step = not_finite or self.step
            raise CannotAnswerError(
                f"the loss is not finite from step {self.step:,} on: lower --lr, or raise --warmup-steps."
            )
        self.log.append(records)
        if val_loss is not None:
            self.validations.append((self.step, val_loss))
            self._stop_if_there_is_reason()
        self._report(losses[-1] if losses else None, rate)

    def _report(self, train_loss: float | None, tokens_per_second: float) -> None:
        now = time.perf_counter()
        if now - self.last_report < _SECONDS_BETWEEN_REPORTS:
            return
        self.last_report = now
        self.report(
            Progress(
                step=self.step,
                steps=self.last_step,
                tokens=self.step * self.recipe.batch_tokens,
                train_loss=train_loss,
                val_loss=self.val_loss,
                tokens_per_second=tokens_per_second,
                epoch=self._epoch(self.step),
            )
        )

    def _record(self, step: int, tokens_per_second: float, val_loss: float | None) -> dict[str, Any]:
        loss, norm = np.mean(self.unlogged, axis=0)
        self.unlogged.clear()
        record: dict[str, Any] = {
            "step": step,
            "tokens": step * self.recipe.batch_tokens,
            "batch_tokens": self.recipe.batch_tokens,
            "lr": self.lr.at(step),
            "train_loss": float(f"{loss:.7g}"),
            "grad_norm": float(f"{norm:.4g}"),
            "tokens_per_second": round(tokens_per_second),
        }
        if (epoch := self._epoch(step)) is not None:
            record["epoch"] = round(epoch, 6)
        return record if val_loss is None else record | {"val_loss": float(f"{val_loss:.7g}")}

    def _epoch(self, step: int) -> float | None:
        """Return how often the training data have been passed over after a step; None for data without end."""
        in_epoch = self.data.train_sequences
        return None if in_epoch is None else step * self.recipe.batch_sequences / in_epoch

    def _stop_if_there_is_reason(self) -> None:
        recipe = self.recipe
        if self.decay_start_step is not None and self.step >= self.decay_start_step:
            return
        reason = reason_to_stop(
            self.validations, recipe.warmup_steps, recipe.until_loss, recipe.stop_when_level
        )
        if reason is None:
            return
        self.why_done = reason
        if recipe.decay_fraction:
            self.decay_start_step = self.step
            self._plan()
            self._write_document(self._so_far())
        else:
            self.last_step = self.step

    # Files

    @property
    def checkpoint_path(self) -> Path:
        return self.folder / CHECKPOINT

    def _save_checkpoint(self) -> None:
        state = Checkpoint(
            key=self.recipe.key,
            step=self.step,
            decay_start_step=self.decay_start_step,
            why_done=self.why_done,
            seconds=self.clock.seconds,
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            unlogged=self.unlogged,
            validations=self.validations,
        )
        started = time.perf_counter()
        with self.clock.paused():
            state.save(self.checkpoint_path)
            self._write_document(self._so_far())
        self.last_checkpoint = time.perf_counter()
        self.checkpoint_took = self.last_checkpoint - started

    def _continue_from_checkpoint(self) -> None:
        found = Checkpoint.load(self.checkpoint_path, self.recipe.key)
        if found is not None and found.model.keys() != self.model.state_dict().keys():
            found = None  # of a version of ebfit that had other names for them
        if found is None or not self.log.cut_after(found.step - len(found.unlogged)):
            self.log.remove()
            return
        self.model.load_state_dict(found.model)
        self.optimizer.load_state_dict(found.optimizer)
        self.step = found.step
        self.decay_start_step, self.why_done = found.decay_start_step, found.why_done
        self.unlogged = [(loss, norm) for loss, norm in found.unlogged]
        self.validations = [(step, loss) for step, loss in found.validations]
        self.clock.seconds_before = found.seconds

    def _so_far(self) -> RunOutcome:
        """Return what a new start could go on from, should this process be killed."""
        tokens = self.step * self.recipe.batch_tokens
        return RunOutcome(step=self.step, tokens=tokens, val_loss=self.val_loss, seconds=self.clock.seconds)

    def _write_document(self, outcome: RunOutcome) -> None:
        document = run_document(self.recipe, self.execution.device, self.decay_start_step, outcome)
        write_text(self.folder / RUN_JSON, to_json(document))


def _planned_decay_start(recipe: Recipe) -> int | None:
    if not recipe.decay_fraction:
        return None
    return recipe.steps - round(recipe.steps * recipe.decay_fraction)


def _fetched(values: list[Tensor]) -> list[float]:
    return torch.stack(values).tolist() if values else []
