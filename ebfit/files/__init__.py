"""The files that ebfit writes and reads back: their schemas, one file each.

Programs may rely on the keys here; a change that breaks them raises the number behind the slash.
"""

from ebfit.files.base import Estimate, Input, OverTokens, Status, Text, Tokens, UnknownTokens, sha256, to_json
from ebfit.files.comparison import (
    ComparedTarget,
    Counts,
    Errors,
    LawComparison,
    LawErrors,
    LeftOutPoint,
    Recommendation,
)
from ebfit.files.design import Design, DesignedRun, DesignedTarget, DesignGoal, HalfWidths, Rehearsed
from ebfit.files.diff import (
    ROUNDING,
    Diff,
    DiffSide,
    GrowthChange,
    InputChanges,
    LoneTarget,
    NumberChange,
    Renamed,
    SettingChange,
    TargetChange,
)
from ebfit.files.fit import Comparison, Fit, PointRecord, SecondOpinionRecord, SkippedTarget, TargetRecord
from ebfit.files.plan import FAR, Plan, PlanComparison, PlanPrediction, PlanTrends, StageRecord
from ebfit.files.run import CurveRecord, Inspection, RunDocument, RunOutcome, RunRecord
from ebfit.files.trend import Agreement, BatchOfLoss, GroupTrends, LossTrend, Trend, Trends
from ebfit.files.truth import Truth, TruthRecord

__all__ = [
    "FAR",
    "ROUNDING",
    "Agreement",
    "BatchOfLoss",
    "ComparedTarget",
    "Comparison",
    "Counts",
    "CurveRecord",
    "Design",
    "DesignGoal",
    "DesignedRun",
    "DesignedTarget",
    "Diff",
    "DiffSide",
    "Errors",
    "Estimate",
    "Fit",
    "GroupTrends",
    "GrowthChange",
    "HalfWidths",
    "Input",
    "InputChanges",
    "Inspection",
    "LawComparison",
    "LawErrors",
    "LeftOutPoint",
    "LoneTarget",
    "LossTrend",
    "NumberChange",
    "OverTokens",
    "Plan",
    "PlanComparison",
    "PlanPrediction",
    "PlanTrends",
    "PointRecord",
    "Recommendation",
    "Rehearsed",
    "Renamed",
    "RunDocument",
    "RunOutcome",
    "RunRecord",
    "SecondOpinionRecord",
    "SettingChange",
    "SkippedTarget",
    "StageRecord",
    "Status",
    "TargetChange",
    "TargetRecord",
    "Text",
    "Tokens",
    "Trend",
    "Trends",
    "Truth",
    "TruthRecord",
    "UnknownTokens",
    "sha256",
    "to_json",
]
