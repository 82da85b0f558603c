"""How fast logs are read, on one core: console logs in MB/s, tables against pyarrow reading the same bytes.

    python benchmarks/reading_speed.py [--megabytes 200] [--repeats 3] [--only nanogpt] [--files 2000]

The logs are made in a temporary folder: of each console format one in which nothing but steps is printed ("dense") and
one in which nine of ten lines are something else, as with warnings of every rank and timers ("sparse"), see
`console_lines`; a table with ten columns as CSV and as JSON lines; and a folder of nanoGPT logs of 50 KB, of which
every format is asked in turn whether it knows them. All are read in a process of its own, whole, from the file to the
run: the best of the repeats counts, in seconds of the processor, as other programs may run beside it. The peak is that
of the process, less what it held before.
"""

import argparse
import itertools
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
from console_lines import NOISE, RECORDS

from ebfit.runs import ReadOptions, read_runs

MEGABYTE = 1_000_000
OPTIONS = ReadOptions(batch_tokens=65536, seq_len=2048, warmup_steps=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="what the name of the log must contain")
    parser.add_argument("--files", type=int, default=2000)
    arguments = parser.parse_args()
    # They pin the libraries of linear algebra to another machine; the processes that measure begin without.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        logs: dict[str, tuple[Iterator[str], Callable[[Path], None] | None]] = {}
        for name, record in RECORDS.items():
            logs[f"{name}, dense"] = console_lines(record, ""), None
            logs[f"{name}, sparse"] = console_lines(record, NOISE), None
        logs |= {"table.csv": (csv_lines(), read_csv), "table.jsonl": (json_lines(), read_json)}
        print(f"{'log':<30}{'MB':>6}{'MB/s':>8}{'peak MB':>9}{'pyarrow MB/s':>14}{'peak MB':>9}{'ratio':>7}")
        for name, (lines, bare) in logs.items():
            if arguments.only and arguments.only not in name:
                continue
            path = Path(folder) / name
            megabytes = write(path, lines, arguments.megabytes * MEGABYTE) / MEGABYTE
            seconds, peak = measured(read_ebfit, path, arguments.repeats)
            row = f"{name:<30}{megabytes:6.0f}{megabytes / seconds:8.0f}{peak:9.0f}"
            if bare is not None:
                bare_seconds, bare_peak = measured(bare, path, arguments.repeats)
                row += f"{megabytes / bare_seconds:14.0f}{bare_peak:9.0f}{seconds / bare_seconds:7.2f}"
            print(row, flush=True)
            path.unlink()
        if not arguments.only or arguments.only in "small files":
            small = Path(folder) / "small"
            small.mkdir()
            for number in range(arguments.files):
                write(small / f"{number}.log", console_lines(RECORDS["nanogpt"], ""), 50_000)
            seconds, peak = measured(read_ebfit, small, arguments.repeats)
            print(
                f"{arguments.files} small files: {1e3 * seconds / arguments.files:.2f} ms each, peak {peak:.0f} MB"
            )


def console_lines(record: Callable[[int], str], noise: str) -> Iterator[str]:
    """Yield records, each followed by that noise for each of its lines."""
    for step in itertools.count(1):
        text = record(step)
        yield text + noise * text.count("\n")


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
        began = time.process_time()
        read(path)
        times.append(time.process_time() - began)
    return min(times), peak_megabytes() - before


def peak_megabytes() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


if __name__ == "__main__":
    main()
