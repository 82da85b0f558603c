"""What the machine has to train on, and what it could do at best."""

from typing import Any

import torch

from ebfit.errors import BadInputError
from ebfit.sweep.recipe import Precision

# Dense bfloat16 matrix products per second at the clock that the makers state, by part of the name that the device
# gives itself; the first that fits. Sources: the data sheets of NVIDIA.
_PEAK_FLOPS = (
    ("GB200", 2.5e15),
    ("B200", 2.25e15),
    ("H200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H800", 989e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362e12),
    ("RTX 4090", 165e12),
    ("L4", 121e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("RTX 3090", 71e12),
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


def peak_flops(name: str, precision: Precision) -> float | None:
    """Return the most operations per second that a device of this name can do; None where that is not known."""
    if precision != "bfloat16":
        return None
    return next((flops for part, flops in _PEAK_FLOPS if part in name), None)


def describe(device: str, precision: Precision) -> dict[str, Any]:
    """Return what run.json says of a device."""
    kind = torch.device(device).type
    if kind == "cuda":
        name = torch.cuda.get_device_name(torch.device(device))
        return {"type": kind, "name": name, "peak_flops": peak_flops(name, precision)}
    return {"type": kind, "name": _cpu_name() if kind == "cpu" else kind, "threads": torch.get_num_threads()}


def _cpu_name() -> str:
    import platform

    return platform.processor() or platform.machine()
