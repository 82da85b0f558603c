"""run.json: what a run was made with."""

import platform
from dataclasses import asdict
from importlib.metadata import version

import torch

from ebfit.files import RunDocument, RunOutcome
from ebfit.sweep.device import describe
from ebfit.sweep.recipe import Recipe


def run_document(
    recipe: Recipe, device: str, decay_start_step: int | None, outcome: RunOutcome
) -> RunDocument:
    """Return run.json for a run that this process carries out.

    Parameters
    ----------
    recipe : Recipe
    device : str
        Such as ``cpu`` or ``cuda:0``.
    decay_start_step : int or None
        The last step at the full learning rate.
    outcome : RunOutcome
    """
    return RunDocument(
        schema="ebfit.run/1",
        name=recipe.name,
        key=recipe.key,
        seq_len=recipe.seq_len,
        batch_tokens=recipe.batch_tokens,
        batch_sequences=recipe.batch_sequences,
        lr=recipe.lr,
        warmup_steps=recipe.warmup_steps,
        decay_start_step=decay_start_step,
        seed=recipe.seed,
        train_loss_window="interval" if recipe.log_every > 1 else 1,
        parameters=recipe.architecture.parameters,
        parameters_without_embeddings=recipe.architecture.parameters_without_embeddings,
        model=asdict(recipe.architecture),
        data=dict(recipe.data),
        recipe=recipe.as_dict(),
        device=describe(device, recipe.precision),
        versions=_versions(),
        outcome=outcome,
    )


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in ("ebfit", "torch", "numpy")}
    found["python"] = platform.python_version()
    found["platform"] = platform.platform()
    return found | ({"cuda": torch.version.cuda} if torch.version.cuda else {})
