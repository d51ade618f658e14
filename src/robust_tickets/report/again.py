"""How to run it again: the command, the data, the config, versions, device, seeds, hashes and the ids of the attacked examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from robust_tickets.files import listed, mapping
from robust_tickets.report import format as numbers
from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.report.run_data import Run


def again(run: Run) -> Html:
    parts: list[Html | None] = []
    if run.command:
        parts.append(tag("pre", tag("code", run.command)))
    parts.append(_facts("Where it ran", _environment(run), opened=True))
    task = {key: value for key, value in run.task.items() if key not in ("labels", "bad_rows")}
    parts.append(_facts("Data", task | {"labels": ", ".join(run.labels), "files": _files(run.env)}))
    if run.config:
        parts.append(_fold("Config", tag("pre", tag("code", _json(run.config)))))
    for arm in run.arms:
        for attack in arm.attacks:
            title = f"{run.attack_titles[attack.key]} on {arm.title}"
            env = mapping(attack.about.get("env"))
            facts = {
                "date": env.get("date"),
                "data files": _files(env),
                "seed": attack.seed,
                "examples": attack.n,
                "split": attack.split,
                "plan": {
                    key: value for key, value in attack.plan.items() if key not in ("ids", "rules")
                },  # they stand below
                "forward passes": numbers.count(attack.forward_passes),
                "seconds": numbers.seconds(attack.seconds),
                **{key: value for key, value in attack.about.items() if key != "env"},
            }
            parts.append(_facts(title, facts))
    for arm in run.arms:
        if arm.shape is not None:
            parts.append(_facts(f"Ticket of {arm.title}", {"digest": arm.shape.digest, **arm.shape.provenance}))
    ids = {a.ids for arm in run.arms for a in arm.attacks if a.ids}
    for k, group in enumerate(sorted(ids)):
        told = (
            "the same for every arm"
            if len(ids) == 1
            else f"set {k + 1} of {len(ids)}: the arms were not all attacked on the same examples"
        )
        parts.append(
            _fold(f"Ids of the attacked examples ({len(group)}, {told})", tag("p", ", ".join(group), class_="ids"))
        )
    if run.hashes:
        rows = [
            tag("tr", tag("th", name, scope="row"), tag("td", tag("code", digest)))
            for name, digest in run.hashes.items()
        ]
        table = tag(
            "table",
            tag("caption", "sha256 of the files that this page was made from."),
            tag("tbody", *rows),
            class_="facts",
        )
        parts.append(_fold(f"Files and hashes ({len(rows)})", scroll(f"{run.title}: files and hashes", table)))
    return join(parts)


def _files(env: Mapping[str, Any]) -> str:
    files = [mapping(file) for file in listed(env.get("data"))]
    return "\n".join(f"{file.get('name')}, sha256 {file.get('sha256')}" for file in files)


def _environment(run: Run) -> dict[str, Any]:
    env = run.env
    packages = env.get("packages")
    plain = {key: value for key, value in env.items() if key not in ("packages", "command", "data")}
    if isinstance(packages, Mapping):
        plain["packages"] = ", ".join(f"{name} {version}" for name, version in packages.items())
    peak = max((arm.cost["peak_memory_bytes"] for arm in run.arms if "peak_memory_bytes" in arm.cost), default=None)
    return plain | {"most memory held": numbers.memory(peak) if peak else None}


def _facts(title: str, facts: Mapping[str, Any], opened: bool = False) -> Html | None:
    known = {key: value for key, value in facts.items() if value not in (None, "", [], {})}
    if not known:
        return None
    rows = [
        tag(
            "tr",
            tag("th", key, scope="row"),
            tag("td", value if isinstance(value, str | int | float) else _json(value)),
        )
        for key, value in known.items()
    ]
    table = tag("table", tag("caption", title), tag("tbody", *rows), class_="facts")
    body = scroll(title, table)
    return body if opened else _fold(title, body)


def _fold(title: str, body: Html) -> Html:
    return tag("details", tag("summary", title), body)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
