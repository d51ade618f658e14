"""The results that are kept in the repository: every file is whole and lies where its unit says; page and findings are what they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from robust_tickets.reproduce.findings import findings
from robust_tickets.reproduce.outcome import Outcome, ids_of, read_all
from robust_tickets.reproduce.page import make

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def kept() -> tuple[Outcome, ...]:
    if not (RESULTS / "units").is_dir():
        pytest.skip("the repository has no results yet")
    return read_all(RESULTS)


def test_the_page_is_made_of_the_results(kept: tuple[Outcome, ...]) -> None:
    assert (RESULTS / "index.html").read_text("utf-8") == make(RESULTS, kept)


def test_the_findings_are_made_of_the_results(kept: tuple[Outcome, ...]) -> None:
    assert (RESULTS.parent / "docs" / "findings.md").read_text("utf-8") == findings(kept, RESULTS)


def test_every_number_has_its_examples_and_its_origin(kept: tuple[Outcome, ...]) -> None:
    for outcome in kept:
        assert outcome.config["recipe"]["seed"] == outcome.unit.seed
        assert outcome.inputs["theta0"]
        assert outcome.env["packages"]["torch"]
        for attack in outcome.attacks:
            assert len(ids_of(RESULTS, attack.examples)) == len(attack.statuses), (outcome.unit.id, attack.name)
