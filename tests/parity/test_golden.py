"""TextAttack's own results, replayed: status, final text, changed words and number of queries of every example are the same.

The files were written by ``scripts/textattack_parity`` running TextAttack; docs/guides/attacks/parity.md says what they prove.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from replaying import GOLDEN, chinese, difference, digests, golden_names, read, replay, samples
from robust_tickets.attack.textattack_compat import OFFERED, PREFIX
from robust_tickets.resources.words import STOPWORDS

FEWEST = 150  # examples a file must hold
LONG = 80  # words; six texts have more: these are left to the slow tests
OFFERS = [(recipe, profile.removeprefix(PREFIX)) for recipe, profiles in OFFERED.items() for profile in profiles]


def test_what_is_offered_is_what_was_checked() -> None:
    assert sorted(OFFERS) == sorted(golden_names())
    assert sum(file.stat().st_size for file in GOLDEN.rglob("*.*")) < 2_000_000


@pytest.mark.parametrize(("recipe", "version"), golden_names())
def test_files_are_of_this_corpus_and_large_enough(recipe: str, version: str) -> None:
    header, examples = read(recipe, version)
    assert (header["recipe"], header["textattack"]) == (recipe, version)
    assert (header["corpus"], header["made"], header["models"]) == digests()
    assert len(examples) == header["examples"] >= FEWEST
    assert header["success"] >= 30
    assert header["failed"] >= 10
    assert header["skipped"] >= 5


@pytest.mark.parametrize(("recipe", "version"), golden_names())
def test_every_example_ends_as_in_textattack(recipe: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared(recipe, version, monkeypatch, lambda sample: not long(sample), fewest=FEWEST)


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "version"), golden_names())
def test_long_texts_end_as_in_textattack(recipe: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared(recipe, version, monkeypatch, long, fewest=5)


def long(sample: Any) -> bool:
    return sum(len(text.split()) for text in sample.texts) > LONG


def compared(
    recipe: str, version: str, monkeypatch: pytest.MonkeyPatch, keep: Callable[[Any], bool], fewest: int
) -> None:
    """Replay what ``keep`` keeps of a file, but for what TextAttack itself failed on (test_failures): all of it must agree."""
    _, wanted = read(recipe, version)
    answered = {name for name, example in wanted.items() if example["status"] != "error"}
    kept = {name for name, sample in samples().items() if name in answered and keep(sample)}
    seen, wrong = set(), {}
    for name, outcome, final in replay(recipe, PREFIX + version, wanted, monkeypatch, live=7, only=kept):
        seen.add(name)
        if outcome.error:
            wrong[name] = str(outcome.error)
        elif found := difference(wanted[name], outcome, final):
            wrong[name] = found
    assert wrong == {}
    assert seen == kept
    assert len(seen) >= fewest


@pytest.mark.parametrize("recipe", sorted(OFFERED))
def test_own_rules_give_0_3_11s_results_but_where_they_differ(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own rules differ in Chinese text, in NLTK's newer stop words, and have no trouble with TextAttack's mark."""
    newer = (
        () if recipe == "textfooler" else tuple(STOPWORDS["nltk-198"] - STOPWORDS["nltk-179"])
    )  # TextFooler has a list of its own
    pattern = re.compile(r"<SPLIT>|\b(" + "|".join(newer) + r")\b" if newer else "<SPLIT>")
    _, wanted = read(recipe, "0.3.11")
    given = {"words": 8} if recipe == "bertattack" else {}  # its K is 48 here, as in TextAttack before 0.3.11
    kept = {n for n, s in samples().items() if not (long(s) or chinese(s) or pattern.search(" ".join(s.texts)))}
    outcomes = list(replay(recipe, None, wanted, monkeypatch, live=3, only=kept, given=given))
    wrong = {name: found for name, outcome, final in outcomes if (found := difference(wanted[name], outcome, final))}
    assert wrong == {}
    assert len(outcomes) == len(kept) >= FEWEST
