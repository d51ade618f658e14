"""Attack folders that belong to no run, read as one: an arm for each victim, so that victims attacked alike are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, read_json
from robust_tickets.report.model import Arm, Attack, Run
from robust_tickets.report.plans import keyed
from robust_tickets.report.read_attack import read_attack
from robust_tickets.run import listing

SCHEMAS = (1, 2)
Victim = tuple[str, str, int]  # identity, digest, and a count of those that share both
FILES = ("result.json", "examples.jsonl")


def read_attacks(folders: Sequence[Path], *, hashes: bool = False) -> Run:
    """One run of all the folders; the first one's victim is what the others are compared with."""
    notes: list[str] = []
    found = [(folder, _read(folder, notes)) for folder in folders]
    by_victim: dict[Victim, list[tuple[Path, Attack]]] = {}
    for folder, attack in found:
        model = mapping(attack.about.get("model"))
        victim = (str(model.get("identity", "?")), str(model.get("digest", "")), 0)
        # attacked in the same way twice: two functions of one name, say
        while any(other.plan == attack.plan for _, other in by_victim.get(victim, ())):
            victim = (*victim[:2], victim[2] + 1)
        by_victim.setdefault(victim, []).append((folder, attack))
    titles = _titles(by_victim)
    arms, attack_titles = keyed(
        [_arm(titles[victim], [attack for _, attack in rows]) for victim, rows in by_victim.items()]
    )
    first, envs = found[0][1], [mapping(attack.about.get("env")) for _, attack in found]
    task = mapping(first.about.get("task"))
    names = [str(mapping(file).get("name") or "") for env in envs for file in listed(env.get("data"))]
    named = list(attack_titles.values())
    victims = arms[0].title if len(arms) == 1 else f"{len(arms)} victims"
    return Run(
        name=folders[0].resolve().name,
        title=f"{named[0] if len(named) == 1 else f'{len(named)} attacks'} on {victims}",
        about="",
        arms=arms,
        baseline=arms[0].name,
        task={
            "name": ", ".join(dict.fromkeys(names)),
            "attacked_split": first.split,
            "columns": ", ".join(map(str, task.get("columns") or ())),
            "digest": task.get("digest"),
        },
        labels=tuple(map(str, task.get("labels") or mapping(first.about.get("model")).get("labels") or ())),
        model="",
        command="\n".join(dict.fromkeys(str(env["command"]) for env in envs if env.get("command"))),
        config={},
        env=envs[0],
        hashes=_hashes(folders) if hashes else {},
        notes=tuple(notes),
        attack_titles=attack_titles,
    )


def _read(folder: Path, notes: list[str]) -> Attack:
    schema = mapping(read_json(folder / "result.json")).get("schema")
    if schema not in SCHEMAS:
        raise TicketsError(
            f"{folder / 'result.json'} has schema {schema!r}, this version reads {' and '.join(map(str, SCHEMAS))}",
            hint="update the package, or run the attack again",
        )
    attack = read_attack(folder, notes)
    if attack is None:
        raise TicketsError(f"{folder / 'result.json'} is empty", hint="run the attack again")
    return replace(attack, plan=_plan(attack))


def _plan(attack: Attack) -> Mapping[str, Any]:
    """What tells one way of attacking from another; the same for every victim."""
    about, task = attack.about, mapping(attack.about.get("task"))
    asked = {
        "compat": about.get("compat"),
        "scoring": about.get("scoring"),
        "temperature": about.get("temperature"),
        "precision": about.get("precision"),
    }
    if mapping(about.get("calibration")):
        asked["temperature"] = "calibrated"
    said = {key: value for key, value in asked.items() if value not in (None, "probability", 1, 1.0)}
    rules = list(about.get("constraints") or ())
    return {
        "attack": {"name": attack.name, **said}, "query_budget": about.get("query_budget"), "data": task.get("digest"),
        "ids": list(attack.ids), "rules": rules,
    }  # fmt: skip


def _arm(title: str, attacks: Sequence[Attack]) -> Arm:
    return Arm(name=title, title=title, shape=None, distances=None, evaluation=None, cost={}, attacks=tuple(attacks))


def _titles(victims: Mapping[Victim, Sequence[tuple[Path, Attack]]]) -> dict[Victim, str]:
    """The victim's own name, with the attack's folder or a number behind it where two are called the same."""
    plain = {victim: victim[0].removeprefix("callable:").rstrip("/") for victim in victims}
    short = {victim: name.rpartition("/")[2] or victim[0] for victim, name in plain.items()}
    titles: dict[Victim, str] = {}
    for victim, name in short.items():
        same = [other for other in short.values() if other == name]
        title = name if len(same) == 1 else f"{name} ({victims[victim][0][0].resolve().name})"
        while title in titles.values():
            title += "'"
        titles[victim] = title
    return titles


def _hashes(folders: Sequence[Path]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in folders:
        found |= {f"{folder.resolve().name}/{name}": entry["sha256"] for name, entry in listing(folder, FILES).items()}
    return found
