"""How long does one training step take, and how much of the device does it use? Ours, the reference profile, Hugging Face's Trainer.

BERT-base's size with random weights, synthetic batches without padding, already on the device. Every candidate of a cell (kind of step,
batch, length) runs in turns with the others; medians of at least 20 after warm-up. The reference and Trainer are clocked from an idle
device to an idle device. Ours never wait for the device, so that one step is issued while another is computed: the longer of both counts.

    TFLOP/s  =  3 × forward FLOPs × passes × texts / time          (a backward pass is two forward ones)

with the forward FLOPs of ``measure.cost.flops``: matrix products alone. Passes are those that the step makes: K for FreeLB, (2K + 3)/3 for
our PGD (its ascents need no weight gradients), K + 1 for the reference's. The limit is measured in the same run: a large bf16 matrix
product and a large copy.

``--seconds`` bounds what one cell's reference may take; beyond it, it is "not run". A run that is started again goes on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _ours import KINDS, Engines, Updates, batch_of, config_of, layers_of, model_of, step_flops, updates
from _reference import Reference, Shape
from _store import Store, clocked, device_of, free, in_turns, milliseconds, wait

from robust_tickets.train.update import Precision

QUESTION = "Milliseconds and TFLOP/s of a training step"
LENGTHS, BATCHES, REPEATS = (32, 128, 64, 256), (32, 128), 20  # those that are most asked for first
ENGINES: dict[str, tuple[Engines, Precision]] = {
    "graph-bf16": ("graph", "bf16"),
    "eager-bf16": ("eager", "bf16"),
    "graph-fp32": ("graph", "fp32"),
}
IN_FP32 = ("finetune", "freelb")
WARM_UP = 5  # the graph engine records a shape at its third update


def main(arguments: list[str] | None = None) -> None:
    asked = _asked(arguments)
    device = device_of(asked.device)
    settings = {
        "model": "tiny" if asked.tiny else "BERT-base's size, random weights",
        "repeats": asked.repeats,
        "padding": "none",
        "seed": 0,
    }
    store = Store("step_time", QUESTION, settings, asked.out)
    if "limit" not in store:
        store.put("limit", limit(device, 256 if asked.tiny else 8192, asked.repeats))
    for rows in asked.batch:
        for tokens in asked.length:
            for kind in asked.kind:
                cell(store, kind, rows, tokens, device, asked)


def cell(store: Store, name: str, rows: int, tokens: int, device: torch.device, asked: Any) -> None:
    """All candidates of one kind of step at one shape."""
    if f"{name}/{rows}x{tokens}/graph-bf16" in store or (
        device.type != "cuda" and f"{name}/{rows}x{tokens}/eager-bf16" in store
    ):
        return
    kind, config = KINDS[name], config_of(tiny=asked.tiny)
    batch = batch_of(rows, tokens, config.vocab_size, device, of_words=kind.of_words)
    candidates: dict[str, Callable[[], Any]] = {}
    ours: dict[str, Updates] = {}
    work: dict[str, float] = {}
    reference = Reference(kind.reference, Shape(**layers_of(config)), device, steps=kind.steps)
    once = warmed(partial(reference, batch), 2, device)
    if once * asked.repeats > asked.seconds:
        store.put(
            f"{name}/{rows}x{tokens}/reference",
            {"not run": f"about {once:.2f} s a step, beyond {asked.seconds:g} s a cell"},
        )
    else:
        candidates["reference"] = partial(reference, batch)
    for engine, (how, precision) in ENGINES.items():
        left_out = engine in asked.without or (precision == "fp32" and name not in IN_FP32)
        if left_out or (how == "graph" and device.type != "cuda"):
            continue
        free(device)  # what the others' warm-up has left over: recording takes memory of its own
        model = model_of(config, device, of_words=kind.of_words)
        work[engine] = step_flops(model, rows, tokens, kind.passes)
        ours[engine] = updates(kind, model, engine=how, precision=precision)
        candidates[engine] = partial(ours[engine], batch)
        warmed(candidates[engine], WARM_UP, device)
    work["reference"] = next(iter(work.values())) / kind.passes * reference.passes
    for call in candidates.values():  # memory that was given back is taken again
        warmed(call, 1, device)
    if name == "finetune" and "trainer-bf16" not in asked.without:
        work["trainer-bf16"] = work["eager-bf16"]
        seconds = beside_trainer(candidates, model_of(config, device), batch, asked.repeats, device, steady=ours)
    else:
        seconds = in_turns(candidates, asked.repeats, device, steady=ours)
    for candidate in sorted(
        seconds, key=lambda c: c in ("graph-bf16", "eager-bf16")
    ):  # these say that the cell is complete: last
        told: dict[str, Any] = {"ms": milliseconds(seconds[candidate])}
        told["tflops"] = round(work[candidate] / (told["ms"]["median"] / 1000) / 1e12, 3)
        if candidate in ours:
            told["engine"] = ours[candidate].engine
        store.put(
            f"{name}/{rows}x{tokens}/{candidate}", told, f"{told['ms']['median']:.2f} ms, {told['tflops']:.1f} TFLOP/s"
        )
    del candidates, ours, reference, model
    free(device)


def warmed(call: Callable[[], Any], times: int, device: torch.device) -> float:
    """Seconds of the last call."""
    return [clocked(call, device) for _ in range(times)][-1]


def limit(device: torch.device, size: int, repeats: int) -> dict[str, Any]:
    """What the device can do: a bf16 product of two square matrices, and a copy (read and written bytes counted)."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.empty(size * size * 8 // 4, device=device)
    target = torch.empty_like(source)
    calls = {"matmul": partial(torch.matmul, left, right), "copy": partial(target.copy_, source)}
    for call in calls.values():
        warmed(call, 5, device)
    best = {name: min(seconds) for name, seconds in in_turns(calls, max(20, repeats), device, steady=calls).items()}
    copied = 2 * source.numel() * 4
    return {
        "matmul": f"{size} × {size} × {size}, bf16",
        "matmul_tflops": round(2 * size**3 / best["matmul"] / 1e12, 2),
        "copy_bytes": copied // 2,
        "copy_gb_per_s": round(copied / best["copy"] / 1e9, 1),
        "of": "the best of the repeats",
    }


