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

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.report import charts
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import around, colour, swatch
from robust_tickets.report.format import GLUE, NONE, exact, listed, merged, numberless, plural
from robust_tickets.report.html import ENVIRONMENT, MACROS, SCRIPT, STYLE, document
from robust_tickets.report.tables import Cell, Row, plain_table
from robust_tickets.report.text_diff import folded, opening
from robust_tickets.reproduce import published
from robust_tickets.reproduce.aggregate import (
    NOT_RUN,
    Against,
    Key,
    Measured,
    Repeated,
    Standing,
    anchor_of,
    attacks_on,
    by_task,
    notes_of,
    number,
    repeated,
    seconds,
    standings,
    trained,
    where,
)
from robust_tickets.reproduce.arms import arm_title, attack_title, metric_title, printed_as, task_title, variant
from robust_tickets.reproduce.claims import (
    Family,
    Judged,
    answered,
    family,
    fixed,
    goals,
    judge,
    printed,
    reached_of,
    small,
    spreads,
    table_names,
    word,
)
from robust_tickets.reproduce.cost import cost, device
from robust_tickets.reproduce.figures import Drawn, figure, lengths, pareto, place
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.outcome import Outcome, ids_of, read_all
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import needs, plan
from robust_tickets.reproduce.protocol import part_of
from robust_tickets.reproduce.tables import FIRST, Filled, FilledCell, fill, further
from robust_tickets.stats.compare_runs import FEWEST_RUNS, FEWEST_SHOWN, RunComparison

_LOADER = ChoiceLoader([PackageLoader("robust_tickets.reproduce"), PackageLoader("robust_tickets.report")])
PAGES = ENVIRONMENT.overlay(loader=_LOADER)
PARTS: Any = PAGES.get_template("parts.html.j2").module
SHOWN = 2  # attacks of a task in the first figures and tables; the others are folded


def write_page(path: str | Path, folder: Path) -> Path:
    """Write the page of a folder of results; links to result files hold where it is kept inside of that folder."""
    outcomes = read_all(folder)
    if not outcomes:
        raise TicketsError(
            f"{folder} holds no results",
            hint="`tickets reproduce ER-T1 --only task=sst2` makes some; --results names the folder",
            code="page.empty",
        )
    return write_text(Path(path), make(folder, outcomes))


def page(template: str, title: str, **context: Any) -> str:
    """A page of these results with their style and script."""
    own = "robust_tickets.reproduce"
    files = {"styles": (STYLE, (own, "page.css")), "scripts": (SCRIPT, (own, "page.js"))}
    return document(template, title, environment=PAGES, **files, **context)  # type: ignore[arg-type]


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
        rehearsed=rehearsed(outcomes),
        answers=[(family(id).question, answered(ran[id])) for id in ("A", "B") if ran[id]],
        tiles=_tiles(found, outcomes, list(filled.values())),
        first=first and {"where": where(first[0]), "strips": strips(first[1]), "warning": flattered(first[1])},
        sections=shown,
        count=len(outcomes),
    )


RUNS = Markup(
    "<p>Every number of ours is a mean over these runs; a number on this page leads here. Each run has a result file with its resolved "
    "config, the hashes of its inputs, and what became of every example; links hold where this page lies in the folder of results.</p>"
)


def rehearsed(outcomes: Sequence[Outcome]) -> str | None:
    """The warning that some of these results are of a part of the data, if some are."""
    part = sum(part_of(outcome.notes) is not None for outcome in outcomes)
    said = (
        f"{part} of {plural(len(outcomes), 'result')} {'is' if part == 1 else 'are'} of a part of the data, a rehearsal"
    )
    return f"{said}: not to be held against the papers' numbers." if part else None


def flattered(found: Sequence[Standing]) -> str:
    """A warning where recipes stand among these that were chosen on the same texts."""
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
    """How much of it there is."""
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


# --- the first figures: every run a dot, since a mean hides how far the runs of one method lie apart

