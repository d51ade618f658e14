"""The page: everything that a folder of results holds, in one HTML file that asks nothing of any network.

It is made from outcomes and published numbers alone, without dates or paths, so that the same results give the same bytes. Links to result
files are relative to the folder of results, where the page is kept beside ``units/``. Here are the values, in ``templates`` the markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.report import charts, html
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import around, swatch
from robust_tickets.report.format import NONE, exact, listed, merged, plural
from robust_tickets.report.tables import Cell, Row, plain_table
from robust_tickets.reproduce import claims, published
from robust_tickets.reproduce.aggregate import (
    MEASURES,
    NOT_RUN,
    Against,
    Key,
    Reading,
    Standing,
    anchor_of,
    attacks_on,
    by_task,
    notes_of,
    number,
    place,
    seconds,
    standings,
    trained,
)
from robust_tickets.reproduce.arms import arm_title, attack_title, metric_title, printed_as, task_title, variant
from robust_tickets.reproduce.attacked_texts import texts
from robust_tickets.reproduce.cost import cost, device
from robust_tickets.reproduce.figures import Drawn, figure, lengths, pareto
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.plan import needs, plan
from robust_tickets.reproduce.protocol import part_of
from robust_tickets.reproduce.tables import Filled, FilledCell, fill, grouped
from robust_tickets.stats.compare_runs import FEWEST_RUNS, FEWEST_SHOWN


def document(template: str, title: str, **context: Any) -> str:
    """A page of these results with their style and script."""
    own = "robust_tickets.reproduce"
    files: dict[str, Any] = {"styles": (html.STYLE, (own, "page.css")), "scripts": (html.SCRIPT, (own, "page.js"))}
    return html.document(template, title, environment=PAGES, **files, **context)


def write_page(path: str | Path, folder: Path) -> Path:
    """Write the page of a folder of results; links to result files work while it is inside of that folder."""
    outcomes = read_all(folder)
    if not outcomes:
        hint = "`tickets reproduce ER-T1 --only task=sst2` makes some; --results names the folder"
        raise TicketsError(f"{folder} holds no results", hint=hint, code="page.empty")
    return write_text(Path(path), make(folder, outcomes))


def make(folder: Path, outcomes: Sequence[Outcome]) -> str:
    """The whole document; ``folder`` is where the outcomes were read."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.unit)
    found, of = standings(outcomes), published.tables()
    filled = {one.id: fill(one.id, outcomes, folder) for one in of if one.kind == "table"}
    drawn = {one.id: figure(one.id, outcomes) for one in of if one.kind == "figure"}
    judged = {id: claims.judge(id, outcomes, folder) for id in claims.fixed()["families"]}
    questions = {
        id: answer(id, every, outcomes) for id, every in judged.items() if any(one.comparison for one in every)
    }
    goal = claims.fixed()["goals"]["family"]
    groups = by_task(one for one in found if one.units)
    answers = {
        "questions": questions.values(),
        "goals": claims.goals(outcomes, folder, judged[goal]) if goal in questions else (),
        "seeds": seeds(found),
    }
    made = {id: table(one) for id, one in filled.items()} | drawn
    papers = [
        (
            f"paper-{paper.id}",
            paper.name,
            "paper",
            (paper, [(one, made[one.id]) for one in of if one.paper == paper.id]),
        )
        for paper in published.papers()
    ]
    sections: list[tuple[str, str, str, Any]] = [  # key, title, macro, its values
        ("answers", "Answers", "answers", answers if any(answers.values()) else None),
        ("board", "Leaderboard", "boards", groups),
        ("trade", "Cost", "trade", trade_off(found, outcomes)),
        ("length", "Length", "lengths", lengths(outcomes, {one.arm: one.place for one in found})),
        *papers,
        ("texts", "Attacked texts", "plain", texts(found, folder)),
        ("missing", "Not run", "missing", missing(list(filled.values()), drawn, outcomes)),
        ("runs", "Every run", "origins", origins(found)),
    ]
    sections = [one for one in sections if one[3] and not (isinstance(one[3], Drawn) and not one[3].ran)]
    counts = [one.counts() for one in filled.values()]
    tried = sum(attack.tried for outcome in outcomes for attack in outcome.attacks)
    reached, of_all = (numbers.count(sum(one[kind] for one in counts)) for kind in ("filled", "numbers"))
    tiles = [
        (
            numbers.count(sum(map(trained, outcomes))),
            "training runs",
            ", ".join(dict.fromkeys(task_title(one.task) for one in found)),
        ),
        (numbers.count(len({one.arm for one in found if one.units})), "ways to train", "each with its runs"),
        (numbers.count(tried), "attacks on texts", plural(len(attacks_on(found)), "kind")),
        (reached, "published numbers", f"of {of_all}, with ours beside them"),
    ]
    part = sum(part_of(outcome.notes) is not None for outcome in outcomes)
    return document(
        "page.html.j2",
        "The papers run again",
        partial=f"{part} of {len(outcomes)}" if part else "",
        short=[one for id, one in questions.items() if id in ("A", "B")],
        tiles=tiles,
        first=next(iter(groups.items()), None),
        sections=sections,
        count=len(outcomes),
    )


