"""The page: one HTML file with its style and its script inside, which opens from a disk and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from robust_tickets._version import __version__
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.progress import warn
from robust_tickets.report.again import again
from robust_tickets.report.document import document
from robust_tickets.report.figures.budget import budget_curves
from robust_tickets.report.figures.glance import glance
from robust_tickets.report.figures.heat import heat
from robust_tickets.report.figures.layers import layers
from robust_tickets.report.figures.queries import query_histogram
from robust_tickets.report.figures.scatter import scatter
from robust_tickets.report.figures.weights import weights
from robust_tickets.report.flagged import conditions
from robust_tickets.report.left_out import left_out
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.report.run_data import Arm, Run, read_attacks, read_run
from robust_tickets.report.table import arms_table, joint_table, legend, pairs_table, per_class_table
from robust_tickets.report.texts import texts
from robust_tickets.report.verdict import costs, verdicts, warnings


def write_report(path: str | Path, runs: Sequence[str | Path] | str | Path) -> Path:
    """Write the report of run folders and attack folders to ``path``; returns it. Attack folders share one part of the page.

    What of them could not be read stands on the page and is warned of: the page is there all the same, without it.
    """
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    if not folders:
        raise TicketsError("a report needs at least one run or attack folder", hint="tickets report FOLDER [FOLDER …]")
    found = read_folders(_once(folders))
    for run in found:
        for note in run.notes:
            warn(f"report: {run.name}: {note}")
    return write_text(Path(path), page(found))


def _once(folders: Sequence[str | Path]) -> list[str | Path]:
    """Each folder once, by the place it lies at: one beside itself would be a comparison without a difference."""
    found: dict[Path, str | Path] = {}
    for folder in folders:
        if (place := Path(folder).resolve()) in found:
            warn(f"report: {folder} is given more than once, and taken once")
        found.setdefault(place, folder)
    return list(found.values())


def read_folders(folders: Sequence[str | Path]) -> list[Run]:
    """What is in run folders, in their order, and then in all attack folders together."""
    lone = [Path(folder) for folder in folders if is_attack(folder)]
    runs = [read_run(folder, hashes=True) for folder in folders if not is_attack(folder)]
    return [*runs, read_attacks(lone, hashes=True)] if lone else runs


def is_attack(folder: str | Path) -> bool:
    return (Path(folder) / "result.json").is_file() and not (Path(folder) / "arms.json").is_file()


def page(runs: Sequence[Run]) -> str:
    """The whole document."""
    style, script = (
        files("robust_tickets.report").joinpath(name).read_text("utf-8") for name in ("style.css", "script.js")
    )
    title = runs[0].title if len(runs) == 1 else f"{len(runs)} runs compared"
    many = len(runs) > 1
    sections = [section(run, f"r{i + 1}", "h2" if many else "h1") for i, run in enumerate(runs)]
    joint = None
    if many:
        links = tag("ul", *[tag("li", tag("a", run.title, href=f"#r{i + 1}")) for i, run in enumerate(runs)])
        joint = tag(
            "header",
            tag("p", "robust tickets", class_="brand"),
            tag("h1", title),
            links,
            tag("section", joint_table(runs)),
        )
    foot = tag("footer", tag("p", f"Made by robust-tickets {__version__}. This page loads nothing from any network."))
    return document(title, style, script, joint, tag("main", *sections), foot)


def section(run: Run, key: str, level: str) -> Html:
    """One run, the verdict first."""
    below = {"h1": "h2", "h2": "h3"}[level]
    parts: list[Html | None] = [_top(run, level), _warnings(run, below, key)]
    for k, attack in enumerate(run.attack_keys or (None,)):
        title = _named("The numbers", run, attack) if attack else "The numbers"
        tables = [arms_table(run, attack, key), conditions(run, attack) if attack else None]
        tables += [legend(run) if k == 0 else None, pairs_table(run, attack) if attack else None]
        parts.append(_part(f"{key}-table-{k}", below, title, tables))
    parts.append(per_class_table(run))
    for k, attack in enumerate(run.attack_keys):
        parts.append(
            _part(f"{key}-figure-{k}", below, _named("Clean against robust", run, attack), [scatter(run, attack)])
        )
    parts.append(_part(f"{key}-budget", below, "Accuracy against query budget", budget_curves(run)))
    parts.append(_part(f"{key}-queries", below, "How many queries it took", [query_histogram(run)]))
    parts.append(_part(f"{key}-origins", below, "Where the tickets come from", [_origins(run)]))
    kept = [figure for i, arm in enumerate(run.arms) if (figure := layers(arm, i) or weights(arm, i)) is not None]
    told = _what_is_shown(run)
    parts.append(
        _part(
            f"{key}-layers",
            below,
            "What survives in each layer",
            [tag("p", told), tag("div", *kept, class_="side")] if kept else [],
        )
    )
    parts.append(_part(f"{key}-heat", below, "How early the ticket settled", [heat(arm) for arm in _searches(run)]))
    parts.append(_part(f"{key}-texts", below, "The attacked texts", [texts(run)]))
    parts.append(_part(f"{key}-left-out", below, "Rows that were left out", [left_out(run)]))
    parts.append(_part(f"{key}-again", below, "Run it again", [again(run)]))
    return tag("section", join(parts), id=key, class_="run")


def _searches(run: Run) -> list[Arm]:
    """One arm for each search, under the titles of all arms that share it."""
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


def _top(run: Run, level: str) -> Html:
    found = verdicts(run)
    parts: list[Html | None] = [
        tag("p", "robust tickets", class_="brand") if level == "h1" else None,
        tag(level, run.title),
    ]
    facts = _facts(run)
    if facts:
        parts.append(tag("p", facts, class_="facts-line"))
    if not found:
        parts.append(tag("p", "No attack was made, so nothing can be said about robustness.", class_="verdict"))
    for verdict in found:
        kind = " ".join(["verdict", *(["sure"] if verdict.sure else []), *(["lesser"] if len(found) > 1 else [])])
        parts.append(tag("p", verdict.headline, class_=kind))
        parts.append(glance(run, verdict.attack))
        parts.append(tag("ul", *[tag("li", words) for words in verdict.sentences], class_="said"))
    said = costs(run)
    if said:
        parts.append(tag("p", "What the ticket costs" if len(said) == 1 else "What the tickets cost", class_="lead"))
        parts.append(tag("ul", *[tag("li", words) for words in said], class_="said"))
    if found and len(run.arms) > 1:
        note = "This compares these trained models. Another seed trains other models: repeat over seeds before speaking of methods."
        parts.append(tag("p", note, class_="quiet"))
    return tag("header", join(parts))


def _facts(run: Run) -> str:
    """One quiet line: what was trained on what, and attacked where."""
    task = run.task
    rows = task.get("train_rows")
    parts = [
        str(task.get("name") or ""),
        f"{rows} training rows" if rows else "",
        f"{len(run.labels)} classes" if run.labels else "",
        run.model,
        f"attacked split: {', '.join(run.splits)}" if run.splits else "",
        str(run.env.get("device") or ""),
    ]
    return " · ".join(part for part in parts if part)


def _origins(run: Run) -> Html | None:
    """Only where an arm's ticket is a branch: a plain search says itself."""
    if not any(arm.branch for arm in run.arms):
        return None
    items = [tag("li", tag("b", arm.title), f": {arm.story or 'the whole model'}.") for arm in run.arms]
    return tag("ul", *items, class_="said")


