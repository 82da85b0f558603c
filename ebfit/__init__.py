"""ebfit: B_min and B_opt of a pre-training run, from the loss curves of small WSD runs (arXiv 2601.05034).

    >>> import ebfit
    >>> runs = ebfit.read_runs(["sample_runs"])
    >>> result = ebfit.fit(runs, targets=[2.2, 2.1])
    >>> result.targets[0].b_opt.status
    'ok'

Names are loaded when first used, so that `import ebfit` and `ebfit --help` cost nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("ebfit")

if TYPE_CHECKING:
    from ebfit.api import fit
    from ebfit.batch_plan import BatchPlan, PlanError, Stage
    from ebfit.changes import diff
    from ebfit.comparing import compare
    from ebfit.designing import design
    from ebfit.errors import BadInputError, CannotAnswerError, EbfitError
    from ebfit.files import Design, Diff, Fit, LawComparison, Plan
    from ebfit.points import PointsTable, read_points
    from ebfit.runs import ReadOptions, Run, read_runs
    from ebfit.schedule.planning import plan

_HOME = {
    "BadInputError": "ebfit.errors",
    "BatchPlan": "ebfit.batch_plan",
    "CannotAnswerError": "ebfit.errors",
    "Design": "ebfit.files",
    "Diff": "ebfit.files",
    "EbfitError": "ebfit.errors",
    "Fit": "ebfit.files",
    "LawComparison": "ebfit.files",
    "Plan": "ebfit.files",
    "PlanError": "ebfit.batch_plan",
    "PointsTable": "ebfit.points",
    "ReadOptions": "ebfit.runs",
    "Run": "ebfit.runs",
    "Stage": "ebfit.batch_plan",
    "compare": "ebfit.comparing",
    "design": "ebfit.designing",
    "diff": "ebfit.changes",
    "fit": "ebfit.api",
    "plan": "ebfit.schedule.planning",
    "read_points": "ebfit.points",
    "read_runs": "ebfit.runs",
}

__all__ = [
    "BadInputError",
    "BatchPlan",
    "CannotAnswerError",
    "Design",
    "Diff",
    "EbfitError",
    "Fit",
    "LawComparison",
    "Plan",
    "PlanError",
    "PointsTable",
    "ReadOptions",
    "Run",
    "Stage",
    "__version__",
    "compare",
    "design",
    "diff",
    "fit",
    "plan",
    "read_points",
    "read_runs",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'ebfit' has no attribute {name!r}")
