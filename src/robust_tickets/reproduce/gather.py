"""The values an outcome keeps of a job's stages: the ticket's shape, traces for figures, the cost, each example's status.

No path of a machine is kept: a file is named by its role (``@real``, ``@data/sst2``), and by its hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from robust_tickets.backbone.layout import layout_of
from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.reproduce.outcome import INSTEAD, LETTERS, Attacked, Outcome
from robust_tickets.stats.classification import SUCCESS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.attack.result import ExampleOutcome
    from robust_tickets.stages import Stage
    from robust_tickets.ticket.ticket import Ticket

T = TypeVar("T")
TEXTS = 12  # attacked texts that are kept of each attack
POINTS = 150  # lines of a search's trace that are kept, evenly spread
LOSSES = 50  # of a training's
DIGITS = 5  # of mask distances and gates


def shape(ticket: Ticket, model: PreTrainedModel) -> dict[str, Any]:
    """The kept units of a ticket of ``model``, the unpruned one.

    ``heads``: a row of 0 and 1 a layer; ``neurons``: kept and all of a layer. Of single weights, kept and all: ``weights`` of each matrix,
    ``by_head`` of q, k and v of each head of a layer, ``by_mlp`` of all else in a layer (RobustT's figure has the attention's output there).
    """
    about = ticket.provenance
    kept: dict[str, Any] = {"digest": ticket.digest, "kind": ticket.kind, "removed": dict(ticket.removed)}
    kept |= {"sparsity": ticket.sparsity, "epoch": about.get("epoch"), "converged": about.get("converged")}
    if ticket.kind == "structured":
        kept["heads"] = [[int(one) for one in mask] for mask in ticket.masks["heads"]]
        kept["neurons"] = [[int(mask.sum()), int(mask.size)] for mask in ticket.masks["neurons"]]
        return kept
    masks, layout = dict(zip(ticket.names, ticket.masks["weights"], strict=True)), layout_of(model)
    kept["weights"] = {name: _kept(mask) for name, mask in masks.items()}
    kept["by_head"], kept["by_mlp"] = [], []
    heads = layout.sizes(model.config)["heads"]
    for i, layer in enumerate(layout.layers_of(model)):
        own = {name: mask for name, mask in masks.items() if name.startswith(f"{layout.layers}.{i}.")}
        blocks = [(path, count) for path, (group, count) in layout.rows_of(layer).items() if group == "heads"]
        rows = [own.pop(f"{layout.layers}.{i}.{path}.weight").reshape(count, heads, -1) for path, count in blocks]
        size = sum(row.size for row in rows) // heads
        kept["by_head"].append([[int(one), size] for one in sum(row.sum(axis=(0, 2)) for row in rows)])
        kept["by_mlp"].append(np.sum([_kept(mask) for mask in own.values()], axis=0).tolist())
    return kept


def _kept(mask: np.ndarray[Any, Any]) -> list[int]:
    return [int(np.count_nonzero(mask)), int(mask.size)]


def traces(searched: Stage | None, trained: Stage | None) -> dict[str, Any]:
    """``distances`` of a search's masks, ``gates`` (or the values of its lines) over updates, ``accuracy`` (every evaluation) and
    ``loss`` (epoch and loss) along training.
    """
    found: dict[str, Any] = {}
    if searched is not None:
        if (searched.folder / "distances.json").is_file():
            found["distances"] = _rounded(read_json(searched.folder / "distances.json"))
        lines = _lines(searched.folder / "trace.jsonl")
        gates = [line for line in lines if "R" in line]
        found["gates" if gates else "search"] = _rounded(_spread(gates or lines, POINTS))
    if trained is not None:
        losses: list[list[float]] = []
        found["accuracy"] = []
        for line in _lines(trained.folder / "metrics.jsonl"):
            if "loss" in line:
                losses.append([line["epoch"], line["loss"]])
            if isinstance(line.get("evaluation"), Mapping):
                point = {"epoch": line["epoch"], "accuracy": line["evaluation"].get("accuracy")}
                found["accuracy"].append({**point, "loss": losses[-1][1] if losses else None})
        found["loss"] = _rounded(_spread(losses, LOSSES))
    return {name: lines for name, lines in found.items() if lines}


def cost(searched: Stage | None, trained: Stage | None) -> dict[str, Any]:
    """Seconds and sizes; ``processes``: the most that shared the device during a stage."""
    stages = [stage for stage in (searched, trained) if stage is not None]
    found: dict[str, Any] = {"processes": max((stage.sharers for stage in stages), default=1)}
    for stage in stages:
        if (stage.folder / "cost.json").is_file():
            found |= read_json(stage.folder / "cost.json")
    return found


def attacked(name: str, stage: Stage) -> tuple[Attacked, tuple[str, ...]]:
    """An attack's result under its name in the protocol, and the ids of its examples."""
    from robust_tickets.attack.result import AttackResult

    result = AttackResult.load(stage.folder)
    examples = list(result.examples())
    if [example.id for example in examples] != list(result.ids):
        hint = "remove the folder: it is then run again"
        raise TicketsError(f"{stage.folder}: not its result's examples", hint=hint, code="gather.other_examples")
    resources = {kind: dict(about) for kind, about in result.resources.items()}
    substitutes = {kind: about["name"] for kind, about in resources.items() if about.get("substitute")}
    attacked = Attacked(
        name=name,
        recipe=result.attack,
        digest=result.digest,
        split=str(result.task["split"]),
        examples=digest(list(result.ids)),
        statuses="".join(LETTERS[example.status] for example in examples),
        queries=tuple(example.queries for example in examples),
        resources=resources,
        substitutes=tuple(f"{INSTEAD.get(kind, kind)}: {used} instead" for kind, used in substitutes.items()),
        flags=result.flags,
        temperature=result.temperature,
        scoring=result.scoring,
        seconds=result.seconds,
        texts=tuple([_text(example) for example in examples if example.status == SUCCESS][:TEXTS]),
    )
    return attacked, result.ids


def _text(example: ExampleOutcome) -> dict[str, Any]:
    scores = (example.score_before, example.score_after)
    before, after = (None if score is None else round(1 - score, 4) for score in scores)
    texts = {"original": list(example.original), "perturbed": list(example.perturbed or ())}
    return {"id": example.id, "label": example.label, **texts, "before": before, "after": after}


def without_paths(value: T, paths: Mapping[str, Path]) -> T:
    """Replace paths in ``value`` by ``@name``; of nested paths the first of ``paths`` counts."""
    made: Any = value
    if isinstance(value, Outcome | Attacked):
        made = replace(value, **without_paths(vars(value), paths))
    elif isinstance(value, Mapping):
        made = {key: without_paths(inner, paths) for key, inner in value.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(without_paths(inner, paths) for inner in value)
    elif isinstance(value, str):
        for name, path in paths.items():
            made = made.replace(str(path), f"@{name}")
    return made  # type: ignore[no-any-return]


def _spread(lines: list[Any], most: int) -> list[Any]:
    if len(lines) <= most:
        return lines
    return [lines[round(i * (len(lines) - 1) / (most - 1))] for i in range(most)]


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []
