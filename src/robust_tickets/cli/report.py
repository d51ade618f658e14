"""The verb ``report``."""

from __future__ import annotations

from pathlib import Path

from robust_tickets.cli.options import Answer, Common
from robust_tickets.errors import TicketsError


def report(*runs: Path, out: Path | None = None, common: Common = Common()) -> Answer:  # noqa: B008
    """Write the page of one or more runs or attacks.

    Parameters
    ----------
    runs
        Run folders (`tickets ls runs`), and folders that `tickets attack` wrote; those share one comparison.
    out
        The HTML file; by default report.html in the folder.
    """
    from robust_tickets.report.html import write_report

    if not runs:
        raise TicketsError(
            "report: no run or attack folder given", hint="`tickets ls runs` lists them", code="usage.missing"
        )
    if out is None and len(runs) > 1:
        raise TicketsError(
            "report: where should the page of several folders go?", hint="--out report.html", code="usage.missing"
        )
    page = out or runs[0] / "report.html"
    if page.is_dir():
        raise TicketsError(
            f"report: --out {page} is a folder",
            hint=f"give the file to write: --out {page / 'report.html'}",
            code="usage.out",
        )
    write_report(page, list(runs))
    return Answer(data={"report": str(page)}, show=lambda console: print(f"report: {page}"))
