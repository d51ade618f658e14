"""The page: everything that a folder of results holds, in one HTML file that asks nothing of any network.

It is made from outcomes and published numbers alone, without dates or paths, so that the same results give the same bytes. Links to result
files are relative to the folder of results, where the page is kept beside ``units/``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from markupsafe import Markup

from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import around, colour, swatch
from robust_tickets.report.format import GLUE, NONE, exact, listed, plural
from robust_tickets.report.html import MACROS
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import (
    NOT_RUN,
    Against,
    Key,
    Measured,
    Standing,
    attacks_on,
    by_task,
    notes_of,
    number,
    seconds,
    standings,
    trained,
    where,
)
from robust_tickets.reproduce.answers import SHOWN, answer, reached, seeds
from robust_tickets.reproduce.arms import arm_title, task_title
from robust_tickets.reproduce.attacked_texts import texts
from robust_tickets.reproduce.claims import answered, family, fixed, judge
from robust_tickets.reproduce.cost import cost, device
from robust_tickets.reproduce.figures import Drawn, figure, lengths
from robust_tickets.reproduce.html import PARTS, page
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.papers import paper_part, sources
from robust_tickets.reproduce.pareto import pareto
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import needs, plan
from robust_tickets.reproduce.protocol import part_of
from robust_tickets.reproduce.tables import Filled, FilledCell, fill
from robust_tickets.stats.compare_runs import FEWEST_RUNS


def write_page(path: str | Path, folder: Path) -> Path:
    """Write the page of a folder of results; links to result files work while it is inside of that folder."""
    outcomes = read_all(folder)
    if not outcomes:
        raise TicketsError(
            f"{folder} holds no results",
            hint="`tickets reproduce ER-T1 --only task=sst2` makes some; --results names the folder",
            code="page.empty",
        )
    return write_text(Path(path), make(folder, outcomes))


def make(folder: Path, outcomes: Sequence[Outcome]) -> str:
    """The whole document; ``folder`` is where the outcomes were read."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.unit)
    found, of = standings(outcomes), published.tables()
    filled = {one.id: fill(one.id, outcomes, folder) for one in of if one.kind == "table"}
    drawn = {one.id: figure(one.id, outcomes, folder) for one in of if one.kind == "figure"}
    judged = {id: judge(id, outcomes, folder) for id in fixed()["families"]}
    ran = {id: [one for one in every if one.comparison] for id, every in judged.items()}
    answers = [answer(family(id), judged[id], outcomes) for id, made in ran.items() if made]
    goal = reached(outcomes, folder, judged[fixed()["goals"]["family"]])
    sections: list[tuple[str, str, list[Markup | None]]] = [
        ("answers", "Answers", [*answers, goal, seeds(found, outcomes)]),
        ("board", "Leaderboard", [*boards(found)]),
        ("trade", "Cost", [*trade_off(found, outcomes, folder)]),
        ("length", "Length", [by_length(found, outcomes, folder)]),
    ]
    for one in published.papers():
        sections.append((f"paper-{one.id}", one.name, [paper_part(one, filled, drawn, outcomes)]))
    sections += [
        ("texts", "Attacked texts", [texts(found, folder)]),
        ("missing", "Not run", [missing(list(filled.values()), drawn, outcomes)]),
        ("runs", "Every run", [RUNS, origins(found)]),
    ]
    shown = [(key, title, own) for key, title, parts in sections if (own := [part for part in parts if part])]
    first = next(iter(by_task([one for one in found if one.units]).items()), None)
    return page(
        "page.html.j2",
        "The papers run again",
        partial=partial(outcomes),
        answers=[(family(id).question, answered(ran[id])) for id in ("A", "B") if ran[id]],
        tiles=_tiles(found, outcomes, list(filled.values())),
        first=first and {"where": where(first[0]), "strips": strips(first[1]), "warning": chosen_warning(first[1])},
        sections=shown,
        count=len(outcomes),
    )


