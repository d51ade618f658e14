"""Outcomes on twelve texts of the attacks that want real words, tags, sentence vectors and a masked language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import world
from record import differences, recorded
from test_oracle_attacks import outcomes

import robust_tickets as rt

pytestmark = pytest.mark.shared


def cases(shared: Path) -> dict[str, Any]:
    near = str(shared / "resources" / "counterfit-substitute")
    words = {"vectors": near, "tagger": str(shared / "resources" / "nltk_data"), "encoder": "minilm"}
    return {
        "textfooler": rt.TextFooler(**words),
        "textbugger": rt.TextBugger(vectors=near, encoder="minilm"),
        "bertattack": rt.BertAttack(masked=str(shared / "models" / "bert-base-uncased"), encoder="minilm"),
        "bertattack_papers": rt.BertAttackPapers(**words),
        "a2t": rt.A2T(**words),
    }


def victim(name: str, folder: Path) -> Any:
    if name == "a2t":
        return rt.load_classifier(str(world.model_folder(folder / "model")))
    return rt.Classifier.wrap(world.judge, labels=["negative", "positive"])


def values(folder: Path) -> dict[str, Any]:
    shared = Path(__file__).resolve().parents[3] / "shared"
    return {name: outcomes(attack, victim(name, folder), folder) for name, attack in cases(shared).items()}


def marked(name: str) -> Any:
    """The masked language model and BERT-Attack of the papers take eight seconds of a core."""
    return pytest.param(name, marks=pytest.mark.slow) if name.startswith("bertattack") else name


@pytest.mark.parametrize("name", [marked(name) for name in recorded("attacks_shared")])
def test_outcomes_are_as_recorded(shared: Path, name: str, tmp_path: Path) -> None:
    got = outcomes(cases(shared)[name], victim(name, tmp_path), tmp_path)
    assert differences(got, recorded("attacks_shared")[name], close=1e-9) == []
