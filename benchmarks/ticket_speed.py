"""Is a ticket as fast as its FLOPs say? Forward passes of compact tickets against the whole model.

On a CPU: MiniLM. On a GPU: a BERT-base of random weights (which numbers are multiplied does not change the work), called as usual
(``eager``) and captured as a CUDA graph (``graph``); with ``--compile`` instead compiled, in a run of its own, for that takes long. Tickets
are random, over all layers together, so that every layer has its own number of heads and neurons; also with neurons rounded. The answer is
the measured speed-up over the ratio of FLOPs: 1 is all that FLOPs promise. Where a way stays below 0.9, the entry has a profile of
its worst ticket and of the whole model: milliseconds a pass by kind of kernel, and what is left of the pass, in which the device waits to
be told what to do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _measure import ratio
from _store import Store, device_of, free, in_turns, milliseconds, wait

from robust_tickets import RandomTicket, compact, load_classifier
from robust_tickets.backbone.cost import flops, parameters
from robust_tickets.seeds import torch_generator
from robust_tickets.ticket.topk import Multiple

HEADS, NEURONS = 1 / 6, (0.2, 0.3, 0.4)
MULTIPLES: tuple[Multiple, ...] = (1, 8, 16, 64)
SHAPES = {"cpu": [(1, 32), (8, 32), (64, 32)], "cuda": [(rows, tokens) for tokens in (32, 128) for rows in (1, 8, 64)]}
PRECISIONS = {"cpu": ("fp32",), "cuda": ("bf16", "fp32")}
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
REPEATS, WARM_UP, PROFILED, ENOUGH = 30, 3, 5, 0.9
QUESTION = "Inference speed of a ticket against its FLOP ratio"
COMPILED = ("whole", "30 %", "30 %, rounded to 64")
# kinds of kernels and operators by what their names hold, the first that fits
KINDS = {
    "attention": ("fmha", "flash", "attention", "softmax", "sdpa"),
    "matrix products": ("gemm", "nvjet", "cutlass", "xmma", "splitk", "addmm", "aten::mm", "bmm", "linear", "mkldnn"),
    "norms": ("layer_norm", "layernorm"),
    "pointwise, copies": (
        "elementwise",
        "gelu",
        "copy",
        "memcpy",
        "memset",
        "add",
        "mul",
        "tanh",
        "cat",
        "triton",
        "reduce",
        "vectorized",
    ),
}


def models(device: torch.device, tiny: bool) -> dict[str, Any]:
    """The whole model and its tickets, by name."""
    if tiny or device.type == "cuda":
        from transformers import BertConfig, BertForSequenceClassification

        small: dict[str, Any] = {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 256,
        }
        with torch.device(device):
            torch.manual_seed(0)
            whole = BertForSequenceClassification(BertConfig(**(small if tiny else {}))).eval()
    else:
        whole = load_classifier("minilm", labels=("a", "b"), max_length=128).model.eval()
    made = {"whole": whole}
    for removed in NEURONS:
        for multiple in MULTIPLES:
            ticket = RandomTicket(heads=HEADS, neurons=removed, round_to=multiple, seed=0)(whole).ticket
            made[f"{removed:.0%}".replace("%", " %") + (f", rounded to {multiple}" if multiple > 1 else "")] = compact(
                whole, ticket
            )
    return made


def chosen(made: dict[str, Any], way: str, precision: str, device: torch.device) -> dict[str, Any]:
    """All of them where a pass is quick; else of the rounded ones those at 30 % alone; on a GPU none of them one kernel at a time."""
    if way == "graph" and precision == "bf16":
        return made
    rounded = way == "graph" or device.type == "cpu"
    return {name: model for name, model in made.items() if "rounded" not in name or (rounded and name.startswith("30"))}


def batch_of(rows: int, tokens: int, device: torch.device) -> dict[str, torch.Tensor]:
    ids = torch.randint(1000, 20000, (rows, tokens), generator=torch_generator(0, "ids")).to(device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}


def captured(model: Any, batch: dict[str, torch.Tensor], pool: Any) -> Callable[[], Any]:
    """The pass as one CUDA graph, as an attack captures it."""
    for _ in range(2):  # libraries set themselves up in the first calls, which must not be captured
        model(**batch)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        model(**batch)
    return lambda graph=graph, held=(model, batch): graph.replay()  # type: ignore[misc]  # held: a graph reads them where they lie


def profile_of(call: Callable[[], Any], whole: float, device: torch.device) -> dict[str, float]:
    """Milliseconds of a call by kind of kernel (GPU) or operator (CPU); ``whole``: of the call when nobody looks."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA] if gpu else [ProfilerActivity.CPU]) as seen:
        for _ in range(PROFILED):
            call()
        wait(device)
    told = dict.fromkeys((*KINDS, "other"), 0.0)
    for event in seen.key_averages():
        if gpu and event.device_type != DeviceType.CUDA:
            continue
        spent = event.self_device_time_total if gpu else event.self_cpu_time_total
        kind = next(
            (kind for kind, words in KINDS.items() if any(word in event.key.lower() for word in words)), "other"
        )
        told[kind] += spent / 1000 / PROFILED
    told |= {"waiting and launching": max(0.0, whole - sum(told.values())), "pass": whole}
    return {kind: round(spent, 4) for kind, spent in told.items()}


