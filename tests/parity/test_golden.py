"""TextAttack's own results, replayed: status, final text, changed words and number of queries of every example are the same.

The files were written by ``scripts/textattack_parity`` running TextAttack; docs/attacks/parity.md says what they prove.
"""

from __future__ import annotations

import pytest

from replaying import GOLDEN, JIEBA, chinese, difference, golden_names, made, models, read, replay, texts
from robust_tickets.attack.rules import OFFERED, PREFIX

FEWEST = 150  # examples a file must hold
# Texts TextAttack itself fails on, with the reason; docs/attacks/parity.md has more on each.
FAILING = {"text3:17": "it joins columns by <SPLIT>, and a single text that holds this mark falls apart when a word is swapped"}
OFFERS = [(recipe, profile.removeprefix(PREFIX)) for recipe, profiles in OFFERED.items() for profile in profiles]


def test_what_is_offered_is_what_was_checked() -> None:
    assert sorted(OFFERS) == sorted(golden_names())
    assert sum(file.stat().st_size for file in GOLDEN.iterdir()) < 2_000_000


@pytest.mark.parametrize(("recipe", "version"), golden_names())
def test_files_are_of_this_corpus_and_large_enough(recipe: str, version: str) -> None:
    header, examples = read(recipe, version)
    assert (header["recipe"], header["textattack"]) == (recipe, version)
    assert header["corpus"] == texts.digest()
    assert (header["made"], header["models"]) == (made.digest(), models.digest())
    assert len(examples) == header["examples"] >= FEWEST
    assert header["success"] >= 30
    assert header["failed"] >= 10
    assert header["skipped"] >= 5
    assert {name for name, example in examples.items() if example["status"] == "error"} <= FAILING.keys()


@pytest.mark.parametrize(("recipe", "version"), golden_names())
def test_every_example_ends_as_in_textattack(recipe: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted = read(recipe, version)
    wrong, seen = {}, set()
    for name, outcome, final in replay(recipe, PREFIX + version, wanted, monkeypatch, live=7):
        theirs = wanted[name]
        seen.add(name)
        if theirs["status"] == "error":  # see test_textattacks_own_failures: here it is an answer, or an error that says whose it is
            if outcome.status == "error" and "itself fails" not in str(outcome.error):
                wrong[name] = f"{outcome.error}, TextAttack: {theirs['error']}"
        elif outcome.status == "error":
            wrong[name] = str(outcome.error)
        elif found := difference(theirs, outcome, final):
            wrong[name] = found
    assert wrong == {}
    samples = {f"{group}:{row}": sample for group, each in texts.groups().items() for row, sample in enumerate(each)}
    assert all(not JIEBA and chinese(samples[name]) for name in wanted.keys() - seen)
