"""What a training run is, and reading runs from logs."""

from ebfit.runs.options import ReadOptions
from ebfit.runs.read import Reading, files_read, read_logs, read_runs
from ebfit.runs.run import Curve, LossKind, Run

__all__ = ["Curve", "LossKind", "ReadOptions", "Reading", "Run", "files_read", "read_logs", "read_runs"]
