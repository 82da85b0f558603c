"""The straight ramp of Megatron and its relatives: ``START INCREMENT SAMPLES`` and a final batch size.

Between START and the final batch lie n = (final - START) / INCREMENT rises, one after every SAMPLES / n sequences. The
rule is the same in Megatron-LM up to megatron-core 0.17 (checked: 0.16.1 and 0.17.1; 0.18 takes the setting and does
nothing with it), Megatron-DeepSpeed, NeMo 2 and Megatron-Bridge (read: 0.3.0, 0.6.2), the last two by calling the
megatron-core beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import heading
from ebfit.schedule.trainers.divisible import check_divisible, sequences_at_once
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.megatron_arguments import Arguments
from ebfit.schedule.trainers.megatron_run import (
    HOW_TO_USE,
    bash_array,
    decay_samples,
    learning_rate,
    read_learning_rate,
    warmup_samples,
)
from ebfit.schedule.trainers.ramp import Sizes, best_ramp, increments, notes_on_deviation, ramp_lengths

name = "megatron-rampup"
reader = (
    "Megatron-LM with --rampup-batch-size (megatron-core up to 0.17), Megatron-DeepSpeed, NeMo 2, "
    "Megatron-Bridge (with megatron-core up to 0.17)"
)
unit = "batch in sequences, a straight ramp over so many sequences"
suffix = ".sh"

FLAG = "rampup-batch-size"

_MOST_RISES = 100_000  # beyond this somebody's file is a slip of the pen


@dataclass(frozen=True)
class Ramp:
    """Settings of a ramp, all in sequences; ``samples`` and the number of rises are positive."""

    start: int
    increment: int
    samples: int
    final: int

    @property
    def rises(self) -> int:
        """How many times the batch grows."""
        return (self.final - self.start) // self.increment

    def batch(self, consumed: int) -> int:
        """Return the batch size of the step that begins after so many sequences; in floats, as Megatron does."""
        if consumed > self.samples:
            return self.final
        return self.start + int(consumed / (self.samples / self.rises)) * self.increment

    def sizes(self, end: int) -> list[tuple[int, int]]:
        """Return (sequences consumed before, batch size) of each size in use, until ``end`` sequences are consumed."""
        sizes, consumed = [], 0
        while consumed < end:
            batch = self.batch(consumed)
            sizes.append((consumed, batch))
            if batch == self.final:
                break
            rise = ((batch - self.start) // self.increment + 1) * self.samples / self.rises
            steps = max(int((rise - consumed) / batch) - 1, 1)  # one too few, for what floats may be off
            while self.batch(consumed + steps * batch) == batch:
                steps += 1
            consumed += steps * batch
        return sizes


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write down the ramp nearest to a plan; see `Trainer.export`."""
    check_divisible(plan, setup)
    end = plan.stages[-1].end_tokens // plan.seq_len

    def run(ramp: Ramp) -> Sizes:
        return [(after * plan.seq_len, batch * plan.seq_len) for after, batch in ramp.sizes(end)]

    ramp, as_run = best_ramp(plan, _candidates(plan, setup), run)
    return Export(
        text=_text(ramp, as_run),
        as_run=as_run,
        notes=[
            *notes_on_deviation(plan, as_run, setup, name),
            *notes_on_lr_scale(plan, setup, name),
            "Megatron-LM and Megatron-DeepSpeed want the ramp with samples, Megatron-Bridge and NeMo with iterations: "
            "the file has all of them.",
            "from megatron-core 0.18 on, also under Megatron-Bridge, the ramp is ignored and the batch stays at "
            "--global-batch-size, without an error: use --format megatron there.",
        ],
    )


def _candidates(plan: BatchPlan, setup: Setup) -> Iterator[Ramp]:
    start, final = plan.stages[0].batch_sequences, plan.stages[-1].batch_sequences
    for increment in increments(plan, sequences_at_once(setup)):
        rises = (final - start) // increment
        for samples in ramp_lengths(plan, [k * plan.seq_len / rises for k in range(1, rises + 1)]):
            for whole in {floor(samples), ceil(samples)}:
                yield Ramp(start, increment, max(whole, 1), final)