def chosen(found: Sequence[Standing]) -> str:
    """The split that some of these recipes were chosen on, which the page warns of."""
    given = claims.fixed()["chosen"]
    return given["split"] if any(one.task == given["task"] and one.arm.startswith("sturdy_") for one in found) else ""


# --- the questions that were fixed before the runs

CHIPS = {
    "more robust": "sure",
    "less robust": "worse",
    "equivalent": "same",
    "undecided": "open",
    "too few runs": "few",
}


def answer(id: str, judged: Sequence[claims.Judged], outcomes: Sequence[Outcome] = ()) -> dict[str, Any]:
    """A question and its claims, on one axis. ``outcomes``: for comparison with differences that papers print."""
    of, made = claims.family(id), [(one, one.comparison) for one in judged if one.comparison]
    held = [end for _, c in made if c.enough for end in (c.interval or ())]
    reach = 1.05 * max([2 * of.margin, *map(abs, held), *(abs(c.difference) for _, c in made)])
    notes, rows, words = [], [], Counter(claims.word(c) for _, c in made)
    for one, c in made:
        look = 0 if c.verdict != "different" else 2 if c.difference > 0 else 1
        drawing = charts.difference(c.difference, c.shown, c.margin, reach, look)
        rows.append((one.claim, c, drawing, claims.printed(one.claim, outcomes) if outcomes else None))
        notes += [(arm_title(arm), words) for arm, _, words in (note.partition(": ") for note in one.notes)]
    return {
        "of": of,
        "summary": ", ".join(f"{words[one]} {one}" for one in CHIPS if one in words),
        "rows": rows,
        "missing": [claims.sentence(one) for one in judged if not one.comparison],
        "substituted": list(dict.fromkeys(words for one, _ in made for words in one.substituted)),
        "notes": grouped(notes),
    }


SPREADS = (
    "method, attack", "seeds", "range over seeds", "deviation over seeds", "runs of a seed", "range over them", "deviation over them",
    "its 95 % interval",
)  # fmt: skip
MODELS = ("method", "seed", "runs", "models", "tickets", "versions of the code")


def seeds(found: Sequence[Standing]) -> dict[str, Any] | None:
    """Whether a seed fixes a result: of every arm with a repeated seed, runs of one seed beside runs of other seeds."""
    rows, models, widest = list[Row](), list[tuple[str, ...]](), 0.0
    for (task, backbone), members in by_task(one for one in found if one.flavour == "corrected").items():
        own, where = [outcome for one in members for outcome in one.outcomes], place(task, backbone)
        whole = [one for one in own if "trained" in one.inputs]  # else only its search was run
        for (arm, seed), every in groupby(whole, lambda one: (one.unit.arm, one.unit.seed)):
            if len(some := list(every)) > 1:
                kinds = [{one.inputs["trained"] for one in some}, {one.ticket["digest"] for one in some if one.ticket}]
                counts = [len(some), *map(len, kinds), len({one.inputs.get("code") for one in some})]
                models.append((f"{arm_title(arm)}, {where}", *(str(n or NONE) for n in (f"{seed}", *counts))))
        for attack in attacks_on(members):
            split = attack.split or None
            for one in claims.spreads(own, task=task, attack=attack.name, split=split, backbone=backbone):
                if one.within_range is None or one.between_range is None:
                    continue
                widest = max(widest, one.within_range)
                values = (one.seeds, one.between_range, one.between, one.repeated, one.within_range, one.within)
                cells = [Cell(text=f"{v:.{isinstance(v, float):d}f}", value=exact(v)) for v in values if v is not None]
                cells.append(Cell(text=numbers.span(one.within_interval)))
                rows.append(Row(name=arm_title(one.name), small=f"{where}, {attack.title}", cells=tuple(cells)))
    if not rows:
        return None
    return {
        "again": len(models),
        "apart": sum(int(row[3]) > 1 for row in models),
        "widest": f"{widest:.1f}",
        "models": plain_table("How many models runs of one seed gave", MODELS, models) if models else None,
        "spread": replace(plain_table("Runs of one seed beside runs of other seeds", SPREADS, ()), rows=tuple(rows)),
    }


