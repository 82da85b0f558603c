"""A stand-in for training: it writes what a run writes and behaves as a test wants, without torch.

What the run of a seed does is said in the environment variable FAKE_TRAINING, such as ``{"1": "kill"}``.
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.files import RunDocument, RunOutcome, to_json
from ebfit.sweep.architecture import Architecture
from ebfit.sweep.execution import Outcome, Progress
from ebfit.sweep.presets import PRESETS
from ebfit.writing import write_text

VARIABLE = "FAKE_TRAINING"
TRAIN = "fake_training:train"
WHO = "who.json"


@pytest.fixture(autouse=True)
def steady_preset(monkeypatch):
    """Keep `tiny` as these tests know it: what it proposes is chosen for speed on a CPU, and may change."""
    steady = replace(
        PRESETS["tiny"],
        architecture=Architecture(n_layer=1, d_model=32, n_head=2, n_kv_head=2, d_ff=64),
        batch_tokens=tuple(64 * 2**i for i in range(10)),
        lr=0.01,
        warmup_steps=50,
        max_tokens=8_000_000,
        max_steps=20_000,
        until_loss=None,
        seeds=1,
        evaluations_per_doubling=16,
    )
    monkeypatch.setitem(PRESETS, "tiny", steady)


def train(recipe, data, folder, execution, report, stop_requested):
    """Behave as told; every run leaves a file that says which process it was trained in, and how that was set up."""
    write_run_json(recipe, folder)
    who = {
        "pid": os.getpid(),
        "threads": os.environ["OMP_NUM_THREADS"],
        "device": execution.device,
        "torch": "torch" in sys.modules,
    }
    write_text(folder / WHO, json.dumps(who))  # whole, as a test may wait for it
    report(Progress(1, recipe.steps, recipe.batch_tokens, 5.0, 4.5, 1000.0))
    behaviour = json.loads(os.environ.get(VARIABLE, "{}")).get(str(recipe.seed), "finish")
    return _BEHAVIOURS[behaviour](recipe, folder, stop_requested)


def _finish(recipe, folder, _):
    return _end(recipe, folder, "finished", "all steps done", recipe.steps)


def _fail(recipe, folder, _):
    return _end(recipe, folder, "failed", "the loss is not finite", 7)


def _kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def _raise(*_):
    raise RuntimeError("the device is lost")


def _fill_the_disk(_, folder, __):
    raise BadInputError(f"{folder}: cannot be written (No space left on device).")


def _until_stopped(recipe, folder, stop_requested):
    while not stop_requested():
        time.sleep(0.01)
    return _end(recipe, folder, "interrupted", "stopped", 5)


def _for_ever(*_):
    while True:
        time.sleep(0.01)


_BEHAVIOURS = {
    "finish": _finish,
    "fail": _fail,
    "kill": _kill,
    "raise": _raise,
    "fill the disk": _fill_the_disk,
    "until stopped": _until_stopped,
    "for ever": _for_ever,
}


def _end(recipe, folder, status, reason, step):
    outcome = Outcome(status, reason, step, step * recipe.batch_tokens, 2.5, 1.5, 1000.0, None)
    write_run_json(
        recipe, folder, status=status, reason=reason, step=step, tokens=outcome.tokens, val_loss=2.5
    )
    return outcome


def write_run_json(recipe, folder: Path, **outcome):
    """Write a run.json as a run of this recipe would."""
    folder.mkdir(parents=True, exist_ok=True)
    document = RunDocument(
        schema="ebfit.run/1",
        name=recipe.name,
        key=recipe.key,
        seq_len=recipe.seq_len,
        batch_tokens=recipe.batch_tokens,
        batch_sequences=recipe.batch_sequences,
        lr=recipe.lr,
        warmup_steps=recipe.warmup_steps,
        decay_start_step=None,
        seed=recipe.seed,
        train_loss_window=1,
        parameters=recipe.architecture.parameters,
        parameters_without_embeddings=recipe.architecture.parameters_without_embeddings,
        model={},
        data=dict(recipe.data),
        recipe=recipe.as_dict(),
        device={"type": "cpu"},
        versions={},
        outcome=RunOutcome(**outcome),
    )
    (folder / "run.json").write_text(to_json(document))
    if document.outcome.status == "finished":
        (folder / "metrics.jsonl").write_text(json.dumps({"step": document.outcome.step}) + "\n")
