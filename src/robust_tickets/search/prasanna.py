"""Prasanna, Rogers and Rumshisky (EMNLP 2020, "When BERT Plays the Lottery, All Tickets Are Winning"): importance pruning.

On a fine-tuned model: sum |d loss / d mask| over the data for every head and for every feed-forward layer (MLP) as a whole; norm the heads'
numbers to length 1 in each layer, then all of them to [0, 1]. Mask the least important tenth of the heads and the least important MLP,
measure again, and repeat while accuracy on the validation split is at least 90 % of the whole model's. Then heads alone, half as many in
each iteration (as in the released code), then MLPs alone. A step that falls below is undone.

A ticket keeps something in every layer, which is ours: its last head is not masked, and a masked MLP keeps its one most important neuron
(and its bias), or its ``round_to`` most important ones. Importance is measured on the validation split by default, as the code does; the
paper leaves open on which (``on="train"``). Its gradient follows the paper's equation, one example at a time, at the masks that are kept.
The released code adds up |gradient| of batches (of 1 by default) without ever zeroing the gradient, so that each example counts with all
before it, and chooses the first heads, and the first MLP, of a phase by the importance at the masks that have just failed.

The ticket carries no scores: how much goes is the rule's answer, not a setting, so that there is no other sparsity to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robust_tickets import progress
from robust_tickets.backbone.layout import Layout, layout_of
from robust_tickets.config import setting
from robust_tickets.data.batching import Batch
from robust_tickets.errors import TicketsError
from robust_tickets.search.base import Found, Search, SearchRun, checked, fine_tuned, named, origin_of
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune, evaluated_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task

PHASES = ("both", "heads", "mlps")
TUNING = FineTune(epochs=3, weight_decay=1e-2, warmup=0.1)


@dataclass(frozen=True, kw_only=True)
class Prasanna(Search):
    """``Prasanna()(classifier, task)`` fine-tunes a copy and prunes it; the classifier stays as it was."""

    drawable: ClassVar[bool] = False  # the ticket has no scores

    # of all heads, masked in one iteration; half of it where heads go alone
    head_step: float = setting(0.1, above=0, at_most=1, hint="0.1 is a tenth")
    mlp_step: int = setting(1, at_least=1)  # masked in one iteration
    floor: float = setting(0.9, above=0, at_most=1, hint="0.1 is a tenth")  # of the whole model's accuracy
    on: Literal["validation", "train"] = "validation"  # where importance is measured
    round_to: Literal[1, 8, 16, 64] = 1  # neurons that a masked MLP keeps
    rows: int = setting(0, at_least=0, hint="0: all")  # at most so many rows of it, drawn by the seed; 0: all
    batch_size: int = setting(32, at_least=1)
    tuning: FineTune = TUNING  # its seed is the search's
    seed: int = 0

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> SearchRun:
        """The model, fine-tuned on the task."""
        task = checked(task, clf, tuned)
        if len(task.validation) == 0:
            message = "importance pruning stops by accuracy on the validation split, which is empty"
            raise TicketsError(message, hint="give validation rows", code="search.validation")
        theta = fine_tuned(replace(self.tuning, seed=self.seed), clf, task, folder) if tuned is None else tuned
        return SearchRun(
            settings=self.tuning,
            model=theta.model,
            classifier=theta,
            given=task,
            folder=folder,
            identity=self.identity(clf, task, tuned),
            origin={**origin_of(clf, task), "tuned": named(tuned)},
        )

    def search(self, theta: PreTrainedModel, run: SearchRun) -> Found:
        """Measure importance, mask what is least important, undo it where accuracy falls below the floor; in three phases."""
        from robust_tickets.prune.gates import Gates
        from robust_tickets.train.evaluate import evaluate

        layout, batches = layout_of(theta), self._batches(run.classifier, run.task)
        masks = Masks(layout.heads_of(theta), layout.neurons_of(theta))
        iterations = run.phase("iterations", masks)
        with Gates(theta) as gates:
            if not masks.lines:
                whole = evaluate(run.classifier, run.task.validation).accuracy
                masks.lines.append({"iteration": 0, "phase": None, "accuracy": whole, "kept": True})
                iterations.save(0)
            least = self.floor * masks.lines[0]["accuracy"]
            while (phase := masks.phase()) is not None:
                gates.set_masks(masks.groups)
                chosen = self._choose(importance(theta, layout, batches()), masks, phase)
                line = {"iteration": len(masks.lines), "phase": phase, **chosen}
                if chosen["heads"] or chosen["mlps"]:
                    masks.do(line)
                    gates.set_masks(masks.groups)
                    accuracy = evaluate(run.classifier, run.task.validation).accuracy
                    line |= {"accuracy": accuracy, "kept": accuracy >= least}
                    if not line["kept"]:
                        masks.undo(line)
                else:  # nothing is left that may go
                    line |= {"accuracy": masks.lines[-1]["accuracy"], "kept": False}
                masks.lines.append(line | masks.left())
                iterations.save(line["iteration"])
                progress.say(
                    f"search: iteration {line['iteration']} ({phase}), accuracy {line['accuracy']:.1f}, floor {least:.1f}"
                )
        ticket = Ticket(
            kind="structured",
            family=layout.family,
            masks={group: tuple(kept) for group, kept in masks.groups.items()},
            unit_weights=layout.unit_weights(theta),
            provenance={"iterations": len(masks.lines) - 1},
        )
        return Found(ticket=ticket, trace=masks.lines)

    def _choose(self, measured: Importance, masks: Masks, phase: str) -> dict[str, Any]:
        """What to mask next: [layer, head] and [layer, neuron that stays, …], least important first."""
        heads: list[list[int]] = []
        mlps: list[list[int]] = []
        if phase in ("both", "heads"):
            scores = normalised(measured.heads)
            left = [int(mask.sum()) for mask in masks.heads]
            order = sorted(
                (float(scores[i][h]), i, int(h)) for i, mask in enumerate(masks.heads) for h in np.flatnonzero(mask)
            )
            most = max(1, int(self.head_step * sum(map(len, masks.heads))) // (2 if phase == "heads" else 1))
            for _, layer, head in order:
                if len(heads) < most and left[layer] > 1:
                    heads.append([layer, head])
                    left[layer] -= 1
        if phase in ("both", "mlps"):
            whole = [i for i, mask in enumerate(masks.neurons) if mask.all() and len(mask) > self.round_to]
            chosen = sorted(whole, key=lambda i: float(measured.mlps[i]))[: self.mlp_step]
            mlps = [[i, *np.argsort(-measured.neurons[i], kind="stable")[: self.round_to].tolist()] for i in chosen]
        return {"heads": heads, "mlps": mlps}

    def _batches(self, clf: ModelClassifier, task: Task) -> Callable[[], Iterable[Batch]]:
        from robust_tickets.data.arrow_tables import token_table
        from robust_tickets.data.batching import Batches

        whole = task.validation if self.on == "validation" else task.train
        split = evaluated_rows(whole, self.rows, self.seed, "search", "importance")
        return Batches(
            split=split,
            tokenizer=clf.tokenizer,
            batch_size=self.batch_size,
            max_length=clf.max_length,
            order="longest",
            token_types=clf.token_types,
            # every iteration reads all of it
            tokens=token_table(split, clf.tokenizer, clf.max_length, clf.token_types),
        ).epoch


def normalised(heads: list[np.ndarray]) -> list[np.ndarray]:
    """Length 1 in each layer, then the smallest of all 0 and the largest 1."""
    unit = [layer / max(float(np.linalg.norm(layer)), 1e-20) for layer in heads]
    low, high = min(float(u.min()) for u in unit), max(float(u.max()) for u in unit)
    return [(u - low) / max(high - low, 1e-20) for u in unit]


class Masks:
    """What is kept so far, and a line an iteration, from which the masks and the phase follow."""

    def __init__(self, heads: list[int], neurons: list[int]) -> None:
        self.heads = [np.ones(n, dtype=bool) for n in heads]
        self.neurons = [np.ones(n, dtype=bool) for n in neurons]
        self.groups = {"heads": self.heads, "neurons": self.neurons}
        self.lines: list[dict[str, Any]] = []

    def phase(self) -> str | None:
        """Each phase ends with a step that was not kept."""
        ended = sum(not line["kept"] for line in self.lines)
        return PHASES[ended] if ended < len(PHASES) else None

    def do(self, line: dict[str, Any]) -> None:
        for layer, head in line["heads"]:
            self.heads[layer][head] = False
        for layer, *stay in line["mlps"]:
            self.neurons[layer][:] = False
            self.neurons[layer][stay] = True

    def undo(self, line: dict[str, Any]) -> None:
        for layer, head in line["heads"]:
            self.heads[layer][head] = True
        for layer, *_ in line["mlps"]:
            self.neurons[layer][:] = True

    def left(self) -> dict[str, int]:
        return {
            "heads_left": sum(int(m.sum()) for m in self.heads),
            "mlps_left": sum(bool(m.all()) for m in self.neurons),
        }

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def values(self) -> dict[str, Any]:
        return {"lines": self.lines}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.lines = list(values["lines"])
        for line in self.lines:
            if line["kept"] and line["phase"] is not None:
                self.do(line)


class Importance(NamedTuple):
    """Sums over the examples, one array a layer (``mlps``: one number a layer)."""

    heads: list[np.ndarray]
    neurons: list[np.ndarray]
    mlps: np.ndarray


def importance(model: PreTrainedModel, layout: Layout, batches: Iterable[Batch]) -> Importance:
    """Of every unit of ``model`` as it runs now, in eval mode; its weights get no gradients."""
    device = next(model.parameters()).device
    sizes = {layout.attention_output: layout.heads_of(model), layout.down: layout.neurons_of(model)}
    projections = [
        (path, i, layer.get_submodule(path)) for i, layer in enumerate(layout.layers_of(model)) for path in sizes
    ]
    sums = {(path, i): torch.zeros(sizes[path][i], device=device) for path, i, _ in projections}
    whole = torch.zeros(len(sizes[layout.down]), device=device)  # a feed-forward layer's mask scales all its neurons
    required = [p.requires_grad for p in model.parameters()]
    training = model.training
    model.requires_grad_(False)
    model.train(False)
    try:
        for batch in batches:
            inputs = {name: value.to(device, non_blocking=True) for name, value in batch.inputs.items()}
            masks = {
                key: torch.ones((len(batch), len(total)), device=device, requires_grad=True)
                for key, total in sums.items()
            }
            hooks = [module.register_forward_pre_hook(_scaling(masks[path, i])) for path, i, module in projections]
            try:
                logits = model(**inputs).logits
            finally:
                for hook in hooks:
                    hook.remove()
            loss = F.cross_entropy(logits.float(), batch.labels.to(device), reduction="sum")
            for (path, i), gradient in zip(masks, torch.autograd.grad(loss, list(masks.values())), strict=True):
                sums[path, i] += gradient.abs().sum(dim=0)
                if path == layout.down:
                    whole[i] += gradient.sum(dim=1).abs().sum()
    finally:
        for parameter, before in zip(model.parameters(), required, strict=True):
            parameter.requires_grad_(before)
        model.train(training)
    found = {path: [sums[path, i].double().cpu().numpy() for i in range(len(counts))] for path, counts in sizes.items()}
    return Importance(
        heads=found[layout.attention_output], neurons=found[layout.down], mlps=whole.double().cpu().numpy()
    )


def _scaling(mask: Tensor) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    def scale(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x = args[0]
        spread = mask.repeat_interleave(x.shape[-1] // mask.shape[1], dim=1)
        shape = [len(mask), *[1] * (x.ndim - 2), x.shape[-1]]
        return (x * spread.view(shape).to(x.dtype), *args[1:])

    return scale


REGISTERED = Prasanna
