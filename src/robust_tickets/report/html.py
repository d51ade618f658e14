"""The page: one HTML file with style and script inside, which asks nothing of any network.

Markup is in the templates. Every text that they show is made visible (``clean``: no control character or direction override passes)
and escaped; only finished markup, which ``charts.tag`` and the templates make, is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from robust_tickets._version import __version__
from robust_tickets.attack.result import AttackResult, ExampleOutcome
from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, write_text
from robust_tickets.progress import warn
from robust_tickets.report import figures
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import colour, visible
from robust_tickets.report.run_data import Arm, Run, read_attacks, read_run
from robust_tickets.report.tables import COLUMNS, arms_table, joint_table, pairs_table, per_class_table
from robust_tickets.report.text_diff import folded, opening
from robust_tickets.report.verdict import conditions, costs, verdict, warnings
from robust_tickets.stages import BAD_ROWS

MOST = 2000  # texts on the page over all attacks; the files hold all
SIZE = 6_000_000  # characters of markup, likewise
OPEN = 6  # of them in sight without the script
OUTCOMES = {
    "success": "fooled",
    "failed": "held",
    "skipped": "wrong before",
    "unknown": "attack failed",
    "error": "error",
}

ENVIRONMENT = Environment(
    loader=PackageLoader("robust_tickets.report"),
    autoescape=True,
    finalize=lambda value: "" if value is None else visible(value),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.globals.update(colour=colour, folded=folded, opening=opening, words=OUTCOMES, numbers=vars(numbers))
MACROS: Any = ENVIRONMENT.get_template("macros.html.j2").module


def write_report(path: str | Path, runs: Sequence[str | Path] | str | Path) -> Path:
    """Write the report of run and attack folders to ``path``; attack folders share one part of the page.

    Parts that cannot be read are left out, with a note on the page and a warning.
    """
    # each folder once
    folders = {Path(one).resolve(): Path(one) for one in ([runs] if isinstance(runs, str | Path) else runs)}
    if not folders:
        message = "a report needs at least one run or attack folder"
        raise TicketsError(message, hint="tickets report FOLDER [FOLDER …]", code="report.folders")
    found = read_folders(list(folders.values()))
    for run in found:
        for note in run.notes:
            warn(f"report: {run.name}: {note}")
    return write_text(Path(path), render(found))


def read_folders(folders: Sequence[Path]) -> list[Run]:
    """The runs of run folders, then one of all attack folders together."""
    attacks = [one for one in folders if (one / "result.json").is_file() and not (one / "arms.json").is_file()]
    runs = [read_run(folder, hashes=True) for folder in folders if folder not in attacks]
    return [*runs, read_attacks(attacks, hashes=True)] if attacks else runs


def render(runs: Sequence[Run]) -> str:
    """The whole page of some runs."""
    title, joint = runs[0].title, None
    if len(runs) > 1:
        title, joint = f"{len(runs)} runs compared", joint_table(runs).filled()
    used: tuple[Any, ...] = (
        arms_table, conditions, costs, facts, heat_maps, listed, pairs_table, per_class_table, recorded, texts, verdict, warnings,
    )  # fmt: skip
    values: dict[str, Any] = {one.__name__: one for one in used} | {"columns": COLUMNS, "bad_rows": BAD_ROWS}
    return document("run.html.j2", title, runs=runs, joint=joint, figures=figures, **values)


STYLE, SCRIPT = ("robust_tickets.report", "style.css"), ("robust_tickets.report", "script.js")


def document(
    template: str, title: str, *, environment: Environment = ENVIRONMENT, styles: Sequence[tuple[str, str]] = (STYLE,),
    scripts: Sequence[tuple[str, str]] = (SCRIPT,), **context: Any,
) -> str:  # fmt: skip
    """A self-contained HTML file; ``template`` extends base.html.j2."""
    style, script = (
        "\n".join((files(package) / "templates" / name).read_text("utf-8") for package, name in found)
        for found in (styles, scripts)
    )
    rules = f"style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    frame = {"policy": Markup(f"default-src 'none'; {rules}"), "style": Markup(style), "script": Markup(script)}
    return environment.get_template(template).render(title=title, version=__version__, **frame, **context) + "\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def facts(run: Run) -> str:
    """A line on the task, the model, the attacked splits and the device."""
    rows = run.task.get("train_rows")
    splits = dict.fromkeys(attack.split for arm in run.arms for attack in arm.attacks)
    parts = [
        run.task.get("name"),
        f"{rows} training rows" if rows else "",
        f"{len(run.labels)} classes" if run.labels else "",
        run.model,
        f"attacked split: {', '.join(filter(None, splits))}" if any(splits) else "",
        run.env.get("device"),
    ]
    return " · ".join(str(part) for part in parts if part)


def heat_maps(run: Run) -> list[Markup | None]:
    """The mask distances of each search, titled by all arms that share it."""
    found: list[Arm] = []
    for arm in run.arms:
        same = [i for i, other in enumerate(found) if arm.distances is not None and other.distances == arm.distances]
        if same:
            found[same[0]] = replace(found[same[0]], title=f"{found[same[0]].title}, {arm.title}")
        else:
            found.append(arm)
    return list(map(figures.heat, found))


# --- the attacked texts: all are in the page; the script shows them page by page


class Result(NamedTuple):
    """What became of a text on one arm; ``texts``: the attack's, column by column, where it is kept."""

    arm: int
    title: str
    status: str
    notes: str
    texts: Sequence[str] = ()


