"""The trainers that a plan can be written for, one file each; a new one is a file and a line here."""

from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup, Trainer

TRAINERS: dict[str, Trainer] = {}

__all__ = ["TRAINERS", "Export", "ReadSchedule", "Setup", "Trainer"]