RUNS = Markup(
    "<p>Every number of ours is a mean over these runs; a number on this page leads here. Each run has a result file with its resolved "
    "config, the hashes of its inputs, and what became of every example; links work while this page is in the folder of results.</p>"
)


def partial(outcomes: Sequence[Outcome]) -> str | None:
    """A warning where some of these results are of a part of the data."""
    part = sum(part_of(outcome.notes) is not None for outcome in outcomes)
    text = f"{part} of {plural(len(outcomes), 'result')} {'is' if part == 1 else 'are'} of a part of the data"
    return f"{text}: not comparable with the papers' numbers." if part else None


def chosen_warning(found: Sequence[Standing]) -> str:
    """A warning where some of these recipes were chosen on the same texts."""
    chosen = fixed()["chosen"]
    if not any(one.task == chosen["task"] and one.arm.startswith("sturdy_") for one in found):
        return ""
    twice = any(one.named not in ("", arm_title(one.arm)) for one in found)
    return (
        f"Recipes that train on word swaps were chosen on {chosen['split']}, where they may look better than they are; "
        "what is claimed of them is under Answers, on texts that were held out."
        + " Runs that chose a ticket and its fresh runs are one recipe; they are not counted together, and no claim has the former." * twice
    )  # fmt: skip


def _tiles(
    found: Sequence[Standing], outcomes: Sequence[Outcome], filled: Sequence[Filled]
) -> list[tuple[str, str, str]]:
    """The counts at the top of the page."""
    reached, numbered = (sum(one.counts()[kind] for one in filled) for kind in ("filled", "numbers"))
    tried = sum(attack.tried for outcome in outcomes for attack in outcome.attacks)
    made, ways = sum(map(trained, outcomes)), len({one.arm for one in found if one.units})
    tasks = ", ".join(task_title(task) for task in dict.fromkeys(one.task for one in found))
    return [
        (numbers.count(made), f"training run{'s' * (made != 1)}", tasks),
        (numbers.count(ways), f"way{'s' * (ways != 1)} to train", "each with its runs"),
        (numbers.count(tried), "attacks on texts", plural(len(attacks_on(found)), "kind")),
        (numbers.count(reached), "published numbers", f"of {numbers.count(numbered)}, with ours beside them"),
    ]


# --- the first figures: every run a dot, since a mean hides how much the runs of one method differ

ROWS = 12  # of a figure


def strips(members: Sequence[Standing]) -> Markup:
    """A figure for each attack; those after the first few are folded."""
    drawn = [one for i, attack in enumerate(attacks_on(members)) if (one := strip(members, attack, first=i == 0))]
    rest = drawn[SHOWN:]
    more = Markup("<details><summary>{} more attack{}</summary>{}</details>").format(
        len(rest), "s" if len(rest) > 1 else "", charts.join(rest)
    )
    first = Markup('<div class="panels">{}</div>').format(charts.join(drawn[:SHOWN]))
    return charts.join([first, *([more] if rest else [])])


def strip(found: Sequence[Standing], attack: Against, *, first: bool = True) -> Markup | None:
    """All arms under one attack, the most robust above. The first explains the marks.

    Of many arms those with most runs are shown, of equal ones the more robust.
    """
    rows = [(one, measured) for one in found if (measured := one.measured("aua", attack)) is not None]
    if not rows:
        return None
    most = sorted(rows, key=lambda row: (-row[1].n, -row[1].mean, row[0].place))[:ROWS]
    shown = sorted(most, key=lambda row: -row[1].mean)
    caption = f"Accuracy under {attack.title}, %."
    if first:
        caption += (
            " A mark is one training run, a faint one a further run of a seed that was run before; the line is the mean, the haze "
            f"its 95{GLUE}% interval over runs, cut at 0 and 100. The axis does not start at zero."
        )
    if len(shown) < len(rows):
        caption += f" {len(shown)} of {len(rows)} arms, those with most runs and of as many runs the more robust; the table has all."
    dots = []
    for one, m in shown:
        span = numbers.span(m.reach) if m.reach else ""
        words = ", ".join(filter(None, [numbers.percent(m.mean), span, plural(m.n, "run")]))
        dots.append(
            charts.Dot(
                index=one.place, title=one.title, end=m.mean, summary=f"{one.title}: {words}", interval=m.reach, under=words,
                runs=m.values, again=m.again,
            )
        )  # fmt: skip
    values = [v for _, m in shown for v in (*m.values, *m.again, *(m.reach or ()))]
    low, high = around(values, max(1.0, 0.06 * (max(values) - min(values))))
    alt = f"Accuracy under {attack.title}. " + "; ".join(dot.summary for dot in dots)
    return charts.figure([charts.dots(dots, numbers.percent, alt=alt, low=low, high=high)], caption, "strip")