# --- the first figures: every run a dot, since a mean hides how much the runs of one method differ

ROWS = 12  # of a figure


def strips(found: Sequence[Standing]) -> list[Markup]:
    """A figure for each attack: all arms, the most robust above.

    Of many arms those with most runs are shown, of equal ones the more robust.
    """
    figures = []
    for attack in attacks_on(found):
        rows = [(one, reading) for one in found if (reading := one.read("aua", attack)).units]
        most = sorted(rows, key=lambda row: (-len(row[1].units), -row[1].mean, row[0].place))[:ROWS]
        dots, values, caption = [], list[float](), f"Accuracy under {attack.title}, %."
        if len(most) < len(rows):
            caption += f" {len(most)} of {len(rows)} arms, those with most runs; the table has all."
        for one, m in sorted(most, key=lambda row: -row[1].mean):
            again = [run.value for run in m.runs if run.repeat]
            values += (*m.values, *again, *(m.reach or ()))
            interval = [numbers.span(m.reach)] if m.reach else []
            words = ", ".join([numbers.percent(m.mean), *interval, plural(len(m.units), "run")])
            dots.append(
                charts.Dot(
                    index=one.place, title=one.title, end=m.mean, summary=f"{one.title}: {words}", interval=m.reach, under=words,
                    runs=m.values, again=again,
                )
            )  # fmt: skip
        if dots:
            low, high = around(values, max(1.0, 0.06 * (max(values) - min(values))))
            figures.append(charts.figure([charts.dots(caption, dots, low, high)], caption, "strip"))
    return figures


# --- the leaderboard


OWN = ("clean", "encoder_millions", "flops", "seconds")  # columns beside the attacks
KEYS = {"encoder_millions": "encoder"}  # as the page calls a column


def board(key: Key, found: Sequence[Standing]) -> dict[str, Any]:
    """The table; sorted by its first column, the attack that most arms met, as the heading says."""
    met: list[tuple[Against | None, str]] = [(attack, "clean") for attack in attacks_on(found)]
    columns: list[dict[str, Any]] = []
    # what an arm is and costs before the other attacks; an accuracy under attack is shown as a clean one
    for attack, name in (*met[:1], *((None, name) for name in OWN), *met[1:]):
        of, readings = MEASURES[name], [one.read("aua" if attack else name, attack) for one in found]
        if runs := [value for reading in readings for value in reading.values]:
            title, about, label = of.title, of.about, KEYS.get(name, name)
            if attack:
                title, about = attack.title, f"accuracy under {attack.title}, out of all attacked texts"
                label = f"{attack.name}:{attack.split}".rstrip(":")
            ends = around(runs, max(1.0, 0.08 * (max(runs) - min(runs)))) if name == "clean" else None
            columns.append({"key": label, "title": title, "about": about, "of": of, "ends": ends, "readings": readings})
    rows = [
        (one, [(column, column["readings"][i], _runs(one, column, column["readings"][i])) for column in columns])
        for i, one in enumerate(found)
    ]
    rows.sort(key=lambda row: -exact(row[1][0][1].mean) if row[1] and row[1][0][1].units else 1.0)
    return {"where": place(*key), "columns": columns, "rows": rows, "chosen": chosen(found)}


