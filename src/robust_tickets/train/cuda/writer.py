"""Checkpoints beside training: a snapshot is taken at once, a thread brings it to the disk while the next updates run.

The snapshot is a copy in host memory, in buffers that are made when first needed and used again. For CUDA they are pinned, so that
the copy runs at the bus's speed (1.3 GB of BERT-base in some 30 ms), and the copies are queued on the current stream: that puts them after
the last update and before the next without a word more. A side stream could overlap with nothing, for a captured update changes the
weights; a copy on the device would take memory that the next, longer batch may need. The call waits for the copies, so the thread never
speaks to the device: while a graph is captured, another thread's call would break the capture.

A write on the CPU is made at once: there nearly all of its time is computing (hash, copy into the page cache), for which a thread would
take the cores from training, after a copy that training waits for.

There is at most one snapshot and one thread: a write waits for the one before, see ``busy``. What a thread could not write is raised at
the next call. A process that dies meanwhile leaves the earlier checkpoint.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from robust_tickets.train import checkpoint
from robust_tickets.train.checkpoint import State, size_of

AT_ONCE = ("cpu",)  # devices whose checkpoints are written by the caller itself
SLAB = (
    2**27
)  # bytes of one buffer: torch rounds pinned memory up to a power of two, and the next run finds freed ones of the same size
ALIGN = 64


class Writer:
    """Writes checkpoints of a run on ``device`` below ``folder``; ``cost`` is what the last write took from the caller, in seconds."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder, self.device = folder, device
        self.cost = 0.0
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._slabs: list[Tensor] = []

    @property
    def busy(self) -> bool:
        """Is a checkpoint being written?"""
        return self._thread is not None and self._thread.is_alive()

    def write(self, state: State, *, wait: bool = False) -> None:
        """Write ``state`` as it is now, after the write before is done; with ``wait`` it is on the disk when this returns."""
        self._finish()
        if wait or self.device.type in AT_ONCE:
            begun = time.monotonic()
            checkpoint.write(self.folder, state)
        else:
            self._reserve(state)  # once a run: no part of what a checkpoint costs
            begun = time.monotonic()
            taken = self._snapshot(state)
            self._thread = threading.Thread(target=self._work, args=(taken,), name="checkpoint")
            self._thread.start()
        self.cost = time.monotonic() - begun

    def close(self) -> None:
        """Wait for what is being written, and say what went wrong; the buffers are given back."""
        try:
            self._finish()
        finally:
            self._slabs = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as unwritten:
            if problem is None:
                raise
            # why the run ended comes first
            problem.add_note(f"besides, the last checkpoint was not written: {unwritten}")

    def _work(self, state: State) -> None:
        try:
            checkpoint.write(self.folder, state)
        except BaseException as problem:  # raised where somebody can see it
            self._problem = problem

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.join()  # interrupted, it is joined by the next call or when Python ends
            self._thread = None
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _reserve(self, state: State) -> None:
        """Buffers for all tensors of ``state``."""
        slots = _slots([size_of(tensor) for tensor in state.tensors.values()])
        needed: dict[int, int] = {}
        for slab, end in ((slab, end) for slab, _, end in slots):
            needed[slab] = max(needed.get(slab, 0), end)
        for slab, size in needed.items():
            if slab == len(self._slabs):
                self._slabs.append(self._room(size))
            elif self._slabs[slab].numel() < size:
                self._slabs[slab] = self._room(size)

    def _room(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=self.device.type == "cuda")

    def _snapshot(self, state: State) -> State:
        slots = _slots([size_of(tensor) for tensor in state.tensors.values()])
        taken = {}
        for (name, tensor), (slab, start, end) in zip(state.tensors.items(), slots, strict=True):
            taken[name] = self._slabs[slab][start:end].view(tensor.dtype).view(tensor.shape)
            taken[name].copy_(tensor.detach(), non_blocking=tensor.device.type == "cuda")
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        return replace(state, tensors=taken)


def _slots(sizes: list[int]) -> list[tuple[int, int, int]]:
    """Slab, start and end in bytes for blocks of these sizes, one after the other; one that is larger than a slab has its own."""
    slots, slab, at = [], 0, 0
    for size in sizes:
        if at and at + size > SLAB:
            slab, at = slab + 1, 0
        slots.append((slab, at, at + size))
        at = -(-(at + size) // ALIGN) * ALIGN
    return slots
