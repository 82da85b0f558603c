"""How often the interval of a trend's exponent holds the truth where the errors of targets are known exactly.

Targets lie about a line in log-log with correlated errors in both directions (15% in B, 5% in D, nearer targets more
alike), and scatter about it besides. What `trend_coverage.py` measures with everything that comes before the line,
this measures of the line alone.

    python benchmarks/line_coverage.py [--lines 200]

Prints one row per scatter and number of targets: coverage of the 95% intervals of exponent and height, median
half-width and RMS error of the exponent, and the scatter that was found (median).
"""

import argparse

import numpy as np

from ebfit.laws import FloatArray
from ebfit.trends.line import Line, Points, fit_line

SLOPE, HEIGHT = 0.5, 1.0
X_SD, Y_SD = 0.05, 0.15
LIKE_NEIGHBOURS = 0.8  # correlation of errors with the next target, of the 70% of them that are shared at all
REPLICATES = 400


def draw(count: int, span: float, scatter: float, rng: np.random.Generator) -> Line:
    """Return the line through one simulated set of targets."""
    x = np.linspace(0.0, span, count)
    apart = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    root = np.linalg.cholesky(0.7 * LIKE_NEIGHBOURS**apart + 0.3 * np.eye(count))

    def errors(sd: float) -> FloatArray:
        return sd * (root @ rng.standard_normal((count, 1 + REPLICATES)))

    x_off, y_off = errors(X_SD), errors(Y_SD)
    x_seen = x + x_off[:, 0]
    y_seen = HEIGHT + SLOPE * x + scatter * rng.standard_normal(count) + y_off[:, 0]
    none = np.empty(0)
    points = Points(
        x=x_seen,
        y=y_seen,
        x_draws=x_seen[:, None] + x_off[:, 1:],
        y_draws=y_seen[:, None] + y_off[:, 1:],
        block=np.zeros(count, dtype=np.intp),
        bound_x=none,
        bound=none,
        bound_sd=none,
        bound_side=none,
    )
    return fit_line(points, 0.95)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=200)
    arguments = parser.parse_args()
    print("| scatter | targets | exponent held | height held | half-width | rms error | scatter found |")
    print("|---|---|---|---|---|---|---|")
    for scatter in (0.0, 0.1, 0.3):
        for count, span in ((3, 1.4), (4, 1.4), (5, 3.0), (8, 3.0), (20, 3.0)):
            lines = [
                draw(count, span, scatter, np.random.default_rng([2026, i])) for i in range(arguments.lines)
            ]
            reach = np.array([line.quantile * line.slope_sd for line in lines])
            off = np.array([line.slope - SLOPE for line in lines])
            above = np.array([line.height - HEIGHT - SLOPE * line.pivot for line in lines])
            height_reach = np.array([line.quantile * line.height_sd for line in lines])
            print(
                f"| {scatter} | {count} | {100 * np.mean(np.abs(off) <= reach):.0f}% "
                f"| {100 * np.mean(np.abs(above) <= height_reach):.0f}% | {np.median(reach):.3f} "
                f"| {np.sqrt(np.mean(off**2)):.3f} | {np.median([line.scatter_sd for line in lines]):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
