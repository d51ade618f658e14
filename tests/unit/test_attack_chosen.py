"""The attacked examples, and what an attack needs."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from robust_tickets import registry as registry_
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.cli.doctor import EXTRAS
from robust_tickets.config import resources_in
from robust_tickets.data.task import Split
from robust_tickets.registry import ATTACKS
from robust_tickets.resources import kinds as module
from robust_tickets.resources.kinds import KINDS

NAMES = ("Bad", "Good")
CLF = Classifier.wrap(
    lambda texts: [[0.3, 0.7] if "good" in text else [0.7, 0.3] for text in texts], labels=list(NAMES)
)


def split(*counts: int) -> Split:
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    return Split.of([f"a {'good' if label else 'bad'} film {i}" for i, label in enumerate(labels)], labels)


def test_the_result_counts_them() -> None:
    told = PWWS()(CLF, split(7, 3), n=50).task
    assert (told["rows"], told["asked"], told["by_class"]) == (10, 50, [7, 3])
    assert PWWS()(CLF, split(7, 3), ids=[1, 8]).task["asked"] is None


@pytest.mark.parametrize("name", registry_.attacks())
def test_a_recipe_asks_for_what_it_says_that_it_needs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def found(kind: str, explicit: str | None) -> Any:
        asked.append(kind)
        return module.Resource(kind=kind, name="x", path=Path(), origin="cache", digest="d", substitute=False)

    monkeypatch.setattr(module, "resolve", found)
    attack = ATTACKS.get(name)()
    attack.resources()
    assert tuple(asked) == attack.needs()
    assert set(asked) <= set(KINDS)
    assert {field.name for field in dataclasses.fields(attack)} >= set(asked)


def test_every_kind_is_needed_by_some_attack() -> None:
    assert {kind for name in registry_.attacks() for kind in resources_in(ATTACKS.get(name))} == set(KINDS)


def test_extras_are_those_of_the_package() -> None:
    file = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(file.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"test"}
    for extra, wanted in EXTRAS.items():
        assert list(wanted) == [line.partition(">")[0].partition("=")[0] for line in extras[extra]]


def test_a2ts_own_encoder_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(kind: str, explicit: str | None) -> Any:
        name = explicit or "universal-sentence-encoder"
        return module.Resource(
            kind=kind, name=name, path=tmp_path, origin="given path", digest="d", substitute=explicit is not None
        )

    monkeypatch.setattr(module, "resolve", found)
    assert not ATTACKS.get("textfooler")().resources()["encoder"]["substitute"]
    assert ATTACKS.get("a2t")().resources()["encoder"]["substitute"]
    assert not ATTACKS.get("a2t")(encoder="sentence-transformers/stsb-distilbert-base").resources()["encoder"][
        "substitute"
    ]
