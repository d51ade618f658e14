"""Every run a dot: the first figure, one row an arm, and the same as a thumbnail inside a table's cell.

A mean hides what this page is about: how far the runs of one method lie apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.report import format as numbers
from robust_tickets.report.charts import (
    Scale,
    around,
    colour,
    figure,
    folded,
    group,
    label,
    line,
    marker,
    markers,
    svg,
)
from robust_tickets.report.markup import Html, tag
from robust_tickets.reproduce.page.standing import Against, Measured, Standing

MOST = 12  # rows; more would be no figure to look at
THUMB, HIGH, DOT = 96, 14, 2.6  # pixels of a thumbnail and of its marks
LINES = 3  # of a name
LETTERS = 24  # of a line of a name; capitals are wide
ACROSS = 38  # letters of a line of a name on a phone
BESIDE = 19  # letters of a name for which there is room beside its value on a phone
Row = tuple[Standing, Measured]


def strip(found: Sequence[Standing], attack: Against, *, first: bool = True) -> Html | None:
    """All arms under one attack, the sturdiest above. The first explains the marks.

    Where there are too many, those with most runs are shown, of as many runs the sturdier: none is left out for a weaker one.
    """
    rows = [(one, measured) for one in found if (measured := one.measured("aua", attack)) is not None]
    if not rows:
        return None
    shown = sorted(
        sorted(rows, key=lambda row: (-row[1].n, -row[1].mean, row[0].place))[:MOST], key=lambda row: -row[1].mean
    )
    title = attack.title
    caption = f"Accuracy under {title}, %."
    if first:
        caption += (
            " A mark is one training run, a faint one a further run of a seed that was run before; the line is the mean, the haze "
            f"its 95{numbers.GLUE}% interval over runs, cut at 0 and 100. The axis does not start at zero."
        )
    if len(shown) < len(rows):
        caption += f" {len(shown)} of {len(rows)} arms, those with most runs and of as many runs the sturdier; the table below has all."
    alt = f"Accuracy under {title}. " + "; ".join(said(one.title, measured) for one, measured in shown)
    values = [run.value for _, m in shown for run in m.runs] + [v for _, m in shown for v in _inside(m)]
    low, high = around(values, max(1.0, 0.06 * (max(values) - min(values))))
    return figure(
        [_draw(shown, low, high, 940, alt, "broad"), _draw(shown, low, high, 350, alt, "narrow")], caption, "strip"
    )


def said(title: str, measured: Measured) -> str:
    interval = measured.reach
    reach = f", interval {numbers.span(interval)}" if interval else ""
    return f"{title}: {numbers.percent(measured.mean)}{reach}, {runs(measured.n)}"


def runs(n: int) -> str:
    return f"{n} run{'s' if n != 1 else ''}"


def _inside(measured: Measured) -> tuple[float, ...]:
    """The ends of an interval, which belong on the axis."""
    return tuple(measured.reach or ())


def _draw(rows: Sequence[Row], low: float, high: float, width: int, alt: str, kind: str) -> Html:
    broad = kind == "broad"
    stacked = not broad and any(len(one.title) > BESIDE for one, _ in rows)
    lines = max(len(folded(one.title, ACROSS, 2)) for one, _ in rows)
    left, end, height, top = (
        (244, width - 200, 46, 8) if broad else (14, width - 14, (86 if stacked else 70) + 17 * (lines - 1), 2)
    )
    scale = Scale(low=low, high=high, start=left, end=end)
    bottom = top + height * len(rows)
    parts: list[Html] = []
    for t in scale.ticks(7 if broad else 4):
        parts += [
            line(scale(t), top, scale(t), bottom, "grid"),
            label(scale(t), bottom + 18, f"{t:g}", "middle", "tick"),
        ]
    for i, (one, measured) in enumerate(rows):
        middle = top + height * (i + 0.5) if broad else top + height * (i + 1) - 22
        parts.append(_row(one, measured, scale, middle, left, broad, stacked))
    return svg(width, bottom + 26, parts, alt=alt, kind=kind)


def _row(one: Standing, measured: Measured, scale: Scale, y: float, left: float, broad: bool, stacked: bool) -> Html:
    size, interval, place = 6.5 if broad else 5.5, measured.reach, one.place
    drawn = [line(scale.start, y, scale.end, y, "leader")]
    if interval:
        start, end = (min(max(scale(v), scale.start), scale.end) for v in interval)
        drawn.append(
            tag("rect", x=start, y=y - 13, width=max(2.0, end - start), height=26, rx=4, class_=f"haze {colour(place)}")
        )
    drawn += markers([scale(run.value) for run in measured.runs if run.repeat], y, place, size * 0.8, "again")
    drawn += markers([scale(run.value) for run in measured.runs if not run.repeat], y, place, size, "dot")
    drawn.append(line(scale(measured.mean), y - 15, scale(measured.mean), y + 15, f"mean {colour(place)}"))
    value, reach = numbers.percent(measured.mean), numbers.span(interval) if interval else ""
    told = ", ".join(filter(None, (reach, runs(measured.n))))
    if broad:
        words = folded(one.title, LETTERS, LINES)
        apart = 17 if len(words) < LINES else 14.5
        names = [
            label(left - 18, y + 5 + apart * (k - (len(words) - 1) / 2), w, "end", "name") for k, w in enumerate(words)
        ]
        names += [label(scale.end + 18, y - 1, value, kind="strong"), label(scale.end + 18, y + 16, told, kind="quiet")]
    else:
        words = folded(one.title, ACROSS, 2)
        above = y - (41 if stacked else 24) - 17 * (len(words) - 1)
        names = [label(left, above + 17 * k, said, kind="name") for k, said in enumerate(words)]
        shown = " · ".join(filter(None, (value, reach, runs(measured.n))))
        names.append(
            label(left, y - 24, shown, kind="quiet") if stacked else label(scale.end, y - 24, shown, "end", "quiet")
        )
    return group(*drawn, *names, title=said(one.title, measured))


def thumbnail(measured: Measured, place: int, low: float, high: float) -> Html:
    """A cell's runs on the axis of its column; the number beside it is its text, so that it is hidden from screen readers."""
    scale = Scale(low=low, high=high, start=4, end=THUMB - 4)
    interval = measured.reach
    parts = [line(0, HIGH / 2, THUMB, HIGH / 2, "leader")]
    if interval:
        start, end = (min(max(scale(v), 0.0), float(THUMB)) for v in interval)
        parts.append(
            tag(
                "rect",
                x=start,
                y=2,
                width=max(1.5, end - start),
                height=HIGH - 4,
                rx=2,
                class_=f"haze full {colour(place)}",
            )
        )
    parts += markers([scale(run.value) for run in measured.runs if not run.repeat], HIGH / 2, place, DOT)
    return tag("svg", *parts, width=THUMB, height=HIGH, aria_hidden="true", class_="thumb")


def swatch(place: int) -> Html:
    """An arm's mark beside its name."""
    return tag(
        "svg", marker(7, 7, place, 5), viewBox="0 0 14 14", width=14, height=14, aria_hidden="true", class_="swatch"
    )
