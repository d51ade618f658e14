"""Results that grow: entries are written one by one, and a run that is started again skips what is there.

Entries of another device or other versions are not gone on from: numbers of one file were made on one machine.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from robust_tickets.environment import environment

RESULTS = Path(__file__).parent / "results"
PAUSE = 10_000_000  # cycles, about 5 ms
FOLDERS = ("--out", "--data", "--model", "--work", "--tokenizer")  # arguments that are paths
SAME = ("device", "packages")  # what must be equal to go on


class Store:
    """``results/<name>.json``, or ``<folder>/<name>.json`` beginning with what ``results`` has."""

    def __init__(self, name: str, question: str, settings: Mapping[str, Any], folder: Path | None = None) -> None:
        self.path = (folder or RESULTS) / f"{name}.json"
        self.env = dict(environment())
        self.told: dict[str, Any] = {
            "question": question,
            "settings": dict(settings),
            "env": self.env,
            "commands": [],
            "entries": {},
        }
        for path in dict.fromkeys((self.path, RESULTS / f"{name}.json")):
            before = json.loads(path.read_text()) if path.is_file() else None
            if (
                before
                and all(before["env"].get(key) == self.env.get(key) for key in SAME)
                and before["settings"] == self.told["settings"]
            ):
                self.told["entries"], self.told["commands"] = before["entries"], before["commands"]
                print(f"going on with {len(self.entries)} entries", flush=True)
                break
        if (line := command(sys.argv)) not in self.told["commands"]:
            self.told["commands"].append(line)

    @property
    def entries(self) -> dict[str, Any]:
        return self.told["entries"]

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def put(self, key: str, value: Mapping[str, Any], line: str = "") -> None:
        """Add an entry, write the file, print a line."""
        self.entries[key] = dict(value)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.told, indent=1, sort_keys=True) + "\n")
        unfinished.replace(self.path)
        print(f"{key}: {line or json.dumps(value)}", flush=True)


def clocked(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of a call, from an idle device to an idle device."""
    wait(device)
    begun = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - begun


def paced(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of a call among others of its kind: the longer of issuing it and computing it, since the device computes one while the next
    is issued. It is issued behind a pause of the device, so that it does not wait for its first kernel. Not for calls that wait themselves.
    """
    if device.type != "cuda":
        return clocked(call, device)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    wait(device)
    torch.cuda._sleep(PAUSE)
    start.record()
    begun = time.perf_counter()
    call()
    issued = time.perf_counter() - begun
    end.record()
    wait(device)
    return max(issued, start.elapsed_time(end) / 1000)


def in_turns(
    candidates: Mapping[str, Callable[[], Any]], repeats: int, device: torch.device, steady: Collection[str] = ()
) -> dict[str, list[float]]:
    """Seconds of every call, by name; they run in turns, so that a slow phase of the machine hits all. The caller warms them up.

    Those in ``steady`` are ``paced``, the others ``clocked``.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, call in candidates.items():
                seconds[name].append((paced if name in steady else clocked)(call, device))
    finally:
        gc.enable()
    return seconds


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Median and quartiles, mean and its standard error, in ms; the mean is what a sum over batches of many lengths follows."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    error = statistics.stdev(seconds) / len(seconds) ** 0.5
    told = {"median": middle, "q1": low, "q3": high, "mean": statistics.fmean(seconds), "error": error}
    return {name: round(1000 * value, 4) for name, value in told.items()} | {"n": len(seconds)}


def device_of(name: str | None) -> torch.device:
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def free(device: torch.device) -> None:
    """Give back what models that are gone have held."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def command(called: list[str]) -> str:
    """The command line of a script that was ``called`` so. Paths are of one machine: FOLDER stands for them."""
    told, before = ["python", f"benchmarks/{Path(called[0]).name}"], ""
    for argument in called[1:]:
        name, equals, value = argument.partition("=")
        if equals and _folder(name, value):
            told.append(f"{name}=FOLDER")
        else:
            told.append("FOLDER" if _folder(before, argument) else argument)
        before = argument
    return " ".join(told)


def _folder(name: str, value: str) -> bool:
    return name in FOLDERS or value.startswith(("/", "~", ".."))
