"""How fast logs are read, on one core: console logs in MB/s, tables against pyarrow reading the same bytes.

    python benchmarks/reading_speed.py [--megabytes 200] [--repeats 3]

The logs are made in a temporary folder: a Megatron-LM log of which every line is an iteration, one in which nine of
ten lines are something else, as with warnings of every rank and timers, and a table with ten columns as CSV and as
JSON lines. Each is read in a process of its own, whole, from the file to the run: the best time of the repeats
counts. The peak is that of the process, less what it held before.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from ebfit.runs import ReadOptions, read_runs

MEGABYTE = 1_000_000
OPTIONS = ReadOptions(batch_tokens=65536, seq_len=2048, warmup_steps=1)
NOISE = (
    "(min, max) time across ranks (ms):\n"
    "    forward-backward ...............................: (812.31, 813.07)\n"
    "    optimizer ......................................: (12.22, 12.91)\n"
    "3: [rank3]:W0501 10:00:00.123 torch/distributed/distributed_c10d.py:4876 a warning that every rank prints\n"
    "7: [rank7]:W0501 10:00:00.123 torch/distributed/distributed_c10d.py:4876 a warning that every rank prints\n"
    "[after 100 iterations] memory (MB) | allocated: 30112.4 | max allocated: 70110.2 | reserved: 72000.0\n"
) + "NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/IPC, which nobody asked for and nobody reads\n" * 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    # They pin the libraries of linear algebra to another machine; the processes that measure begin without.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        logs = {
            "Megatron-LM, all iterations": ("dense.log", megatron_lines(""), None),
            "Megatron-LM, 1 line in 10": ("sparse.log", megatron_lines(NOISE), None),
            "CSV": ("table.csv", csv_lines(), read_csv),
            "JSON lines": ("table.jsonl", json_lines(), read_json),
        }
        print(f"{'log':<30}{'MB':>6}{'MB/s':>8}{'peak MB':>9}{'pyarrow MB/s':>14}{'peak MB':>9}{'ratio':>7}")
        for what, (name, lines, bare) in logs.items():
            path = Path(folder) / name
            megabytes = write(path, lines, arguments.megabytes * MEGABYTE) / MEGABYTE
            seconds, peak = measured(read_ebfit, path, arguments.repeats)
            row = f"{what:<30}{megabytes:6.0f}{megabytes / seconds:8.0f}{peak:9.0f}"
            if bare is not None:
                bare_seconds, bare_peak = measured(bare, path, arguments.repeats)
                row += f"{megabytes / bare_seconds:14.0f}{bare_peak:9.0f}{seconds / bare_seconds:7.2f}"
            print(row, flush=True)
            path.unlink()


def megatron_lines(noise: str) -> Iterator[str]:
    step = 0
    while True:
        step += 1
        yield (
            f"7:  [2026-05-01 10:00:00.123456] iteration {step:8d}/{10**7:8d} | consumed samples: {512 * step:12d} | "
            "elapsed time per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: "
            f"3.000000E-04 | global batch size:   512 | lm loss: {2 + 9 / step**0.3:.6E} | loss scale: 1.0 | "
            "grad norm: 0.512 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
        yield noise


def csv_lines() -> Iterator[str]:
    yield "step,tokens,train_loss,lr,grad_norm,seconds,tokens_per_second,memory,param_norm,loss_scale\n"
    for values in rows():
        yield ",".join(map(repr, values)) + "\n"


def json_lines() -> Iterator[str]:
    names = next(csv_lines()).strip().split(",")
    for values in rows():
        yield json.dumps(dict(zip(names, values, strict=True))) + "\n"


def rows() -> Iterator[list[float]]:
    rng = np.random.default_rng(0)
    step = 0
    while True:
        for noise in rng.random((1000, 6)):
            step += 1
            yield [step, 65536 * step, 2 + 9 / step**0.3, 0.0003, *noise.tolist()]


def write(path: Path, lines: Iterator[str], size: int) -> int:
    """Write lines until a file has this size, and return that in bytes."""
    written = 0
    with path.open("w") as file:
        while written < size:
            written += file.write(next(lines))
    return written


def read_ebfit(path: Path) -> None:
    read_runs([path], OPTIONS)


def read_csv(path: Path) -> None:
    pyarrow.csv.read_csv(path)


def read_json(path: Path) -> None:
    pyarrow.json.read_json(path)


def measured(read: Callable[[Path], None], path: Path, repeats: int) -> tuple[float, float]:
    """Return the best time in seconds and the peak in MB of reading a file in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (read, path, repeats))


def measure(read: Callable[[Path], None], path: Path, repeats: int) -> tuple[float, float]:
    pa.set_cpu_count(1)
    before = peak_megabytes()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        read(path)
        times.append(time.perf_counter() - began)
    return min(times), peak_megabytes() - before


def peak_megabytes() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


if __name__ == "__main__":
    main()
