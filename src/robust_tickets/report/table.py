"""The table of all arms. Every number sits in a ``<data value=…>`` with its full precision, so that the page can be read by machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from robust_tickets.report import format as numbers
from robust_tickets.report.compare import Contest, contest
from robust_tickets.report.flagged import cited
from robust_tickets.report.markup import Html, join, scroll, tag
from robust_tickets.report.run_data import Arm, Attack, Run
from robust_tickets.report.verdict import total_seconds

HEADS = (
    ("clean, all texts", "accuracy on the whole evaluated split, unattacked"),
    ("clean, attacked texts", "accuracy before the attack on the texts that were then attacked"),
    ("under attack", "accuracy after the attack on the same texts; one that was wrong before counts as wrong"),
    (
        "attack wins",
        "of the texts that were right before, the share that the attack turned; below it how many there were",
    ),
    ("queries", "how often the attack asked the model per text that was right before; the mean"),
    ("words changed", "mean share of a text's words that were changed where the attack won"),
    (
        "similarity",
        "mean cosine that the attack's own constraint measured where it won, of the whole text or of a window; others have none",
    ),
    ("parameters", "all of the model's, embeddings included"),
    ("FLOPs", "floating-point operations of one forward pass over one text"),
    ("time", "search and training together where the search was timed, else training"),
    ("p", "exact McNemar test against the baseline on the same texts; below it, adjusted (Holm) for all pairs of arms"),
)

# a measured value: how it is written, and how many decimals its interval has
SHOWN: Mapping[str, tuple[Callable[[float | None], str], int]] = {
    "clean": (numbers.percent, 1),
    "aua": (numbers.percent, 1),
    "suc": (numbers.percent, 1),
    "queries": (lambda value: numbers.count(value, 1), 1),
    "perturbed": (numbers.percent, 1),
    "similarity": (numbers.similarity, 3),
}


class Cell(NamedTuple):
    html: Html
    filled: bool


def arms_table(run: Run, attack: str | None, anchor: str) -> Html:
    """One row per arm under one attack (None: no attack was made)."""
    title = run.attack_titles[attack] if attack else "no attack"
    counts = f"{run.title}: {len(run.arms)} arm{'s' if len(run.arms) != 1 else ''}, {title}.{_counts(run, attack)}"
    noted = attack is not None and any(found.flags for arm in run.arms if (found := arm.attack(attack)) is not None)
    caption = f"{counts} Under a number its 95{numbers.GLUE}% interval{'; a raised number is that of a note above' if noted else ''}."
    tests = contest(run, attack)
    rows = [(arm.title, _row(run, arm, attack, tests, anchor)) for arm in run.arms]
    return _table(caption, f"{run.title}: results, {title}", rows, "arm")


def joint_table(runs: Sequence[Run]) -> Html:
    """All arms of all runs, under every attack."""
    rows = []
    for k, run in enumerate(runs):
        for attack in run.attack_keys or (None,):
            tests = contest(run, attack)
            for arm in run.arms:
                where = f"{run.title} · {run.attack_titles[attack] if attack else 'no attack'}"
                rows.append((join([arm.title, tag("small", where)], " "), _row(run, arm, attack, tests, f"r{k + 1}")))
    caption = "All runs: one row per arm and attack. p compares with the baseline of the same run."
    return _table(caption, f"Results of all {len(runs)} runs", rows, "arm, run")


def legend(run: Run) -> Html:
    """What every column means, in sight: a title that shows on hovering helps neither a finger nor a keyboard."""
    tested = [(attack, contest(run, attack)) for attack in run.attack_keys or (None,)]
    rows = [_row(run, arm, attack, tests, "") for attack, tests in tested for arm in run.arms]
    entries = [tag("div", tag("dt", HEADS[k][0]), tag("dd", HEADS[k][1])) for k in _kept(rows)]
    return tag("dl", *entries, class_="legend")


def pairs_table(run: Run, attack: str) -> Html | None:
    """Every arm against every other under one attack."""
    rows = []
    for pair in contest(run, attack).pairs:
        only = tuple(sum(a and not b for a, b in rows_) for rows_ in (pair.outcomes, pair.turned().outcomes))
        shown = [
            numbers.points(pair.difference), numbers.signed_span((pair.low, pair.high)), numbers.signed_span(pair.bootstrap),
            f"{only[0]} : {only[1]}", str(pair.n), numbers.p_value(pair.p), numbers.p_value(pair.adjusted),
        ]  # fmt: skip
        name = join([pair.arm.title, tag("small", f"against {pair.other.title}")], " ")
        rows.append(tag("tr", tag("th", name, scope="row"), *[tag("td", cell, class_="number") for cell in shown]))
    if not rows:
        return None
    heads = ("difference", "interval", "bootstrap interval", "held alone", "n", "p", "p, adjusted")
    head = tag("tr", tag("th", "pair", scope="col"), *[tag("th", h, scope="col", class_="number") for h in heads])
    caption = (
        "Accuracy under attack, first arm minus second, in points, on the texts that both met. The interval is Newcombe's for paired "
        "proportions, which holds at small n too; the bootstrap's has no width where two arms never differ. Held alone: texts that only "
        "the first, and only the second, still got right. p: exact McNemar test; adjusted for all pairs by Holm's method."
    )
    table = tag("table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *rows))
    label = f"{run.title}: pairs of arms, {run.attack_titles[attack]}"
    return tag("details", tag("summary", "Every arm against every other"), scroll(label, table))


def _counts(run: Run, attack: str | None) -> str:
    """How many texts the two kinds of clean accuracy are of."""
    found = next((f for arm in run.arms if (f := arm.attack(attack)) is not None), None)
    whole = next((arm.evaluation for arm in run.arms if arm.evaluation is not None and arm.evaluation.n), None)
    parts = [f"All texts: the {whole.n} of {whole.split or 'the split'}" if whole else ""]
    parts.append(f"attacked texts: {found.n} of {found.split or 'the split'}" if found else "")
    said = "; ".join(filter(None, parts))
    return f" {said[0].upper()}{said[1:]}." if said else ""


def _table(caption: str, label: str, rows: Sequence[tuple[object, list[Cell]]], first: str) -> Html:
    """Columns in which no row has anything are left out."""
    kept = _kept([cells for _, cells in rows])
    heads = [tag("th", first, scope="col")]
    heads += [tag("th", tag("abbr", HEADS[k][0], title=HEADS[k][1]), scope="col", class_="number") for k in kept]
    body = [tag("tr", tag("th", name, scope="row"), *[cells[k].html for k in kept]) for name, cells in rows]
    return scroll(
        label, tag("table", tag("caption", tag("span", caption)), tag("thead", tag("tr", *heads)), tag("tbody", *body))
    )


def _kept(rows: Sequence[list[Cell]]) -> list[int]:
    return [k for k in range(len(HEADS)) if any(cells[k].filled for cells in rows)]


def _row(run: Run, arm: Arm, attack: str | None, tests: Contest, anchor: str) -> list[Cell]:
    notes = cited(run, attack, arm, anchor)
    found = arm.attack(attack)
    across = arm.evaluation.interval if arm.evaluation else None
    base = run.base
    pair = tests.between(arm, base)
    adjusted = f"adj. {numbers.p_value(pair.adjusted)}" if pair and pair.of > 1 else ""
    cost = arm.cost
    return [
        _cell("clean", arm.clean, numbers.percent(arm.clean), numbers.brief(across)),
        _measured("clean", found, notes, "clean_attacked"),
        *(_measured(key, found, notes) for key in SHOWN if key != "clean"),
        _cell("parameters", cost.get("parameters"), numbers.amount(cost.get("parameters"))),
        _cell("flops", cost.get("flops_per_example"), numbers.amount(cost.get("flops_per_example")), _ratio(arm)),
        _cell("seconds", total_seconds(arm), numbers.seconds(total_seconds(arm))),
        _cell(
            "p",
            pair.p if pair else None,
            "baseline" if arm is base else numbers.p_value(pair.p if pair else None),
            adjusted,
        ),
    ]


def _measured(key: str, found: Attack | None, notes: Mapping[str, Html], name: str = "") -> Cell:
    value = getattr(found, key) if found else None
    interval = found.intervals.get(key) if found and value is not None else None
    written, digits = SHOWN[key]
    below = (
        f"{interval[0]:.{digits}f}–{interval[1]:.{digits}f}" if interval and key != "queries" else ""
    )  # room for the rest
    if key == "suc" and found and found.attacked is not None:
        below = f"{below} of {found.attacked}".strip()
    return _cell(name or key, value, written(value), below, notes.get(name or key) if value is not None else None)


def _ratio(arm: Arm) -> str:
    mine, dense = arm.cost.get("flops_per_example"), arm.cost.get("dense_flops_per_example")
    return f"{dense / mine:.2f} × fewer" if mine and dense and dense != mine else ""


def _cell(key: str, value: float | None, shown: str, below: str = "", notes: Html | None = None) -> Cell:
    number = tag("data", shown, value=repr(value)) if value is not None else tag("span", shown, class_="none")
    html = tag("td", number, notes, tag("small", below) if below else None, class_="number", data_key=key)
    return Cell(html, value is not None)


def per_class_table(run: Run) -> Html | None:
    """Precision, recall and F1 of every class, for every arm that was evaluated."""
    rows = []
    for arm in run.arms:
        for i, row in enumerate(arm.evaluation.per_class if arm.evaluation else ()):
            cells = [
                tag("td", numbers.percent(_float(row.get(key))), class_="number")
                for key in ("precision", "recall", "f1")
            ]
            label = run.label(row.get("label", i))
            rows.append(
                tag(
                    "tr",
                    tag("th", arm.title, scope="row"),
                    tag("td", label),
                    tag("td", str(row.get("n", "")), class_="number"),
                    *cells,
                )
            )
    if not rows:
        return None
    heads = [
        tag("th", h, scope="col", class_="number" if i > 1 else None)
        for i, h in enumerate(("arm", "class", "n", "precision", "recall", "F1"))
    ]
    table = tag(
        "table",
        tag("caption", "Per class, on the whole split, unattacked."),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
    )
    macro = [
        f"{a.title} {numbers.percent(a.evaluation.macro_f1)}"
        for a in run.arms
        if a.evaluation and a.evaluation.macro_f1 is not None
    ]
    return tag(
        "details",
        tag("summary", "Per class"),
        tag("p", "Macro-F1: ", ", ".join(macro), "."),
        scroll(f"{run.title}: classes", table),
    )


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
