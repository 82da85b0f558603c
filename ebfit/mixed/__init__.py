"""What does not go together in one fit: settings, units of losses, units of batch sizes. Seeds are replicates."""

from collections.abc import Sequence

from ebfit.mixed.batch_sizes import mixed_batch_units
from ebfit.mixed.losses import mixed_loss_units
from ebfit.mixed.settings import mixed_settings
from ebfit.runs import LossKind, Run


def what_is_mixed(runs: Sequence[Run], kind: LossKind, best_lr: bool = False) -> list[str]:
    """Return sentences on what does not go together in runs of one fit: which runs, and what to do.

    Parameters
    ----------
    runs : sequence of Run
        With batch sizes that are known.
    kind : {"train", "val"}
        The loss that is fitted.
    best_lr : bool
        Whether different learning rates are provided for.
    """
    return [
        *mixed_settings(runs, best_lr),
        *mixed_loss_units(runs, kind),
        *mixed_batch_units(runs, kind),
    ]
