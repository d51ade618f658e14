"""Checkpoints: atomic, pickle-free, verified. Tensors as safetensors, the rest as JSON.

``checkpoint/step-00000120/`` holds ``state.safetensors`` and ``state.json`` (which names the sha256 of the former). Both are written
into a hidden folder, flushed to disk, and the folder is renamed; older ones are removed after that. So whatever moment a process dies
at, the newest folder of that name is complete; should its contents not match their hash all the same, the next older one is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, sha256_file
from robust_tickets.progress import warn
from robust_tickets.stages import same_work

if TYPE_CHECKING:
    from robust_tickets.train.loop import TrainingRun


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
    # so that each begins at a multiple of its item
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    digest = hashlib.sha256()
    pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint-hash")
    try:
        with open(path, "wb") as out:
            hashed = []
            data: Iterator[memoryview] = (_bytes_of(tensors[name]) for name in order)
            for piece in chain((memoryview(_header(order, tensors)),), data):
                hashed.append(pool.submit(digest.update, piece))
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        for each in hashed:
            each.result()
    finally:
        pool.shutdown(cancel_futures=True)
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    """The tensor's bytes; no copy is made of one that is contiguous on the CPU."""
    flat: Any = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return memoryview(flat)


def size_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _header(order: list[str], tensors: Mapping[str, Tensor]) -> bytes:
    entries, at = {}, 0
    for name in order:
        tensor = tensors[name]
        if tensor.dtype not in TYPES:
            message, hint = f"a checkpoint cannot hold {name!r} of type {tensor.dtype}", f"one of {list(TYPES)}"
            raise TicketsError(message, hint=hint, code="checkpoint.type")
        end = at + size_of(tensor)
        entries[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data begins at a multiple of 8
    return struct.pack("<Q", len(text)) + text


SCHEMA = 3
PREFIX = "step-"


@dataclass(kw_only=True)
class State:
    """Everything that a run needs to resume: ``tensors`` by name, and JSON ``values``."""

    step: int
    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)


