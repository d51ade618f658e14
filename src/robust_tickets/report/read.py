"""A run folder's files → values. Files only: nothing is loaded that could run.

A missing or damaged optional file costs its part of the page and a note on it, not the page; a folder without ``arms.json`` is refused.
Paths in ``arms.json`` must stay inside the run folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, read_json
from robust_tickets.report.fields import inside, interval, number, optional, percent_interval
from robust_tickets.report.figures.weights import weights_by_layer
from robust_tickets.report.model import Arm, Distances, Evaluation, Run, Shape
from robust_tickets.report.plans import keyed
from robust_tickets.report.read_attack import read_attack
from robust_tickets.report.tables import tables_of
from robust_tickets.report.unfinished import no_result
from robust_tickets.run import RUN_FILES, STAGE_FILES, listing


def read_run(folder: str | Path, *, hashes: bool = False) -> Run:
    """Everything the report shows of one run; with ``hashes`` also those of its files, which have to be read whole for it."""
    folder = Path(folder)
    if not (folder / "arms.json").is_file():
        raise no_result(folder)
    notes: list[str] = []
    about = mapping(read_json(folder / "arms.json"))
    if about.get("schema", 1) != 1:
        raise TicketsError(
            f"{folder / 'arms.json'} has schema {about.get('schema')!r}, this version reads 1",
            hint="update the package",
        )
    config, env = (optional(folder / name, notes) for name in ("config.json", "env.json"))
    task = mapping(about.get("task"))
    recipe = mapping(config.get("recipe")) or config
    named = listed(about.get("arms"))
    entries = [entry for entry in named if isinstance(entry, Mapping)]
    if len(entries) < len(named):
        notes.append("arms.json names arms that are no JSON objects: left out")
    arms, titles = keyed([_arm(folder, entry, notes) for entry in entries])
    return Run(
        name=folder.resolve().name,
        title=str(about.get("title") or recipe.get("title") or folder.resolve().name),
        about=str(about.get("about") or recipe.get("about") or "").strip(),
        arms=arms,
        baseline=str(about.get("baseline") or (arms[0].name if arms else "")),
        task=task,
        labels=tuple(map(str, listed(task.get("labels")))),
        model=str(about.get("model") or recipe.get("model") or ""),
        command=str(env.get("command") or about.get("command") or ""),
        config=config,
        env=env,
        hashes=_hashes(folder, entries) if hashes else {},
        notes=tuple(notes),
        attack_titles=titles,
    )


def _hashes(folder: Path, entries: list[Mapping[str, Any]]) -> dict[str, str]:
    """sha256 of what the page is made from. Not of the page itself, nor of the manifest, which is written after it."""
    found = {
        name: entry["sha256"] for name, entry in listing(folder, [n for n in RUN_FILES if n != "report.html"]).items()
    }
    stages = [
        [entry.get(key) for key in ("search", "ticket", "train")] + listed(entry.get("attacks")) for entry in entries
    ]
    named = {str(name) for names in stages for name in names if name}
    for name in sorted(named):
        stage = inside(folder, name, [])
        files = listing(stage, (*STAGE_FILES, "stage.json")) if stage else {}
        found |= {f"{name}/{inner}": entry["sha256"] for inner, entry in files.items()}
    return found


def _arm(folder: Path, entry: Mapping[str, Any], notes: list[str]) -> Arm:
    name = str(entry.get("name", "?"))
    search, train = (inside(folder, entry.get(key), notes) for key in ("search", "train"))
    ticket = inside(folder, entry.get("ticket"), notes) or search  # drawn anew, or taken from elsewhere
    attacks = [inside(folder, path, notes) for path in listed(entry.get("attacks"))]
    cost = {**optional(train / "cost.json", [])} if train else {}
    if search:
        cost = {"search_seconds": _search_seconds(search), **cost}
    return Arm(
        name=name,
        title=str(entry.get("title") or name),
        shape=_shape(ticket, notes) if ticket else None,
        distances=_distances(search, notes) if search else None,
        evaluation=_evaluation(train, notes) if train else None,
        cost={k: float(v) for k, v in cost.items() if isinstance(v, int | float) and not isinstance(v, bool)},
        attacks=tuple(a for a in (read_attack(path, notes) for path in attacks if path) if a is not None),
        tables=tables_of(search, train, notes),
        story=str(entry.get("story") or ""),
        branch=mapping(entry.get("branch")),
    )


def _search_seconds(folder: Path) -> float | None:
    """How long a search took: its cost.json, or else the last line of its metrics that says so."""
    known = number(optional(folder / "cost.json", []).get("search_seconds"))
    if known is not None or not (folder / "metrics.jsonl").is_file():
        return known
    for line in (folder / "metrics.jsonl").read_text("utf-8", errors="replace").splitlines():
        try:
            known = number(mapping(json.loads(line)).get("seconds")) or known
        except ValueError:
            continue
    return known


def _evaluation(folder: Path, notes: list[str]) -> Evaluation | None:
    found = optional(folder / "evaluation.json", notes)
    accuracy, n = number(found.get("accuracy")), number(found.get("n"))
    if accuracy is None:
        return None
    given = interval(found.get("interval"))
    return Evaluation(
        split=str(found.get("split", "")),
        n=None if n is None else int(n),
        accuracy=accuracy,
        macro_f1=number(found.get("macro_f1")),
        interval=given or percent_interval(accuracy, n),
        per_class=tuple(mapping(row) for row in found.get("per_class") or ()),
    )


def _shape(folder: Path, notes: list[str]) -> Shape | None:
    from robust_tickets.ticket import Ticket

    try:
        ticket = Ticket.load(folder)
        weights = weights_by_layer(ticket) if ticket.kind == "unstructured" else ()
    except TicketsError as problem:  # damaged, or of a backbone that is not known here
        notes.append(problem.message)
        return None
    if ticket.kind == "unstructured":
        return Shape(weights=weights, digest=ticket.digest, provenance=dict(ticket.provenance))
    return Shape(
        heads=tuple(tuple(bool(kept) for kept in mask) for mask in ticket.masks["heads"]),
        neurons=tuple((int(mask.sum()), int(mask.size)) for mask in ticket.masks["neurons"]),
        digest=ticket.digest,
        provenance=dict(ticket.provenance),
    )


def _distances(folder: Path, notes: list[str]) -> Distances | None:
    if not (folder / "distances.json").is_file():
        return None
    found = optional(folder / "distances.json", notes)
    try:
        points = tuple(
            float(p.get("epoch", i)) if isinstance(p, Mapping) else float(p) for i, p in enumerate(found["points"])
        )
        groups = {}
        for group in ("heads", "neurons"):
            rows = tuple(tuple(float(d) for d in row) for row in found[group])
            if len(rows) != len(points) or any(len(row) != len(points) for row in rows):
                raise ValueError(f"{group} is not {len(points)} × {len(points)}")
            groups[group] = rows
    except (KeyError, TypeError, ValueError) as problem:
        notes.append(f"{folder.name}/distances.json could not be read ({problem})")
        return None
    stopped = _where(found.get("stopped_at"), points)
    drawn = _where(found.get("drawn_at"), points)
    return Distances(
        points=points,
        groups=groups,
        stopped_at=stopped,
        drawn_at=stopped if drawn is None else drawn,
        converged=found.get("converged") is not False,
        rule=str(found.get("rule", "")),
    )


def _where(value: Any, points: tuple[float, ...]) -> int | None:
    """The point at which a search stopped: an index, or the epoch of a point."""
    epoch = number(value)
    if epoch is None or not points:
        return None
    if isinstance(value, int) and 0 <= value < len(points):
        return value
    return min(range(len(points)), key=lambda i: abs(points[i] - epoch))