def compared(
    made: dict[str, Any], calls: dict[tuple[str, str], Callable[[], Any]], tokens: int, device: torch.device
) -> dict[str, Any]:
    """Speed-ups of every ticket in every way, with profiles of what is below ``ENOUGH``; ``calls`` by way and model."""
    for _ in range(WARM_UP):
        for call in calls.values():
            call()
    seconds = in_turns({f"{way}/{name}": call for (way, name), call in calls.items()}, REPEATS, device)
    told: dict[str, Any] = {"whole": {}, "tickets": {}, "profiles": {}}
    whole = flops(made["whole"], tokens)
    for way, name in calls:
        spent = seconds[f"{way}/{name}"]
        if name == "whole":
            told["whole"][way] = milliseconds(spent)
            continue
        promised = whole / flops(made[name], tokens)
        faster = ratio(seconds[f"{way}/whole"], spent)
        row = told["tickets"].setdefault(name, {"flop_ratio": round(promised, 4), "parameters": parameters(made[name])})
        row[way] = {
            "milliseconds": milliseconds(spent),
            "speed_up": {key: round(faster[key], 4) for key in ("median", "q1", "q3", "n")},
            "reached": round(faster["median"] / promised, 4),
        }
    for way in sorted({way for way, _ in calls}):
        reached = {name: row[way]["reached"] for name, row in told["tickets"].items() if way in row}
        worst = min(reached, key=lambda name: reached[name])
        if reached[worst] < ENOUGH:
            passes = {
                "whole": told["whole"][way]["median"],
                worst: told["tickets"][worst][way]["milliseconds"]["median"],
            }
            told["profiles"][way] = {
                name: profile_of(calls[way, name], spent, device) for name, spent in passes.items()
            }
    return told


def one_shape(
    made: dict[str, Any], batch: dict[str, torch.Tensor], precision: str, device: torch.device, *, compiling: bool
) -> Any:
    """Everything that is measured at one shape."""
    names: dict[str, Any] = {
        way: COMPILED if compiling else chosen(made, way, precision, device) for way in ("eager", "graph")
    }
    calls: dict[tuple[str, str], Callable[[], Any]] = {
        ("eager", name): partial(made[name], **batch) for name in names["eager"]
    }
    more = {}
    if device.type == "cuda":
        pool = torch.cuda.graph_pool_handle()
        calls |= {("graph", name): captured(made[name], batch, pool) for name in names["graph"]}
    if compiling:
        ready, more["first_call_seconds"] = compiled(made, batch, device)
        calls |= ready
    return compared(made, calls, batch["input_ids"].shape[1], device) | more


def compiled(
    made: dict[str, Any], batch: dict[str, torch.Tensor], device: torch.device
) -> tuple[dict[Any, Any], dict[str, float]]:
    """Calls of compiled models, and the seconds of the first of each: what compiling costs. On a GPU with graphs of PyTorch's own."""
    calls, first = {}, {}
    for name in COMPILED:
        ready = torch.compile(made[name], dynamic=False, mode="reduce-overhead" if device.type == "cuda" else "default")
        begun = time.perf_counter()
        ready(**batch)
        wait(device)
        first[name] = round(time.perf_counter() - begun, 2)
        for _ in range(3):  # graphs are captured in the second and third
            ready(**batch)
        calls["compiled", name] = partial(ready, **batch)
    return calls, first


def main() -> None:
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="the compiled models instead")
    parser.add_argument("--rows", type=int, default=8, help="of the one shape that is compiled")
    parser.add_argument("--tokens", type=int, default=32, help="likewise")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to see that it runs; give --out")
    parser.add_argument("--out", type=Path, help="folder for the result instead of results/")
    asked = parser.parse_args()
    device, begun = device_of(asked.device), time.perf_counter()
    made = models(device, asked.tiny)
    settings = {
        "model": "tiny" if asked.tiny else "random BERT-base" if device.type == "cuda" else "all-MiniLM-L6-v2",
        "heads": "1/6 removed",
        "repeats": REPEATS,
        "parameters": parameters(made["whole"]),
        "seed": 0,
    }
    store = Store("ticket_speed_gpu" if device.type == "cuda" else "ticket_speed", QUESTION, settings, asked.out)
    shapes = [(1, 8), (2, 8)] if asked.tiny else SHAPES[device.type]
    shapes = [(asked.rows, asked.tokens)] if asked.compile else shapes
    for precision in PRECISIONS[device.type][:1] if asked.compile else PRECISIONS[device.type]:
        for model in made.values():
            model.to(TYPES[precision])
        for rows, tokens in shapes:
            key = f"{precision}, {rows} x {tokens}" + (", compiled" if asked.compile else "")
            if key in store:
                continue
            with torch.inference_mode():
                told = one_shape(made, batch_of(rows, tokens, device), precision, device, compiling=asked.compile)
            reached: dict[str, list[float]] = {}
            for row in told["tickets"].values():
                for way in told["whole"]:
                    reached.setdefault(way, []).extend([row[way]["reached"]] if way in row else [])
            store.put(
                key,
                told,
                ", ".join(f"{way} {min(r):.2f} … {max(r):.2f} of the FLOP ratio" for way, r in reached.items()),
            )
            free(device)
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
