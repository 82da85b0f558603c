"""A conversation with `megatron_process.py`: exports in, the batch sizes of the whole run out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from ebfit.batch_plan import BatchPlan

# As in the Makefile, which unpacks them beside the packages of this environment.
WITH_RAMP = ["0.17.1"]
WITH_SCHEDULE = ["0.18.0", "0.19.2"]


class Megatron:
    """One release of Megatron-LM in a process of its own, for as long as the `with` lasts."""

    def __init__(self, release: str, log: Path) -> None:
        folder = Path(sys.prefix) / f"megatron-core-{release}"
        assert folder.is_dir(), f"{folder} is not there; `make interop` unpacks it"
        self._log: IO[str] = log.open("w+")
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("megatron_process.py")],
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> "Megatron":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._log.close()

    def run(self, arguments: list[str], micro_batch: int = 1, data_parallel: int = 1) -> dict[str, Any]:
        """Return what `megatron_process.walk` does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([arguments, micro_batch, data_parallel]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            self._log.seek(0)
            raise AssertionError(f"Megatron died: {self._log.read()[-3000:]}")
        return json.loads(answer)


def arguments_of(script: str) -> list[str]:
    """Return the arguments that bash makes of an export."""
    command = f'{script}\nprintf "%s\\0" "${{EBFIT_ARGS[@]}}"'
    words = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=True).stdout
    return words.split("\0")[:-1]


def sizes(plan: BatchPlan) -> list[list[int]]:
    """Return [batch in sequences, steps] of each size of a plan, as `megatron_process.walk` does."""
    pairs: list[list[int]] = []
    for stage in plan.stages:
        if pairs and pairs[-1][0] == stage.batch_sequences:
            pairs[-1][1] += stage.steps
        else:
            pairs.append([stage.batch_sequences, stage.steps])
    return pairs
