"""Outcomes of each attack on twelve texts, on word lists, an encoder and a masked language model that need no network.

The victim counts votes of words, so that no outcome hangs on a machine's floating point; A2T wants gradients and gets a tiny model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import world
from record import differences, recorded

import robust_tickets as rt

NEAR = (
    "good great fine",
    "bad awful poor stale",
    "film movie comedy thriller",
    "story script",
    "sisters actors",
    "never not",
)


def cases(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Attack and victim by name."""
    near, masked = str(vectors(folder / "vectors")), str(world.model_folder(folder / "mlm", "BertForMaskedLM"))
    clf = rt.Classifier.wrap(world.judge, labels=["negative", "positive"])
    model = rt.load_classifier(str(world.model_folder(folder / "model")))
    return {
        "pwws": (rt.PWWS(), clf),
        "pwws log-odds on a model": (rt.PWWS(scoring="log-odds"), model),
        "pwws 0.3.4": (rt.PWWS(compat="0.3.4"), clf),
        "deepwordbug": (rt.DeepWordBug(), clf),
        "textfooler": (rt.TextFooler(vectors=near, tagger="none", encoder="minilm"), clf),
        "textbugger": (rt.TextBugger(vectors=near, encoder="minilm"), clf),
        "bertattack": (rt.BertAttack(masked=masked, encoder="minilm"), clf),
        "bertattack_papers": (rt.BertAttackPapers(vectors=near, tagger="none", encoder="none"), clf),
        "a2t": (rt.A2T(vectors=near, tagger="none", encoder="minilm"), model),
    }


def vectors(folder: Path) -> Path:
    """Word vectors in which the words of a line of NEAR lie close together."""
    folder.mkdir(parents=True)
    groups = [line.split() for line in NEAR]
    rows = [world.numbers(line).standard_normal(8) for line in NEAR for _ in line.split()]
    rows = [row + 0.1 * world.numbers(row[0], i).standard_normal(8) for i, row in enumerate(rows)]
    (folder / "words.txt").write_text("\n".join(word for group in groups for word in group) + "\n")
    np.save(folder / "vectors.npy", np.array(rows, dtype=np.float32))
    return folder


def outcomes(attack: Any, clf: Any, folder: Path) -> dict[str, Any]:
    """What became of every text; two of them have the wrong label, and are skipped."""
    found = clf.logits(list(world.SENTENCES)).argmax(axis=1)
    labels = [("negative", "positive")[int(label) ^ (i in (4, 9))] for i, label in enumerate(found)]
    rows = world.table(folder / "rows.csv", list(zip(world.SENTENCES, labels, strict=True)))
    split = rt.load_task(str(rows), test=str(rows)).test
    with world.one_thread():
        result = attack(clf, split, n=0)
    lines = {e.id: [e.status, *(e.perturbed or e.original), e.queries, e.words_changed] for e in result.examples()}
    return lines | {name: getattr(result, name) for name in ("clean", "aua", "suc", "queries", "perturbed")}


def values(folder: Path) -> dict[str, Any]:
    return {name: outcomes(*case, folder) for name, case in cases(folder).items()}


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        return values(tmp_path_factory.mktemp("attacks"))


@pytest.mark.parametrize("name", recorded("attacks"))
def test_outcomes_are_as_recorded(got: Mapping[str, Any], name: str) -> None:
    assert differences(got[name], recorded("attacks")[name], close=1e-9) == []


def test_every_attack_is_recorded() -> None:
    assert {name.split()[0] for name in recorded("attacks")} == set(rt.attacks())