def _what_is_shown(run: Run) -> str:
    """What the figures of the layers mean, for the kinds of tickets that are there."""
    shapes = [arm.shape for arm in run.arms if arm.shape is not None]
    told = []
    if any(shape.heads for shape in shapes):
        told.append("Filled squares are heads that stay; the bar is the share of neurons that stay.")
    if any(shape.weights for shape in shapes):
        told.append(
            "A ticket of single weights has two bars: the share of weights that stay in attention and in the feed-forward part."
        )
        told.append("It brings no speed: the others are zeros that are multiplied all the same.")
    return " ".join([*told, "Layer 1 is nearest the words."])


def _warnings(run: Run, level: str, key: str) -> Html | None:
    """Numbered: the table's numbers point at them."""
    found = warnings(run)
    if not found:
        return None
    notes = [tag("li", words, id=f"{key}-note-{i}") for i, words in enumerate(found, start=1)]
    return tag("aside", tag(level, "Read this before you believe it"), tag("ol", *notes), role="note")


def _part(key: str, level: str, title: str, body: Sequence[Html | None]) -> Html | None:
    shown = [part for part in body if part is not None]
    return tag("section", tag(level, title), *shown, id=key) if shown else None


def _named(title: str, run: Run, attack: str) -> str:
    return title if len(run.attack_keys) == 1 else f"{title}: {run.attack_titles[attack]}"