def write(folder: Path, state: State) -> Path:
    """Write ``state`` as the newest checkpoint below ``folder`` and remove the older ones."""
    final = folder / f"{PREFIX}{state.step:08d}"
    part = folder / f".{final.name}.{os.getpid()}.part"
    try:
        for left in folder.glob(f".{PREFIX}*.part"):  # of a killed process
            shutil.rmtree(left, ignore_errors=True)
        part.mkdir(parents=True)
        sha256 = write_tensors(part / "state.safetensors", state.tensors)
        about = {"schema": SCHEMA, "step": state.step, "sha256": sha256, "values": dict(state.values)}
        (part / "state.json").write_text(json.dumps(about, allow_nan=False), encoding="utf-8")
        _flush(part / "state.json")
        _flush(part)  # the names of both
        if final.exists():  # the same step again, after a damaged one was passed over
            shutil.rmtree(final)
        os.rename(part, final)
        _flush(folder)
    except Exception as problem:
        shutil.rmtree(part, ignore_errors=True)
        if not isinstance(problem, OSError):
            raise
        needed = -(-sum(map(size_of, state.tensors.values())) // 10**6)
        message = f"could not write the checkpoint {final}: {problem.strerror or problem}"
        hint = f"free some space ({needed} MB are needed) or choose another folder; the same command then resumes"
        raise TicketsError(message, hint=hint, exit_code=FAILED, code="checkpoint.write") from None
    for older in folder.glob(f"{PREFIX}*"):
        if older != final:
            shutil.rmtree(older, ignore_errors=True)
    return final


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A memory that outlives one training of a run (its rounds, say), under the run's identity; without a folder nothing is kept."""

    folder: Path | None
    identity: str
    memory: Memory

    def __post_init__(self) -> None:
        """Restore what was saved last; refuses what another run saved."""
        found = read(self.folder) if self.folder is not None else None
        if found is not None:
            same_work(self.folder, found.values["identity"], self.identity)
            self.memory.restore(found.tensors, found.values["memory"])

    def save(self, step: int) -> None:
        if self.folder is not None:
            values = {"identity": self.identity, "memory": self.memory.values()}
            write(self.folder, State(step=step, tensors=self.memory.tensors(), values=values))


def read(folder: Path) -> State | None:
    """The newest complete checkpoint below ``folder``, or None."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for found in sorted(folder.glob(f"{PREFIX}*"), reverse=True):
        try:
            about = read_json(found / "state.json")
            if about["schema"] != SCHEMA:
                raise ValueError(f"schema {about['schema']}, this version reads {SCHEMA}")
            if sha256_file(found / "state.safetensors") != about["sha256"]:
                raise ValueError("the hash does not match")
            tensors = load_file(found / "state.safetensors")
            return State(step=int(about["step"]), tensors=tensors, values=about["values"])
        except (TicketsError, OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
            warn(f"the checkpoint {found} cannot be used ({problem}): passed over")
    return None


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Memory(Protocol):
    """What a method remembers between steps (a search's snapshots, say), as tensors and JSON values."""

    def tensors(self) -> dict[str, Tensor]: ...

    def values(self) -> dict[str, Any]: ...

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None: ...


def capture(run: TrainingRun) -> State:
    """The run as it stands between two steps."""
    tensors = {f"part/{name}": value for name, value in _trained(run).items()}
    # after the last update nobody asks for the moments, two thirds of the bytes
    if not (run.stopped or run.done >= run.total):
        for name, parameter in run.parameters.items():
            for key, value in run.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser/{key}/{name}"] = value
    if run.engine.continues:
        tensors |= {f"generator/{name}": generator.get_state() for name, generator in run.generators.items()}
        tensors["random/cpu"] = torch.get_rng_state()
        if run.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(run.device)
    tensors["running"] = run.running
    values: dict[str, Any] = {
        "identity": run.identity,
        "total": run.total,
        "threads": torch.get_num_threads(),
        **_surroundings(run),
        "stopped": run.stopped,
        "counted": run.counted,
        "seconds": run._seconds(),
        "metrics": run.metrics.length(),
    }
    if run.memory is not None:
        tensors |= {f"memory/{name}": value for name, value in run.memory.tensors().items()}
        values["memory"] = run.memory.values()
    return State(step=run.done, tensors=tensors, values=values)


def restore(run: TrainingRun, state: State) -> None:
    """Put a fresh run where ``state`` was captured; refuses the checkpoint of another run."""
    same_work(run.folder, (state.values["identity"], state.values["total"]), (run.identity, run.total))
    for name, now in _surroundings(run).items():
        if (before := state.values[name]) != now:
            message = f"the run in {run.folder} was begun with the {name} {before!r}, now it is {now!r}"
            hint = f"{SAME[name]}, or remove {run.folder}/checkpoint to start over"
            raise TicketsError(message, hint=hint, code="resume.elsewhere")
    threads, here = state.values["threads"], torch.get_num_threads()
    if run.device.type == "cpu" and threads != here:
        warn(
            f"{run.folder} was trained with {threads} threads until now, and resumes with {here}: its weights may differ in the last bits "
            f"from those of a run with one number of threads (OMP_NUM_THREADS={threads} gives that)"
        )
    with torch.no_grad():
        for name, value in _trained(run).items():
            value.copy_(state.tensors[f"part/{name}"])
    for name, value in state.tensors.items():
        if name.startswith("optimiser/"):
            _, key, parameter = name.split("/", 2)
            owner = run.parameters[parameter]
            run.optimiser.state[owner][key] = value.to(owner.device)
    run.done, run.stopped = state.step, bool(state.values["stopped"])
    run.running, run.counted = state.tensors["running"].to(run.device), int(state.values["counted"])
    run.spent, run.started = float(state.values["seconds"]), time.monotonic()
    run.metrics.cut(int(state.values["metrics"]))
    if run.memory is not None:
        kept = {name.removeprefix("memory/"): v for name, v in state.tensors.items() if name.startswith("memory/")}
        run.memory.restore(kept, state.values["memory"])
    if run.engine.continues and "random/cpu" in state.tensors:  # not in one that another engine left
        for name, generator in run.generators.items():  # last: nothing above may draw
            generator.set_state(state.tensors[f"generator/{name}"])
        if run.device.type == "cuda":
            torch.cuda.set_rng_state(state.tensors["random/cuda"], run.device)
        torch.set_rng_state(state.tensors["random/cpu"])


# with others it would not be the same run: other random streams and rounding; rows read twice and others never
SAME = {
    "device": "continue on the device it was begun on",
    "reading": "set ROBUST_TICKETS_CACHE as it was when the run was begun (tokens could be kept then and cannot now, or the other way round)",
}


def _surroundings(run: TrainingRun) -> dict[str, str]:
    """What else a run must resume with; ``reading``: the order of its texts."""
    return {"device": run.device.type, "reading": getattr(run.batches, "reading", "")}


def _trained(run: TrainingRun) -> dict[str, Tensor]:
    """Trainable parameters and saved buffers of all parts; frozen weights come from where they came from before."""
    found: dict[str, Tensor] = dict(run.parameters)
    for part, module in run.parts.items():
        kept = module.state_dict().keys()
        found |= {f"{part}.{name}": buffer for name, buffer in module.named_buffers() if name in kept}
    return found
