"""PWWS by hand: queries counted one by one, and what the result says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacking import victim_of
from refusing import refused
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.result import PART, AttackResult, ExampleLog
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.resources import wordnet

CLF = victim_of("good")


def test_queries_by_hand() -> None:
    texts = ["a good film", "the and of", "good", "no such thing", "good xyzzy"]
    result = PWWS()(CLF, Split.of(texts, [1, 1, 1, 1, 1]), n=0)
    good, film, swaps = len(wordnet.synonyms("good")), len(wordnet.synonyms("film")), {}
    for outcome in result.examples():
        swaps[outcome.original[0]] = (outcome.status, outcome.queries)
    # clean; one [UNK] text a modifiable word; every candidate while ranking; then good's candidates again, the first of which wins
    assert swaps["a good film"] == ("success", 1 + 2 + good + film + good)
    assert swaps["good"] == ("success", 1 + 1 + good + good)
    assert swaps["good xyzzy"] == ("success", 1 + 2 + good + good)  # xyzzy has no synonyms
    assert swaps["the and of"] == ("skipped", 1)
    assert swaps["no such thing"] == ("skipped", 1)
    assert (result.n, result.clean, result.aua, result.suc) == (5, 60.0, 0.0, 100.0)
    assert result.queries == round(sum(q for s, q in swaps.values() if s == "success") / 3, 4)
    assert result.perturbed == round((100 / 3 + 100 + 50) / 3, 4)


@pytest.mark.parametrize("budget", [1, 2, 30, 102, 130])
def test_no_candidates_are_made_that_the_budget_could_not_ask_about(
    monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    made: list[int] = []

    def count(kit: GreedySearch, game: Any, text: Text, index: int) -> Any:
        found = yield from plain(kit, game, text, index)
        made.append(len(found))
        return found

    plain = GreedySearch.candidates
    monkeypatch.setattr(GreedySearch, "candidates", count)
    (outcome,) = PWWS()(CLF, Split.of(["film good " * 50], [1]), n=0, query_budget=budget).examples()
    assert (outcome.status, outcome.queries) == ("failed", budget)
    assert sum(made[:-1]) < max(1, budget - 1 - 100)  # 100 words, each hidden once
    assert (made == []) == (budget <= 101)


def test_rows_of_texts_that_will_not_come_again_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many words there are as many as queries: they must not all be held until the example ends."""
    kept: list[int] = []

    def count(game: ExampleState, best: Any) -> None:
        before = len(game.known)
        plain(game, best)
        assert best.row in game.known.values()
        kept.append(len(game.known))
        assert kept[-1] <= 2 < before  # where the search is, and where it began

    plain = ExampleState.forget
    monkeypatch.setattr(ExampleState, "forget", count)

    def unmoved(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 - 0.01 * (12 - text.split().count("film")) for text in texts])
        return np.stack([1 - p, p], axis=1)

    (outcome,) = PWWS()(Classifier.wrap(unmoved, labels=["neg", "pos"]), Split.of(["film " * 12], [1]), n=0).examples()
    assert (outcome.status, outcome.words_changed, len(kept)) == ("failed", 12, 12)


def test_labels_are_matched_by_name() -> None:
    split = Split.of(["a good film", "dull"], [0, 1])
    result = PWWS()(CLF, split, n=0, labels=["pos", "neg"])
    assert result.clean == 100.0
    first = next(iter(result.examples()))
    assert (first.label, first.predicted_before, first.predicted_after) == (0, 0, 1)  # in the numbers of the task
    with refused("labels.other"):
        PWWS()(CLF, split, n=0, labels=["good", "bad"])
    assert PWWS()(CLF, split, n=0).clean == 0.0  # without names, the numbers are the classifier's


def test_a_label_outside_the_classes_is_that_examples_error() -> None:
    result = PWWS()(CLF, Split.of(["good", "fine"], [1, 5]), n=0)
    assert [e.status for e in result.examples()] == ["success", "error"]
    assert (result.n, result.errors) == (1, 1)


