"""Texts under the profiles of TextAttack's versions: golden answers of its own AttackedText, and what differs, one by one."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacking import example_of
from refusing import refused
from robust_tickets.attack import textattack_compat
from robust_tickets.attack.constraints import KeepColumn
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.services import Filled
from robust_tickets.attack.text import Text, marks
from robust_tickets.attack.textattack_compat import OWN, PROFILES, Rules
from robust_tickets.attack.transforms import MaskedWord
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("0.3.0", "0.3.4", "0.3.10", "0.3.11")


def rules_of(version: str) -> Rules:
    return PROFILES[f"ta-{version}"]


@pytest.fixture(scope="module")
def fuzz() -> Any:
    place = ROOT / "scripts" / "textattack_parity" / "fuzz_text.py"
    spec = importlib.util.spec_from_file_location("fuzz_text", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def golden(version: str) -> Any:
    return json.loads((ROOT / "tests" / "golden" / "textattack" / f"text-{version}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("version", VERSIONS)
def test_golden_texts(version: str, fuzz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = golden(version)
    assert answers["version"] == version
    assert len(answers["cases"]) == 36
    monkeypatch.setattr(textattack_compat, "cut", answers["cuts"].__getitem__)
    assert [problem for case in answers["cases"] if (problem := fuzz.compare(case, rules_of(version)))] == []


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("0.3.0", {"stuck": False}),
        ("0.3.4", {"stuck": True}),
        ("0.3.4", {"segments": True}),
        ("0.3.10", {"segments": False}),
        ("0.3.10", {"keeps_endings": False}),
        ("0.3.10", {"splits_blindly": False}),
        ("0.3.11", {"splits_blindly": True}),
        ("0.3.11", {"searches": False}),
    ],
)
def test_golden_texts_tell_the_versions_apart(
    version: str, wrong: dict[str, Any], fuzz: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule about texts shows in the golden file: with it turned round, some text comes out differently."""
    answers = golden(version)
    monkeypatch.setattr(textattack_compat, "cut", lambda text: answers["cuts"].get(text, list(text)))
    rules = dataclasses.replace(rules_of(version), **wrong)

    def differs(case: Any) -> bool:
        try:
            return fuzz.compare(case, rules) is not None
        except TicketsError:
            return True

    assert any(differs(case) for case in answers["cases"])


def test_a_word_found_inside_the_mark_breaks_the_columns() -> None:
    pair = ("A man sleeps.", "I am awake")
    for version in ("0.3.0", "0.3.4", "0.3.10"):
        text = Text.of(pair, rules_of(version))
        broken = text.replace(3, "You")
        assert broken.columns == text.swapped(3, "You") == ("A man sleeps.<SPLYouT>I am awake",)
        assert broken.words == ("A", "man", "sleeps", "SPLYouT", "I", "am", "awake")
        assert broken.modified == {3}
        assert text.swapped(4, "was") == ("A man sleeps.", "I was awake")
        assert marks(text, broken) == [
            {"column": 0, "old": text.joined, "new": broken.joined, "start": 0, "end": len(broken.joined)}
        ]
    for rules in (OWN, rules_of("0.3.11")):
        assert Text.of(pair, rules).swapped(3, "You") == ("A man sleeps.", "You am awake")


def test_a_broken_pair_has_no_premise_to_keep() -> None:
    keep = KeepColumn(("premise", "hypothesis"), "premise")
    pair = ("A man sleeps.", "I am awake")
    example, text = example_of(pair, rules=rules_of("0.3.4"), column_names=("premise", "hypothesis"))
    assert keep.allowed(example, text) == {3, 4, 5}
    assert keep.allowed(example, text.replace(3, "You")) == set(range(7))


def test_own_rules_keep_a_run_of_chinese_as_one_word() -> None:
    assert Text.of("我来到北京 today").words == ("我来到北京", "today")


@pytest.fixture
def no_jieba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if it had not been imported yet."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "jieba"]:
        monkeypatch.delitem(sys.modules, name)
    textattack_compat._tokenizer.cache_clear()
    yield
    textattack_compat._tokenizer.cache_clear()


def test_chinese_is_cut_into_pieces_which_joined_are_the_text(no_jieba: None) -> None:
    text = "我喜欢这个城市 and don't you?"
    assert textattack_compat.cut(text)[:4] == ["我", "喜欢", "这个", "城市"]
    assert "".join(textattack_compat.cut(text)) == text


