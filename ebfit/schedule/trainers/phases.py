"""Trainers without a batch-size schedule: a launch script of consecutive phases, each with one batch size.

A phase goes on from the last checkpoint of the phase before, and ends at an exact step. The commands are those of
torchtitan 0.3.0, nanotron 0.4 and nanochat (early 2026). All three count their learning rate's schedule in steps since
the beginning of the run, so the script gives the steps of the whole run to every phase.
"""

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import heading
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.ramp import lay_out, sizes_of

name = "phases"
reader = (
    "torchtitan 0.3.0, nanotron 0.4, nanochat (early 2026), and others that resume with another batch size"
)
unit = "batch in sequences, from steps on"
suffix = ".sh"


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the launch script; a plan is followed exactly.

    Raises
    ------
    BadInputError
        If a stage does not fill the devices, or if ``setup.strict`` and the plan scales the learning rate.
    """
    check_divisible(plan, setup)
    as_run = lay_out(plan, sizes_of(plan))
    decay_start = _decay_start_step(as_run)
    notes = [
        "look through the command of your trainer in the script: model, data and devices are yours to fill in.",
        "learning-rate schedules count steps: TOTAL_STEPS, WARMUP_STEPS and DECAY_STEPS of the script are those of the "
        "whole run, in the steps of this plan, and go to every phase.",
        "after a crash set FIRST_PHASE to the phase that was running; checkpoints within a phase are your trainer's.",
        *notes_on_lr_scale(plan, setup, name),
    ]
    if decay_start < as_run.stages[-1].start_step:
        notes.append(
            "the learning rate begins to fall before the last phase: nanochat cannot say that, its warmdown is part of "
            "the last phase here."
        )
    return Export(text=_script(as_run, setup, decay_start), as_run=as_run, notes=notes)


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Refuse: a launch script says anything in any way.

    Raises
    ------
    BadInputError
        Always.
    """
    raise BadInputError(
        "a launch script cannot be read back. Write its phases as a table of start and batch size, or check the plan "
        "that it was made from (--format json)."
    )


def _decay_start_step(plan: BatchPlan) -> int:
    return plan.total_steps if plan.decay_start_tokens is None else plan.steps_until(plan.decay_start_tokens)


def _script(plan: BatchPlan, setup: Setup, decay_start: int) -> str:
    table = "".join(
        f"#   {number:5}  {stage.start_step:9}  {stage.end_step:9}  {stage.steps:9}  {stage.batch_sequences:9}  "
        f"{stage.batch_tokens:12}  {stage.end_tokens:16}\n"
        for number, stage in enumerate(plan.stages, start=1)
    )
    phases = "".join(
        f"phase {number} {stage.start_step} {stage.end_step} {stage.batch_sequences}\n"
        for number, stage in enumerate(plan.stages, start=1)
    )
    return f"""#!/usr/bin/env bash
{heading(reader, unit)}#
#   phase  from step    to step      steps  sequences         tokens    tokens at end
{table}
set -euo pipefail

TRAINER=${{TRAINER:-torchtitan}}      # torchtitan, nanotron or nanochat: see the commands below
FIRST_PHASE=${{FIRST_PHASE:-1}}       # after a crash: the phase that was running
GPUS=${{GPUS:-8}}                     # processes on this machine
{f"MICRO_BATCH={setup.micro_batch or 1}":<36}# sequences per device and forward pass
{f"DATA_PARALLEL={setup.data_parallel or 1}":<36}# devices that each see other sequences
SEQ_LEN={plan.seq_len}
TOTAL_STEPS={plan.total_steps}
WARMUP_STEPS={plan.steps_until(plan.warmup_tokens)}
DECAY_STEPS={plan.total_steps - decay_start}
{_COMMANDS}
phase() {{ # number, first step, last step, sequences per step
    if (( $1 >= FIRST_PHASE )); then "$TRAINER" "$@"; fi
}}

{phases}"""


_COMMANDS = r"""
# --- the command of each trainer, yours to edit ---------------------------------------------------------------------
# $1 number of the phase, $2 steps taken before it, $3 steps taken after it, $4 sequences per step

# Goes on from the newest checkpoint of its folder by itself; the last one of a phase must hold the optimizer too.
torchtitan() {
    local decay_ratio
    decay_ratio=$(awk "BEGIN {printf \"%.17g\", $DECAY_STEPS / $TOTAL_STEPS}")
    torchrun --nproc_per_node="$GPUS" -m torchtitan.train \
        --module llama3 --config llama3_8b \
        --training.seq-len "$SEQ_LEN" \
        --training.local-batch-size "$MICRO_BATCH" \
        --training.global-batch-size "$4" \
        --training.steps "$3" \
        --lr-scheduler.total-steps "$TOTAL_STEPS" \
        --lr-scheduler.warmup-steps "$WARMUP_STEPS" \
        --lr-scheduler.decay-ratio "$decay_ratio" \
        --checkpoint.enable \
        --checkpoint.no-last-save-model-only
}

# Its whole configuration is a file: CONFIG, in which the lines of a phase are replaced. It saves at multiples of
# checkpoint_interval alone, so that must be a divisor of the last step of a phase.
nanotron() {
    python - "${CONFIG:-config.yaml}" "phase_$1.yaml" "$2" "$3" $(( $4 / (MICRO_BATCH * DATA_PARALLEL) )) \
        "$MICRO_BATCH" "$SEQ_LEN" "$TOTAL_STEPS" "$WARMUP_STEPS" "$DECAY_STEPS" <<'PYTHON'
import sys
import yaml

source, target, *numbers = sys.argv[1:]
before, after, accumulation, micro_batch, seq_len, total, warmup, decay = map(int, numbers)
with open(source) as file:
    config = yaml.safe_load(file)
config["tokens"].update(
    train_steps=after,
    batch_accumulation_per_replica=accumulation,
    micro_batch_size=micro_batch,
    sequence_length=seq_len,
)
config["optimizer"]["learning_rate_scheduler"].update(
    lr_warmup_steps=warmup, lr_decay_starting_step=total - decay, lr_decay_steps=max(decay, 1)
)
checkpoints = config["checkpoints"]
checkpoints["checkpoint_interval"] = after
checkpoints["resume_checkpoint_path"] = checkpoints["checkpoints_path"] if before else None
with open(target, "w") as file:
    yaml.safe_dump(config, file)
PYTHON
    CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node="$GPUS" run_train.py --config-file "phase_$1.yaml"
}

# Counts batches in tokens. It multiplies learning rates by sqrt(batch / 524288) when it starts, but going on from a
# checkpoint brings those of the first phase back. Its weight decay falls along a cosine over --num-iterations: put
# TOTAL_STEPS there in get_weight_decay, or it reaches zero at the end of every phase.
nanochat() {
    local resume=() warmdown=0
    if (( $2 > 0 )); then resume=(--resume-from-step="$2"); fi
    if (( $3 == TOTAL_STEPS )); then
        warmdown=$(awk "BEGIN {printf \"%.17g\", $DECAY_STEPS / $TOTAL_STEPS}")
    fi
    torchrun --standalone --nproc_per_node="$GPUS" -m scripts.base_train -- \
        --depth=20 \
        --max-seq-len="$SEQ_LEN" \
        --device-batch-size="$MICRO_BATCH" \
        --total-batch-size=$(( $4 * SEQ_LEN )) \
        --num-iterations="$3" \
        --warmup-steps="$WARMUP_STEPS" \
        --warmdown-ratio="$warmdown" \
        "${resume[@]}"
}
# --------------------------------------------------------------------------------------------------------------------
"""
