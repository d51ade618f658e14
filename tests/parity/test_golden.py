"""TextAttack's own results, replayed: status, final text, changed words and number of queries of every example are the same.

The files were written by ``scripts/textattack_parity`` running TextAttack; docs/attacks/parity.md says what they prove.
"""

from __future__ import annotations

import re

import pytest

from replaying import GOLDEN, JIEBA, chinese, difference, digests, golden_names, read, replay, texts
from robust_tickets.attack.rules import OFFERED, PREFIX
from robust_tickets.lexicon import stopwords

FEWEST = 150  # examples a file must hold
# Texts TextAttack itself fails on, with the reason; docs/attacks/parity.md has more on each.
YEARS = "TextAttack would try 48^9 combinations of pieces for rock'n'roll"
FAILING = {
    "text3:17": "it joins columns by <SPLIT>, and a single text that holds this mark falls apart when a word is swapped",
    "text2:63": YEARS,
    "premise2:8": YEARS,
}
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
    failed = {name: example["error"] for name, example in examples.items() if example["status"] == "error"}
    assert failed.keys() <= FAILING.keys()
    assert all(("48^9" in error) == (FAILING[name] == YEARS) for name, error in failed.items())


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


@pytest.mark.parametrize("recipe", sorted(OFFERED))
def test_own_rules_give_0_3_11s_results_but_where_they_differ(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own rules differ in Chinese text, in NLTK's newer stop words, and have no trouble with TextAttack's mark."""
    newer = () if recipe == "textfooler" else tuple(stopwords.nltk(198) - stopwords.nltk(179))  # TextFooler has a list of its own
    pattern = re.compile(r"<SPLIT>|\b(" + "|".join(newer) + r")\b" if newer else "<SPLIT>")
    _, wanted = read(recipe, "0.3.11")
    given = {"words": 8} if recipe == "bertattack" else {}  # its K is 48 here, as in TextAttack before 0.3.11
    outcomes = replay(
        recipe, None, wanted, monkeypatch, live=3, keep=lambda s: not (chinese(s) or pattern.search(" ".join(s.texts))), given=given
    )
    wrong = {name: found for name, outcome, final in outcomes if (found := difference(wanted[name], outcome, final))}
    assert wrong == {}


@pytest.mark.parametrize("recipe", ["pwws", "deepwordbug"])
def test_textattacks_own_failures(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one text TextAttack fails on is an ordinary one to own rules: nothing in it but the mark keeps it from being attacked."""
    _, wanted = read(recipe, "0.3.11")
    marked = [
        (name, outcome) for name, outcome, _ in replay(recipe, None, wanted, monkeypatch, live=1, keep=lambda s: "<SPLIT>" in s.texts[0])
    ]
    assert [name for name, _ in marked] == ["text3:17"]
    (outcome,) = [outcome for _, outcome in marked]
    assert outcome.status in ("success", "failed")
    assert outcome.perturbed is not None
    assert outcome.perturbed[0].count(" ") == outcome.original[0].count(" ")  # no part of the text is lost
