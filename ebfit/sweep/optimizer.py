"""AdamW as language models are trained with it."""

from collections.abc import Iterable

import torch
from torch import nn

from ebfit.sweep.recipe import Optimizer


def make_optimizer(parameters: Iterable[nn.Parameter], settings: Optimizer) -> torch.optim.AdamW:
    """Make the optimizer: matrices are decayed, gains of norms are not."""
    trained = list(parameters)
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=0.0,  # set before every step
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        fused=True,
    )
