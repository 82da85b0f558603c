"""What the machine has to train on, and what it could do at best."""

import platform
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ebfit.errors import BadInputError
from ebfit.sweep.recipe import Precision

# Dense bfloat16 matrix products per second, accumulated in float32, at the clock that the maker states: half of what
# its data sheets give with sparsity. By a pattern in the name that the device gives itself; the first that fits.
# Laptop, Ti and D variants and slices of a GPU (MIG) are other devices, whose names must not fit.
_PEAK_FLOPS = (
    (r"\bGB200\b", 2.5e15),
    (r"\bB200\b", 2.25e15),
    (r"\bH200 NVL\b", 836e12),
    (r"\bG?H200\b", 989e12),
    (r"\bH[18]00 PCIe\b", 756e12),
    (r"\bH100 NVL\b", 835e12),
    (r"\bH[18]00\b", 989e12),
    (r"\bA[18]00\b", 312e12),
    (r"\bA40\b", 150e12),
    (r"\bA10G\b", 70e12),
    (r"\bA10\b", 125e12),
    (r"\bL40S\b", 362e12),
    (r"\bL40\b", 181e12),
    (r"\bL4\b", 121e12),
    (r"\bRTX 5090$", 209.5e12),
    (r"\bRTX 4090$", 165e12),
    (r"\bRTX 3090$", 71e12),
)


def devices_for(choice: str) -> list[str]:
    """Return the devices to train on, such as ``["cuda:0", "cuda:1"]`` or ``["cpu"]``.

    Parameters
    ----------
    choice : str
        ``auto`` (all GPUs, else the CPU), ``cpu``, ``cuda`` (all of them), ``cuda:1`` or ``mps``.

    Raises
    ------
    BadInputError
        If the machine has no such device.
    """
    gpus = (
        [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    have = ["cpu", *(["mps"] if torch.backends.mps.is_available() else []), *gpus]
    if choice == "auto":
        return gpus or ["cpu"]
    if choice == "cuda" and gpus:
        return gpus
    if choice in have:
        return [choice]
    raise BadInputError(
        f"--device {choice}: this machine has {', '.join(have)}. Choose one of them, or auto."
    )


def precision_for(device: str, choice: Precision | None) -> Precision:
    """Return the precision of matrix products: as chosen, else bfloat16 on GPUs that have it in hardware."""
    if choice is not None:
        return choice
    fast = device.startswith("cuda") and torch.cuda.get_device_capability(torch.device(device)) >= (8, 0)
    return "bfloat16" if fast else "float32"


def products_in(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which matrix products are of this precision; their weights are float32 all the same."""
    return nullcontext() if precision == "float32" else torch.autocast(device.type, torch.bfloat16)


def peak_flops(name: str, precision: Precision) -> float | None:
    """Return the most operations per second that a device of this name can do; None where that is not known."""
    if precision != "bfloat16" or "MIG" in name:
        return None
    return next((flops for pattern, flops in _PEAK_FLOPS if re.search(pattern, name)), None)


def describe(device: str, precision: Precision) -> dict[str, Any]:
    """Return what run.json says of a device."""
    kind = torch.device(device).type
    if kind == "cuda":
        name = torch.cuda.get_device_name(torch.device(device))
        return {"type": kind, "name": name, "peak_flops": peak_flops(name, precision)}
    return {"type": kind, "name": _cpu_name() if kind == "cpu" else kind, "threads": torch.get_num_threads()}


def _cpu_name() -> str:
    return platform.processor() or platform.machine()


def ran_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory did not suffice."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    # The allocators of the CPU ("can't allocate memory") and of MPS ("out of memory") have no type of their own.
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("allocate memory", "out of memory")
    )
