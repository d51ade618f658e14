"""The page: one HTML file with style and script inside, which asks nothing of any network.

Markup is in the templates. Every text that they show is made visible (``clean``: no control character or direction override passes)
and escaped; only finished markup, which ``markup.tag`` and the templates make, is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from robust_tickets._version import __version__
from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, write_text
from robust_tickets.progress import warn
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import colour, visible
from robust_tickets.report.figures import budget_curves, glance, heat, layers, query_histogram, scatter
from robust_tickets.report.run_data import Arm, Example, Run, number, read_attacks, read_run
from robust_tickets.report.tables import COLUMNS, Column, arms_table, joint_table, pairs_table, per_class_table
from robust_tickets.report.text_diff import folded, opening
from robust_tickets.report.verdict import conditions, costs, verdicts, warnings
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
MACROS: Any = ENVIRONMENT.get_template("macros.html.j2").module


def write_report(path: str | Path, runs: Sequence[str | Path] | str | Path) -> Path:
    """Write the report of run and attack folders to ``path``; attack folders share one part of the page.

    Parts that cannot be read are left out, with a note on the page and a warning.
    """
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    if not folders:
        raise TicketsError(
            "a report needs at least one run or attack folder",
            hint="tickets report FOLDER [FOLDER …]",
            code="report.folders",
        )
    found = read_folders(_once(folders))
    for run in found:
        for note in run.notes:
            warn(f"report: {run.name}: {note}")
    return write_text(Path(path), render(found))


def read_folders(folders: Sequence[str | Path]) -> list[Run]:
    """The runs of run folders, then one of all attack folders together."""
    lone = [Path(folder) for folder in folders if is_attack(folder)]
    runs = [read_run(folder, hashes=True) for folder in folders if not is_attack(folder)]
    return [*runs, read_attacks(lone, hashes=True)] if lone else runs


def is_attack(folder: str | Path) -> bool:
    return (Path(folder) / "result.json").is_file() and not (Path(folder) / "arms.json").is_file()


def _once(folders: Sequence[str | Path]) -> list[str | Path]:
    """Each folder once, by its resolved path."""
    found: dict[Path, str | Path] = {}
    for folder in folders:
        if (place := Path(folder).resolve()) in found:
            warn(f"report: {folder} is given more than once, and taken once")
        found.setdefault(place, folder)
    return list(found.values())


def render(runs: Sequence[Run]) -> str:
    """The whole page of some runs."""
    many = len(runs) > 1
    views = [_view(run, f"r{i + 1}", "h2" if many else "h1") for i, run in enumerate(runs)]
    title = f"{len(runs)} runs compared" if many else runs[0].title
    return document("run.html.j2", title, views=views, joint=joint_table(runs) if many else None)


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


def _view(run: Run, key: str, level: str) -> dict[str, Any]:
    """The template's values of one run."""
    below = {"h1": "h2", "h2": "h3"}[level]
    attacks: tuple[str | None, ...] = run.attack_keys or (None,)
    parts: list[dict[str, Any]] = [
        {
            "title": _named("The numbers", run, attack),
            "arms": arms_table(run, attack, key),
            "conditions": conditions(run, attack) if attack else ([], {}),
            "pairs": pairs_table(run, attack) if attack else None,
        }
        for attack in attacks
    ]
    figures = [
        *(
            (f"figure-{k}", _named("Clean against robust", run, attack), _some(scatter(run, attack)))
            for k, attack in enumerate(run.attack_keys)
        ),
        ("budget", "Accuracy against query budget", budget_curves(run)),
        ("queries", "How many queries it took", _some(query_histogram(run))),
    ]
    bad = [str(row) for row in listed(run.task.get("bad_rows") or [])]
    count = int(number(run.task.get("skipped_rows")) or 0)
    more = f"The first {len(bad)} of {count}; {BAD_ROWS} in the run folder lists more." if count > len(bad) else ""
    macro = [
        f"{arm.title} {numbers.percent(arm.evaluation.macro_f1)}"
        for arm in run.arms
        if arm.evaluation and arm.evaluation.macro_f1 is not None
    ]
    return {
        "run": run,
        "key": key,
        "level": level,
        "below": below,
        "facts": _facts_line(run),
        "verdicts": verdicts(run),
        "glances": {attack: glance(run, attack) for attack in run.attack_keys},
        "costs": costs(run),
        "warnings": warnings(run),
        "numbers": parts,
        "legend": _legend([part["arms"].columns for part in parts]),
        "per_class": per_class_table(run),
        "macro_f1": ", ".join(macro),
        "figures": figures,
        "origins": any(arm.branch for arm in run.arms),
        "layers": [one for i, arm in enumerate(run.arms) if (one := layers(arm, i)) is not None],
        "what_layers_show": _layers_legend(run),
        "heat": [one for arm in _searches(run) if (one := heat(arm)) is not None],
        "texts": _texts(run),
        "left_out": bad,
        "left_out_more": more,
        **_again(run),
    }


