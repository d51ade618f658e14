"""Constraints in addition to an attack's own, and the sentence encoder's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacking import example_of, stable_files, toy_victim
from robust_tickets.attack.attack import Loaded
from robust_tickets.attack.components import Candidate, Constraint, WordConstraint
from robust_tickets.attack.constraints import (
    EditDistance,
    KeepColumn,
    NoRepeat,
    NoStopwords,
    SentenceSimilarity,
)
from robust_tickets.attack.example import Encode, ExampleState, Steps
from robust_tickets.attack.goals import Goal, Row
from robust_tickets.attack.greedy import DropScore, GreedySearch
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN
from robust_tickets.config import FlagText, build, describe, resource, to_plain
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.registry import code_of

TEXTS = ("a good film", "the story is awful and the plot is dark", "great light")


@dataclass(frozen=True)
class SameLength(Constraint):
    """The substitute has as many letters as the word, or ``more``."""

    more: int = 0

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate]:
        return [each for each in candidates if 0 <= len(each.new) - len(each.base.words[each.index]) <= self.more]


@dataclass(frozen=True)
class NotFirst(WordConstraint):
    """The first word stays."""

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        return set(range(1, len(text)))


@dataclass
class Judge:
    """A question of the constraint's own."""

    words: list[str]
    service: str = "judge"


class Judging:
    def answer(self, questions: list[Judge]) -> list[list[bool]]:
        return [["e" in word for word in question.words] for question in questions]  # type: ignore[misc]


@dataclass(frozen=True)
class Judged(Constraint):
    """A judge lets the substitute pass."""

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> Steps:
        answers = yield Judge([each.new for each in candidates])
        return [each for each, fine in zip(candidates, answers, strict=True) if fine]

    def services(self) -> Mapping[str, Any]:
        return {"judge": Judging()}


def split() -> Split:
    return Split.of(list(TEXTS), [0, 1, 0])


def changes(result: Any) -> list[tuple[str, str]]:
    return [(mark["old"], mark["new"]) for example in result.examples() for mark in example.changed]


def test_a_constraint_of_a_users_own_holds_and_counts() -> None:
    clf = toy_victim(3)
    free, bound = (PWWS(constraints=each)(clf, split(), n=0) for each in ((), (SameLength(1), NotFirst())))
    assert any(len(new) > len(old) + 1 for old, new in changes(free))
    assert changes(bound)
    assert all(0 <= len(new) - len(old) <= 1 for old, new in changes(bound))
    assert not {old for old, _ in changes(bound)} & {"great"}
    assert bound.constraints[-2:] == (
        "The first word stays.",
        "The substitute has as many letters as the word, or ``more``. (more=1)",
    )
    assert len({free.digest, bound.digest, PWWS(constraints=(SameLength(2),))(clf, split(), n=0).digest}) == 3
    assert __name__ in code_of(PWWS(constraints=(SameLength(),)))


def test_a_question_of_its_own_is_answered_by_the_service_it_brings(tmp_path: Path) -> None:
    found = []
    for number, live in enumerate((1, 3)):
        result = PWWS(constraints=(Judged(),))(toy_victim(3), split(), n=0, live=live, folder=tmp_path / str(number))
        assert changes(result)
        assert all("e" in new for _, new in changes(result))
        found.append(stable_files(tmp_path / str(number)))
    assert found[0] == found[1]


def test_constraints_from_text() -> None:
    assert "constraints" not in to_plain(PWWS())
    for said in ("edit_distance,no_repeat", '["edit_distance", {name = "no_repeat"}]'):
        assert [describe(each) for each in build(PWWS, {"constraints": FlagText(said)}).constraints] == [
            {"name": "edit_distance", "most": 30},
            {"name": "no_repeat"},
        ]
    made = build(PWWS, {"constraints": FlagText('{name = "edit_distance", most = 3}')})
    assert made.constraints == (EditDistance(3),)
    assert build(PWWS, to_plain(made)) == made
    assert build(PWWS, {"constraints": FlagText("none")}).constraints == ()
    for wrong, code in (("edits", "registry.unknown"), ('[{name = "edit_distance", least = 3}]', "config.unknown_key")):
        with pytest.raises(TicketsError) as caught:
            build(PWWS, {"constraints": FlagText(wrong)})
        assert caught.value.code == code
    with pytest.raises(TicketsError) as caught:
        PWWS(constraints=("edit_distance",))  # type: ignore[arg-type]
    assert caught.value.code == "attack.constraint"


def test_resources_of_an_additional_constraint_are_the_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from robust_tickets.resources import kinds

    asked: list[Any] = []
    monkeypatch.setattr(kinds, "resolve", lambda kind, explicit: asked.append((kind, explicit)))
    similar = SentenceSimilarity(0.9, encoder="minilm")  # type: ignore[arg-type]
    PWWS(constraints=(similar,)).found()
    assert asked == [("encoder", "minilm")]
    for attack in (
        TextFooler(encoder="other", constraints=(similar,)),
        TextFooler(encoder="none", constraints=(similar,)),
    ):
        with pytest.raises(TicketsError) as caught:
            attack.found()
        assert caught.value.code == "attack.resource"
    encode = lambda texts: np.ones((len(texts), 2), dtype=np.float32)  # noqa: E731
    search = PWWS(constraints=(similar,)).assemble(Loaded(encoder=encode))
    assert search.services()["encoder"].encode is encode  # type: ignore[attr-defined]
    assert search.describe()[-1].endswith("at least 0.9 over the whole text")
    assert search.title == "PWWS"


