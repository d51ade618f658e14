"""The rows of the data that a run left out, with the reason of each."""

from __future__ import annotations

from robust_tickets.files import listed
from robust_tickets.report.markup import Html, tag
from robust_tickets.report.run_data import Run, number
from robust_tickets.run import BAD_ROWS


def left_out(run: Run) -> Html | None:
    """A list of the first of them; the run folder's file has the others."""
    rows = [str(row) for row in listed(run.task.get("bad_rows") or [])]
    count = int(number(run.task.get("skipped_rows")) or 0)
    if not rows:
        return None
    more = f"The first {len(rows)} of {count}; {BAD_ROWS} in the run folder lists more." if count > len(rows) else ""
    return tag("div", tag("p", more) if more else None, tag("ul", *[tag("li", row) for row in rows], class_="said"))