def test_chinese_without_jieba_is_a_clear_error(no_jieba: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    with refused("attack.jieba"):
        Text.of("我来到北京 today", rules_of("0.3.10"))
    assert Text.of("我来到北京 today", rules_of("0.3.4")).words == ("我来到北京", "today")
    assert Text.of("only English", rules_of("0.3.10")).words == ("only", "English")


def test_texts_that_textattack_cannot_change_are_an_error() -> None:
    with refused("attack.compat_text"):
        Text.of("say <SPLIT> now", rules_of("0.3.11")).swapped(0, "tell")
    assert Text.of("say <SPLIT> now", rules_of("0.3.10")).swapped(0, "tell") == (
        "tell ",
    )  # what follows the mark is lost
    assert Text.of("say <SPLIT> now").swapped(0, "tell") == ("tell <SPLIT> now",)


PIECES = st.sampled_from(
    ["a", "an", "Film", "don't", "x-y", "-", "'", "*", ".", ", ", " ", " ", "\n", "é", "😀", "×", "I", "[UNK]"]
)
SAID = st.lists(PIECES, max_size=12).map("".join)
EDITS = st.lists(st.tuples(st.integers(0, 20), SAID), max_size=3)


@settings(max_examples=300)
@given(st.lists(SAID, min_size=1, max_size=3).map(tuple), st.sampled_from(VERSIONS), EDITS)
def test_the_short_way_is_the_long_way(columns: tuple[str, ...], version: str, edits: list[tuple[int, str]]) -> None:
    """Span arithmetic, where a profile takes it, gives what searching gives."""
    text = Text.of(columns, rules_of(version))
    long = dataclasses.replace(text, astray=True)
    for place, new in edits:
        if not len(text) or new == text.words[place % len(text)]:
            break
        index = place % len(text)
        try:
            searched = long.replace(index, new)
        except TicketsError:
            break
        assert text.swapped(index, new) == searched.columns
        assert text.placed(index, new) == long.placed(index, new)
        assert text.count(index, new) == len(searched)
        text = text.replace(index, new)
        assert (text.columns, text.words, text.spans) == (searched.columns, searched.words, searched.spans)
        assert text.modified == searched.modified
        long = dataclasses.replace(text, astray=True)


def test_old_versions_cut_a_mask_at_the_ends_of_the_text() -> None:
    class Language:
        mask = "[MASK]"
        tokens = ("good", "##ly", "1234")

        def place(self, text: str) -> int | None:
            seen.append(text)
            return 1 if self.mask in text else None

    def asked(text: Text, index: int) -> list[str]:
        steps = MaskedWord(Language(), 3).replacements(example_of(text.columns, rules=text.rules)[0], text, index)
        try:
            next(steps)
            steps.send(Filled(np.array([[0, 1, 2]]), np.ones((1, 3)), exact=True))
        except StopIteration as end:
            return list(end.value)
        raise AssertionError("it asks once")

    seen: list[str] = []
    said = '"a fine film."'
    for rules in (OWN, rules_of("0.3.10")):
        assert asked(Text.of(said, rules), 0) == asked(Text.of(said, rules), 1) == ["good", "ly"]
    assert seen[0] == '"[MASK] fine film."'
    seen.clear()
    old = Text.of(said, rules_of("0.3.4"))
    assert [asked(old, index) for index in range(3)] == [[], ["good", "ly", "1234"], []]
    assert seen == ["MASK] fine film", "a [MASK] film", "a fine [MASK"]


def test_an_attack_that_ends_with_broken_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The victim answers for one column where there were two, and the result can be kept and written as a table."""

    def probabilities(given: list[Any]) -> np.ndarray:
        return np.array(
            [[0.2, 0.8] if isinstance(text, str) or len(text) == 1 else [0.7, 0.3] for text in given], dtype=np.float32
        )

    profiles = importlib.import_module("robust_tickets.attack.textattack_compat")
    monkeypatch.setattr(profiles, "OFFERED", {"pwws": tuple(PROFILES)})
    clf = Classifier.wrap(probabilities, labels=["no", "yes"], columns=("premise", "hypothesis"))
    split = Split.of([("The garden is warm.", "I like it.")], [0], name="pairs", columns=("premise", "hypothesis"))
    for version, status in (("0.3.10", "success"), ("0.3.11", "failed")):
        result = PWWS(compat=version)(clf, split, n=1, folder=tmp_path / version)
        (outcome,) = result.examples()
        assert (outcome.status, outcome.error) == (status, None)
        rows = list(csv.reader(result.table(tmp_path / f"{version}.csv").read_text(encoding="utf-8").splitlines()))
        assert len(rows[0]) == len(rows[1])
        assert rows[1][3:7] == [
            *outcome.original,
            *(outcome.perturbed or ()),
            *[""] * (2 - len(outcome.perturbed or ())),
        ]
    assert result.compat == "ta-0.3.11"
    assert AttackResult.load(tmp_path / "0.3.10").suc == 100
