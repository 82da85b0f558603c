"""Compiling the model, where that pays and works."""

from collections.abc import Callable

import torch
from torch import Tensor

from ebfit.sweep.device import products_in, ran_out_of_memory
from ebfit.sweep.execution import Compile
from ebfit.sweep.model import Model
from ebfit.sweep.recipe import Recipe

LossFunction = Callable[[Tensor], Tensor]  # of sequences, shape (n, seq_len + 1), to their mean loss

# Compiling takes about a minute; a run of fewer steps does not win it back.
_STEPS_WORTH_COMPILING = 500


def loss_function(model: Model, recipe: Recipe, choice: Compile, sequences: int) -> LossFunction:
    """Return ``model.loss``, compiled where that was asked for or pays.

    Parameters
    ----------
    model : Model
    recipe : Recipe
    choice : {"auto", "on", "off"}
        ``auto``: on a GPU, for runs long enough to win that time back, and where compiling works: many machines that
        train lack the C compiler which torch needs for it.
    sequences : int
        In a micro-batch of the run.
    """
    if choice == "off" or (choice == "auto" and not _worth_it(model.embedding.weight.device, recipe.steps)):
        return model.loss
    torch.compiler.reset()  # what was compiled for earlier runs of this process counts against a limit
    compiled: LossFunction = torch.compile(model.loss, dynamic=False)
    if choice == "auto" and not _works(compiled, model, recipe, sequences):
        return model.loss
    return compiled


def _worth_it(device: torch.device, steps: int) -> bool:
    return device.type == "cuda" and steps >= _STEPS_WORTH_COMPILING


def _works(compiled: LossFunction, model: Model, recipe: Recipe, sequences: int) -> bool:
    device = model.embedding.weight.device
    tokens = torch.zeros((sequences, recipe.seq_len + 1), dtype=torch.int64, device=device)
    try:
        with products_in(recipe.precision, device):
            loss = compiled(tokens)
        loss.backward()
    except Exception as error:
        if ran_out_of_memory(error):
            raise
        return False  # whatever the reason, the run can do without
    finally:
        model.zero_grad(set_to_none=True)
    return True
