"""Updates as CUDA graphs: the eager engine's own code, recorded once for every shape of a batch, then replayed.

An eager update launches thousands of small kernels, and at 32 tokens a GPU waits for Python most of the time. A graph launches them all at
once. It repeats exactly what was recorded: the same kernels at the same addresses. So batches are copied to fixed buffers, gradients stay
where they are, and the learning rate is a number on the device. Random numbers are new in every replay: a graph moves the generators on as
the eager code would, and reads their state again. So the streams continue through the whole run, the eager updates in it too, where the
eager engine seeds them for every micro-batch.

The first updates of a shape run eagerly, as real updates (libraries set themselves up in them); then the shape is recorded. Where that
fails, because a step waits for the GPU or rewinds a random stream, the reason is logged and the run continues eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robust_tickets import progress
from robust_tickets.train.update import Batch, Engine, global_stream

WARM_UP = 2  # eager updates of a shape before it is recorded
MOST = 64  # graphs kept; shapes beyond run eagerly


@dataclass
class Recorded:
    graph: Any
    fed: Mapping[str, Tensor]  # where a batch is copied to
    loss: Tensor | None


@dataclass(kw_only=True)
class Captured(Engine):
    """With several micro-batches an update, each is a graph of its own (the first clears, the others add), and so is the descent."""

    name: str = "graph"

    continues = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stream = torch.cuda.Stream(self.device)
        self.pool = torch.cuda.graph_pool_handle()  # one for all graphs: they never run at the same time
        self.seen: dict[Any, int] = {}
        self.graphs: dict[Any, Recorded] = {}
        self.fixed: dict[int, Tensor] | None = (
            None  # gradients by parameter, at addresses that all graphs know; None before they are
        )
        self.refused = ""  # why nothing is recorded any more
        if self.half:
            self.half.beside(self.device)

    def update(self, group: Sequence[Batch], done: int) -> Tensor:
        if self.refused:
            return super().update(group, done)
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self._schedule(done)
            whole = len(group) == 1
            loss = self._play(("update", _shape(group[0])), group[0], self._whole) if whole else self._parts(group)
        here.wait_stream(self.stream)
        return loss

    def _whole(self, batch: Batch) -> Tensor:
        self._clear()
        loss = self._gradients(batch, 1.0)
        self._descend()
        return loss

    def _parts(self, group: Sequence[Batch]) -> Tensor:
        rows = [len(batch["labels"]) for batch in group]
        if self.seen.get(("descend",), 0) >= WARM_UP:
            self._fix()  # between two updates only: in the middle of one, gradients lie elsewhere already
        loss = torch.zeros((), device=self.device)
        for place, (batch, count) in enumerate(zip(group, rows, strict=True)):
            share = count / sum(rows)

            def gradients(batch: Batch, first: bool = place == 0, share: float = share) -> Tensor:
                if first:
                    self._clear()
                return self._gradients(batch, share)

            loss = loss + self._play(("gradients", place == 0, share, _shape(batch)), batch, gradients)

        def descend(_: Batch) -> Tensor:
            self._present()
            self._descend()
            return self.exploded

        self._play(("descend",), {}, descend)
        return loss

    def _play(self, key: Any, batch: Batch, body: Callable[[Batch], Tensor]) -> Tensor:
        """Run ``body``: eagerly at first, then from its graph."""
        if key not in self.graphs and not self.refused and self._due(key):
            self._record(key, self._moved(batch), body)
        found = self.graphs.get(key)
        if found is None:
            return body(self._moved(batch))
        for name, place in found.fed.items():
            place.copy_(batch[name], non_blocking=True)
        found.graph.replay()
        assert found.loss is not None
        return found.loss.clone()  # the next replay writes there again

    def _due(self, key: Any) -> bool:
        self.seen[key] = self.seen.get(key, 0) + 1
        ready = self.fixed is not None or key[0] == "update"
        return self.seen[key] > WARM_UP and len(self.graphs) < MOST and ready

    def _record(self, key: Any, batch: dict[str, Tensor], body: Callable[[Batch], Tensor]) -> None:
        """Record ``body`` for batches of this shape. Recording computes nothing: the model is as it was before."""
        self._fix()
        fed = {name: value.clone() for name, value in batch.items()}
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators.values():
            graph.register_generator_state(generator)
        streams = random_streams(self)
        places = [stream.get_state() for stream in streams]
        torch.cuda.synchronize(self.device)
        self._capturable(True)
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                loss = body(fed)
        # of a step that waits for the GPU, rewinds a random stream, or finds too little memory
        except RuntimeError as problem:
            self.refused = reason(problem)
            self.replay = 0
            self._present()  # earlier micro-batches of this update may be in them
            self.fixed = None
            self.graphs.clear()  # a recorded descent would look for the gradients there
            release(self.device, self.pool)
            for stream, place in zip(streams, places, strict=True):
                mend(stream, place)
            progress.say(f"this step cannot be recorded as a graph ({self.refused}): it runs eagerly")
        else:
            self.graphs[key] = Recorded(graph, fed, loss)
        finally:
            self._capturable(False)

    def _fix(self) -> None:
        """From now on gradients stay where they are: those that autograd makes, of the parameters that have any."""
        if self.fixed is not None:
            return
        self.fixed = {}
        for parameter in self.parameters.values():
            if parameter.grad is not None and not (self.half and self.half.owns(parameter)):
                self.fixed[id(parameter)] = torch.zeros_like(parameter)

    def _clear(self) -> None:
        super()._clear()
        if self.fixed:
            torch._foreach_zero_(list(self.fixed.values()))
            self._present()

    def _present(self) -> None:
        """Put the fixed gradients where the descent looks for them: a replay runs no Python that would."""
        for parameter in self.parameters.values():
            if self.fixed and id(parameter) in self.fixed:
                parameter.grad = self.fixed[id(parameter)]

    def _capturable(self, on: bool) -> None:
        """AdamW needs this flag; with it set it warns when run outside a graph."""
        for group in self.optimiser.param_groups:
            group["capturable"] = on


def random_streams(engine: Engine) -> list[torch.Generator]:
    """All that a step draws from."""
    return [global_stream(engine.device), *engine.generators.values()]


def mend(stream: torch.Generator, place: Tensor) -> None:
    """A broken recording leaves a generator unusable: give it a new state, at the place where it was."""
    healthy = torch.Generator(stream.device)
    healthy.set_state(place)
    stream.graphsafe_set_state(healthy.graphsafe_get_state())


def release(device: torch.device, pool: Any) -> None:
    """A recording that CUDA broke off never ended for torch's allocator, which would keep its memory and free none when it runs short."""
    from torch.cuda import memory

    end, give = getattr(memory, "_cuda_endAllocateToPool", None), getattr(memory, "_cuda_releasePool", None)
    if end is None or give is None:
        return
    index = torch.cuda.current_device() if device.index is None else device.index
    try:
        end(index, pool)
    except RuntimeError:  # it was ended, and the graph gives its memory back by itself
        return
    give(index, pool)


def reason(problem: BaseException) -> str:
    """What broke a recording: the first error, for CUDA answers all that follows with an error of its own."""
    while isinstance(problem.__context__, RuntimeError):
        problem = problem.__context__
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def _shape(batch: Batch) -> tuple[Any, ...]:
    return tuple((name, tuple(value.shape)) for name, value in sorted(batch.items()))
