"""A ticket found under word swaps is a configuration: every adversary in word space inside a search on labels and one on masked words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import robust_tickets as rt
from refusing import refused
from robust_tickets.experiment.execute import search_key
from robust_tickets.stages import identity_of
from tiny import tiny_model, tiny_tokenizer
from toy import toy_task

LISTS = {
    "good": ["great", "fine"],
    "bad": ["awful", "poor"],
    "film": ["movie"],
    "movie": ["film", "story"],
    "story": ["plot"],
}
KINDS = [rt.SynonymSwap, rt.SynonymHotFlip, rt.ASCC]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A classifier whose folder has a head for masked words too."""
    folder = tmp_path_factory.mktemp("masked")
    model = tiny_model("bert", "AutoModelForMaskedLM")
    model.save_pretrained(folder)
    tiny_tokenizer(model.config).save_pretrained(folder)
    return rt.load_classifier(folder, toy_task(8), max_length=32, device="cpu")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "lists.json").write_text(json.dumps(LISTS))
    return tmp_path / "lists.json"


def _search(method: str, adversary: Any) -> Any:
    if method == "earlyrobust":
        return rt.EarlyRobust(adversary=adversary, batch_size=8, lr=1e-2)
    return rt.ORTicket(adversary=adversary, corpus="task", block=16, batch_size=4, lr=1e-2, epochs=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["earlyrobust", "orticket"])
def test_every_pair_finds_its_ticket(method: str, kind: Any, start: Any, source: Path) -> None:
    ticket = _search(method, kind(source=str(source)))(start, toy_task(24)).ticket
    plain = _search(method, None)(start, toy_task(24)).ticket
    told = [[list(map(float, row)) for row in t.scores["neurons"]] for t in (ticket, plain)]
    assert told[0] != told[1]


@pytest.mark.parametrize("kind", [rt.RobustT, rt.Prasanna])
def test_the_words_of_the_first_stage_decide_too(kind: Any, start: Any, source: Path) -> None:
    """Else a walk would find the search done that was tuned on other words."""
    method = kind(tuning=rt.FineTune(adversary=rt.SynonymSwap(source=str(source))))
    before = [search_key(method, {}), identity_of(method, start, toy_task(8))]
    assert [search_key(method, {}), identity_of(method, start, toy_task(8))] == before
    source.write_text(json.dumps({**LISTS, "good": ["fine"]}))
    after = [search_key(method, {}), identity_of(method, start, toy_task(8))]
    assert all(a != b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("method", ["earlyrobust", "orticket"])
def test_other_words_under_the_same_path_are_another_search(
    method: str, start: Any, source: Path, tmp_path: Path
) -> None:
    search = _search(method, rt.SynonymSwap(source=str(source)))
    folder = tmp_path / "search"
    search(start, toy_task(24), folder=folder)
    assert (folder / "checkpoint").is_dir()
    search(start, toy_task(24), folder=folder)  # the same again goes on from there
    source.write_text(json.dumps({**LISTS, "good": ["fine"]}))
    with refused("stage.other_work"):
        search(start, toy_task(24), folder=folder)