@dataclass(frozen=True)
class Near(Constraint):
    """Near by the encoder."""

    encoder: Any = resource()
    least: float = 0.5


def test_a_constraint_of_ones_own_is_described_without_the_loaded_resource() -> None:
    search = PWWS(constraints=(Near(),)).assemble(Loaded(encoder=object()))
    assert search.describe()[-1] == "Near by the encoder. (least=0.5)"


def test_a_kept_column_leaves_a_set_in_textattacks_order() -> None:
    """The order of a set decides ties of the ranking, and it depends on how the set was made; this case tells two ways apart."""
    first, second = 58, 19
    free = {7, 9, 12, 15, 20, 26, 27, 28, 33, 36, 39, 43, 47, 48, 49, 50, 54, 56, 58, 66, 73, 74}
    said = ["b" if i in free else "the" for i in range(first + second)]
    theirs = set(range(len(said))) & (set(range(len(said))) - frozenset())
    unstopped = set()
    for i in range(len(said)):
        if said[i] != "the":
            unstopped.add(i)
    hypothesis: set[int] = set()
    hypothesis |= set(range(first, first + second))
    names = ("premise", "hypothesis")
    example, text = example_of((" ".join(said[:first]), " ".join(said[first:])), column_names=names)
    rules = (NoRepeat(), NoStopwords(), KeepColumn(names, "premise"))
    search = GreedySearch(title="", ranking=DropScore(), transformations=(), modifiable=rules)
    assert list(search.changeable(example, text)) == list(theirs & unstopped & hypothesis)


class Farther(Goal):
    """A hard-label goal towards one class: no probability is read."""

    def score(self, row: Row) -> float:
        return float(row.predicted == 1)

    def reached(self, row: Row) -> bool:
        return row.predicted == 1

    def error(self, score: float, noise: float, growth: float) -> float:
        return 0.0


def test_another_goal_needs_no_other_search(monkeypatch: pytest.MonkeyPatch) -> None:
    from robust_tickets.attack import engine

    monkeypatch.setattr(engine, "Untargeted", lambda label, odds: Farther())
    clf = toy_victim(3)
    result = PWWS()(clf, split(), n=0)
    for example in result.examples():
        assert example.status == (
            "skipped" if example.predicted_before == 1 else "success" if example.predicted_after == 1 else "failed"
        )


class Talk:
    """Answers a constraint's questions and remembers them."""

    def __init__(self, vectors: Any = None, original: str = "one two three four five", noise: float = 0.0) -> None:
        self.vectors, self.asked = vectors or {}, list[Encode]()
        self.example, self.text = example_of(original, vector_noise=noise)

    def keep(self, check: SentenceSimilarity, current: Text, index: int, news: list[str]) -> list[Candidate]:
        steps = check.keep(self.example, [Candidate(current, index, new) for new in news], current)
        answer = None
        try:
            while True:
                question = steps.send(answer)
                self.asked.append(question)
                answer = [self.vector(text, question.alone) for text in question.texts]
        except StopIteration as end:
            return list(end.value)

    def vector(self, text: str, alone: bool) -> np.ndarray:
        given = self.vectors.get(text, (1.0, 0.0))
        given = given[alone] if isinstance(given, list) else given
        return np.asarray(given, dtype=np.float32)

    def texts(self) -> list[str]:
        return [text for question in self.asked for text in question.texts]


def beyond_one() -> np.ndarray:
    """A vector whose float32 cosine with itself is above 1."""
    import torch

    for seed in range(100):
        row = np.random.default_rng(seed).normal(size=24).astype(np.float32)
        given = torch.from_numpy(row)[None]
        if float(torch.nn.functional.cosine_similarity(given, given.clone())) > 1:
            return row
    raise AssertionError("no such vector")


@pytest.mark.parametrize("metric", ["angular", "cosine"])
@pytest.mark.parametrize("clamped", [True, False])
def test_a_cosine_beyond_one_is_refused_where_the_rules_do_not_clamp_it(metric: str, clamped: bool) -> None:
    row = beyond_one()
    talk = Talk({"one": row, "two": row}, original="two")
    talk.example.original = talk.text = Text.of("two", replace(OWN, clamped=clamped))
    kept = talk.keep(SentenceSimilarity(0.2, metric=metric), talk.text, 0, ["one"])
    assert bool(kept) == (clamped or metric == "cosine")  # a cosine needs no angle
    assert all(candidate.cosine == 1.0 for candidate in kept)
    short = talk.keep(SentenceSimilarity(0.2, 9, metric=metric, skip_short=True), talk.text, 0, ["one"])
    assert len(short) == 1  # not measured at all


def test_a_replacement_without_a_word_is_refused() -> None:
    talk = Talk()
    assert talk.keep(SentenceSimilarity(0.0), talk.text, 2, ["...", "", "ok"])[0].new == "ok"
    talk = Talk(original="one")
    assert talk.keep(SentenceSimilarity(0.0), talk.text, 0, ["..."]) == []


@pytest.mark.parametrize(
    "wrong", [{"least": -0.1}, {"least": 1.1}, {"window": 0}, {"metric": "euclid"}, {"reference": "clean"}]
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError):
        SentenceSimilarity(**{"least": 0.8, **wrong})
    SentenceSimilarity(-0.5, metric="cosine")
