"""The results that are kept in the repository: every file is whole and lies where its unit says; the page is what they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from calling import tickets
from robust_tickets.reproduce.outcome import Outcome, ids_of, read_all
from robust_tickets.reproduce.page import make

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def kept() -> tuple[Outcome, ...]:
    if not (RESULTS / "units").is_dir():
        pytest.skip("the repository has no results yet")
    return read_all(RESULTS)


def test_the_page_is_the_same_whatever_the_order_of_the_results(kept: tuple[Outcome, ...]) -> None:
    assert make(RESULTS, kept) == make(RESULTS, kept[::-1])


def test_every_number_has_its_examples_and_its_origin(kept: tuple[Outcome, ...]) -> None:
    for outcome in kept:
        assert outcome.config["recipe"]["seed"] == outcome.unit.seed
        assert outcome.inputs["theta0"]
        assert outcome.env["packages"]["torch"]
        for attack in outcome.attacks:
            assert len(ids_of(RESULTS, attack.examples)) == len(attack.statuses), (outcome.unit.id, attack.name)


def test_what_was_run_is_taken_for_its_arm(
    kept: tuple[Outcome, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its settings are those of now, where the ticket is drawn included: nothing is searched again, and nothing refused."""
    first = {(one.unit.task, one.unit.arm): one.unit.id for one in reversed(kept)}
    for folder in ("data/wiki_en", "models", "resources/counterfit-substitute"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (
        "counterfitted_neighbors.json",
        "counterfit-substitute/words.txt",
        "counterfit-substitute/vectors.npy",
    ):
        (tmp_path / "resources" / name).touch()
    places = [word for name in ("data", "models", "resources", "out") for word in (f"--{name}", str(tmp_path / name))]
    jobs = [word for id in first.values() for word in ("--job", id)]
    told = tickets(capsys, "reproduce", *jobs, "--search-only", "--results", str(RESULTS), *places)
    assert told["work"]["found"] == list(first.values())
    assert not (tmp_path / "out").exists()
