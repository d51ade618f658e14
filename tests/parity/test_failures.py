"""What is answered on the texts TextAttack itself fails on: exactly this, under each profile and under own rules.

docs/guides/attacks/parity.md has the reasons. ``MARKED`` holds the mark by which TextAttack joins columns; on the other two BERT-Attack would try
48^9 combinations of pieces for the word rock'n'roll.
"""

from __future__ import annotations

import hashlib

import pytest

from replaying import golden_names, read, replay
from robust_tickets.attack.textattack_compat import OFFERED, PREFIX

MARKED = "text3:17"
TEXT = "the mark <SPLIT> stands in a good text, SPLIT I T"
YEARS = ("text2:63", "premise2:8")
BESIDE = {"text3:0", "text2:1", "premise2:0"}  # attacked beside them: a run of which everything fails is stopped
LOST = "ta-0.3.11 itself fails on this text: it joins columns by <SPLIT> and then does not find the word 'stands'"

Answer = tuple[str, int, str]  # status, queries, and the final text, a digest of it where it is long, or the error
# Older versions come as far as a constraint, which then looks for a word that is no longer there; here such a candidate is refused.
UNMOVED = {
    ("textfooler", "0.3.0"): 12,
    ("bertattack_papers", "0.3.0"): 12,
    ("bertattack_papers", "0.3.4"): 12,
    ("bertattack_papers", "0.3.10"): 9,  # the other two rank all words, also those that may not change
    ("a2t", "0.3.4"): 1,
}
OWN: dict[str, Answer] = {  # to own rules the mark is text like any other
    "a2t": ("failed", 1, TEXT),
    "bertattack": ("success", 92, "the mark <SPLIT> yvoscarriedved in a good text, SPLIT y T"),
    "bertattack_papers": ("failed", 43, "the mark <SPLIT> stands in a cooking text, SPLIT I T"),
    "deepwordbug": ("success", 21, "the mark <SPLIT> sands in a ood text, SPILT I T"),
    "pwws": ("success", 189, "the mark <SPLIT> pedestal in a good text, SPLIT one T"),
    "textbugger": ("success", 28, "the ｍark <SPLIT> stnads in a good text, SPLIT I T"),
    "textfooler": ("failed", 20, "the mark <SPLIT> stands in a sing text, SPLIT I T"),
}
PAIR = (
    "THAT; _vosbridge__bridge# (weak? are; i, story) village! dull! שלום\tbegan (fenned be) lovely terrible\tlawyer; "
    "hardly (42 VVV SLOWLY\tnot story (\nlost."
)
NEWER = (("success", 625, "5ab3a01f452326a74034cbdd19301715236b9e0eae8573d98860b15aa03d663e"), ("success", 103, PAIR))
OLDER = (("success", 683, "d6d896142f71a22204b20cd6cfe44ecf0bd069704d4b147f424bb450a8daf436"), ("success", 107, PAIR))
JOINED: dict[str, tuple[Answer, Answer]] = {"0.3.10": NEWER, "0.3.4": OLDER, "0.3.0": OLDER}  # in the order of YEARS


def wanted_of(recipe: str, version: str) -> dict[str, Answer]:
    if recipe == "bertattack" and version != "0.3.11":
        return dict(zip(YEARS, JOINED[version], strict=True))
    if version == "0.3.11":
        return {MARKED: ("unknown", 0, LOST)}  # the victim answered, and the attack failed
    return {MARKED: ("failed", UNMOVED[recipe, version], TEXT)} if (recipe, version) in UNMOVED else {}


def answers(
    recipe: str, compat: str | None, version: str, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Answer]:
    _, theirs = read(recipe, version)
    found = {}
    for name, outcome, _ in replay(recipe, compat, theirs, monkeypatch, live=1, only=names | BESIDE):
        said = str(outcome.error).splitlines()[0] if outcome.error else "\n".join(outcome.perturbed or ())
        queries = 0 if outcome.error else outcome.queries  # how far it came depends on the recipe
        found[name] = (outcome.status, queries, said if len(said) < 200 else hashlib.sha256(said.encode()).hexdigest())
    return {name: found[name] for name in names}


@pytest.mark.parametrize(("recipe", "version"), golden_names())
def test_under_a_profile(recipe: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, theirs = read(recipe, version)
    failed = {name: example["error"] for name, example in theirs.items() if example["status"] == "error"}
    wanted = wanted_of(recipe, version)
    assert failed.keys() == wanted.keys()
    assert all(("48^9" in error) == (name in YEARS) for name, error in failed.items())
    assert not wanted or answers(recipe, PREFIX + version, version, set(wanted), monkeypatch) == wanted


@pytest.mark.parametrize("recipe", sorted(OFFERED))
def test_under_own_rules(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(recipe, None, "0.3.11", {MARKED}, monkeypatch) == {MARKED: OWN[recipe]}


def test_bertattack_under_own_rules_has_0_3_10s_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers("bertattack", None, "0.3.10", set(YEARS), monkeypatch) == dict(
        zip(YEARS, JOINED["0.3.10"], strict=True)
    )
