"""Which attention kernel a GPU takes in half precision: the same one at a length, whatever its process did before.

Kernels round differently, and drop other weights from the same seed. torch keeps an order of preference, and on some GPUs (H100, H200)
replaces it when attention is computed for the first time, even inside ``sdpa_kernel``: the first update of a process took another kernel
than the same update of a process that had computed attention before, and a seed gave two models (docs/log.md).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

CUDNN_FROM = 64  # tokens: from here on cuDNN's attention is faster than the memory-efficient kernel (docs/speed.md)
ORDER = f"memory-efficient below {CUDNN_FROM} tokens, then cuDNN"


def attention(device: Any, tokens: int, *, half: bool) -> AbstractContextManager[Any]:
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
def _own_order(device: Any) -> None:
    """Have torch put in its own order, which it does once, before ours."""
    import torch

    one = torch.zeros((1, 1, 8, 64), dtype=torch.float16, device=device)
    torch.nn.functional.scaled_dot_product_attention(one, one, one)
