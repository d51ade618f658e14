"""Between a running loop and a checkpoint: what is captured, and how it is put back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from robust_tickets.data.batching import PLAIN
from robust_tickets.errors import TicketsError
from robust_tickets.progress import warn
from robust_tickets.train.checkpoint import State

if TYPE_CHECKING:
    from robust_tickets.train.loop import Loop


class Memory(Protocol):
    """What a method remembers between steps (a search's snapshots, say), as tensors and JSON values."""

    def tensors(self) -> dict[str, Tensor]: ...

    def values(self) -> dict[str, Any]: ...

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None: ...


def capture(loop: Loop) -> State:
    """The loop as it stands between two steps."""
    tensors = {f"part/{name}": value for name, value in _trained(loop).items()}
    if not (
        loop.stopped or loop.done >= loop.total
    ):  # after the last update nobody asks for the moments, two thirds of the bytes
        for name, parameter in loop.parameters.items():
            for key, value in loop.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser/{key}/{name}"] = value
    if loop.engine.continues:
        tensors |= _streams(loop)
    tensors["running"] = loop.running
    values: dict[str, Any] = {
        "identity": loop.identity,
        "total": loop.total,
        "device": loop.device.type,
        "threads": torch.get_num_threads(),
        "reading": getattr(loop.batches, "reading", ""),
        "stopped": loop.stopped,
        "counted": loop.counted,
        "seconds": loop._seconds(),
        "metrics": loop.metrics.length(),
    }
    if loop.memory is not None:
        tensors |= {f"memory/{name}": value for name, value in loop.memory.tensors().items()}
        values["memory"] = loop.memory.values()
    return State(step=loop.done, tensors=tensors, values=values)


def restore(loop: Loop, state: State) -> None:
    """Put a fresh loop where ``state`` was captured; refuses the checkpoint of another run."""
    if state.values["identity"] != loop.identity or state.values["total"] != loop.total:
        raise TicketsError(
            f"{loop.folder} holds the checkpoint of another run (other settings, data or starting weights)",
            hint="give another folder, or remove this one to start anew",
        )
    begun_on = state.values["device"]
    if begun_on != loop.device.type:  # other random streams, other rounding: it would not be the same run
        raise TicketsError(
            f"the run in {loop.folder} was begun on {begun_on}, the model is on {loop.device.type}",
            hint=f"continue on the device it was begun on, or remove {loop.folder}/checkpoint to start anew",
        )
    threads, here = state.values.get("threads"), torch.get_num_threads()
    if begun_on == "cpu" and threads not in (None, here):
        warn(
            f"{loop.folder} was trained with {threads} threads until now, and resumes with {here}: its weights may differ in the last bits "
            f"from those of a run with one number of threads (OMP_NUM_THREADS={threads} gives that)"
        )
    now = getattr(loop.batches, "reading", "")
    before = state.values.get("reading", PLAIN if now else "")  # one of an older version does not say
    if before != now:  # rows would be read twice and others never
        raise TicketsError(
            f"the run in {loop.folder} read its texts {before}, now they would be read {now}",
            hint="set ROBUST_TICKETS_CACHE as it was when the run was begun (tokens could be kept then and cannot now, or the other way "
            f"round), or remove {loop.folder}/checkpoint to start anew",
        )
    trained = _trained(loop)
    saved = {name.removeprefix("part/"): value for name, value in state.tensors.items() if name.startswith("part/")}
    if saved.keys() != trained.keys():
        raise TicketsError(
            f"the checkpoint in {loop.folder} does not fit the model", hint="remove the folder to start anew"
        )
    with torch.no_grad():
        for name, value in trained.items():
            value.copy_(saved[name])
    for name, value in state.tensors.items():
        if name.startswith("optimiser/"):
            _, key, parameter = name.split("/", 2)
            owner = loop.parameters[parameter]
            loop.optimiser.state[owner][key] = value.to(owner.device)
    loop.done, loop.stopped = state.step, bool(state.values["stopped"])
    loop.running, loop.counted = state.tensors["running"].to(loop.device), int(state.values["counted"])
    loop.spent, loop.started = float(state.values["seconds"]), time.monotonic()
    loop.metrics.cut(int(state.values["metrics"]))
    if loop.memory is not None:
        memory = {
            name.removeprefix("memory/"): value for name, value in state.tensors.items() if name.startswith("memory/")
        }
        loop.memory.restore(memory, state.values["memory"])
    if loop.engine.continues and "random/cpu" in state.tensors:  # not in one that another engine left
        _continue(loop, state.tensors)  # last: nothing above may draw


def _streams(loop: Loop) -> dict[str, Tensor]:
    """Where the random streams stand."""
    streams = {f"generator/{name}": generator.get_state() for name, generator in loop.generators.items()}
    streams["random/cpu"] = torch.get_rng_state()
    if loop.device.type == "cuda":
        streams["random/cuda"] = torch.cuda.get_rng_state(loop.device)
    return streams


def _continue(loop: Loop, streams: Mapping[str, Tensor]) -> None:
    """Put the random streams where they stood."""
    for name, generator in loop.generators.items():
        generator.set_state(streams[f"generator/{name}"])
    if loop.device.type == "cuda":
        torch.cuda.set_rng_state(streams["random/cuda"], loop.device)
    torch.set_rng_state(streams["random/cpu"])


def _trained(loop: Loop) -> dict[str, Tensor]:
    """Trainable parameters and saved buffers of all parts; frozen weights come from where they came from before."""
    found: dict[str, Tensor] = dict(loop.parameters)
    for part, module in loop.parts.items():
        kept = module.state_dict().keys()
        found |= {f"{part}.{name}": buffer for name, buffer in module.named_buffers() if name in kept}
    return found