def _named(title: str, run: Run, attack: str | None) -> str:
    return title if attack is None or len(run.attack_keys) == 1 else f"{title}: {run.attack_titles[attack]}"


def _some(figure: Any) -> list[Any]:
    return [] if figure is None else [figure]


def _legend(tables: Sequence[Sequence[Column]]) -> list[Column]:
    """The columns of a run's tables, to explain below them: tooltips need a mouse."""
    shown = {column.key for columns in tables for column in columns}
    return [column for column in COLUMNS if column.key in shown]


def _facts_line(run: Run) -> str:
    """A line on the task, the model, the attacked split and the device."""
    rows = run.task.get("train_rows")
    parts = [
        str(run.task.get("name") or ""),
        f"{rows} training rows" if rows else "",
        f"{len(run.labels)} classes" if run.labels else "",
        run.model,
        f"attacked split: {', '.join(run.splits)}" if run.splits else "",
        str(run.env.get("device") or ""),
    ]
    return " · ".join(part for part in parts if part)


def _layers_legend(run: Run) -> str:
    """A legend of the figures of layers, for the kinds of tickets of the run."""
    shapes = [arm.shape for arm in run.arms if arm.shape is not None]
    sentences = []
    if any(shape.heads for shape in shapes):
        sentences.append("Filled squares are heads that are kept; the bar is the share of neurons kept.")
    if any(shape.weights for shape in shapes):
        sentences.append(
            "A ticket of single weights has two bars: the share of weights kept in attention and in the feed-forward part."
        )
        sentences.append("It brings no speed: the others are zeros that are still multiplied.")
    return " ".join([*sentences, "Layer 1 is nearest the words."])


def _searches(run: Run) -> list[Arm]:
    """One arm a search, titled by all arms that share it."""
    found: list[Arm] = []
    for arm in run.arms:
        same = next(
            (i for i, other in enumerate(found) if arm.distances is not None and other.distances == arm.distances), None
        )
        if same is None:
            found.append(arm)
        else:
            found[same] = replace(found[same], title=f"{found[same].title}, {arm.title}")
    return found


# --- the attacked texts: all are in the page; the script shows them page by page


