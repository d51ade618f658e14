"""The first figure: per arm, how far accuracy falls from clean to under attack, on one line."""

from __future__ import annotations

from robust_tickets.report import format as numbers
from robust_tickets.report.figures.axes import (
    Scale,
    colour,
    figure,
    group,
    label,
    line,
    marker,
    shorten,
    svg,
    two_lines,
)
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Arm, Attack, Run

Row = tuple[int, Arm, Attack]


def glance(run: Run, attack: str) -> Html | None:
    """A row per arm: hollow where it starts, filled where the attack leaves it, with the 95{numbers.GLUE}% interval."""
    rows = [
        (i, arm, found)
        for i, arm in enumerate(run.arms)
        if (found := arm.attack(attack)) is not None and found.aua is not None
    ]
    if not rows:
        return None
    title = run.attack_titles[attack]
    alt = f"Accuracy on the attacked texts before and under {title}. " + "; ".join(
        _said(arm, found) for _, arm, found in rows
    )
    caption = f"Hollow: accuracy on the attacked texts before the attack. Filled: under {title}; the haze is its 95{numbers.GLUE}% interval."
    # a wide drawing with the names beside the lines, and a phone's with the names above them; the style sheet shows one
    return figure([_draw(rows, 860, 212, 52, alt, "broad"), _draw(rows, 350, 16, 74, alt, "narrow")], caption, "glance")


def _draw(rows: list[Row], width: int, left: int, height: int, alt: str, kind: str) -> Html:
    scale = Scale(low=0, high=100, start=left, end=width - (66 if kind == "broad" else 18))
    bottom = height * len(rows) + 12
    ticks = (0, 20, 40, 60, 80, 100)
    parts = [line(scale(t), 4, scale(t), bottom, "grid") for t in ticks]
    parts += [label(scale(t), bottom + 18, f"{t} %" if kind == "broad" else t, "middle", "tick") for t in ticks]
    for place, (i, arm, found) in enumerate(rows):
        y = height * (place + (0.58 if kind == "broad" else 0.75)) + 6
        said = two_lines(arm.title, 22)
        names = [
            label(left - 22, y + 5 + 17 * (k - (len(said) - 1) / 2), words, "end", "name")
            for k, words in enumerate(said)
        ]
        if kind == "narrow":
            names = [label(left, y - 36, shorten(arm.title, 38), kind="name")]
        parts.append(group(*names, *_row(i, found, scale, y), title=_said(arm, found)))
    return svg(width, bottom + 26, parts, alt=alt, kind=kind)


def _row(i: int, found: Attack, scale: Scale, y: float) -> list[Html]:
    clean = found.clean  # of the same texts: a fall from the whole split's accuracy would mix two populations
    aua = found.aua or 0.0
    drawn = []
    if clean is not None:
        drawn += [line(scale(clean), y, scale(aua), y, f"fall {colour(i)}"), marker(scale(clean), y, i, 6, hollow=True)]
        near = scale(clean) - scale(aua) < 60  # two numbers would touch: the clean one goes beside its point
        drawn.append(
            label(
                scale(clean) + (13 if near else 0),
                y + 4.5 if near else y - 14,
                numbers.percent(clean),
                "start" if near else "middle",
                "quiet",
            )
        )
    if "aua" in found.intervals:
        low, high = found.intervals["aua"]
        drawn.append(
            tag(
                "rect",
                x=scale(low),
                y=y - 9,
                width=scale(high) - scale(low),
                height=18,
                rx=9,
                class_=f"haze {colour(i)}",
            )
        )
    return [
        *drawn,
        marker(scale(aua), y, i, 8, hollow=False),
        label(scale(aua), y - 14, numbers.percent(aua), "middle", "strong"),
    ]


def _said(arm: Arm, found: Attack) -> str:
    return f"{arm.title}: before {numbers.percent(found.clean)}, under attack {numbers.percent(found.aua)}"
