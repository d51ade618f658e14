"""The table of all arms. Every number sits in a ``<data value=…>`` with its full precision, so that the page can be read by machine."""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.report import numbers
from robust_tickets.report.compare import compare
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.report.model import Arm, Attack, Run
from robust_tickets.report.verdict import attack_title, total_seconds

HEADS = (
    ("clean", "Accuracy on the whole split, unattacked"),
    ("under attack", "Accuracy under attack: still right after the attack; texts that were wrong before count as wrong"),
    ("attack wins", "Success rate: share of the attacked texts that were turned; texts wrong before are left out"),
    ("queries", "Mean number of times the attack asked the model, per attacked text"),
    ("words changed", "Mean share of the words changed where the attack won"),
    ("parameters", "All parameters, embeddings included"),
    ("FLOPs", "Floating-point operations of one forward pass over one text"),
    ("time", "Search and training together, where the search was timed; else training"),
    ("p", "Exact McNemar test against the baseline on the same texts, not adjusted"),
)


def arms_table(run: Run, attack: str | None) -> Html:
    """One row per arm under one attack (None: no attack was made)."""
    title = attack_title(attack) if attack else "no attack"
    caption = f"{run.title}: {len(run.arms)} arms, {title}. Under each percentage its 95 % interval."
    return _table(caption, [(arm.title, _row(run, arm, attack)) for arm in run.arms], ("arm",), run)


def joint_table(runs: Sequence[Run]) -> Html:
    """All arms of all runs, under every attack."""
    rows = []
    for run in runs:
        for attack in run.attack_names or (None,):
            for arm in run.arms:
                where = f"{run.title} · {attack_title(attack) if attack else 'no attack'}"
                rows.append((join([arm.title, tag("small", where)], " "), _row(run, arm, attack)))
    return _table("All runs: one row per arm and attack. p compares with the baseline of the same run.", rows, ("arm, run",), runs[0])


def _table(caption: str, rows: Sequence[tuple[object, list[Html]]], first: tuple[str, ...], run: Run) -> Html:
    heads = [tag("th", name, scope="col") for name in first]
    heads += [tag("th", tag("abbr", name, title=why), scope="col", class_="number") for name, why in HEADS]
    body = [tag("tr", tag("th", name, scope="row"), *cells) for name, cells in rows]
    table = tag("table", tag("caption", tag("span", caption)), tag("thead", tag("tr", *heads)), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Table of results")


def _row(run: Run, arm: Arm, attack: str | None) -> list[Html]:
    found = arm.attack(attack) if attack else None
    evaluation = arm.evaluation
    base = run.base
    is_base = base is not None and arm.name == base.name
    pair = compare(arm, base, attack) if base is not None and attack and not is_base else None
    return [
        _cell(
            "clean", arm.clean, numbers.percent(arm.clean), numbers.span(evaluation.interval) if evaluation and evaluation.interval else ""
        ),
        _measured("aua", found),
        _measured("suc", found),
        _cell("queries", found.queries if found else None, numbers.count(found.queries if found else None, 1)),
        _cell("perturbed", found.perturbed if found else None, numbers.percent(found.perturbed if found else None)),
        _cell("parameters", arm.cost.get("parameters"), numbers.amount(arm.cost.get("parameters"))),
        _cell("flops", arm.cost.get("flops_per_example"), numbers.amount(arm.cost.get("flops_per_example")), _ratio(arm)),
        _cell("seconds", total_seconds(arm), numbers.seconds(total_seconds(arm))),
        _cell("p", pair.p if pair else None, "baseline" if is_base else numbers.p_value(pair.p if pair else None)),
    ]


def _measured(key: str, found: Attack | None) -> Html:
    value = getattr(found, key) if found else None
    interval = found.intervals.get(key) if found else None
    return _cell(key, value, numbers.percent(value), numbers.span(interval) if interval and value is not None else "")


def _ratio(arm: Arm) -> str:
    mine, dense = arm.cost.get("flops_per_example"), arm.cost.get("dense_flops_per_example")
    return f"{dense / mine:.2f} × fewer" if mine and dense and dense != mine else ""


def _cell(key: str, value: float | None, shown: str, below: str = "") -> Html:
    number = tag("data", shown, value=repr(value)) if value is not None else tag("span", shown, class_="none")
    return tag("td", number, tag("small", below) if below else None, class_="number", data_key=key)


def per_class_table(run: Run) -> Html | None:
    """Precision, recall and F1 of every class, for every arm that was evaluated."""
    rows = []
    for arm in run.arms:
        for i, row in enumerate(arm.evaluation.per_class if arm.evaluation else ()):
            cells = [tag("td", numbers.percent(_float(row.get(key))), class_="number") for key in ("precision", "recall", "f1")]
            label = run.label(row.get("label", i))
            rows.append(
                tag("tr", tag("th", arm.title, scope="row"), tag("td", label), tag("td", str(row.get("n", "")), class_="number"), *cells)
            )
    if not rows:
        return None
    heads = [
        tag("th", h, scope="col", class_="number" if i > 1 else None)
        for i, h in enumerate(("arm", "class", "n", "precision", "recall", "F1"))
    ]
    table = tag("table", tag("caption", "Per class, on the whole split, unattacked."), tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    scroll = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Table of classes")
    macro = [f"{a.title} {numbers.percent(a.evaluation.macro_f1)}" for a in run.arms if a.evaluation and a.evaluation.macro_f1 is not None]
    return tag("details", tag("summary", "Per class"), tag("p", "Macro-F1: ", ", ".join(macro), "."), scroll)


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
