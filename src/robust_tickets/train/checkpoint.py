"""Checkpoints: atomic, pickle-free, verified. Tensors as safetensors, the rest as JSON.

``checkpoint/step-00000120/`` holds ``state.safetensors`` and ``state.json`` (which names the sha256 of the former). Both are written
into a hidden folder, flushed to disk, and the folder is renamed; older ones are removed after that. So whatever moment a process dies
at, the newest folder of that name is complete; should its contents not match their hash all the same, the next older one is used.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from robust_tickets import progress
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, sha256_file
from robust_tickets.train.stream import size_of, write_tensors

SCHEMA = 3
PREFIX = "step-"


@dataclass(kw_only=True)
class State:
    """Everything that a run needs to go on: ``tensors`` by name, and JSON ``values``."""

    step: int
    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)


def write(folder: Path, state: State) -> Path:
    """Write ``state`` as the newest checkpoint below ``folder`` and remove the older ones."""
    final = folder / f"{PREFIX}{state.step:08d}"
    part = folder / f".{final.name}.{os.getpid()}.part"
    try:
        _sweep(folder)
        part.mkdir(parents=True)
        sha256 = write_tensors(part / "state.safetensors", state.tensors)
        about = {"schema": SCHEMA, "step": state.step, "sha256": sha256, "values": dict(state.values)}
        (part / "state.json").write_text(json.dumps(about, sort_keys=True, allow_nan=False), encoding="utf-8")
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
        size = sum(map(size_of, state.tensors.values()))
        raise TicketsError(
            f"could not write the checkpoint {final}: {problem.strerror or problem}",
            hint=f"free some space ({-(-size // 10**6)} MB are needed) or choose another folder; the same command then goes on",
            exit_code=FAILED,
        ) from None
    for older in folder.glob(f"{PREFIX}*"):
        if older != final:
            shutil.rmtree(older, ignore_errors=True)
    return final


def read(folder: Path) -> State | None:
    """The newest complete checkpoint below ``folder``, or None."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for found in sorted(folder.glob(f"{PREFIX}*"), reverse=True):
        try:
            about = read_json(found / "state.json")
            if about["schema"] != SCHEMA:
                progress.warn(
                    f"the checkpoint {found} has schema {about['schema']}, this version reads {SCHEMA}: passed over"
                )
                continue
            if sha256_file(found / "state.safetensors") != about["sha256"]:
                raise ValueError("the hash does not match")
            return State(
                step=int(about["step"]), tensors=load_file(found / "state.safetensors"), values=about["values"]
            )
        except (TicketsError, OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
            progress.warn(f"the checkpoint {found} is damaged ({problem}): passed over")
    return None


def _sweep(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for left in folder.glob(f".{PREFIX}*.part"):
        shutil.rmtree(left, ignore_errors=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
