"""What a log costs in a folder of thousands: `read_runs` against pandas reading the same files, on one core.

    python benchmarks/reading_folders.py [--runs 2000] [--rows 1000] [--repeats 3]

The logs are those of a sweep, `b64-s0.csv` and so on, of 1,000 rows each: as CSV with the four columns that a run
needs, as CSV with six more that it does not, and as JSON lines with four. `read_runs` finds them, tells their format,
reads them, and makes runs of them: columns, curves, stable phase, batch size. pandas parses them, and no more.
The best of the repeats counts, taken in turns.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ebfit.runs import read_runs

NEEDED = ["step", "tokens", "train_loss", "lr"]
OTHERS = ["grad_norm", "seconds", "tokens_per_second", "memory", "param_norm", "loss_scale"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    print(f"{'logs':<28}{'pandas, ms each':>17}{'ebfit, ms each':>16}{'ratio':>7}")
    for what, suffix, names, bare in (
        ("CSV, 4 columns", ".csv", NEEDED, pd.read_csv),
        ("CSV, 10 columns", ".csv", NEEDED + OTHERS, pd.read_csv),
        ("JSON lines, 4 keys", ".jsonl", NEEDED, lambda path: pd.read_json(path, lines=True)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            paths = [write(Path(folder), run, suffix, names, arguments.rows) for run in range(arguments.runs)]
            read_runs([paths[0]])  # imports
            times = [
                (seconds(partial(each, bare, paths)), seconds(partial(read_runs, [folder])))
                for _ in range(arguments.repeats)
            ]
        of_pandas, of_ebfit = (1e3 * min(column) / arguments.runs for column in zip(*times, strict=True))
        print(f"{what:<28}{of_pandas:17.2f}{of_ebfit:16.2f}{of_ebfit / of_pandas:7.2f}", flush=True)


def write(folder: Path, run: int, suffix: str, names: list[str], rows: int) -> Path:
    """Write the log of a run, its steps spread as those of `ebfit sweep` are."""
    rng = np.random.default_rng(run)
    batch_tokens = 64 * 2 ** (run % 12)
    steps = np.unique(np.round(np.geomspace(1, 50 * rows, 3 * rows)))[:rows]
    columns = [steps, steps * batch_tokens, 2 + 9 / steps**0.3 + 0.01 * rng.standard_normal(len(steps))]
    columns += [np.full(len(steps), 0.0003), *rng.random((len(OTHERS), len(steps)))]
    table = pd.DataFrame(dict(zip(names, columns, strict=False))).astype({"step": int, "tokens": int})
    path = folder / f"b{batch_tokens}-s{run}{suffix}"
    if suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)
    return path


def each(read: Callable[[Path], object], paths: list[Path]) -> None:
    for path in paths:
        read(path)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