ROWS = 12  # of a figure; more would be no figure to look at


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

    Where there are too many, those with most runs are shown, of as many runs the more robust: none is left out for a weaker one.
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
                index=one.place, title=one.title, end=m.mean, said=f"{one.title}: {words}", interval=m.reach, under=words,
                runs=m.values, again=m.again,
            )
        )  # fmt: skip
    values = [v for _, m in shown for v in (*m.values, *m.again, *(m.reach or ()))]
    low, high = around(values, max(1.0, 0.06 * (max(values) - min(values))))
    alt = f"Accuracy under {attack.title}. " + "; ".join(dot.said for dot in dots)
    return charts.figure([charts.dots(dots, numbers.percent, alt=alt, low=low, high=high)], caption, "strip")


# --- the leaderboard


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of the leaderboard. ``best`` is the end that is wanted: ``high`` or ``low``; ``drawn`` shows its runs as dots."""

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
    """The first task's figures stand above, at the top of the page."""
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
        f"number leads to its runs. {flattered(found)}"
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


# --- the questions that were fixed before the runs, and what the runs answer

CHIPS = {
    "more robust": "sure",
    "less robust": "worse",
    "equivalent": "same",
    "undecided": "open",
    "too few runs": "few",
}
ROOM = 1.05  # of a drawing, over what it must hold


def answer(of: Family, judged: Sequence[Judged], outcomes: Sequence[Outcome] = ()) -> Markup:
    """A question and its claims, on one axis. ``outcomes``: held against differences that papers print."""
    made = [(one, one.comparison) for one in judged if one.comparison]
    held = [end for _, c in made if c.enough for end in (c.interval or ())]
    reach = ROOM * max([2 * of.margin, *map(abs, held), *(abs(c.difference) for _, c in made)])
    several = len({one.claim.task for one in judged}) > 1  # a table may be run on several tasks
    how = (
        f"{of.title}. Accuracy under attack, first minus second, in points, mean over training runs; below it Welch's 95{GLUE}% "
        "interval over runs, which speaks of these texts, and a bootstrap's over runs and texts, which speaks of others like them, "
        f"both where each side has {FEWEST_SHOWN} runs or more. The grey band is the margin of ±{of.margin:g}. {_adjusted(of, judged)} "
        "A name leads to its runs."
    )
    if any(c.shown and max(-c.shown[0], c.shown[1]) > reach for _, c in made):
        how += " Where an interval ends in an arrow, it goes on."
    of_task = {one.claim: f"{task_title(one.claim.task)}, " if several else "" for one in judged}
    missing = [
        f"{of_task[one.claim]}{arm_title(one.claim.arm)} − {arm_title(one.claim.other)}, {attack_title(one.claim.attack)}: {one.why}"
        for one in judged
        if not one.comparison
    ]
    rows = [
        _row(one, c, of, reach, outcomes) | {"where": of_task[one.claim] + attack_title(one.claim.attack)}
        for one, c in made
    ]
    known = [one for one, _ in made]
    return PARTS.answer(  # type: ignore[no-any-return]
        {
            "question": of.question, "said": answered(known), "rows": rows, "how": how, "missing": missing, "notes": _notes(known),
            "substituted": list(dict.fromkeys(words for one in known for words in one.substituted)),
        }
    )  # fmt: skip