# --- the leaderboard


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of the leaderboard. ``best``: ``high`` or ``low``; ``drawn`` shows its runs as dots."""

    key: str
    title: str
    about: str
    take: Callable[[Standing], Measured | None]
    write: Callable[[float], str]
    best: str = "high"
    drawn: bool = False


def measures(found: Sequence[Standing]) -> tuple[Measure, ...]:
    """Those of which any row has something: the attack that most arms met, what an arm is and costs, other attacks."""
    attacks = [
        Measure(
            key=f"{attack.name}:{attack.split}" if attack.split else attack.name, title=attack.title,
            about=f"accuracy under {attack.title}, out of all attacked texts", take=_taken("aua", attack), write=numbers.percent, drawn=True,
        )
        for attack in attacks_on(found)
    ]  # fmt: skip
    own = [
        Measure(key="clean", title="clean", about="accuracy on the whole evaluated split, unattacked", take=_taken("clean"),
                write=numbers.percent, drawn=True),
        Measure(key="encoder", title="encoder", about="parameters without embeddings that are not zero, millions",
                take=_taken("encoder_millions"), write=lambda value: f"{value:.1f}{GLUE}M", best="low"),
        Measure(key="flops", title="FLOPs", about="floating-point operations of one forward pass over one text", take=Standing.flops,
                write=numbers.amount, best="low"),
        Measure(key="seconds", title="time", about="search and training, of runs that had the device to themselves",
                take=_taken("seconds"), write=numbers.seconds, best="low"),
    ]  # fmt: skip
    every = [*attacks[:1], *own, *attacks[1:]]
    return tuple(one for one in every if any(one.take(arm) is not None for arm in found))


def _taken(metric: str, attack: Against | None = None) -> Callable[[Standing], Measured | None]:
    return lambda one: one.measured(metric, attack)


def boards(found: Sequence[Standing]) -> list[Markup]:
    """Leaderboards of all tasks; the first task's figures are at the top of the page."""
    groups = by_task([one for one in found if one.units])
    parts: list[Markup] = []
    for i, (key, members) in enumerate(groups.items()):
        parts += [Markup("<h3>{}</h3>").format(where(key))] if len(groups) > 1 else []
        parts += [*([strips(members)] if i else []), board(key, members)]
    about = (
        [one for one in measures(found) if one.about.split(",")[0] != f"accuracy under {one.title}"] if groups else []
    )
    attack = SimpleNamespace(title="an attack", about="accuracy under it, out of all attacked texts")
    return [*parts, MACROS.legend([attack, *about])] if groups else []


