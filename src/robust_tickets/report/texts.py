"""The attacked texts: the original, then what each arm did with it, changed words marked; chosen by attack, outcome, arm, label and words.

All cards are in the page, which needs no script to be read; the script turns pages. A cap on their number and on their size keeps a page of
100,000 examples or of long reviews one that a browser opens at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.report.diff import folded, mark, opening
from robust_tickets.report.figures.axes import colour
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.report.run_data import Arm, Example, Run

__all__ = ["choice", "mark", "texts", "turner"]

MOST = 2000  # texts on the page over all attacks; the files hold all
SIZE = 6_000_000  # characters of markup, likewise
OPEN = 6  # of them in sight without the script
OUTCOMES = {
    "success": "fooled",
    "failed": "held",
    "skipped": "wrong before",
    "unknown": "attack failed",
    "error": "error",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One example under one attack, as every arm met it."""

    id: str
    attack: int  # its number among the run's
    outcomes: tuple[tuple[int, Arm, Example], ...]

    @property
    def split(self) -> bool:
        """Whether the arms fared differently."""
        return len({example.status for _, _, example in self.outcomes}) > 1

    @property
    def label(self) -> object:
        return self.outcomes[0][2].label


def texts(run: Run) -> Html | None:
    """All cases: of each attack, those on which the arms differ come first, each group in the order of the attack set."""
    told, shown = [], []
    keys = run.attack_keys
    for number, key in enumerate(keys):
        cases = _cases(run, key, number)
        if not cases:
            continue
        differ = sum(case.split for case in cases)
        said = f"{len(cases)} texts attacked with {run.attack_titles[key]}"
        said += f"; the arms fared differently on {differ}. Those come first." if len(run.arms) > 1 else "."
        ordered = sorted(
            cases, key=lambda case: (not case.split, all(e.status == "skipped" for _, _, e in case.outcomes))
        )
        cards = _fitting(run, ordered, MOST // len(keys), SIZE // len(keys))
        if len(cards) < len(cases):
            said += f" {len(cards)} are shown, examples.jsonl holds all."
        told.append(tag("p", said))
        shown += cards
    if not shown:
        return None
    more = None
    if len(shown) > OPEN:
        more = tag(
            "details", tag("summary", f"{len(shown) - OPEN} more texts"), *[c for c, _ in shown[OPEN:]], class_="more"
        )
    listed = tag("div", *[c for c, _ in shown[:OPEN]], more, class_="cases")
    return join([*told, _filters(run, [case for _, case in shown]), listed, turner()])


def _fitting(run: Run, cases: list[Case], most: int, size: int) -> list[tuple[Html, Case]]:
    found: list[tuple[Html, Case]] = []
    for case in cases[:most]:
        card = _card(run, case)
        size -= len(card)
        if size < 0 and found:
            break
        found.append((card, case))
    return found


def _cases(run: Run, attack: str, number: int) -> list[Case]:
    found: dict[str, list[tuple[int, Arm, Example]]] = {}
    for i, arm in enumerate(run.arms):
        result = arm.attack(attack)
        for example in result.examples if result else ():
            found.setdefault(example.id, []).append((i, arm, example))
    return [Case(id=key, attack=number, outcomes=tuple(rows)) for key, rows in found.items()]


def _filters(run: Run, cases: list[Case]) -> Html:
    """Controls that the script shows; without it the page simply lists everything. One choice is no choice and is left out."""
    attacks = {str(case.attack): run.attack_titles[run.attack_keys[case.attack]] for case in cases}
    labels = {_value(label): run.label(label) for label in sorted((case.label for case in cases), key=str)}
    arms = {str(i): arm.title for i, arm in enumerate(run.arms)}
    several = len(arms) > 1
    return tag(
        "form",
        choice("Attack ", "attack", "any", attacks) if len(attacks) > 1 else None,
        choice("Outcome ", "outcome", "any", OUTCOMES),
        choice("for ", "arm", "any arm", arms) if several else None,
        choice("True label ", "label", "any", labels) if len(labels) > 1 else None,
        tag("label", tag("input", type="checkbox", name="differ"), " arms differ") if several else None,
        tag("label", "Containing ", tag("input", type="search", name="words", autocomplete="off")),
        tag("button", "Show all", type="reset"),
        class_="filters",
        hidden=True,
        aria_label="Which texts to show",
    )


def choice(words: str, name: str, none: str, options: dict[str, str]) -> Html:
    """A field of the filters; ``none`` is what it says while it filters nothing."""
    listed = [tag("option", title, value=value) for value, title in options.items()]
    return tag("label", words, tag("select", tag("option", none, value=""), *listed, name=name))


def turner() -> Html:
    """Pages, for the script to turn."""
    return tag(
        "nav",
        tag("button", "Previous", type="button", class_="back"),
        tag("output", "", aria_live="polite"),
        tag("button", "Next", type="button", class_="on"),
        class_="turner",
        hidden=True,
        aria_label="Pages of texts",
    )


def _value(label: object) -> str:
    """A label as a filter's value; never empty, which stands for any."""
    return f"={label}"


def _card(run: Run, case: Case) -> Html:
    first = case.outcomes[0][2]
    rows = [_outcome(run, i, arm, example) for i, arm, example in case.outcomes]
    which = f" {run.attack_titles[run.attack_keys[case.attack]]} · " if len(run.attack_keys) > 1 else " "
    head = tag(
        "p", tag("span", case.id, class_="id"), which, "true label ", tag("b", run.label(first.label)), class_="about"
    )
    body = join([opening(column) for column in first.original])
    marks = {"data_attack": str(case.attack), "data_label": _value(case.label), "data_differ": case.split}
    return tag("article", head, body, tag("ul", *rows), class_="case", **marks)


def _outcome(run: Run, index: int, arm: Arm, example: Example) -> Html:
    word = OUTCOMES[example.status]
    head = tag(
        "p",
        tag("span", arm.title, class_=f"arm {colour(index)}"),
        " ",
        tag("span", word, class_=f"chip {example.status}"),
        " ",
        tag("small", notes) if (notes := _notes(run, example)) else None,
    )
    body = None
    if example.status == "success" and example.perturbed is not None:
        before = [*example.original, *[""] * (len(example.perturbed) - len(example.original))]
        body = join([folded(old, new) for old, new in zip(before, example.perturbed, strict=False)])
    return tag("li", head, body, data_arm=str(index), data_outcome=example.status)


def _notes(run: Run, example: Example) -> str:
    notes = []
    if example.status == "success":
        notes.append(f"now {run.label(example.predicted)}")
        if example.words and example.words_changed is not None:
            notes.append(f"{example.words_changed} of {example.words} words changed")
        if example.similarity is not None:
            notes.append(f"similarity {example.similarity:.3f}")
    if example.queries is not None and example.status in ("success", "failed"):
        notes.append(f"{example.queries} queries")
    if example.error:
        notes.append(example.error)
    return ", ".join(notes)
