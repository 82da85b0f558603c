"""The trainers that a plan can be written for, one file each; a new one is a file, an import and a line here."""

from ebfit.schedule.trainers import (
    composer,
    csv_plan,
    internevo,
    json_plan,
    levanter,
    lightning,
    maxtext,
    megatron,
    megatron_rampup,
    olmo_core,
    phases,
    yaml_plan,
)
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup, Trainer

_ALL: tuple[Trainer, ...] = (
    json_plan,
    yaml_plan,
    csv_plan,
    megatron,
    megatron_rampup,
    olmo_core,
    levanter,
    maxtext,
    internevo,
    composer,
    lightning,
    phases,
)

TRAINERS: dict[str, Trainer] = {trainer.name: trainer for trainer in _ALL}

__all__ = ["TRAINERS", "Export", "ReadSchedule", "Setup", "Trainer"]
