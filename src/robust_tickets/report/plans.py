"""Which attacks of the arms belong together, and what to call them.

Arms are compared under one plan: the same attack, examples and budget. Two plans of a run may well use the same attack, so its name alone
does not tell them apart; what differs between such plans goes into their titles.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from robust_tickets.report.model import Arm, Attack

TITLES = {
    "pwws": "PWWS",
    "textfooler": "TextFooler",
    "textbugger": "TextBugger",
    "bertattack": "BERT-Attack",
}  # as their papers write them


def keyed(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """The arms with a key on each of their attacks, and a title for every key. The first plan of an attack has its name as key."""
    keys: dict[str, str] = {}  # what identifies a plan → its key
    first: dict[str, Attack] = {}
    given = []
    for arm in arms:
        seen: Counter[str] = Counter()
        attacks = []
        for attack in arm.attacks:
            name = attack.name.lower()
            # without a plan, its place among the arm's attacks of that name: a run makes its attacks in one order on every arm
            same = f"{name}\0{json.dumps(attack.plan, sort_keys=True) if attack.plan else ''}"
            seen[same] += 1
            same += f"\0{seen[same]}"
            if same not in keys:
                count = sum(other.startswith(f"{name}\0") for other in keys)
                keys[same] = _free(attack.name if not count else f"{attack.name}-{count + 1}", first)
                first[keys[same]] = attack
            attacks.append(replace(attack, key=keys[same]))
        given.append(replace(arm, attacks=tuple(attacks)))
    return tuple(given), {key: _title(attack, list(first.values())) for key, attack in first.items()}


def attack_title(name: str) -> str:
    return TITLES.get(name.lower(), name)


def _free(key: str, taken: Mapping[str, object]) -> str:
    while key in taken:
        key += "'"
    return key


def _title(attack: Attack, every: list[Attack]) -> str:
    others = [other for other in every if other.name.lower() == attack.name.lower()]
    mine, known = _facts(attack), [_facts(other) for other in others]
    differ = [said for what, said in mine.items() if any(facts.get(what) != said for facts in known)]
    title = attack_title(attack.name)
    if (
        len(others) > 1 and sum(facts == mine for facts in known) > 1
    ):  # nothing that we know how to say tells it from another
        differ.append(f"plan {1 + next(i for i, other in enumerate(others) if other is attack)}")
    return f"{title} ({', '.join(differ)})" if differ else title


def _facts(attack: Attack) -> dict[str, str]:
    plan = attack.plan
    budget = plan.get("query_budget")
    settings: Any = plan.get("attack")
    asked = {k: v for k, v in settings.items() if k != "name"} if isinstance(settings, Mapping) else {}
    return {
        "n": f"{len(attack.ids) or attack.n} texts",
        "split": f"split {attack.split or '?'}",
        "budget": f"at most {budget} queries" if budget is not None else "no query budget",
        "seed": f"seed {attack.seed}",
        "subset": f"{plan.get('subset', 'balanced')} texts",
        "temperature": f"temperature {plan.get('temperature', 1.0)}",
        **{str(k): f"{k} {v}" for k, v in asked.items()},
    }