def _runs(one: Standing, column: Mapping[str, Any], reading: Reading) -> Markup | None:
    """The runs behind a mean accuracy and its interval, on an axis between the ends of the column."""
    if not column["ends"] or not reading.units:
        return None
    return charts.spark(reading.values, *column["ends"], index=one.place, interval=reading.reach)


def trade_off(found: Sequence[Standing], outcomes: Sequence[Outcome]) -> list[tuple[Drawn, str]]:
    """What robustness costs, on every task, under the attack that most arms met."""
    parts = []
    for (task, backbone), members in by_task(found).items():
        attack, looks = (
            next((one for one in attacks_on(members) if not one.split), None),
            {m.arm: m.place for m in members},
        )
        if attack:
            drawn = pareto(outcomes, task=task, attack=attack.name, backbone=backbone, looks=looks)
            parts += [(drawn, chosen(members))] if drawn.ran else []
    return parts


# --- a paper: its tables with ours beside them, its figures redrawn from our runs


def table(filled: Filled) -> dict[str, Any]:
    """A table with our runs; tasks without runs are folded."""
    of, tasks = published.table(filled.id), {cell.task for cell in filled.ran}
    return {
        "filled": filled,
        "ran": [task for task in of.tasks if task in tasks],
        "rest": [task for task in of.tasks if task not in tasks],
        "claims": answer(of.id, filled.claims) if any(one.comparison for one in filled.claims) else None,
        "substituted": list(dict.fromkeys(words for cell in filled.ran for words in cell.reading.substituted)),
        "notes": merged(words for cell in filled.ran for words in cell.reading.notes),
        "known": (*of.notes, *published.summary(of.id)),
    }


def grid(filled: Filled, tasks: Sequence[str]) -> dict[str, Any]:
    """A table's cells; accuracies before speed and size, since a phone shows the first columns."""
    of = published.table(filled.id)
    columns = sorted(of.columns, key=lambda one: one.metric.startswith("speedup") or one.metric.endswith("_millions"))
    shown = []
    for task in tasks:
        own = [cell for cell in filled.cells if cell.task == task]
        at = [[cell for cell in own if (cell.metric, cell.attack) == (one.metric, one.attack)] for one in columns]
        lines = dict.fromkeys((one.name, one.backbone) for one in of.rows if one.task == task)  # published rows first
        rows = []
        for line in lines | dict.fromkeys((cell.row, cell.backbone) for cell in own):
            cells = [[cell for cell in column if (cell.row, cell.backbone) == line] for column in at]
            pairs = [_paired(found, column) for found, column in zip(cells, at, strict=True)]
            rows.append((line[0], any(cell.ours for found in cells for cell in found), pairs))
        shown.append((task, rows))
    names = ", ".join(map(task_title, tasks))
    return {"label": f"{of.id}, {names}", "names": names, "columns": columns, "tasks": shown}