def _row(one: Judged, c: RunComparison, of: Family, reach: float, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    claim = one.claim
    sides = [
        (anchor_of(Unit(backbone=claim.backbone, task=claim.task, arm=arm)), arm_title(arm)) for arm in (c.arm, c.other)
    ]
    spans = [numbers.signed_span(c.shown)] if c.shown else []
    spans += [f"other texts: {numbers.signed_span(c.shown_over_examples)}"] if c.shown_over_examples else []
    if outcomes and (known := printed(claim, outcomes)) is not None:
        inside = {True: ", inside what ours might give", False: ", outside what ours might give", None: ""}[
            known.inside
        ]
        spans.append(f"printed in {known.table}: {numbers.points(known.difference)}{inside}")
    # the p value that the verdict rests on: for an equivalence, that of lying further apart than the margin
    p = f"{c.n[0]} and {c.n[1]} runs"
    if c.verdict == "equivalent":
        p += f", p of ±{c.margin:g} or more {numbers.p_value(c.adjusted_equivalence_p)}"
    elif c.adjusted_p is not None:
        p += f", p of no difference {numbers.p_value(c.adjusted_p)}{small(c)}"
    index = 0 if c.verdict != "different" else 2 if c.difference > 0 else 1
    return {
        "arm": sides[0], "other": sides[1], "value": exact(c.difference), "words": numbers.points(c.difference), "spans": spans, "p": p,
        "verdict": word(c), "chip": CHIPS[word(c)], "drawing": charts.difference(c.difference, c.shown, of.margin, reach, index),
    }  # fmt: skip


def _adjusted(of: Family, judged: Sequence[Judged]) -> str:
    """How many claims Holm counts, on each task by itself. The same pair may stand in another family too."""
    ready: dict[str, list[int]] = {}
    for one in judged:
        if one.comparison and one.comparison.enough:
            ready.setdefault(one.claim.task, []).append(one.comparison.of)
    paper, counted = of.id in table_names(), []  # a campaign's claims are all to be run; of a table, many never will be
    for task, count in ready.items():
        rest = count[0] - len(count)
        left = f" ({rest} of them {'without five runs a side so far' if paper else 'still to be run'})" if rest else ""
        counted.append(
            f"the {plural(count[0], 'claim')} {f'of this table on {task_title(task)}' if paper else 'here'}{left}"
        )
    if not counted:
        return "No claim has the five runs that it takes."
    return f"Verdicts are by Welch's test, adjusted by Holm for {listed(counted)}; elsewhere on this page the same pair may be one of more."


def _notes(made: Sequence[Judged]) -> tuple[str, ...]:
    """What all arms say alike, once; what one says, under its name."""
    every = {name for one in made for name in (one.claim.arm, one.claim.other)}
    said = [(arm, words) for one in made for arm, _, words in (note.partition(": ") for note in one.notes)]
    arms: dict[str, set[str]] = {}
    for arm, words in said:
        arms.setdefault(numberless(words), set()).add(arm)
    return merged(words if arms[numberless(words)] == every else f"{arm_title(arm)}: {words}" for arm, words in said)


def reached(outcomes: Sequence[Outcome], folder: Path, judged: Sequence[Judged]) -> Markup | None:
    """The goals of the chosen recipe; ``judged``: their family. Nothing where none of it was run."""
    if not any(one.comparison for one in judged):
        return None
    met, given = goals(outcomes, folder, judged), fixed()["goals"]
    said = f"{arm_title(given['arm'])} against {arm_title(given['against'])}: {reached_of(met)}."
    return PARTS.goals(said, met)  # type: ignore[no-any-return]


SPREAD = (
    "Accuracy under attack, points: range, best minus worst, and standard deviation, over seeds and over runs of one seed. Ranges grow with "
    "the number of runs; deviations can be compared, but from so few runs they are known within wide intervals."
)
SPREADS = (
    "method, attack", "seeds", "range over seeds", "deviation over seeds", "runs of a seed", "range over them", "deviation over them",
    "its 95 % interval",
)  # fmt: skip
MODELS = "By the hashes of their weights: how many models runs of one seed gave. Runs of one model differ by their attack alone."


def seeds(found: Sequence[Standing], outcomes: Sequence[Outcome]) -> Markup | None:
    """Whether a seed fixes a result: of every arm with a repeated seed, runs of one seed beside runs of other seeds."""
    first, rest, models, again = list[Row](), list[Row](), list[tuple[str, ...]](), list[Repeated]()
    widest = 0.0
    for k, (key, members) in enumerate(by_task(found).items()):
        task, backbone = key
        own = [one for one in outcomes if (one.unit.task, one.unit.backbone, one.unit.flavour) == (*key, "corrected")]
        for seed in repeated(outcomes, task=task, backbone=backbone):
            again.append(seed)
            counts = map(
                str, (seed.seed, seed.runs, seed.models, NONE if seed.tickets is None else seed.tickets, seed.codes)
            )
            models.append((f"{arm_title(seed.arm)}, {where(key)}", *counts))
        for i, attack in enumerate(attacks_on(members)):
            for one in spreads(own, task=task, attack=attack.name, split=attack.split or None, backbone=backbone):
                if one.within_range is None or one.between_range is None:
                    continue
                widest = max(widest, one.within_range)
                values = (one.seeds, one.between_range, one.between, one.repeated, one.within_range, one.within)
                cells = [
                    Cell(text=NONE) if v is None else Cell(text=f"{v:.{isinstance(v, float):d}f}", value=exact(v))
                    for v in values
                ]
                cells.append(Cell(text=numbers.span(one.within_interval)))
                row = Row(name=arm_title(one.name), small=f"{where(key)}, {attack.title}", cells=tuple(cells))
                (first if k == 0 and i < SHOWN else rest).append(row)
    if not first and not rest:
        return None
    apart = sum(one.models > 1 for one in again)
    fixes = "The weights were not kept by their hash."
    if again:
        fixes = (
            f"In these runs it does: {'each seed' if len(again) > 1 else 'the seed'} that was run again gave one model."
        )
    if apart:
        fixes = f"Not always: of {plural(len(again), 'seed')} run again, {apart} gave more than one model."
    heads = ("method", "seed", "runs", "models", "tickets", "versions of the code")
    said = f"{fixes} Runs of one seed lie up to {widest:.1f} points apart."
    tables = [replace(plain_table(SPREAD, SPREADS, ()), rows=tuple(rows)) if rows else None for rows in (first, rest)]
    return PARTS.seeds(said, plain_table(MODELS, heads, models) if models else None, *tables)  # type: ignore[no-any-return]


# --- figures


def sources(found: Drawn) -> dict[str, Any]:
    """Links to the lists of runs, an arm a link."""
    units = {anchor_of(unit): unit for unit in map(Unit.of_id, found.sources)}
    links = [(anchor, f"{arm_title(unit.arm)}, {place(unit.backbone, unit.task)}") for anchor, unit in units.items()]
    return {"said": f"Drawn from {plural(len(found.sources), 'run')} of {plural(len(links), 'arm')}", "links": links}


def by_length(found: Sequence[Standing], outcomes: Sequence[Outcome], folder: Path) -> Markup | None:
    """Accuracy against the length of training, where some arm was trained at several."""
    drawn = lengths(outcomes, folder, {one.arm: one.place for one in found})
    said = "Each point is a schedule of its own, whose learning rate falls to 0 at its end: another training, not a later look at one."
    return Markup("<p>{}</p>{}").format(said, PARTS.drawn(drawn, sources(drawn))) if drawn.svg else None


def trade_off(found: Sequence[Standing], outcomes: Sequence[Outcome], folder: Path) -> list[Markup]:
    """What robustness costs, on every task, under the attack that most arms met."""
    parts = []
    for (task, backbone), members in by_task(found).items():
        for attack in [one for one in attacks_on(members) if not one.split][:1]:
            looks = {one.arm: one.place for one in members}
            drawn = pareto(outcomes, folder, task=task, attack=attack.name, backbone=backbone, looks=looks)
            if drawn.svg:
                parts.append(PARTS.drawn(drawn, sources(drawn)))
                parts += [Markup('<p class="quiet">{}</p>').format(flattered(members))] if flattered(members) else []
    return parts


# --- the papers: their tables with ours beside them, their figures redrawn


def paper_part(
    paper: published.Paper, filled: Mapping[str, Filled], drawn: Mapping[str, Drawn], outcomes: Sequence[Outcome]
) -> Markup:
    """Tables with runs of ours first; those without are folded together, so that a reader meets results before gaps."""
    shown, idle, ran = list[Markup](), dict[str, Markup](), False
    for one in (one for one in published.tables() if one.paper == paper.id):
        if one.kind == "table":
            made, some = table(filled[one.id], outcomes), bool(filled[one.id].ran)
            ran = ran or some
        else:
            made, some = PARTS.figure(one, drawn[one.id], sources(drawn[one.id])), bool(drawn[one.id].svg)
        if some:
            shown.append(made)
        else:
            idle[one.id] = made
    return PARTS.paper(paper, shown, idle, ran)  # type: ignore[no-any-return]


def table(filled: Filled, outcomes: Sequence[Outcome]) -> Markup:
    """The whole of it: what was run in sight, the rest folded; how much was run, and of what five runs can tell how much agrees."""
    of, counts = filled.table, filled.counts()
    there = {one.unit.id: anchor_of(one.unit) for one in outcomes}
    ran = [task for task in of.tasks if any(cell.task == task for cell in filled.ran)]
    rest = [task for task in of.tasks if task not in ran]
    said = f"{of.source}. {counts['filled']} of {counts['numbers']} printed numbers have runs of ours beside them"
    if judged := counts["inside"] + counts["outside"]:
        said += (
            f"; of {judged} with five runs or more, {FIRST}, {counts['inside']} {'lies' if counts['inside'] == 1 else 'lie'} inside what "
            f"{filled.expected} might give{filled.wide}"
        )
    summary = (
        "As published, not run: " + ", ".join(map(task_title, rest)) if ran else "As published; none of it was run"
    )
    words = [word(one.comparison) for one in filled.claims if one.comparison]
    counted = ", ".join(f"{words.count(verdict)} {verdict}" for verdict in CHIPS if verdict in words)
    claims = (
        (f"{family(of.id).question}, by our runs: {counted}", answer(family(of.id), filled.claims)) if words else None
    )
    substituted = list(dict.fromkeys(words for cell in filled.ran for words in cell.substituted))
    return PARTS.table(  # type: ignore[no-any-return]
        of, said, _grid(filled, ran, there) if ran else None, _grid(filled, rest, there) | {"summary": summary} if rest else None,
        claims, substituted, merged(words for cell in filled.ran for words in cell.notes), (*of.notes, *published.summary(of.id)),
    )  # fmt: skip


def _grid(filled: Filled, tasks: Sequence[str], there: Mapping[str, str]) -> dict[str, Any]:
    """Speed and size come after accuracies, wherever the paper has them: a phone shows the first columns alone."""
    of = filled.table
    columns = sorted(of.columns, key=lambda one: one.metric.startswith("speedup") or one.metric.endswith("_millions"))
    cells: dict[tuple[str, str, str], dict[tuple[str, str | None], list[FilledCell]]] = {}
    ends: dict[
        tuple[str, str, str | None], list[float]
    ] = {}  # of each column, for each task: over all that stands in it
    for cell in filled.cells:
        key = (cell.metric, cell.attack)
        cells.setdefault((cell.task, cell.row, cell.backbone), {}).setdefault(key, []).append(cell)
        values = (cell.published, *(cell.ours.values if cell.ours else ()))
        ends.setdefault((cell.task, *key), []).extend(value for value in values if value is not None)
    lines = dict.fromkeys(
        [*((row.task, row.name, row.backbone) for row in of.rows), *cells]
    )  # then runs beside a row's
    rows: dict[str, list[dict[str, Any]]] = {task: [] for task in tasks}
    for line in (line for line in lines if line[0] in rows):
        own = cells.get(line, {})
        shown = [
            _paired(own.get((c.metric, c.attack), []), ends.get((line[0], c.metric, c.attack), []), there)
            for c in columns
        ]
        ran = any(cell.ours for found in own.values() for cell in found)
        rows[line[0]].append({"name": line[1], "ran": ran, "cells": shown})
    return {
        "label": f"{of.id}, {', '.join(map(task_title, tasks))}",
        "heads": [metric_title(column.metric, column.attack) for column in columns],
        "tasks": [(task_title(task), rows[task]) for task in tasks],
    }


def _paired(found: Sequence[FilledCell], values: Sequence[float], there: Mapping[str, str]) -> dict[str, Any]:
    """A printed number with ours under each attack that stands for its own; attacks with further constraints are folded."""
    value = next((cell.published for cell in found if cell.published is not None), None)
    ran = [cell for cell in found if cell.ours is not None]
    apart = [cell for cell in ran if cell.by and cell.by.count("-") > 1]
    apart = apart if len(apart) < len(ran) else []
    return {
        "printed": None if value is None else printed_as(found[0].metric, value), "value": value,
        "ours": [_ours(cell, values, there) for cell in ran if cell not in apart],
        "folded": [_ours(cell, values, there) for cell in apart],
    }  # fmt: skip


SAID = {
    "in": "apart: printed lies inside what {} might give", "out": "apart: printed lies outside what {} might give",
    "few": "apart: too few runs to tell", "plain": "apart",
}  # fmt: skip


def _ours(cell: FilledCell, values: Sequence[float], there: Mapping[str, str]) -> dict[str, Any]:
    """Our mean with its runs as dots, the prediction interval as a haze, the printed number as an upright stroke."""
    assert cell.ours is not None
    ours, low, high = cell.ours, min(values), max(values)
    verdict = {True: "in", False: "out", None: "plain" if ours.enough else "few"}[cell.inside]
    below = [variant(cell.by, cell.attack)] if cell.by and cell.by != cell.attack else []
    pad = 0.06 * (high - low) or 1.0
    interval = ours.prediction if ours.n >= FEWEST_SHOWN else None
    return {
        "anchor": there.get(ours.units[0]), "text": f"{ours.mean:.1f}", "value": exact(ours.mean), "verdict": verdict,
        "gap": "" if cell.difference is None else numbers.points(cell.difference), "said": SAID[verdict].format(further(ours.further)),
        "drawing": charts.spark(ours.values, low - pad, high + pad, interval=interval, mark=cell.published),
        "below": ", ".join([*below, plural(ours.n, "run")]),
    }  # fmt: skip


# --- attacked texts: an outcome keeps some successes' texts and every example's fate, so that a card says of each arm whether it held

ARMS = 8  # on a card: those with most runs
MOST = 90  # cards on the page
SIZE = 900_000  # characters of markup, likewise
OPEN = 4  # in sight without the script
FATES = {
    "f": ("failed", "held"), "s": ("success", "fooled"), "k": ("skipped", "wrong before"), "u": ("error", "error"), "e": ("error", "error"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of one example on one arm's model."""

    one: Standing
    outcome: Outcome  # of that model
    letter: str
    queries: int
    text: Mapping[str, Any] | None


def texts(found: Sequence[Standing], folder: Path) -> Markup | None:
    """Cards: of every task and attack, those first on which the arms fared differently and most texts were kept."""
    pairs = [(members, attack) for members in by_task(found).values() for attack in attacks_on(members)]
    groups = [(attack, cases) for members, attack in pairs if (cases := _cases(members, attack, folder))]
    if not groups:
        return None
    cards, arms, attacks = list[Markup](), dict[str, str](), dict[str, str]()
    for attack, cases in groups:
        left, begun = SIZE // len(groups), len(cards)
        for id, fates in sorted(cases.items(), key=_worth)[: max(1, MOST // len(groups))]:
            card = MACROS.card(_card(id, attack, fates))
            left -= len(card)
            if left < 0 and len(cards) > begun:
                break
            cards.append(card)
            arms |= {str(fate.one.place): fate.one.title for fate in fates}
            attacks[_which(fates[0].one.task, attack)] = f"{task_title(fates[0].one.task)}: {attack.title}"
    said = (
        "One model of each arm, its lowest seed; of many arms those with most runs. Struck out: what stood there. Marked: what the attack "
        f"wrote. {len(cards)} texts are here; the result files keep the first successes of every run."
    )
    fields = [("Attack ", "attack", "any", attacks)] if len(attacks) > 1 else []
    fields.append(("Outcome ", "outcome", "any", dict(FATES.values())))
    fields += [("for ", "arm", "any arm", arms)] if len(arms) > 1 else []
    return Markup("<p>{}</p>{}").format(said, MACROS.cases(fields, True, cards[:OPEN], cards[OPEN:]))


def _cases(members: Sequence[Standing], attack: Against, folder: Path) -> dict[str, list[Fate]]:
    """By example that some text was kept of, what became of it on each arm."""
    fates: dict[str, list[Fate]] = {}
    shown = sorted((one for one in members if attack in one.attacks), key=lambda one: (-one.units, one.place))[:ARMS]
    for one in sorted(shown, key=lambda one: one.place):
        outcome = min(one.outcomes, key=lambda outcome: (outcome.unit.repeat, outcome.unit.seed))
        attacked = attack.on(outcome)
        if attacked is None:
            continue
        try:
            ids = ids_of(folder, attacked.examples)
        except TicketsError:  # without the ids there is no telling which text is whose
            continue
        kept = {str(text.get("id")): text for text in attacked.texts if text.get("original") and text.get("perturbed")}
        for id, letter, queries in zip(ids, attacked.statuses, attacked.queries, strict=False):
            fate = Fate(one=one, outcome=outcome, letter=letter, queries=queries, text=kept.get(id))
            fates.setdefault(id, []).append(fate)
    return {id: rows for id, rows in fates.items() if any(fate.text is not None for fate in rows)}


def _worth(case: tuple[str, Sequence[Fate]]) -> tuple[bool, int]:
    """Small for what is worth looking at."""
    return not _differ(case[1]), -sum(fate.text is not None for fate in case[1])


def _differ(fates: Sequence[Fate]) -> bool:
    return len({fate.letter for fate in fates}) > 1


def _which(task: str, attack: Against) -> str:
    return f"{task}:{attack.name}:{attack.split}"


def _card(id: str, attack: Against, fates: Sequence[Fate]) -> SimpleNamespace:
    task, first = fates[0].one.task, next(fate.text for fate in fates if fate.text is not None)
    names, value = TASKS[task].labels if task in TASKS else (), first.get("label")
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return SimpleNamespace(
        id=id,
        attack=_which(task, attack),
        title=f"{task_title(task)} · {attack.title}",
        label=names[value] if known else str(value),  # type: ignore[index]
        differs=_differ(fates),
        original=[opening(column) for column in _columns(first["original"])],
        outcomes=[_fate(fate) for fate in fates],
    )


def _fate(fate: Fate) -> dict[str, Any]:
    status, said = FATES[fate.letter]
    notes, perturbed = [f"{fate.queries} queries"] if fate.letter in "fs" else [], []
    if fate.text is not None:
        before, after = (number(fate.outcome, fate.text.get(key)) for key in ("before", "after"))
        if before is not None and after is not None:
            notes.append(f"true label from {100 * before:.0f} to {100 * after:.0f}{GLUE}%")
        old, new = _columns(fate.text["original"]), _columns(fate.text["perturbed"])
        perturbed = [folded(a, b) for a, b in zip([*old, *[""] * (len(new) - len(old))], new, strict=False)]
    return {
        "arm": fate.one.place, "title": fate.one.title, "colour": colour(fate.one.place), "status": status, "word": said,
        "notes": ", ".join(notes), "perturbed": perturbed,
    }  # fmt: skip


def _columns(value: Any) -> list[str]:
    """A text's columns: a pair has two."""
    return [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]


# --- what was not run, and every run

AT_HAND = Paths(counted=True)
NAMED = 6  # methods in a row
MOSTLY = 0.6  # of a table's time


def missing(tables: Sequence[Filled], drawn: Mapping[str, Drawn], outcomes: Sequence[Outcome]) -> Markup | None:
    """What was not run, every reason once with the tables and tasks it holds for; what is left, with its cost; panels that are missing."""
    groups: dict[
        tuple[str, str], dict[object, FilledCell]
    ] = {}  # an attack of ours may stand several times for one printed number
    for cell in (cell for filled in tables for cell in filled.cells if cell.ours is None):
        # where it was run, or cannot be, what a run would need is not the reason
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
