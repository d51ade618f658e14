"""Which warning belongs to which number, and under which conditions the numbers were taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robust_tickets.attack.chosen import how, short_of
from robust_tickets.files import listed, mapping
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.report.run_data import Arm, Attack, Run, number
from robust_tickets.report.verdict import flag_sentence, warnings

ALL = ("clean_attacked", "aua", "suc")
CONCERNS: Mapping[str, tuple[str, ...]] = {  # code of a flag → the cells it is about
    "below-chance": ALL,
    "failed-examples": ALL,
    "few-examples": ALL,
    "one-class": ALL,
    "one-answer": ALL,
    "first-rows": ALL,
    "seen-in-training": ALL,
    "errors": ALL,
    "query-budget": ("aua", "suc", "queries"),
    "compat": ("aua", "suc", "queries"),
    "substitute": ("aua", "suc", "perturbed", "similarity"),
    "constraint-dropped": ("aua", "suc", "perturbed", "similarity"),
}
OTHERS = ("aua", "suc")  # of any other flag


def cited(run: Run, attack: str | None, arm: Arm, anchor: str) -> dict[str, Html]:
    """For each cell that a flag is about, links to the sentences that say so."""
    found = arm.attack(attack)
    if found is None or attack is None:
        return {}
    said = warnings(run)
    links: dict[str, list[Html]] = {}
    for flag, code in zip(found.flags, found.codes, strict=True):
        place = said.index(flag_sentence(run, attack, flag)) + 1
        for cell in CONCERNS.get(code, OTHERS):
            links.setdefault(cell, []).append(
                tag("a", place, href=f"#{anchor}-note-{place}", aria_label=f"note {place}")
            )
    return {cell: tag("sup", join(dict.fromkeys(marks), ",")) for cell, marks in links.items()}


def conditions(run: Run, attack: str) -> Html | None:
    """Rules, scoring, temperature, subset and budget of one attack; what differs between the arms is said of each."""
    told = {arm.title: _conditions(found) for arm in run.arms if (found := arm.attack(attack)) is not None}
    every = [part for part in next(iter(told.values()), []) if all(part in parts for parts in told.values())]
    own = {title: said for title, parts in told.items() if (said := [part for part in parts if part not in every])}
    if not every and not own:
        return None
    lines = [tag("p", f"How it was attacked: {'; '.join(every)}.", class_="quiet")] if every else []
    if own:
        lines.append(
            tag(
                "ul",
                *[tag("li", tag("b", title), f": {'; '.join(said)}.") for title, said in own.items()],
                class_="said quiet",
            )
        )
    return tag("div", *lines, class_="conditions")


def _conditions(found: Attack) -> list[str]:
    about = found.about
    parts = [_rules(about), _scoring(about), _temperature(about), _subset(found), _short(found), _budget(about)]
    if any(parts):
        substitutes = {
            kind: mapping(r).get("name")
            for kind, r in mapping(about.get("resources")).items()
            if mapping(r).get("substitute")
        }
        parts += [f"substitute {kind}: {name}" for kind, name in substitutes.items()]
    return [part for part in parts if part]


def _scoring(about: Mapping[str, Any]) -> str:
    return f"scored by {about['scoring']}" if about.get("scoring") else ""


def _budget(about: Mapping[str, Any]) -> str:
    if "query_budget" not in about:
        return ""
    return f"at most {about['query_budget']} queries a text" if about["query_budget"] else "no query budget"


def _rules(about: Mapping[str, Any]) -> str:
    if about.get("compat"):
        return f"by the rules of {about['compat']}"
    return f"by this package's own rules, written from {about['semantics']}" if about.get("semantics") else ""


def _temperature(about: Mapping[str, Any]) -> str:
    heat, fit = number(about.get("temperature")), mapping(about.get("calibration"))
    if heat is None:
        return ""
    if fit.get("fitted"):
        return f"temperature {heat:g}, calibrated on {fit.get('n')} rows of {fit.get('split')}"
    return f"temperature {heat:g}" + (" (the victim as it is)" if heat == 1 else "")


def _subset(found: Attack) -> str:
    """How the texts were chosen; a result that does not count them by class has its examples."""
    task = mapping(found.about.get("task"))
    names = [str(name) for name in listed(task.get("labels") or [])]
    counts = [int(count) for count in map(number, listed(task.get("by_class") or [])) if count is not None]
    if not counts:
        labels = [example.label for example in found.examples if isinstance(example.label, int)]
        counts = [labels.count(place) for place in range(len(names))]
    rows = number(task.get("rows"))
    said = how(str(found.about.get("subset")), found.seed, names, counts, None if rows is None else int(rows))
    return f"texts: {said}" if said else ""


def _short(found: Attack) -> str:
    asked = number(mapping(found.about.get("task")).get("asked"))
    return "" if asked is None else short_of(int(asked), len(found.ids))
