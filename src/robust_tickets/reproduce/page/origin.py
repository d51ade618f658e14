"""Where each number comes from: every run with its values, its seed, its config's hash and the file that holds it.

Links are relative to the folder of results, where the page is kept beside ``units/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robust_tickets.report import format as numbers
from robust_tickets.report.charts import colour
from robust_tickets.report.markup import Html, scroll, tag
from robust_tickets.reproduce.aggregate import notes_of, number, seconds
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import Against, Standing, exact, where
from robust_tickets.reproduce.wording import count, listed

HASH = 12  # characters of a hash that are shown; the files hold all


def origins(found: Sequence[Standing]) -> Html:
    """One list an arm, closed; a link to one opens it."""
    return tag("div", *[_arm(one) for one in found], class_="origins")


def file_of(outcome: Outcome) -> str:
    """A unit's file, seen from the folder of results."""
    return f"units/{outcome.unit.id}.json"


def _arm(one: Standing) -> Html:
    name = tag("span", one.title, class_=f"arm {colour(one.place)}")
    runs = one.units + one.repeated
    alone = len(one.outcomes) - runs  # searched for a figure, not trained
    made = [count(runs, "run")] * bool(runs) + [f"{alone} search{'es' * (alone != 1)} alone"] * bool(alone)
    said = f" · {where(one.key)} · {listed(made)}"
    notes = tuple(dict.fromkeys(note for outcome in one.outcomes for note in notes_of(outcome)))
    told = tag("ul", *[tag("li", note) for note in notes], class_="said quiet") if notes else None
    substituted = tuple(
        dict.fromkeys(words for o in one.outcomes for attack in o.attacks for words in attack.substitutes)
    )
    swapped = tag("p", "Substituted: ", "; ".join(substituted), ".", class_="quiet") if substituted else None
    return tag("details", tag("summary", name, said), told, swapped, _table(one), id=one.anchor)


def _table(one: Standing) -> Html:
    heads = [
        "seed",
        "clean",
        *[attack.title for attack in one.attacks],
        "search and training",
        "device",
        "config",
        "file",
    ]
    numbered = len(heads) - 3
    head = [
        tag("th", words, scope="col", class_="number" if 0 < i < numbered else None) for i, words in enumerate(heads)
    ]
    rows = [_row(one, outcome) for outcome in one.outcomes]
    caption = tag("caption", tag("span", f"{one.title}: every run."))
    table = tag("table", caption, tag("thead", tag("tr", *head)), tag("tbody", *rows), class_="numbers")
    return scroll(f"Runs of {one.title}, {where(one.key)}", table)


def _row(one: Standing, outcome: Outcome) -> Html:
    unit = outcome.unit
    seed = f"{unit.seed}" + (f", run {unit.repeat + 1}" if unit.repeat else "")
    cells = [_value(number(outcome, outcome.clean.get("accuracy")))]
    cells += [_value(_aua(outcome, attack)) for attack in one.attacks]
    processes = outcome.cost.get("processes")
    beside = tag("small", f"{processes} at a time") if isinstance(processes, int) and processes > 1 else None
    cells.append(tag("td", numbers.seconds(seconds(outcome)), beside))
    cells.append(tag("td", _device(outcome.env), class_="quiet"))
    cells.append(tag("td", tag("code", outcome.config_hash[:HASH], title=outcome.config_hash)))
    cells.append(tag("td", tag("a", "result file", href=file_of(outcome), aria_label=f"result file of {unit.id}")))
    return tag("tr", tag("th", seed, scope="row"), *cells, id=unit.id)


def _aua(outcome: Outcome, attack: Against) -> float | None:
    split = attack.split or outcome.clean.get("split")
    return next((one.share("aua") for one in outcome.attacks if one.name == attack.name and one.split == split), None)


def _value(value: float | None) -> Html:
    if value is None:
        return tag("td", tag("span", numbers.NONE, class_="none"))
    return tag("td", tag("data", numbers.percent(value), value=exact(value)))


def _device(env: dict[str, Any]) -> str:
    packages = env.get("packages")
    torch = packages.get("torch") if isinstance(packages, dict) else None
    return ", ".join(str(part) for part in (env.get("device"), f"torch {torch}" if torch else None) if part)
