"""The leaderboard of a task: one row an arm, columns that the script sorts, every value a link to the runs it was made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robust_tickets.report import format as numbers
from robust_tickets.report.charts import around, colour
from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.reproduce.page.standing import Against, Key, Measured, Standing, attacks_of, exact, flattered, where
from robust_tickets.reproduce.page.strip import runs, swatch, thumbnail

OF_ALL = "out of all attacked texts"
EQUAL = "all runs equal"  # where that leaves no interval


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column holds. ``best`` is the end that is wanted: ``high`` or ``low``."""

    key: str
    title: str
    about: str
    take: Callable[[Standing], Measured | None]
    write: Callable[[float], str]
    best: str = "high"
    drawn: bool = False  # with its runs as dots
    attack: bool = False


def columns(found: Sequence[Standing]) -> tuple[Column, ...]:
    """Those in which any row has something: the attack that most arms met, what an arm is and costs, in sight beside it, other attacks."""
    attacks = [_attack(one) for one in attacks_of(found)]
    every = [*attacks[:1], *_own(), *attacks[1:]]
    return tuple(column for column in every if any(column.take(one) is not None for one in found))


def _attack(attack: Against) -> Column:
    about = f"accuracy under {attack.title}, {OF_ALL}"
    key = f"{attack.name}:{attack.split}" if attack.split else attack.name
    return Column(
        key=key,
        title=attack.title,
        about=about,
        take=_taken("aua", attack),
        write=numbers.percent,
        drawn=True,
        attack=True,
    )


def _own() -> tuple[Column, ...]:
    """What is no attack's."""
    clean = "accuracy on the whole evaluated split, unattacked"
    size, flops = (
        "parameters without embeddings that are not zero, millions",
        "floating-point operations of one forward pass over one text",
    )
    time = "search and training, of runs that had the device to themselves"
    return (
        Column(key="clean", title="clean", about=clean, take=_taken("clean"), write=numbers.percent, drawn=True),
        Column(
            key="encoder", title="encoder", about=size, take=_taken("encoder_millions"), write=_millions, best="low"
        ),
        Column(key="flops", title="FLOPs", about=flops, take=Standing.flops, write=numbers.amount, best="low"),
        Column(key="seconds", title="time", about=time, take=_taken("seconds"), write=numbers.seconds, best="low"),
    )


def _taken(metric: str, attack: Against | None = None) -> Callable[[Standing], Measured | None]:
    return lambda one: one.measured(metric, attack)


def _millions(value: float) -> str:
    return f"{value:.1f}{numbers.GLUE}M"


def board(key: Key, found: Sequence[Standing]) -> Html:
    """The table; sorted by its first column, the attack that most arms met, as the heading says."""
    shown = columns(found)
    first = shown[0] if shown else None
    rows = sorted(found, key=lambda one: -(value.mean if first and (value := first.take(one)) is not None else -1.0))
    ends = {
        column.key: _ends([value for one in found if (value := column.take(one)) is not None])
        for column in shown
        if column.drawn
    }
    heads = [tag("th", "method", scope="col", data_sort="text")]
    for column in shown:
        sort = "descending" if column is first else None
        about = tag("abbr", column.title, title=column.about)
        heads.append(tag("th", about, scope="col", class_="number", data_sort=column.best, aria_sort=sort))
    body = []
    for one in rows:
        title = tag("span", one.title, class_=f"arm {colour(one.place)}")
        again = one.repeated
        told = f"{runs(one.units)}, {again} repeated" if again else runs(one.units)
        name = tag("th", swatch(one.place), title, tag("small", told), scope="row")
        body.append(tag("tr", name, *[_cell(one, column, ends.get(column.key)) for column in shown]))
    caption = (
        f"{where(key)}: {len(rows)} way{'s' * (len(rows) != 1)} to train. "
        f"Under a mean its 95{numbers.GLUE}% interval over runs, cut at 0 and 100, and the runs themselves. "
        "Grey: fewer than five runs, from which nothing is claimed; with so few an arm may lead by luck. A heading sorts; a number leads "
        f"to its runs. {flattered(found)}"
    )
    table = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
        class_="board numbers",
    )
    return scroll(f"Leaderboard, {where(key)}", table)


def legend(found: Sequence[Standing]) -> Html:
    """What every column means, in sight; all attacks at once."""
    others = [(column.title, column.about) for column in columns(found) if not column.attack]
    told = [("an attack", f"accuracy under it, {OF_ALL}"), *others]
    return tag("dl", *[tag("div", tag("dt", title), tag("dd", about)) for title, about in told], class_="legend")


def _ends(values: Sequence[Measured]) -> tuple[float, float]:
    every = [run.value for value in values for run in value.runs if not run.repeat]
    return around(every, max(1.0, 0.08 * (max(every) - min(every))))


def _cell(one: Standing, column: Column, ends: tuple[float, float] | None) -> Html:
    value = column.take(one)
    if value is None:
        why = one.read("seconds").why if column.key == "seconds" else numbers.NONE
        return tag("td", tag("span", why, class_="none"), data_key=column.key)
    link = tag(
        "a", tag("data", column.write(value.mean), value=exact(value.mean)), href=f"#{one.anchor}", class_="origin"
    )
    below = [numbers.brief(value.reach) or (EQUAL if value.equal else "")] if column.drawn else []
    if value.n != one.units:
        below.append(runs(value.n))
    parts = [
        link,
        tag("small", ", ".join(filter(None, below))) if any(below) else None,
        thumbnail(value, one.place, *ends) if ends else None,
    ]
    return tag("td", join(parts), class_="few" if column.drawn and value.few else None, data_key=column.key)
