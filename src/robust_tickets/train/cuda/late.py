"""Numbers read from a GPU without waiting for it: asked for now, used when the next ones are asked for.

The host queues updates and the GPU works them off. Who reads a loss at once waits until the queue is empty, and then the GPU waits for the
next update: 2 to 4 % of an epoch at a line of metrics every ten updates. So the numbers are copied to pinned memory behind the updates that
are queued by now, and used one interval later, when the queue holds the updates since. Before that the host waits for the copy, so it is
never more than an interval ahead of what it knows. On other devices the numbers are used at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Use = Callable[[float, bool], None]


class Late:
    """A mean loss and whether a gradient exploded, on their way from ``device``; at most one pair at a time."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.lags = device, lags(device)
        self._use: Use | None = None  # waits for what is on its way
        if self.lags:
            self.room = room(device)
            # the host sleeps while it waits, and leaves its core to the batches
            self.event = torch.cuda.Event(blocking=True)

    def ask(self, loss: Tensor, exploded: Tensor, use: Use) -> None:
        """Have ``use`` called with the values as they are now: at once, or at the next ``ask`` or ``finish``."""
        if not self.lags:
            use(float(loss), bool(exploded))
            return
        self.finish()  # also before the room is written again
        self.room.copy_(torch.stack([loss.double(), exploded.double()]), non_blocking=True)
        self.event.record(torch.cuda.current_stream(self.device))
        self._use = use

    def finish(self) -> None:
        """Use what is on its way, after waiting for it."""
        if self._use is None:
            return
        use, self._use = self._use, None
        self._wait()
        loss, exploded = self.room.tolist()
        use(loss, bool(exploded))

    def _wait(self) -> None:
        self.event.synchronize()


def lags(device: torch.device) -> bool:
    """Whether reading from the device at once costs it time."""
    return device.type == "cuda"


def room(device: torch.device) -> Tensor:
    """Two numbers in host memory that the device writes by itself."""
    return torch.empty(2, dtype=torch.float64, pin_memory=device.type == "cuda")