def board(key: Key, found: Sequence[Standing]) -> Markup:
    """The table; sorted by its first column, the attack that most arms met, as the heading says."""
    columns = measures(found)
    values = {one.anchor: [(column, column.take(one)) for column in columns] for one in found}
    ends = {}
    for i, column in enumerate(columns):
        runs = [run for one in found if (value := values[one.anchor][i][1]) is not None for run in value.values]
        ends[column.key] = around(runs, max(1.0, 0.08 * (max(runs) - min(runs)))) if column.drawn else None
    first = {name: value.mean if own and (value := own[0][1]) else -1.0 for name, own in values.items()}
    rows = [
        {
            "swatch": swatch(one.place), "colour": colour(one.place), "title": one.title, "anchor": one.anchor,
            "small": plural(one.units, "run") + (f", {one.repeated} repeated" if one.repeated else ""),
            "cells": [_cell(one, column, value, ends[column.key]) for column, value in values[one.anchor]],
        }
        for one in sorted(found, key=lambda one: -first[one.anchor])
    ]  # fmt: skip
    caption = (
        f"{where(key)}: {plural(len(rows), 'way')} to train. Under a mean its 95{GLUE}% interval over runs, cut at 0 and 100, and the runs "
        "themselves. Grey: fewer than five runs, from which nothing is claimed; with so few an arm may lead by luck. A heading sorts; a "
        f"number leads to its runs. {chosen_warning(found)}"
    )
    return PARTS.board(f"Leaderboard, {where(key)}", caption, columns, rows)  # type: ignore[no-any-return]


def _cell(one: Standing, column: Measure, value: Measured | None, ends: tuple[float, float] | None) -> dict[str, Any]:
    if value is None:
        return {
            "key": column.key,
            "few": False,
            "value": None,
            "text": one.read("seconds").why if column.key == "seconds" else NONE,
        }
    below = [(numbers.brief(value.reach) or ("all runs equal" if value.equal else "")) if ends else ""]
    below += [plural(value.n, "run")] if value.n != one.units else []
    drawing = charts.spark(value.values, *ends, index=one.place, interval=value.reach) if ends else ""
    return {
        "key": column.key, "few": bool(ends) and value.few, "value": exact(value.mean), "text": column.write(value.mean),
        "below": ", ".join(filter(None, below)), "drawing": drawing,
    }  # fmt: skip


def by_length(found: Sequence[Standing], outcomes: Sequence[Outcome], folder: Path) -> Markup | None:
    """Accuracy against the length of training, where some arm was trained at several."""
    drawn = lengths(outcomes, folder, {one.arm: one.place for one in found})
    text = "Each point is a schedule of its own, whose learning rate falls to 0 at its end: another training, not a later look at one."
    return Markup("<p>{}</p>{}").format(text, PARTS.drawn(drawn, sources(drawn))) if drawn.svg else None


def trade_off(found: Sequence[Standing], outcomes: Sequence[Outcome], folder: Path) -> list[Markup]:
    """What robustness costs, on every task, under the attack that most arms met."""
    parts = []
    for (task, backbone), members in by_task(found).items():
        for attack in [one for one in attacks_on(members) if not one.split][:1]:
            looks = {one.arm: one.place for one in members}
            drawn = pareto(outcomes, folder, task=task, attack=attack.name, backbone=backbone, looks=looks)
            if drawn.svg:
                parts.append(PARTS.drawn(drawn, sources(drawn)))
                parts += (
                    [Markup('<p class="quiet">{}</p>').format(chosen_warning(members))]
                    if chosen_warning(members)
                    else []
                )
    return parts


# --- what was not run, and every run

AT_HAND = Paths(counted=True)
NAMED = 6  # methods in a row
MOSTLY = 0.6  # of a table's time


