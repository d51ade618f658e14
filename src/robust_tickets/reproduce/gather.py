"""The values an outcome keeps of a job's stages: the ticket's shape, traces for figures, the cost, each example's status.

No path of a machine is kept: a file is named by its role (``@real``, ``@data/sst2``), and by its hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.backbone.layout import layout_of
from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.reproduce.outcome import INSTEAD, LETTERS, Attacked
from robust_tickets.stats.classification import SUCCESS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.attack.result import ExampleOutcome
    from robust_tickets.stages import Stage
    from robust_tickets.ticket.ticket import Ticket


TEXTS = 12  # attacked texts that are kept of each attack
POINTS = 150  # lines of a search's trace that are kept, evenly spread
LOSSES = 50  # of a training's
DIGITS = 5  # of mask distances and gates


def shape(ticket: Ticket, model: PreTrainedModel) -> dict[str, Any]:
    """The kept units of a ticket of ``model``, the unpruned one.

    ``heads``: a row of 0 and 1 a layer; ``neurons``: kept and all of a layer. Of single weights, kept and all: ``weights`` of each matrix,
    ``by_head`` of q, k and v of each head of a layer, ``by_mlp`` of all else in a layer.
    """
    about = ticket.provenance
    kept = {"digest": ticket.digest, "kind": ticket.kind, "removed": dict(ticket.removed), "sparsity": ticket.sparsity}
    kept |= {"epoch": about.get("epoch"), "converged": about.get("converged")}
    if ticket.kind == "structured":
        kept["heads"] = [[int(one) for one in mask] for mask in ticket.masks["heads"]]
        kept["neurons"] = [[int(mask.sum()), int(mask.size)] for mask in ticket.masks["neurons"]]
    else:
        masks = zip(ticket.names, ticket.masks["weights"], strict=True)
        kept["weights"] = {name: [int(np.count_nonzero(mask)), int(mask.size)] for name, mask in masks}
        kept |= _by_unit(ticket, model)
    return kept


def _by_unit(ticket: Ticket, model: PreTrainedModel) -> dict[str, Any]:
    """Weights of heads and, as in RobustT's figure, of MLPs: the attention's output, up and down."""
    layout = layout_of(model)
    heads, masks = layout.sizes(model.config)["heads"], dict(zip(ticket.names, ticket.masks["weights"], strict=True))
    kept: dict[str, Any] = {"by_head": [], "by_mlp": []}
    for i, layer in enumerate(layout.layers_of(model)):
        own = {name: mask for name, mask in masks.items() if name.startswith(f"{layout.layers}.{i}.")}
        blocks = [(path, count) for path, (group, count) in layout.rows_of(layer).items() if group == "heads"]
        rows = [own.pop(f"{layout.layers}.{i}.{path}.weight").reshape(count, heads, -1) for path, count in blocks]
        size = sum(row.size for row in rows) // heads
        kept["by_head"].append([[int(one), size] for one in sum(row.sum(axis=(0, 2)) for row in rows)])
        kept["by_mlp"].append(
            [sum(int(np.count_nonzero(mask)) for mask in own.values()), sum(mask.size for mask in own.values())]
        )
    return kept


def traces(searched: Stage | None, trained: Stage | None) -> dict[str, Any]:
    """``distances`` of a search's masks, ``gates`` (or the values of its lines) over updates, ``accuracy`` and ``loss`` along training."""
    found: dict[str, Any] = {}
    if searched is not None:
        if (searched.folder / "distances.json").is_file():
            found["distances"] = _rounded(read_json(searched.folder / "distances.json"))
        lines = list(_lines(searched.folder / "trace.jsonl"))
        gates = [line for line in lines if "R" in line]
        if gates:
            found["gates"] = _rounded(_spread(gates))
        elif lines:
            found["search"] = _rounded(_spread(lines))
    return found if trained is None else found | _along(trained.folder / "metrics.jsonl")


def cost(searched: Stage | None, trained: Stage | None) -> dict[str, Any]:
    """Seconds and sizes; ``processes``: the most that shared the device during a stage."""
    found: dict[str, Any] = {}
    for stage in filter(None, (searched, trained)):
        if (stage.folder / "cost.json").is_file():
            found |= read_json(stage.folder / "cost.json")
    return {**found, "processes": max((stage.sharers for stage in (searched, trained) if stage is not None), default=1)}


def attacked(name: str, stage: Stage) -> tuple[Attacked, tuple[str, ...]]:
    """An attack's result under its name in the protocol, and the ids of its examples."""
    from robust_tickets.attack.result import AttackResult

    result = AttackResult.load(stage.folder)
    examples = list(result.examples())
    ids = [example.id for example in examples]
    if ids != list(result.ids):
        found = f"{len(ids)} examples of {len(result.ids)}" if len(ids) != len(result.ids) else "other examples"
        hint = "remove the folder: it is then run again"
        raise TicketsError(f"{stage.folder}: {found} than its result names", hint=hint, code="gather.other_examples")
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


def without_paths(value: Any, paths: Mapping[str, Path]) -> Any:
    """Replace paths in ``value`` by ``@name``; of nested paths the first of ``paths`` counts."""
    if isinstance(value, Mapping):
        return {key: without_paths(inner, paths) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(without_paths(inner, paths) for inner in value)
    if not isinstance(value, str):
        return value
    for name, path in paths.items():
        value = value.replace(str(path), f"@{name}")
    return value


def _along(metrics: Path) -> dict[str, Any]:
    """``accuracy``: every evaluation; ``loss``: epoch and loss, evenly spread. Empty ones are left out."""
    evaluations: list[dict[str, Any]] = []
    losses: list[list[float]] = []
    for line in _lines(metrics):
        if "loss" in line:
            losses.append([line["epoch"], line["loss"]])
        if isinstance(line.get("evaluation"), Mapping):
            point = {"epoch": line["epoch"], "accuracy": line["evaluation"].get("accuracy")}
            evaluations.append({**point, "loss": losses[-1][1] if losses else None})
    found = {"accuracy": evaluations, "loss": _rounded(_spread(losses, LOSSES))}
    return {name: lines for name, lines in found.items() if lines}


def _spread(lines: list[Any], most: int = POINTS) -> list[Any]:
    if len(lines) <= most:
        return lines
    return [lines[round(i * (len(lines) - 1) / (most - 1))] for i in range(most)]


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)
