"""A safetensors file written straight from the tensors' memory, and hashed while it is written.

A hash of the finished file would read all of it once more. Here the bytes go from where they are to the disk, and a second thread hashes
the same bytes meanwhile; neither keeps other threads from running.
The format: eight bytes with the length of a JSON header, the header (type, shape and place of each tensor), then the data.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robust_tickets.errors import TicketsError

TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write ``path``, flushed to disk; returns the sha256 of what it holds. Tensors on a device are fetched one by one."""
    order = sorted(
        tensors, key=lambda name: (-tensors[name].element_size(), name)
    )  # so that each begins at a multiple of its item
    digest = hashlib.sha256()
    pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint-hash")
    try:
        with open(path, "wb") as out:
            hashed = []
            for piece in _pieces(order, tensors):
                hashed.append(pool.submit(digest.update, piece))
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        for each in hashed:
            each.result()
    finally:
        pool.shutdown(cancel_futures=True)
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """The tensor's bytes; no copy is made of one that is contiguous on the CPU."""
    flat: Any = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return memoryview(flat)


def size_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _pieces(order: list[str], tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    yield _header(order, tensors)
    for name in order:
        yield bytes_of(tensors[name])


def _header(order: list[str], tensors: Mapping[str, Tensor]) -> bytes:
    places, at = {}, 0
    for name in order:
        tensor = tensors[name]
        if tensor.dtype not in TYPES:
            raise TicketsError(
                f"a checkpoint cannot hold {name!r} of type {tensor.dtype}", hint=f"one of {', '.join(map(str, TYPES))}"
            )
        end = at + size_of(tensor)
        places[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(places, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data begins at a multiple of 8
    return struct.pack("<Q", len(text)) + text
