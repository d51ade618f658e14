"""The machine: its device, threads, attention kernels and installed versions."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file
from robust_tickets.registry import plug_ins

if TYPE_CHECKING:
    import torch


def device_of(asked: str | torch.device | None) -> torch.device:
    """``asked``; none: a CUDA device where there is one, else the CPU."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked is None:
        return torch.device("cuda" if count else "cpu")
    hint = "'cpu', 'cuda' or, of several, 'cuda:1'; left out, a CUDA device is taken if there is one"
    try:
        device = torch.device(asked)
    except (RuntimeError, TypeError):
        raise TicketsError(f"{asked!r} is no device", hint=hint, code="device.unknown") from None
    if device.type == "cuda" and (device.index or 0) >= count:
        message = f"there is no device {asked!s}: torch {torch.__version__} sees {count} CUDA device(s)"
        raise TicketsError(message, hint=hint, code="device.absent")
    return device


CUDNN_FROM = 64  # tokens: from here on cuDNN's attention is faster than the memory-efficient kernel (docs/dev/speed.md)
ORDER = f"memory-efficient below {CUDNN_FROM} tokens, then cuDNN"


def attention(device: torch.device, tokens: int, *, half: bool) -> AbstractContextManager[Any]:
    """The kernel that is fastest for texts of ``tokens``; torch's own choice where that is not known."""
    if not half or device.type != "cuda":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _own_order(device)
    order = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    if tokens >= CUDNN_FROM:
        order[:2] = reversed(order[:2])
    return sdpa_kernel(order, set_priority=True)  # type: ignore[no-any-return]


@cache
def _own_order(device: torch.device) -> None:
    """Have torch put in its own order, which it does once, before ours."""
    import torch

    one = torch.zeros((1, 1, 8, 64), dtype=torch.float16, device=device)
    torch.nn.functional.scaled_dot_product_attention(one, one, one)


CGROUP = Path("/sys/fs/cgroup")


def allowed(root: Path = CGROUP) -> int | None:
    """Threads that the limit of this container gives work to; None where there is no limit, or none below the processors allowed."""
    try:
        if (root / "cpu.max").is_file():  # cgroup v2, which says "max" where there is no limit; v1 says -1
            quota, period = (root / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = ((root / "cpu" / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        share = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return most if share > 0 and (most := max(1, round(share))) < processors else None


PACKAGES = ("robust-tickets", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "pyarrow")


@cache
def environment() -> Mapping[str, Any]:
    """Where a number was made: interpreter, machine, device and versions."""
    import torch

    on_gpu = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(0) if on_gpu else "cpu",
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "packages": {**versions(), **plug_ins()},
    }


@cache
def code() -> str:
    """Hash of this package's source: results of one version may still be of different code."""
    root = Path(__file__).parent
    files = sorted(path for kind in ("*.py", "*.toml") for path in root.rglob(kind))
    return digest({path.relative_to(root).as_posix(): sha256_file(path) for path in files})


def versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Installed versions, without importing anything."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _cpu_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