def test_the_attack_set_is_seeded_and_balanced_and_can_be_named() -> None:
    split = Split.of([f"good {i}" for i in range(60)], [1] * 50 + [0] * 10)
    one, two, other = (PWWS()(CLF, split, n=12, seed=seed) for seed in (0, 0, 1))
    assert one.ids == two.ids != other.ids
    assert len(one.ids) == 12
    assert sorted(e.label for e in one.examples()) == [0] * 6 + [1] * 6
    again = PWWS()(CLF, split, ids=one.ids)
    assert [e.id for e in again.examples()] == list(one.ids)
    for bad in (["test:999"], [60], [0, 0], []):
        with pytest.raises(TicketsError):
            PWWS()(CLF, split, ids=bad)
    with refused("settings.limit"):
        PWWS()(CLF, split, token_budget=0)
    with refused("settings.limit"):
        PWWS()(CLF, split, n=-5)
    with pytest.raises(TicketsError, match="no rows"):
        PWWS()(CLF, Split.of([], []))


def test_result_file(tmp_path: Path) -> None:
    keys = (
        "schema attack compat constraints resources model task ids n seed clean aua aua_upper suc queries forward_passes temperature "
        "intervals flags flag_codes errors clean_full perturbed seconds env digest semantics query_budget subset scoring "
        "calibration seen precision unconfirmed similarity outcomes words spread curve"
    )
    result = PWWS()(CLF, Split.of(["a good film", "dull"], [1, 1]), n=0, folder=tmp_path / "a", clean_full=81.5)
    stored = json.loads((tmp_path / "a" / "result.json").read_text())
    assert set(stored) == set(keys.split())
    assert (stored["clean"], stored["clean_full"], stored["attack"]) == (50.0, 81.5, "PWWS")
    assert stored["constraints"][0].startswith("candidates: all WordNet synonyms")
    assert (stored["model"]["dtype"], stored["model"]["max_length"], stored["query_budget"]) == (
        None,
        None,
        None,
    )  # a callable
    assert (stored["semantics"], stored["compat"]) == ("textattack-0.3.11", None)
    assert set(stored["resources"]["synonyms"]) == {"kind", "name", "origin", "digest", "substitute"}
    loaded = AttackResult.load(tmp_path / "a")
    assert loaded == result
    assert list(loaded.examples()) == list(result.examples())
    low, high = result.interval("aua")
    assert low <= result.aua <= high  # type: ignore[operator]
    with pytest.raises(TicketsError, match="no interval"):
        result.interval("auc")
    unsaved = PWWS()(CLF, Split.of(["a good film", "dull"], [1, 1]), n=0, clean_full=81.5)
    unsaved.save(tmp_path / "b")
    assert (tmp_path / "b" / "examples.jsonl").read_bytes() == (tmp_path / "a" / "examples.jsonl").read_bytes()
    loaded.save(tmp_path / "c")
    assert (tmp_path / "c" / "examples.jsonl").read_bytes() == (tmp_path / "a" / "examples.jsonl").read_bytes()
    stored["schema"] = 99
    (tmp_path / "b" / "result.json").write_text(json.dumps(stored))
    with pytest.raises(TicketsError, match="schema"):
        AttackResult.load(tmp_path / "b")


def test_a_finished_attack_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = PWWS()(CLF, Split.of(["a good film"], [1]), n=0, folder=tmp_path)
    monkeypatch.setattr(PWWS, "prepare", None)
    assert PWWS()(CLF, Split.of(["a good film"], [1]), n=0, folder=tmp_path) == first


@pytest.mark.parametrize("damaged", [b'3\t2.000\t{"tor', b"3\t2.000\t{}\n", b'3\t2.000\t{"status": "?"}\n'])
def test_a_damaged_line_is_cut_off_before_more_is_written(tmp_path: Path, damaged: bytes) -> None:
    done = [{"id": n, "status": "failed"} for n in range(3)]
    first = ExampleLog(tmp_path, 4, "d")
    first.add(2, done[2], 1.0)
    first.close()
    with open(tmp_path / PART, "ab") as stream:
        stream.write(damaged)
    second = ExampleLog(tmp_path, 4, "d")
    assert second.missing() == [0, 1, 3]
    second.add(0, done[0], 3.0)
    second.close()
    third = ExampleLog(tmp_path, 4, "d")
    assert [json.loads(line) for line in third.lines()] == [done[0], done[2]]
    assert third.spent == 3.0
    third.close()
