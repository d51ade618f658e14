"""The search for a recipe that wins: six configurations beside fine-tuning, and which of the goals the chosen one reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from robust_tickets.report import format as numbers
from robust_tickets.report.markup import Html, scroll, tag
from robust_tickets.reproduce.claims import Among, Judged, screened, told, trials, winner
from robust_tickets.reproduce.goals import goals, reached_of
from robust_tickets.reproduce.names import arm_title, attack_phrase
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import anchor_of, exact
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.wording import count

WRITE = (numbers.percent, numbers.points)  # a value and its gain
KINDS: dict[Among, str] = {"arms": "trained on word swaps", "plain": "plain fine-tuning, as many trials"}
CHIPS = {True: "sure", False: "success", None: "few"}  # how a goal that is reached, is not, or cannot be told is marked


def screening(outcomes: Sequence[Outcome], folder: Path) -> Html | None:
    """The configurations that were run; the rule that chooses was fixed beforehand."""
    found, asked = screened(outcomes, folder), told()["screen"]
    if not found:
        return None
    shown = tuple(attack_phrase(asked[which]) for which in ("attack", "shown"))
    heads = ("", "clean", "gain", shown[0], "gain", shown[1], "gain")
    head = tag("tr", *[tag("th", words, scope="col", class_="number" if i else None) for i, words in enumerate(heads)])
    base = f"{arm_title(asked['against'])}, the mean of its {count(found[0].beside, 'run')}"
    said = f"On {asked['split']}; gains in points over {base}. Of each the first {asked['seeds']} runs count, whatever is run later; no claim "
    said += f"is made here. The rule looks at {shown[0]} alone: {asked['rule']}"
    caption = tag("caption", tag("span", said))
    bodies = [_trials(among, outcomes, folder, len(heads)) for among in KINDS]
    chosen = winner(outcomes, folder)
    title = (
        f"Chosen: {arm_title(chosen)}"
        if chosen
        else f"{len(found)} of {len(asked['arms'])} configurations are run; none is chosen yet"
    )
    plain = winner(outcomes, folder, "plain")
    if chosen and plain:
        title += f"; to be beaten, the best of as many fine-tunings: {arm_title(plain)}"
    table = scroll("Screening", tag("table", caption, tag("thead", head), *bodies))
    question = "Which way of training on word swaps?"
    return tag("article", tag("h3", question), tag("p", title, ".", class_="verdict lesser"), table, class_="answer")


def _trials(among: Among, outcomes: Sequence[Outcome], folder: Path, columns: int) -> Html | None:
    """The configurations of one kind, the best by the rule first, under the attack that chooses and another."""
    asked = told()["screen"]
    rows = []
    for one, other in trials(outcomes, folder, among):
        link = tag(
            "a", arm_title(one.arm), href=f"#{anchor_of(Unit(task=asked['task'], arm=one.arm))}", class_="origin"
        )
        name = tag("th", link, tag("small", count(one.n, "run")), scope="row")
        pairs = [(one.clean, one.clean_gain), (one.aua, one.gain), (other.aua, other.gain) if other else (None, None)]
        rows.append(
            tag(
                "tr", name, *[_number(value, write) for pair in pairs for value, write in zip(pair, WRITE, strict=True)]
            )
        )
    head = tag("tr", tag("th", KINDS[among], colspan=columns, scope="rowgroup"))
    return tag("tbody", head, *rows) if rows else None


def _number(value: float | None, write: Callable[[float], str]) -> Html:
    return tag("td", numbers.NONE if value is None else tag("data", write(value), value=exact(value)), class_="number")


def reached(outcomes: Sequence[Outcome], folder: Path, judged: Sequence[Judged] | None = None) -> Html | None:
    """The goals, once a configuration is chosen. ``judged``: their family, where it is judged already."""
    chosen = winner(outcomes, folder)
    if chosen is None:
        return None
    found = goals(outcomes, folder, judged)
    items = []
    for goal in found:
        asked = tag("p", tag("b", goal.asked[:1].upper(), goal.asked[1:]), tag("small", goal.told), class_="name")
        items.append(tag("li", asked, tag("p", tag("span", goal.verdict, class_=f"chip {CHIPS[goal.reached]}"))))
    said = f"{reached_of(found)}."
    listed = tag("ul", *items, class_="claims goals")
    return tag(
        "article", tag("h3", "Does the recipe win?"), tag("p", said, class_="verdict lesser"), listed, class_="answer"
    )