class Case(NamedTuple):
    """An attacked text, in columns, with its result on each arm. ``value`` of its label is what the filter takes."""

    id: str
    label: str
    original: Sequence[str]
    results: Sequence[Result]
    value: str = ""

    @property
    def differs(self) -> bool:
        return len({one.status for one in self.results}) > 1

    @property
    def changes(self) -> list[tuple[Result, list[tuple[str, str]]]]:
        """Each result with the columns before and after."""
        return [
            (one, list(zip_longest(self.original[: len(one.texts)], one.texts, fillvalue=""))) for one in self.results
        ]


def cards(groups: Mapping[str, Iterable[Case]], most: int, size: int, unfolded: int) -> tuple[Markup, int]:
    """Cards of the texts of each attack with their filters, and how many they are.

    Those on which the arms differ come first; ``most`` texts are shown and ``size`` characters of markup, over all attacks.
    """
    found, arms, labels = list[Markup](), dict[str, str](), dict[str, str]()
    for k, (title, cases) in enumerate(groups.items()):
        left, begun = size // len(groups), len(found)
        ranked = sorted(cases, key=lambda case: (not case.differs, -sum(bool(one.texts) for one in case.results)))
        for case in ranked[: max(1, most // len(groups))]:
            card = MACROS.card(case, k, title if len(groups) > 1 else "")
            left -= len(card)
            if left < 0 and len(found) > begun:
                break
            found.append(card)
            arms |= {str(one.arm): one.title for one in case.results}
            labels |= {case.value: case.label} if case.value else {}
    fields = [
        ("Attack ", "attack", "any", dict(zip(map(str, range(len(groups))), groups, strict=True))),
        ("Outcome ", "outcome", "any", OUTCOMES),
        ("for ", "arm", "any arm", arms),
        ("True label ", "label", "any", dict(sorted(labels.items()))),
    ]
    shown = [field for field in fields if len(field[-1]) > 1]
    return MACROS.cases(shown, len(arms) > 1, found[:unfolded], found[unfolded:]), len(found)


def texts(run: Run) -> dict[str, Any] | None:
    """The attacked texts of a run, with a sentence on those of each attack."""
    groups = {title: cases for key, title in run.attack_titles.items() if (cases := _cases(run, key))}
    if not groups:
        return None
    markup, shown = cards(groups, MOST, SIZE, OPEN)
    sentences = []
    for title, cases in groups.items():
        differ = (
            f"; the arms differ on {sum(case.differs for case in cases)}, which come first" if len(run.arms) > 1 else ""
        )
        sentences.append(f"{len(cases)} texts attacked with {title}{differ}.")
    if shown < sum(map(len, groups.values())):
        sentences.append(f"{shown} are shown, examples.jsonl holds all.")
    return {"sentences": sentences, "cards": markup}


def _cases(run: Run, attack: str) -> list[Case]:
    outcomes: dict[str, list[tuple[int, ExampleOutcome]]] = {}  # of every text, each with its arm's number
    for i, arm in enumerate(run.arms):
        for example in found.texts if (found := arm.attack(attack)) else ():
            outcomes.setdefault(example.id, []).append((i, example))
    cases = []
    for id, every in outcomes.items():
        first, results = every[0][1], []
        for i, one in every:
            texts = one.perturbed or () if one.status == "success" else ()
            results.append(Result(i, run.arms[i].title, one.status, _notes(run, one), texts))
        cases.append(Case(id, run.label(first.label), first.original, results, f"={first.label}"))
    return cases


def _notes(run: Run, example: ExampleOutcome) -> str:
    fooled, similarity = example.status == "success", example.similarity
    notes = [
        f"now {run.label(example.predicted_after)}" if fooled else "",
        f"{example.words_changed} of {example.words} words changed" if fooled and example.words else "",
        f"similarity {similarity:.3f}" if fooled and similarity is not None else "",
        f"{example.queries} queries" if example.status in ("success", "failed") else "",
        example.error,
    ]
    return ", ".join(filter(None, notes))


# --- how to run it again


ELSEWHERE = ("ids", "curve", "folder", "lines")  # of a result, what the page shows otherwise


def recorded(run: Run) -> list[tuple[str, str]]:
    """Everything that determined the numbers, as JSON under titles."""
    peak = max((arm.cost["peak_memory_bytes"] for arm in run.arms if "peak_memory_bytes" in arm.cost), default=None)
    env = {key: value for key, value in run.env.items() if key != "command"}
    found: list[tuple[str, Any]] = [
        ("Where it ran", env | ({"most memory held": numbers.memory(peak)} if peak else {})),
        ("Data", {key: value for key, value in run.task.items() if key != "bad_rows"}),
        ("Config", run.config),
    ]
    for arm in run.arms:
        for attack in arm.attacks:
            result = {f.name: getattr(attack, f.name) for f in fields(AttackResult) if f.name not in ELSEWHERE}
            found.append((f"{run.attack_titles[attack.key]} on {arm.title}", result))
        if arm.ticket is not None:
            found.append((f"Ticket of {arm.title}", {"digest": arm.ticket.digest, **arm.ticket.provenance}))
    sets = sorted({attack.ids for arm in run.arms for attack in arm.attacks if attack.ids})
    alike = "the same for every arm" if len(sets) == 1 else "not the same for every arm"
    shown = [(title, json.dumps(value, indent=2, ensure_ascii=False, default=str)) for title, value in found if value]
    return [*shown, *((f"Ids of the attacked examples ({len(ids)}, {alike})", ", ".join(ids)) for ids in sets)]
