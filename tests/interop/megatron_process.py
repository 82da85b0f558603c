"""Megatron-LM as released, asked over stdin: what would you do with these arguments?

Run with a folder of `make interop`'s megatron-core on PYTHONPATH. Each line in is a JSON list of arguments and devices,
each line out a JSON object: the batch sizes of the whole run as [batch, steps] pairs, the learning rate where it
changes, or the error. Everything is Megatron's own: its argument parser and validation, its calculator of
micro-batches, its count of iterations, its scheduler of the learning rate.
"""

import json
import os
import sys
import typing
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import typing_extensions

# Megatron asks for Python 3.12 and uses this of it; and one of its modules wants triton, a compiler for GPUs that
# nothing here comes near.
if not hasattr(typing, "override"):
    typing.override = typing_extensions.override
sys.modules["megatron.core.transformer.moe.paged_stash"] = MagicMock()

import megatron.core.num_microbatches_calculator as calculator  # noqa: E402
import megatron.training.arguments as megatron_arguments  # noqa: E402
import megatron.training.training as training  # noqa: E402
from megatron.training import global_vars  # noqa: E402

PEAK = 1.0
MODEL = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 1000000 --lr 1.0"


def walk(arguments: list[str], micro_batch: int, data_parallel: int) -> dict[str, Any]:
    """Return what a run with these arguments does, step by step."""
    os.environ["WORLD_SIZE"] = str(data_parallel)
    sys.argv = ["pretrain_gpt.py", *MODEL.split(), "--micro-batch-size", str(micro_batch), *arguments]
    args = megatron_arguments.parse_args()
    megatron_arguments.validate_args(args)
    calculator.destroy_num_microbatches_calculator()
    global_vars.destroy_global_vars()
    global_vars.set_global_variables(args, build_tokenizer=False)
    weights: dict[str, Any] = {"lr": None, "params": [], "default_config": True}
    scheduler = training.get_optimizer_param_scheduler(SimpleNamespace(param_groups=[weights]))
    sizes: list[list[int]] = []
    rates: list[float] = []
    consumed = 0
    for _ in range(args.train_iters):
        # as in the training loop: the size of this step comes from what was consumed before it, and is checked here
        calculator.update_num_microbatches(consumed, consistency_check=True)
        batch = calculator.get_num_microbatches() * micro_batch * data_parallel
        rates.append(weights["lr"])
        consumed += batch
        scheduler.step(increment=batch)
        if sizes and sizes[-1][0] == batch:
            sizes[-1][1] += 1
        else:
            sizes.append([batch, 1])
    at_peak = [step for step, rate in enumerate(rates) if rate == PEAK]
    return {
        "sizes": sizes,
        "consumed": consumed,
        "first_step_at_peak": at_peak[0] if at_peak else None,
        "last_step_at_peak": at_peak[-1] if at_peak else None,
        "last_rate": weights["lr"],
    }


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Megatron prints and logs to stdout
    for line in sys.stdin:
        try:
            answer = walk(*json.loads(line))
        except (AssertionError, ValueError, ZeroDivisionError, SystemExit) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
