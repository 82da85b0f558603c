"""Checkpoints: what a run needs to go on as if it had never been stopped."""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ebfit.errors import BadInputError
from ebfit.writing import whole_file


@dataclass
class Checkpoint:
    """The state of a run after an optimizer step.

    Attributes
    ----------
    key : str
        Of the recipe that it belongs to.
    step : int
    decay_start_step : int or None
    why_done : str
        Why the run will end where it is planned to.
    seconds : float
        Time spent so far.
    unlogged : list of tuple of float
        Train loss and gradient norm of the steps since the last record.
    validations : list of tuple
        Step and validation loss, so far.
    model, optimizer : dict
        Their states.
    """

    key: str
    step: int
    decay_start_step: int | None
    why_done: str
    seconds: float
    model: dict[str, Any]
    optimizer: dict[str, Any]
    unlogged: list[tuple[float, float]] = field(default_factory=list)
    validations: list[tuple[int, float]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the checkpoint; the one before stays until this one is whole.

        Raises
        ------
        BadInputError
            If it cannot be written.
        """
        shallow = {name: getattr(self, name) for name in self.__dataclass_fields__}
        try:
            with whole_file(path) as file:
                torch.save(shallow, file)
        except RuntimeError as error:  # torch's way of passing on that the disk is full
            raise BadInputError(
                f"{path}: cannot be written; the disk may be full ({str(error).splitlines()[0]})."
            ) from None

    @classmethod
    def load(cls, path: Path, key: str) -> "Checkpoint | None":
        """Read a checkpoint; None if there is none, it is damaged, or it belongs to another recipe."""
        try:
            with zipfile.ZipFile(path) as archive:
                # torch writes checksums and does not look at them: it would go on with wrong weights.
                if archive.testzip() is not None:
                    return None
            found = cls(**torch.load(path, map_location="cpu", weights_only=True))
        except Exception:  # readers say what is wrong with a file in a dozen ways
            return None
        return found if found.key == key else None