def _text(ramp: Ramp, as_run: BatchPlan) -> str:
    consumed = as_run.stages[-1].end_tokens // as_run.seq_len
    # While it ramps, Megatron runs on until more than --train-samples are consumed; after the ramp, until no more whole
    # batch fits.
    samples = consumed if consumed > ramp.samples else consumed - 1
    arguments = [
        f"--seq-length {as_run.seq_len}",
        "# first size, increment, sequences over which the ramp runs",
        f"--{FLAG} {ramp.start} {ramp.increment} {ramp.samples}",
        f"--global-batch-size {ramp.final}",
        f"# {as_run.total_steps} steps",
        f"--train-samples {samples}",
        *learning_rate(as_run, samples),
    ]
    bridge = [
        f"train.rampup_batch_size=[{ramp.start},{ramp.increment},{ramp.samples}]",
        f"train.global_batch_size={ramp.final}",
        f"train.train_iters={as_run.total_steps}",
        *_bridge_learning_rate(as_run, ramp.final, consumed),
    ]
    relatives = [
        "Megatron-DeepSpeed: as above, but it has no WSD; choose another --lr-decay-style there.",
        "Megatron-Bridge: iterations, below. It turns those of the learning rate into samples with the last batch",
        "size (0.3.0 to 0.6.2, its issue 2609), which these numbers allow for; train_iters are true steps.",
        *(f"    {line}" for line in bridge),
        f"NeMo 2: rampup_batch_size=[{ramp.start}, {ramp.increment}, {ramp.samples}], "
        f"global_batch_size={ramp.final}, trainer.max_steps={as_run.total_steps};",
        "it stops at every rise, and goes on when it is started again.",
    ]
    return (
        heading(reader, unit)
        + HOW_TO_USE
        + "# --step-batch-size-schedule --train-iters --lr-warmup-iters --lr-decay-iters --lr-wsd-decay-iters\n"
        + bash_array(arguments)
        + "".join(f"# {line}\n" for line in relatives)
    )


def _bridge_learning_rate(as_run: BatchPlan, final: int, consumed: int) -> list[str]:
    """Return Bridge's settings of the learning rate, in iterations that it takes to be of the last batch size."""
    warmup, decay = round(warmup_samples(as_run) / final), decay_samples(as_run, consumed)
    lines = [f"scheduler.lr_warmup_iters={warmup}"]
    if not decay:
        return ["scheduler.lr_decay_style=constant", *lines]
    return [
        "scheduler.lr_decay_style=WSD",
        *lines,
        f"scheduler.lr_decay_iters={max(consumed // final, 1)}",
        f"scheduler.lr_wsd_decay_iters={max(round(decay / final), 1)}",
    ]


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read a ramp that somebody wrote; see `Trainer.parse`.

    The text may be a script, an argument list, YAML or Python with the ramp and the batch size that it leads to.
    """
    arguments = Arguments(text)
    given = arguments.integers(FLAG, 3)
    final = arguments.integer("global-batch-size")
    if given is None or final is None:
        missing = f"--{FLAG} START INCREMENT SAMPLES" if given is None else "--global-batch-size"
        raise BadInputError(f"no {missing} in it. Give the script that has both.")
    start, increment, samples = given
    line = f"line {arguments.line(FLAG)}"
    if not (start > 0 and increment > 0 and samples > 0 and final > 0):
        raise BadInputError(f"{line}: the three numbers of --{FLAG} and the batch size must be positive.")
    if final == start:
        raise BadInputError(
            f"{line}: the ramp ends where it starts, at {start}, and Megatron divides by zero there. Leave it out."
        )
    if final < start or (final - start) % increment:
        raise BadInputError(
            f"{line}: from {start} to --global-batch-size {final} is no whole number of increments of {increment}, "
            "which Megatron refuses."
        )
    rises = (final - start) // increment
    if rises > _MOST_RISES:
        raise BadInputError(f"{line}: the ramp has more than {_MOST_RISES} sizes.")
    return ReadSchedule(
        starts=tuple(ceil(rise * samples / rises) for rise in range(rises + 1)),
        start_unit="sequences",
        batch_sequences=tuple(range(start, final + 1, increment)),
        iterations_as="last_batch",
        may_skip_sizes=True,
        **read_learning_rate(arguments, seq_len),
    )
