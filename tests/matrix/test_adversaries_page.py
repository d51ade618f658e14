"""docs/guides/adversaries.md says what the code does: costs, defaults, switches, and which adversaries go with which methods, which are run."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import robust_tickets as rt
from refusing import refused
from robust_tickets.adversary.words import WordSpace
from robust_tickets.classifier import Classifier
from robust_tickets.registry import ADVERSARIES
from robust_tickets.search.earlybert import EarlyBERT
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.imp import IMP
from robust_tickets.search.orticket import ORTicket
from robust_tickets.search.robustt import RobustT
from robust_tickets.train.finetune import FineTune
from tiny import tiny_model, tiny_tokenizer
from toy import toy_task

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "adversaries.md").read_text()
CLASSES = {cls.__name__: cls for cls in map(ADVERSARIES.get, ADVERSARIES.names())}
SMALL: dict[str, Any] = {"batch_size": 4, "lr": 1e-3}
USERS: dict[str, Callable[..., Any]] = {
    "FineTune": lambda adversary: FineTune(**SMALL, epochs=1, evaluate="never", adversary=adversary),
    "EarlyRobust": lambda adversary: EarlyRobust(**SMALL, mini=0.5, stop="official", adversary=adversary),
    "EarlyBERT": lambda adversary: EarlyBERT(**SMALL, at_epoch=1.0, adversary=adversary),
    "RobustT": lambda adversary: RobustT(**SMALL, epochs=1, evaluate="never", adversary=adversary),
    "IMP": lambda adversary: IMP(**SMALL, sparsity=0.1, epochs=1, adversary=adversary),
    "ORTicket": lambda adversary: ORTicket(
        **SMALL, corpus="task", block=16, mini=0.5, stop="official", adversary=adversary
    ),
}
TRAINED = {"ORTicket": "mlm"}  # the others train on labels


def tables() -> list[list[list[str]]]:
    """The page's tables: rows of cells, the header first."""
    found = re.findall(r"(?:^\|.*\|\n)+", PAGE, flags=re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|---" not in line]
        for table in found
    ]


def named(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def settings(cell: str) -> dict[str, Any]:
    return {name: ast.literal_eval(value) for name, value in re.findall(r"`(\w+)=([^`]+)`", cell)}


METHODS, SWITCHES, PAIRS = tables()
CELLS = [(named(row[0])[0], user, said) for row in PAIRS[1:] for user, said in zip(PAIRS[0][1:], row[1:], strict=True)]


def test_every_adversary_has_its_row() -> None:
    for table in (METHODS, PAIRS):
        assert sorted(name for row in table[1:] for name in named(row[0])) == sorted(CLASSES)
    assert PAIRS[0][1:] == list(USERS)


@pytest.mark.parametrize("row", METHODS[1:], ids=lambda row: row[0])
def test_costs_and_defaults_are_the_codes(row: list[str]) -> None:
    made = CLASSES[named(row[0])[0]]()
    (cost,) = re.findall(r"\*\*([\d.]+)\*\*", row[3])
    assert float(cost) == round(made.passes, 2)
    told = settings(row[4])
    assert told
    assert told == {name: getattr(made, name) for name in told}


@pytest.mark.parametrize("row", [row for row in SWITCHES[1:] if row[2] != "none"], ids=lambda row: "-".join(row[::2]))
def test_switches_are_there_and_off(row: list[str]) -> None:
    told = settings(row[2])
    assert told
    for name in named(row[0]):
        standard = CLASSES[name]()
        assert all(getattr(standard, key) != value for key, value in told.items())
        CLASSES[name](**told)


@pytest.mark.parametrize(("name", "user", "said"), CELLS)
def test_pairs_are_what_the_classes_say(name: str, user: str, said: str) -> None:
    defined = TRAINED.get(user, "classification") in CLASSES[name].defined_for
    assert said == ("yes" if defined else "no")
    assert defined or f"- `{name}` in `{user}`: " in PAGE  # with the reason


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    """A classifier whose checkpoint has a head for masked words too."""
    folder = tmp_path_factory.mktemp("masked")
    model = tiny_model("bert", "AutoModelForMaskedLM", layers=2)
    model.save_pretrained(folder)
    tiny_tokenizer(model.config).save_pretrained(folder)
    (folder / "synonyms.json").write_text(
        json.dumps({"film": ["movie"], "story": ["plot"], "good": ["great", "fine"], "bad": ["awful", "poor"]})
    )
    return rt.load_classifier(folder, toy_task(8), max_length=32, device="cpu")


@pytest.mark.parametrize(("name", "user", "said"), [cell for cell in CELLS if cell[1] != "FineTune"])
def test_pairs_run_or_are_refused_when_made(name: str, user: str, said: str, start: Classifier) -> None:
    cls = CLASSES[name]
    synonyms = {"source": str(Path(start.identity) / "synonyms.json")} if issubclass(cls, WordSpace) else {}
    if said == "no":
        with refused("adversary.undefined"):
            USERS[user](cls())
        return
    method, task, before = USERS[user](cls(**synonyms)), toy_task(8), start.digest
    extra = {"tuned": start} if user == "RobustT" else {}
    assert method(start, task, **extra).ticket.digest
    assert start.digest == before
