"""Comparing laws by how well they predict batch sizes that they have not seen (DESIGN 3.5)."""

from ebfit.fitting.comparison.aicc import aicc
from ebfit.fitting.comparison.contestants import CONTESTANTS, Contestant, Fitted, Refit
from ebfit.fitting.comparison.left_out import MISS, LeftOut, joined, leave_one_out
from ebfit.fitting.comparison.verdict import CHANCE, Verdict, judge

__all__ = [
    "CHANCE",
    "CONTESTANTS",
    "MISS",
    "Contestant",
    "Fitted",
    "LeftOut",
    "Refit",
    "Verdict",
    "aicc",
    "joined",
    "judge",
    "leave_one_out",
]
