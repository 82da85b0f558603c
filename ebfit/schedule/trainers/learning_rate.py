"""What an export says about the learning rate, where the trainer's batch-size schedule has no word for it."""

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Setup


def notes_on_lr_scale(plan: BatchPlan, setup: Setup, name: str) -> list[str]:
    """Return a note if the plan scales the learning rate, which format ``name`` cannot.

    Raises
    ------
    BadInputError
        In place of the note, if ``setup.strict``.
    """
    scaled = [stage for stage in plan.stages if stage.lr_scale != 1.0]
    if not scaled:
        return []
    sentence = (
        f"the plan scales the learning rate (by {scaled[-1].lr_scale:.4g} in the last stage), which the format {name} "
        "cannot say"
    )
    if setup.strict:
        raise BadInputError(f"{sentence}. Make the plan with --lr-rule none, or leave out --strict.")
    return [
        f"{sentence}: change it by hand where the batch size changes, or make the plan with --lr-rule none."
    ]
