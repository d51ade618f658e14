"""The pages that are opened: reports of made-up runs, the page of a made-up folder of results; tame, or full of hostile texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_run import add_plan, make_run
from outcomes import outcomes
from robust_tickets.report.html import write_report
from robust_tickets.reproduce import figures
from robust_tickets.reproduce.outcome import Outcome, read_all, write
from robust_tickets.reproduce.page import write_page
from sweeping import run

KINDS = ("report", "reports", "results", "figure")  # of one run, of two, of a folder of results; a figure by itself
KEPT = tuple(
    sorted((Path(__file__).parents[2] / "results").glob("*.html"))
)  # of real results, where the repository has them
WORDS = "<b>hostile</b>"  # begins every hostile text, so that a page is known to show them
HOSTILE = (
    f"{WORDS} </script><script>window.harm = 'script'</script>",
    f"{WORDS} </style><img src=x onerror=\"window.harm = 'image'\">",
    f'{WORDS} "><svg onload="window.harm = \'drawing\'"> \' onmouseover=alert(1) x="',
    f"{WORDS} </blockquote></article></main><iframe srcdoc=\"<script>parent.harm = 'frame'</script>\"></iframe>",
    f"{WORDS} <link rel=stylesheet href=http://harm.invalid/a.css><meta http-equiv=refresh content='0;url=http://harm.invalid'>",
    f"{WORDS} override \u202egnirts\u202c isolate \u2066x\u2069 mark \u200f \u061c end",
    f"{WORDS} <form action=//harm.invalid><button autofocus onfocus=alert(1)>press</button></form><a href='javascript:alert(1)'>go</a>",
)
TEXTS = tuple((f"{words} good {words}", k % 2, "good", f"b{words}d") for k, words in enumerate(HOSTILE))


def shown(kind: str, folder: Path, *, hostile: bool = False) -> Path:
    """Make a page in ``folder``; the file."""
    given: dict[str, Any] = {"texts": TEXTS} if hostile else {}
    if kind == "results":
        outcomes(folder, **given)
        for epochs in (5, 25):
            write(folder, run(f"finetune_epochs_{epochs}", base="finetune"), {})
        for outcome in read_all(folder) if hostile else ():
            write(folder, _spoilt(outcome), {})
        return write_page(folder / "index.html", folder)
    if kind == "figure":
        found = read_all(outcomes(folder, **given))
        return figures.write(figures.figure("ER-F5", found), folder)
    if hostile:
        given |= {
            "title": HOSTILE[0],
            "arms": tuple((f"arm{k}", words, 0.3, 80.0, k == 0) for k, words in enumerate(HOSTILE)),
        }
    runs = [make_run(folder / "one", n=40, **given)]
    if kind == "reports":
        runs.append(make_run(folder / "two", n=40, seed=1, title="Demo: another run"))
        add_plan(runs[0], query_budget=50)
    return write_report(folder / "page.html", runs)


def _spoilt(outcome: Outcome) -> Outcome:
    """A result file of somebody who means harm: every free text is hostile."""
    words = HOSTILE[outcome.unit.seed % len(HOSTILE)]
    resources = {words: {"name": words, "origin": words, "digest": words, "substitute": True}}
    attacks = [
        replace(one, recipe=words, resources=resources, substitutes=HOSTILE, flags=HOSTILE, scoring=words)
        for one in outcome.attacks
    ]
    env = {"device": words, "packages": {words: words}, "python": words}
    config = {**outcome.config, "title": words, words: words}
    return replace(outcome, attacks=tuple(attacks), env=env, config=config, notes=HOSTILE)
