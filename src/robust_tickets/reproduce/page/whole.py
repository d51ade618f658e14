"""The page: everything that a folder of results holds, in one HTML file that asks nothing of any network.

It is made from outcomes and published numbers alone, without dates or paths, so that the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from robust_tickets import __version__
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_text
from robust_tickets.report.html import document
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.reproduce.arms import task_title
from robust_tickets.reproduce.claims import told
from robust_tickets.reproduce.figures.figure import figure
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page.board import board, legend
from robust_tickets.reproduce.page.claims import claims, judged_all, reached, short
from robust_tickets.reproduce.page.figures import by_length, trade_off
from robust_tickets.reproduce.page.missing import missing
from robust_tickets.reproduce.page.origin import origins
from robust_tickets.reproduce.page.papers import paper_part
from robust_tickets.reproduce.page.seeds import seeds
from robust_tickets.reproduce.page.standing import Standing, attacks_of, by_task, flattered, standings, trained, where
from robust_tickets.reproduce.page.strip import strip
from robust_tickets.reproduce.page.texts import texts
from robust_tickets.reproduce.published import papers, tables
from robust_tickets.reproduce.tables import Filled, fill
from robust_tickets.reproduce.wording import count, rehearsed

STYLES = (("report", "style.css"), ("reproduce.figures", "style.css"), ("reproduce.page", "style.css"))
SCRIPTS = (("report", "script.js"), ("reproduce.page", "script.js"))
FIRST = 2  # attacks of a task in the first figures; the others are folded


def write_page(path: str | Path, folder: Path) -> Path:
    """Write the page of a folder of results; links to result files hold where it is kept inside of that folder."""
    outcomes = read_all(folder)
    if not outcomes:
        raise TicketsError(
            f"{folder} holds no results",
            hint="`tickets reproduce ER-T1 --only task=sst2` makes some; --results names the folder",
        )
    return write_text(Path(path), make(folder, outcomes))


def make(folder: Path, outcomes: Sequence[Outcome]) -> str:
    """The whole document; ``folder`` is where the outcomes were read."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.unit)
    found = standings(outcomes)
    filled = {one.id: fill(one.id, outcomes, folder) for one in tables() if one.kind == "table"}
    figures = {one.id: figure(one.id, outcomes, folder) for one in tables() if one.kind == "figure"}
    judged = judged_all(outcomes, folder)
    met = reached(outcomes, folder, judged[told()["goals"]["family"]])
    sections: list[tuple[str, str, list[Html | None]]] = [
        ("answers", "Answers", [claims(judged), met, seeds(found, outcomes)]),
        ("board", "Leaderboard", [_boards(found)]),
        ("trade", "Cost", [trade_off(found, outcomes, folder)]),
        ("length", "Length", [by_length(found, outcomes, folder)]),
    ]
    sections += [(f"paper-{one.id}", one.name, [paper_part(one, filled, figures, outcomes)]) for one in papers()]
    undrawn = {id: one.why for id, one in figures.items() if one.why}
    sections += [
        ("texts", "Attacked texts", [texts(found, folder)]),
        ("missing", "Not run", [missing(list(filled.values()), undrawn, outcomes)]),
        ("runs", "Every run", [_runs(), origins(found)]),
    ]
    shown = [(key, title, [part for part in parts if part]) for key, title, parts in sections if any(parts)]
    links = [tag("li", tag("a", title, href=f"#{key}")) for key, title, _ in shown]
    foot = f"Made by robust-tickets {__version__} from {len(outcomes)} result files. This page loads nothing from any network."
    return document(
        "The papers run again",
        _joined(STYLES),
        _joined(SCRIPTS),
        body=join(
            [
                tag("nav", tag("ul", *links), class_="contents", aria_label="Contents"),
                _top(found, outcomes, filled, short(judged)),
                tag("main", *[tag("section", tag("h2", title), *parts, id=key) for key, title, parts in shown]),
                tag("footer", tag("p", foot)),
            ]
        ),
    )


def _top(
    found: Sequence[Standing], outcomes: Sequence[Outcome], filled: dict[str, Filled], answered: Html | None
) -> Html:
    """What it is, the answers in short, how much of it, and the first figures."""
    lead = (
        "Tables and figures of three papers on robust tickets, run again with one protocol: the last epoch, every run counted, "
        "the training run as the unit. Published numbers stand beside ours."
    )
    parts = [
        tag("p", "robust tickets", class_="brand"),
        tag("h1", "Three papers, run again"),
        tag("p", lead, class_="lede"),
    ]
    if warned := rehearsed(outcomes):
        parts.append(tag("p", tag("strong", warned), class_="lede"))
    parts += [one for one in (answered, _tiles(found, outcomes, filled)) if one]
    for key, members in list(by_task([one for one in found if one.units]).items())[:1]:
        parts += [tag("h2", f"{where(key)}, under attack"), *_strips(members)]
        parts += [tag("p", flattered(members), class_="quiet")] if flattered(members) else []
    return tag("header", *parts, class_="first")


def _tiles(found: Sequence[Standing], outcomes: Sequence[Outcome], filled: dict[str, Filled]) -> Html:
    reached, printed = (sum(one.counts()[kind] for one in filled.values()) for kind in ("filled", "numbers"))
    examples = sum(attack.tried for outcome in outcomes for attack in outcome.attacks)
    made, ways, kinds = (
        sum(map(trained, outcomes)),
        len({one.arm for one in found if one.units}),
        len(attacks_of(found)),
    )
    told = [
        (
            made,
            f"training run{'s' * (made != 1)}",
            ", ".join(task_title(task) for task in dict.fromkeys(one.task for one in found)),
        ),
        (ways, f"way{'s' * (ways != 1)} to train", "and how they fare" if ways != 1 else "and how it fares"),
        (examples, "attacks on texts", count(kinds, "kind")),
        (reached, "published numbers", f"of {_thousands(printed)}, with ours beside them"),
    ]
    tiles = [
        tag("li", tag("b", _thousands(value)), tag("span", what), tag("small", more)) for value, what, more in told
    ]
    return tag("ul", *tiles, class_="tiles")


def _thousands(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _strips(members: Sequence[Standing]) -> list[Html]:
    """A figure for each attack; those after the first few are folded."""
    drawn = [
        part
        for i, attack in enumerate(attacks_of(members))
        if (part := strip(members, attack, first=i == 0)) is not None
    ]
    rest = drawn[FIRST:]
    more = (
        [tag("details", tag("summary", f"{len(rest)} more attack{'s' if len(rest) > 1 else ''}"), *rest)]
        if rest
        else []
    )
    return [*drawn[:FIRST], *more]


def _boards(found: Sequence[Standing]) -> Html | None:
    """The first task's figures stand above, at the top of the page."""
    groups = by_task([one for one in found if one.units])
    parts: list[Html] = []
    for i, (key, members) in enumerate(groups.items()):
        parts.append(tag("h3", where(key)) if len(groups) > 1 else Html(""))
        parts += [*(_strips(members) if i else ()), board(key, members)]
    return join([*parts, legend(found)]) if parts else None


def _runs() -> Html:
    said = (
        "Every number of ours is a mean over these runs; a number on this page leads here. Each run has a result file with its resolved "
        "config, the hashes of its inputs, and what became of every example; links hold where this page lies in the folder of results."
    )
    return tag("p", said)


def _joined(parts: Sequence[tuple[str, str]]) -> str:
    return "\n".join(files(f"robust_tickets.{house}").joinpath(name).read_text("utf-8") for house, name in parts)
