"""The report names the table of words that an arm was trained on, and says whether the attack draws from the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fake_run import make_run
from robust_tickets.experiment.recipe import read_recipe
from robust_tickets.files import read_json, write_json
from robust_tickets.report.html import write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.verdict import warnings

WORDNET = {
    "kind": "synonyms",
    "name": "WordNet 3.0",
    "origin": "this package",
    "digest": "8bd5caab" + "0" * 56,
    "substitute": False,
}
SAME, OTHER = "draws from the same table as the training", "does not draw from the table of the training"


def _run(folder: Path, *, attack: Any, trained: Any = WORDNET, searched: Any = None, coverage: Any = None) -> list[str]:
    make_run(folder, n=5)
    about = {"name": "synonymswap", "resources": {"source": trained}, "coverage": coverage or {"swappable": 0.414}}
    write_json(folder / "train/00000000/adversary.json", about)
    if searched:
        key = {
            "method": {"name": "earlyrobust", "adversary": {"name": "ascc"}},
            "resources": {"adversary": {"source": searched}},
        }
        write_json(folder / "search/00000000/stage.json", {"key": key})
    for k in range(3):
        result = folder / f"attack/{k:08x}/result.json"
        write_json(result, read_json(result) | {"resources": {"synonyms": attack}})
    return [words for words in warnings(read_run(folder)) if "table" in words or "words from" in words]


def test_the_same_table_is_called_the_same(tmp_path: Path) -> None:
    named, same = _run(tmp_path / "r", attack=WORDNET)
    assert named == (
        "EarlyRobust ticket was trained under synonymswap with words from WordNet 3.0 (sha256 8bd5caab…), "
        "which can swap 41.4\N{NO-BREAK SPACE}% of the words of its training texts."
    )
    assert same.startswith("PWWS on EarlyRobust ticket:")
    assert SAME in same
    page = write_report(tmp_path / "report.html", tmp_path / "r").read_text()
    assert SAME in page
    assert "WordNet 3.0" in page


def test_another_table_is_called_so_by_its_name_and_hash_alone(tmp_path: Path) -> None:
    """A list that the user chose to train on stands for no other: "substitute" is said of what attacks use."""
    vectors = {"kind": "vectors", "name": "mine <b>", "digest": "ff" * 32, "substitute": True}
    named, other = _run(tmp_path / "r", attack=WORDNET, trained=vectors)
    assert "words from mine <b> (sha256 ffffffff…)" in named
    assert "substitute" not in named
    assert OTHER in other
    assert "mine <b>" not in write_report(tmp_path / "report.html", tmp_path / "r").read_text()


def test_a_search_on_words_is_told_apart_from_the_training(tmp_path: Path) -> None:
    said = _run(tmp_path / "r", attack=WORDNET, searched={**WORDNET, "digest": "aa" * 32})
    assert said[0].startswith(
        "EarlyRobust ticket was searched under ascc with words from WordNet 3.0 (sha256 aaaaaaaa…)."
    )
    assert [OTHER in words or SAME in words for words in said] == [False, True, False, True]


def test_nothing_is_claimed_of_an_attack_that_names_no_digest_or_of_odd_files(tmp_path: Path) -> None:
    assert len(_run(tmp_path / "none", attack="3.0")) == 1
    assert _run(tmp_path / "odd", attack=WORDNET, trained="?", coverage={"swappable": "half"}) == []
    make_run(tmp_path / "plain", n=5)
    assert all(not arm.tables for arm in read_run(tmp_path / "plain").arms)


def test_the_demo_trains_one_searched_ticket_twice() -> None:
    arms = {arm.name: arm for arm in read_recipe("demo").arms}
    assert list(arms) == ["earlyrobust", "finetune", "random", "synonymswap"]
    assert arms["synonymswap"].origin == arms["earlyrobust"].origin
    assert type(arms["synonymswap"].train.adversary).__name__ == "SynonymSwap"
    assert [arm.train.passes for arm in arms.values()] == [1, 1, 1, 1]  # as long as the others
