"""What ebfit makes of sample_runs: computing it, and comparing it with what sample_runs/expected.json says.

Run as a script (``make update-expected``) it writes that file; tests/test_sample_runs.py compares with it.
Both go through `compute`, so a number can only be compared with one that was made in the same way.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ebfit.files import Estimate, Fit, TargetRecord
from ebfit.writing import write_text

SAMPLE_RUNS = Path(__file__).parent.parent / "sample_runs"
EXPECTED = SAMPLE_RUNS / "expected.json"

TARGETS = "2.6,2.5,2.4,2.3,2.2,2.1,2.05,2.0"
OPTIONS = ["--targets", TARGETS, "--bootstrap", "1000", "--seed", "0"]

# Relative tolerances, above what another platform, Python or build of numpy changes and below what a change of
# method does. Measured by multiplying every loss in sample_runs by 1 + noise, which stands for rounding:
#
# noise    best estimates move by    interval ends by
# 1e-8     nothing                   0.003%
# 1e-6     0.002%                    0.01%
# 1e-4     0.15%                     1.6%
#
# Best estimates, S_min and E_min included, are smooth in the data: far above rounding, and a tenth of the smallest
# change that anyone would notice in a table of three digits.
POINT = 1e-3
# Interval ends are quantiles of bootstrap refits. One refit that ends in another local optimum moves a quantile by
# one rank, about 1% of the estimate.
INTERVAL = 2e-2


def compute() -> list[dict[str, Any]]:
    """Fit sample_runs by the command line and return the numbers to be compared, one dict per target."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "fit.json"
        command = [sys.executable, "-m", "ebfit", "fit", str(SAMPLE_RUNS), "-o", str(output), *OPTIONS]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(f"`ebfit fit` on sample_runs failed:\n{process.stderr}")
        return [summary(target) for target in Fit.load(output).targets]


def summary(target: TargetRecord) -> dict[str, Any]:
    """The numbers of one target, rounded so that a rewritten file differs only where something happened."""
    return {
        "loss": target.loss,
        "law": target.law,
        "reached": sum(not point.censored for point in target.points),
        "censored": sum(point.censored for point in target.points),
        "b_min": _estimate(target.b_min),
        "b_opt": _estimate(target.b_opt),
        "s_min": _rounded(target.s_min),
        "e_min": _rounded(target.e_min),
    }


def differences(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> list[str]:
    """Every place where two results differ by more than the tolerances, in words."""
    losses = [target["loss"] for target in expected]
    if losses != [target["loss"] for target in actual]:
        return [f"targets: expected {losses}, got {[target['loss'] for target in actual]}"]
    found = []
    for old, new in zip(expected, actual, strict=True):
        numbers = [("s_min", POINT, old["s_min"], new["s_min"]), ("e_min", POINT, old["e_min"], new["e_min"])]
        exact = [(key, old[key], new[key]) for key in ("law", "reached", "censored")]
        for name in ("b_min", "b_opt"):
            exact.append((f"{name}.status", old[name]["status"], new[name]["status"]))
            for key, tolerance in (("value", POINT), ("low", INTERVAL), ("high", INTERVAL)):
                numbers.append((f"{name}.{key}", tolerance, old[name][key], new[name][key]))
        found += [f"target {old['loss']}, {key}: expected {a}, got {b}" for key, a, b in exact if a != b]
        found += [
            f"target {old['loss']}, {key}: expected {a}, got {b} (relative tolerance {tolerance:g})"
            for key, tolerance, a, b in numbers
            if not _close(a, b, tolerance)
        ]
    return found


def _close(a: float | None, b: float | None, tolerance: float) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=tolerance)


def _estimate(estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        raise RuntimeError("a target lacks b_min or b_opt, though it was fitted with the law `revised`")
    return {
        "value": _rounded(estimate.value),
        "low": _rounded(estimate.low),
        "high": _rounded(estimate.high),
        "status": estimate.status,
    }


def _rounded(value: float | None) -> float | None:
    """Five significant digits, a hundredth of the tightest tolerance."""
    return None if value is None else float(f"{value:.5g}")


def read() -> list[dict[str, Any]]:
    """The targets in sample_runs/expected.json."""
    targets: list[dict[str, Any]] = json.loads(EXPECTED.read_text())["targets"]
    return targets


def write() -> None:
    """Write sample_runs/expected.json anew."""
    document = {
        "schema": "ebfit.expected/1",
        "about": "What `ebfit fit` finds in sample_runs; written by `make update-expected`.",
        "options": " ".join(OPTIONS),
        "targets": compute(),
    }
    write_text(EXPECTED, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    write()
    print(f"Wrote {EXPECTED}. Review the change with `git diff` before you commit it.")