def _texts(run: Run) -> dict[str, Any] | None:
    """The attacked texts, those on which the arms differ first; their number and size are limited for the browser."""
    sentences: list[str] = []
    cards: list[Markup] = []
    labels: dict[str, str] = {}
    attacks: dict[str, str] = {}
    several = len(run.attack_keys) > 1
    for place, key in enumerate(run.attack_keys):
        cases = _cases(run, key)
        if not cases:
            continue
        differ = sum(map(_differ, cases.values()))
        words = f"{len(cases)} texts attacked with {run.attack_titles[key]}"
        words += f"; the arms differ on {differ}. Those come first." if len(run.arms) > 1 else "."
        ordered = sorted(
            cases.items(), key=lambda case: (not _differ(case[1]), all(e.status == "skipped" for _, e in case[1]))
        )
        size, first = SIZE // len(run.attack_keys), len(cards)
        for id, outcomes in ordered[: MOST // len(run.attack_keys)]:
            card = MACROS.card(_case(run, id, place, run.attack_titles[key] if several else "", outcomes))
            size -= len(card)
            if size < 0 and len(cards) > first:
                break
            cards.append(card)
            labels[_value(outcomes[0][1].label)] = run.label(outcomes[0][1].label)
            attacks[str(place)] = run.attack_titles[key]
        if len(cards) - first < len(cases):
            words += f" {len(cards) - first} are shown, examples.jsonl holds all."
        sentences.append(words)
    if not cards:
        return None
    arms = {str(i): arm.title for i, arm in enumerate(run.arms)}
    fields = [("Attack ", "attack", "any", attacks)] if len(attacks) > 1 else []
    fields.append(("Outcome ", "outcome", "any", OUTCOMES))
    fields += [("for ", "arm", "any arm", arms)] if len(arms) > 1 else []
    fields += [("True label ", "label", "any", dict(sorted(labels.items())))] if len(labels) > 1 else []
    return {"sentences": sentences, "fields": fields, "first": cards[:OPEN], "more": cards[OPEN:]}


def _cases(run: Run, attack: str) -> dict[str, list[tuple[int, Example]]]:
    """The results of every example under one attack, each with its arm's number."""
    found: dict[str, list[tuple[int, Example]]] = {}
    for i, arm in enumerate(run.arms):
        result = arm.attack(attack)
        for example in result.examples if result else ():
            found.setdefault(example.id, []).append((i, example))
    return found


def _differ(outcomes: Sequence[tuple[int, Example]]) -> bool:
    return len({example.status for _, example in outcomes}) > 1


def _value(label: object) -> str:
    """A label as a filter's value, never empty, which means any."""
    return f"={label}"


def _case(run: Run, id: str, attack: int, title: str, outcomes: Sequence[tuple[int, Example]]) -> SimpleNamespace:
    first = outcomes[0][1]
    rows = []
    for i, example in outcomes:
        perturbed = example.perturbed if example.status == "success" and example.perturbed is not None else ()
        before = [*example.original, *[""] * (len(perturbed) - len(example.original))]
        row = {
            "arm": i,
            "title": run.arms[i].title,
            "colour": colour(i),
            "status": example.status,
            "word": OUTCOMES[example.status],
            "notes": _notes(run, example),
            "perturbed": [folded(old, new) for old, new in zip(before, perturbed, strict=False)],
        }
        rows.append(row)
    return SimpleNamespace(
        id=id,
        attack=attack,
        title=title,
        label=run.label(first.label),
        value=_value(first.label),
        differs=_differ(outcomes),
        original=[opening(column) for column in first.original],
        outcomes=rows,
    )


def _notes(run: Run, example: Example) -> str:
    notes = []
    if example.status == "success":
        notes.append(f"now {run.label(example.predicted)}")
        if example.words and example.words_changed is not None:
            notes.append(f"{example.words_changed} of {example.words} words changed")
        if example.similarity is not None:
            notes.append(f"similarity {example.similarity:.3f}")
    if example.queries is not None and example.status in ("success", "failed"):
        notes.append(f"{example.queries} queries")
    if example.error:
        notes.append(example.error)
    return ", ".join(notes)


# --- how to run it again


def _again(run: Run) -> dict[str, Any]:
    task = {key: value for key, value in run.task.items() if key not in ("labels", "bad_rows")}
    of_run = [
        ("Where it ran", _environment(run)),
        ("Data", task | {"labels": ", ".join(run.labels), "files": _files(run.env)}),
    ]
    of_arms: list[tuple[str, Mapping[str, Any]]] = []
    for arm in run.arms:
        for attack in arm.attacks:
            env = mapping(attack.about.get("env"))
            facts = {
                "date": env.get("date"),
                "data files": _files(env),
                "seed": attack.seed,
                "examples": attack.n,
                "split": attack.split,
                "plan": {key: value for key, value in attack.plan.items() if key not in ("ids", "rules")},
                "forward passes": numbers.count(attack.forward_passes),
                "seconds": numbers.seconds(attack.seconds),
                **{key: value for key, value in attack.about.items() if key != "env"},
            }
            of_arms.append((f"{run.attack_titles[attack.key]} on {arm.title}", facts))
    of_arms += [
        (f"Ticket of {arm.title}", {"digest": arm.shape.digest, **arm.shape.provenance})
        for arm in run.arms
        if arm.shape is not None
    ]
    sets = sorted({a.ids for arm in run.arms for a in arm.attacks if a.ids})
    ids = []
    for k, group in enumerate(sets):
        which = f"set {k + 1} of {len(sets)}: the arms were not all attacked on the same examples"
        which = "the same for every arm" if len(sets) == 1 else which
        ids.append((f"Ids of the attacked examples ({len(group)}, {which})", ", ".join(group)))
    return {
        "facts_of_run": _rows(of_run),
        "config": _json(run.config) if run.config else "",
        "facts_of_arms": _rows(of_arms),
        "ids": ids,
    }


def _rows(facts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The known facts of each title as texts."""
    found = []
    for title, values in facts:
        known = {key: value for key, value in values.items() if value not in (None, "", [], {})}
        if known:
            found.append(
                (title, [(k, str(v) if isinstance(v, str | int | float) else _json(v)) for k, v in known.items()])
            )
    return found


def _files(env: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{file.get('name')}, sha256 {file.get('sha256')}" for file in map(mapping, listed(env.get("data")))
    )


def _environment(run: Run) -> dict[str, Any]:
    packages = run.env.get("packages")
    plain = {key: value for key, value in run.env.items() if key not in ("packages", "command", "data")}
    if isinstance(packages, Mapping):
        plain["packages"] = ", ".join(f"{name} {version}" for name, version in packages.items())
    peak = max((arm.cost["peak_memory_bytes"] for arm in run.arms if "peak_memory_bytes" in arm.cost), default=None)
    return plain | {"most memory held": numbers.memory(peak) if peak else None}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
