"""What a check has to say."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing about a schedule that its owner should know.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
        An error stops the run or spoils it for certain; a warning is what hardly anybody wants; a note is no fault.
    message : str
        One or two sentences that name the stage and the way out.
    """

    severity: Severity
    message: str


def error(message: str) -> Finding:
    """Return a finding that stops or spoils the run."""
    return Finding("error", message)


def warning(message: str) -> Finding:
    """Return a finding that hardly anybody wants."""
    return Finding("warning", message)


def note(message: str) -> Finding:
    """Return a finding that is no fault."""
    return Finding("note", message)
