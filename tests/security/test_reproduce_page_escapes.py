"""Nothing that an attacked text or a result file says becomes markup on the page of results, breaks it, or reorders what a reader sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile import HOSTILE, ORDER, Elements
from outcomes import outcomes
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.aggregate import standings
from robust_tickets.reproduce.attacked_texts import texts
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page import PARTS, origins


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return outcomes(tmp_path_factory.mktemp("results"), arms=("finetune", "random"), seeds=1, repeats=1)


def _attacked(one: Outcome, words: str) -> Outcome:
    """The outcome with ``words`` wherever a text, a label or a name may stand."""
    text = {
        "id": one.attacks[0].texts[0]["id"],
        "label": words,
        "original": [f"good {words}", words],
        "perturbed": [f"bad {words}", words],
    }
    attack = replace(one.attacks[0], texts=({**text, "before": 0.9, "after": None},), substitutes=(words,))
    return replace(one, attacks=(attack,), notes=(words,), env={"device": words, "packages": {"torch": words}})


def _shown(found: list[Outcome], folder: Path) -> str:
    standing = standings(found)
    return f"{texts(standing, folder)}{PARTS.origins(origins(standing))}"


@pytest.mark.parametrize("words", HOSTILE)
def test_words_in_the_place_of_a_number_are_refused(folder: Path, words: str) -> None:
    found = [_attacked(one, "plain") for one in read_all(folder)]
    one = found[0].attacks[0]
    wrong = replace(found[0], attacks=(replace(one, texts=({**one.texts[0], "before": words},)),))
    with pytest.raises(TicketsError, match="for a number"):
        _shown([wrong, *found[1:]], folder)


@pytest.mark.parametrize("words", HOSTILE)
def test_texts_stay_texts(folder: Path, words: str) -> None:
    found = read_all(folder)
    plain = Elements(_shown([_attacked(one, "plain") for one in found], folder))
    shown = _shown([_attacked(one, words) for one in found], folder)
    parsed = Elements(shown)
    allowed = {
        *plain.found,
        ("bdi", ("dir",)),
        ("blockquote", ("dir",)),
        ("del", ()),
        ("ins", ()),
        ("summary", ()),
        ("details", ("class",)),
    }
    assert set(parsed.found) <= allowed
    assert parsed.odd == 0
    assert not ORDER.search(shown)
    shown.encode("utf-8")


@given(words=st.text(st.characters(), min_size=1, max_size=40))
@settings(max_examples=30, deadline=None)
def test_any_text_is_shown_as_it_is(folder: Path, words: str) -> None:
    shown = _shown([_attacked(one, words) for one in read_all(folder)], folder)
    parsed = Elements(shown)
    assert parsed.odd == 0
    assert {tag for tag, _ in parsed.found}.isdisjoint(
        {"script", "img", "iframe", "object", "style", "link", "base", "meta"}
    )
    assert not any(name.startswith("on") or name == "style" for _, names in parsed.found for name in names)
    assert not ORDER.search(shown)


def test_a_text_that_was_kept_badly_costs_its_card_alone(folder: Path) -> None:
    found = list(read_all(folder))
    odd = [
        replace(found[0].attacks[0], texts=({"id": 3}, {}, {"id": "x", "original": None, "perturbed": 7})),
        *found[0].attacks[1:],
    ]
    assert "validation:" in _shown([replace(found[0], attacks=tuple(odd)), *found[1:]], folder)