def missing(tables: Sequence[Filled], drawn: Mapping[str, Drawn], outcomes: Sequence[Outcome]) -> Markup | None:
    """The cells without runs by reason, the estimated cost of the rest, and missing panels."""
    groups: dict[tuple[str, str], dict[object, FilledCell]] = {}  # by printed number, which may have several attacks
    for cell in (cell for filled in tables for cell in filled.cells if cell.ours is None):
        lacking = needs(cell.backbone, cell.task, outcomes) if cell.why in ("", NOT_RUN) else ""
        why = (cell.why or NOT_RUN) + (f"; needs {lacking}" if lacking else "")
        groups.setdefault((why, cell.task), {})[cell.number] = cell
    rows = []
    for (why, task), cells in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        arms = list(dict.fromkeys(arm_title(cell.arm) if cell.arm else cell.row for cell in cells.values()))
        methods = ", ".join(arms[:NAMED]) + (f" and {len(arms) - NAMED} more" if len(arms) > NAMED else "")
        ids = list(dict.fromkeys(cell.table for cell in cells.values()))
        rows.append({"why": why, "task": task_title(task), "count": len(cells), "tables": ids, "methods": methods})
    left = []
    for one in published.tables():
        found = left_of(one.id, outcomes)
        total, most = math.fsum(found.values()), max(found, key=lambda task: found[task], default="")
        if total >= 60:
            mostly = task_title(most) if len(found) > 1 and found[most] > MOSTLY * total else ""
            left.append((one.id, mostly, numbers.hours(total), round(total)))
    undrawn = {id: one.why for id, one in drawn.items() if one.why}
    return PARTS.missing(rows, left, undrawn) if rows or left or undrawn else None


def left_of(id: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Seconds a task; counted for fixed sizes and a fixed device, so that the page does not depend on where it is made.

    Seeds cost alike: one is counted for all of which the same was done.
    """
    asked, on = plan([id], seeds=1, paths=AT_HAND), device("h200")
    known: dict[frozenset[object], dict[str, float]] = {}
    total: dict[str, float] = {}
    for seed in range(FEWEST_RUNS):
        here = [one for one in outcomes if (one.unit.seed, one.unit.repeat) == (seed, 0)]
        own = [replace(one, unit=replace(one.unit, seed=0)) for one in here]
        done = frozenset(
            (one.unit, tuple(attack.name for attack in one.attacks)) for one in own if one.unit in asked.attacks
        )
        if done not in known:
            known[done] = {}
            for unit, time in cost(asked, own, on).units.items():
                known[done][unit.task] = known[done].get(unit.task, 0.0) + time
        for task, time in known[done].items():
            total[task] = total.get(task, 0.0) + time
    return total


def origins(found: Sequence[Standing]) -> Markup:
    """Where each number comes from: a list an arm, closed; a link to one opens it."""
    arms = []
    for one in found:
        runs = one.units + one.repeated
        alone = len(one.outcomes) - runs  # searched for a figure, not trained
        made = [plural(runs, "run")] * bool(runs) + [f"{alone} search{'es' * (alone != 1)} alone"] * bool(alone)
        substituted = [words for o in one.outcomes for attack in o.attacks for words in attack.substitutes]
        arms.append({
            "anchor": one.anchor, "colour": colour(one.place), "title": one.title, "where": where(one.key), "made": listed(made),
            "notes": list(dict.fromkeys(note for outcome in one.outcomes for note in notes_of(outcome))),
            "substituted": list(dict.fromkeys(substituted)),
            "heads": ["clean", *(attack.title for attack in one.attacks), "search and training"],
            "runs": [_origin(one, outcome) for outcome in one.outcomes],
        })  # fmt: skip
    return PARTS.origins(arms)  # type: ignore[no-any-return]


def _origin(one: Standing, outcome: Outcome) -> dict[str, Any]:
    unit, processes, packages = outcome.unit, outcome.cost.get("processes"), outcome.env.get("packages")
    attacked = [attack.on(outcome) for attack in one.attacks]
    values = [
        number(outcome, outcome.clean.get("accuracy")),
        *(found.share("aua") if found else None for found in attacked),
    ]
    torch = packages.get("torch") if isinstance(packages, dict) else None
    return {
        "id": unit.id, "seed": f"{unit.seed}" + (f", run {unit.repeat + 1}" if unit.repeat else ""),
        "shown": [(NONE, None) if value is None else (numbers.percent(value), exact(value)) for value in values],
        "seconds": numbers.seconds(seconds(outcome)),
        "beside": f"{processes} at a time" if isinstance(processes, int) and processes > 1 else "",
        "device": ", ".join(str(part) for part in (outcome.env.get("device"), f"torch {torch}" if torch else None) if part),
        "config": outcome.config_hash,
    }  # fmt: skip
