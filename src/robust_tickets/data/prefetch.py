"""Batches made ahead by a thread, so that a device never waits for them.

The thread sleeps while ``depth`` batches lie ready; the order is the source's. What goes wrong there is raised here, where the batch would
have come. Closing the generator, or leaving it with any exception, stops the thread before anything else happens; whoever leaves a loop
over it early closes it (``contextlib.closing``), for a traceback keeps it alive.

Pinning allocates memory through the driver from the thread: a graph captured meanwhile needs
``torch.cuda.graph(capture_error_mode="thread_local")``, for the default refuses what any thread does.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from torch import Tensor

DEPTH = 8
NAME = "batches ahead"  # of the thread
PATIENCE = 0.02  # seconds between two looks at whether the thread has left


@dataclass(frozen=True)
class _End:
    problem: BaseException | None = None


def prefetched(
    batches: Iterable[Mapping[str, Tensor]], depth: int = DEPTH, pin: bool = False
) -> Generator[dict[str, Tensor]]:
    """The same batches, up to ``depth`` of them made ahead; ``pin``: in memory that a GPU copies from without waiting."""
    if depth < 1:
        raise TicketsError(f"at least one batch is made ahead, got {depth}", hint="leave depth out")
    return _ahead(batches, depth, pin)


def _ahead(batches: Iterable[Mapping[str, Tensor]], depth: int, pin: bool) -> Generator[dict[str, Tensor]]:
    ready: Queue[Any] = Queue(depth)
    leave = Event()
    thread = Thread(target=_work, args=(batches, ready, leave, pin), name=NAME, daemon=True)
    thread.start()
    try:
        while not isinstance(batch := ready.get(), _End):
            yield batch
        if batch.problem is not None:
            raise batch.problem
    finally:
        leave.set()
        while thread.is_alive():
            _emptied(ready)  # it may wait for a place
            thread.join(PATIENCE)


def _work(batches: Iterable[Mapping[str, Tensor]], ready: Queue[Any], leave: Event, pin: bool) -> None:
    problem: BaseException | None = None
    try:
        source = iter(batches)
        try:
            for batch in source:
                if not leave.is_set():
                    ready.put({name: value.pin_memory() if pin else value for name, value in batch.items()})
                if leave.is_set():
                    break
        finally:
            if isinstance(source, Generator):
                source.close()
    except BaseException as caught:  # whatever it is, the consumer is told
        problem = caught
    ready.put(_End(problem))


def _emptied(ready: Queue[Any]) -> None:
    try:
        while True:
            ready.get_nowait()
    except Empty:
        return