def beside_trainer(
    candidates: dict[str, Callable[[], Any]],
    model: Any,
    batch: dict[str, torch.Tensor],
    repeats: int,
    device: torch.device,
    steady: Collection[str],
) -> dict[str, list[float]]:
    """Hugging Face's Trainer as it comes (bf16 autocast, its own loader, clipping and optimiser); the others run between its steps.

    Its step is the whole of its loop between two of its callbacks: fetching and moving the batch are in it.
    """
    from transformers import Trainer, TrainerCallback, TrainingArguments

    rows = [{name: value[i].cpu() for name, value in batch.items()} for i in range(len(batch["labels"]))]
    data = rows * (WARM_UP + repeats + 1)
    seconds: dict[str, list[float]] = {"trainer-bf16": [], **{name: [] for name in candidates}}

    class Turns(TrainerCallback):
        begun, count = 0.0, 0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            wait(device)
            self.count += 1
            if self.count > WARM_UP and len(seconds["trainer-bf16"]) < repeats:
                seconds["trainer-bf16"].append(time.perf_counter() - self.begun)
                for name, taken in in_turns(candidates, 1, device, steady).items():
                    seconds[name] += taken
            wait(device)
            self.begun = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=len(rows),
            max_steps=WARM_UP + repeats,
            bf16=True,
            use_cpu=device.type == "cpu",
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=settings, train_dataset=Listed(data), callbacks=[Turns()])  # type: ignore[arg-type]
        assert trainer.accelerator.mixed_precision == "bf16", trainer.accelerator.mixed_precision
        trainer.train()
    return seconds


class Listed(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __init__(self, rows: list[dict[str, torch.Tensor]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.rows[index]


def _asked(arguments: list[str] | None) -> Any:
    def numbers(text: str) -> Iterator[int]:
        return map(int, text.split(","))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder instead of results/")
    parser.add_argument("--tiny", action="store_true", help="a tiny model: does the script run?")
    parser.add_argument(
        "--kind", default=",".join(k for k in KINDS if k != "orticket"), help="kinds of steps, by commas"
    )
    parser.add_argument("--batch", type=numbers, default=BATCHES)
    parser.add_argument("--length", type=numbers, default=LENGTHS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--seconds", type=float, default=25.0, help="that the reference of a cell may take")
    parser.add_argument("--without", default="", help="candidates to leave out, by commas: graph-fp32, trainer-bf16")
    parser.add_argument("--device")
    asked = parser.parse_args(arguments)
    asked.kind, asked.batch, asked.length = asked.kind.split(","), list(asked.batch), list(asked.length)
    asked.without = [name for name in asked.without.split(",") if name]
    if unknown := set(asked.without) - {"graph-fp32", "trainer-bf16"}:  # the others tell that a cell is complete
        parser.error(f"--without {', '.join(sorted(unknown))}: graph-fp32 and trainer-bf16 can be left out")
    return asked


if __name__ == "__main__":
    main()