def _paired(
    found: Sequence[FilledCell], column: Sequence[FilledCell]
) -> tuple[FilledCell | None, list[Any], list[Any]]:
    """The cell of a printed number, and ours under each matching attack; constrained attacks are folded.

    Ours is the mean, its runs as dots, the prediction interval as a haze, the printed number as an upright stroke.
    """
    values = [one for cell in column for one in (cell.published, *cell.reading.values) if one is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    pad, ours, folded = 0.06 * (high - low) or 1.0, list[Any](), list[Any]()
    for cell, mean in ((cell, cell.ours) for cell in found):
        if mean is not None:
            interval = mean.prediction if mean.n >= FEWEST_SHOWN else None
            ends = low - pad, high + pad
            drawing = charts.spark(cell.reading.values, *ends, interval=interval, mark=cell.published)
            (folded if cell.by and cell.by.count("-") > 1 else ours).append((cell, drawing))
    printed = next((cell for cell in found if cell.published is not None), None)
    return printed, ours or folded, folded if ours else []


# --- what was not run, and every run

COUNTED = Paths(counted=True)
NAMED = 6  # methods in a row


def missing(tables: Sequence[Filled], drawn: Mapping[str, Drawn], outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    """The cells without runs by reason, the estimated cost of the rest, and missing panels."""
    groups: dict[tuple[str, str], dict[object, FilledCell]] = {}  # by printed number, which may have several attacks
    for cell in (cell for filled in tables for cell in filled.cells if cell.ours is None):
        lacking = needs(cell.backbone, cell.task, outcomes) if cell.why in ("", NOT_RUN) else ""
        why = (cell.why or NOT_RUN) + (f"; needs {lacking}" if lacking else "")
        groups.setdefault((why, cell.task), {})[cell.key] = cell
    rows = []
    for (why, task), cells in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        arms = list(dict.fromkeys(arm_title(cell.arm) if cell.arm else cell.row for cell in cells.values()))
        methods = ", ".join(arms[:NAMED]) + (f" and {len(arms) - NAMED} more" if len(arms) > NAMED else "")
        ids = list(dict.fromkeys(cell.table for cell in cells.values()))
        rows.append({"why": why, "task": task_title(task), "count": len(cells), "tables": ids, "methods": methods})
    times = {one.id: left_of(one.id, outcomes) for one in published.tables()}
    left = [(id, numbers.hours(total), round(total)) for id, total in times.items() if total >= 60]
    undrawn = {id: one.why for id, one in drawn.items() if one.why}
    return {"rows": rows, "left": left, "undrawn": undrawn} if rows or left or undrawn else None


def left_of(id: str, outcomes: Sequence[Outcome]) -> float:
    """Seconds; counted for fixed sizes and a fixed device, so that the page does not depend on where it is made.

    Seeds cost alike: one is counted for all of which the same was done.
    """
    asked, on = plan([id], seeds=1, paths=COUNTED), device("h200")
    known, total = dict[frozenset[object], float](), 0.0
    for seed in range(FEWEST_RUNS):
        here = [one for one in outcomes if (one.unit.seed, one.unit.repeat) == (seed, 0)]
        own = [replace(one, unit=replace(one.unit, seed=0)) for one in here]
        done = frozenset(
            (one.unit, tuple(attack.name for attack in one.attacks)) for one in own if one.unit in asked.attacks
        )
        if done not in known:
            known[done] = cost(asked, own, on).total
        total += known[done]
    return total


def origins(found: Sequence[Standing]) -> list[dict[str, Any]]:
    """Where each number comes from: a list an arm, closed; a link to one opens it."""
    arms = []
    for one in found:
        runs = one.units + one.repeated
        alone = len(one.outcomes) - runs  # searched for a figure, not trained
        made = [plural(runs, "run")] * bool(runs) + [f"{plural(alone, 'job')} of a search alone"] * bool(alone)
        arms.append(
            {
                "arm": one,
                "made": listed(made),
                "notes": dict.fromkeys(note for outcome in one.outcomes for note in notes_of(outcome)),
                "substituted": dict.fromkeys(w for o in one.outcomes for of in o.attacks for w in of.substitutes),
                "runs": [(outcome, _accuracies(one, outcome)) for outcome in one.outcomes],
            }
        )
    return arms


def _accuracies(one: Standing, outcome: Outcome) -> list[float | None]:
    """Clean, and under each attack that the arm met."""
    attacked = [attack.on(outcome) for attack in one.attacks]
    shares = [found.share("aua") if found else None for found in attacked]
    return [number(outcome, outcome.clean.get("accuracy")), *shares]


# --- what the templates call

_LOADER = ChoiceLoader([PackageLoader("robust_tickets.reproduce"), PackageLoader("robust_tickets.report")])
USED = (
    anchor_of, arm_title, attack_title, claims.qualified, claims.word, exact, Job, metric_title, number, place, plural, printed_as,
    seconds, swatch, task_title, variant,
)  # fmt: skip
KNOWN = {
    "chips": CHIPS,
    "FEWEST_SHOWN": FEWEST_SHOWN,
    "legend": [MEASURES[name] for name in OWN],
    "page": {"board": board, "chosen": chosen, "grid": grid, "strips": strips},
}
PAGES = html.ENVIRONMENT.overlay(loader=_LOADER)
PAGES.globals = {**PAGES.globals, **{one.__name__: one for one in USED}, **KNOWN}
PARTS: Any = PAGES.get_template("parts.html.j2").module
