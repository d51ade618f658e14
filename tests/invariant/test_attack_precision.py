"""An attack in fewer bits says what it is, and what the victim itself does not confirm; two groups give what one gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attacking import stable_files, toy_victim
from robust_tickets.attack import cuda, options, services
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.registry import BACKBONES
from tiny import tiny_classifier

TEXTS = ["a good film", "bad bad plot , really", "the story is happy and old", "poor", "very awful great film"] * 3


def split_for(clf: object) -> Split:
    labels = clf.logits(TEXTS).argmax(axis=1).tolist()  # type: ignore[attr-defined]
    return Split.of(TEXTS, labels)


def test_a_copy_in_fewer_bits_is_attacked_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = split_for(clf)
    plain = PWWS()(clf, split, n=0)
    assert (plain.precision, plain.unconfirmed) == (None, None)
    assert "precision" not in plain.flag_codes
    fast = PWWS()(clf, split, n=0, precision="bfloat16")
    assert str(clf.model.dtype) == "torch.float32"  # the victim stays what it is
    assert fast.model == plain.model
    assert fast.precision == "bfloat16"
    assert fast.digest != plain.digest
    assert "precision" in fast.flag_codes
    # what is counted: a victim that says the opposite of its copy confirms nothing
    logits = type(clf).logits
    monkeypatch.setattr(type(clf), "logits", lambda self, texts, budget=None: -logits(self, texts, budget))
    assert cuda.unconfirmed(clf, fast.lines, lambda label: label) == fast.n
    monkeypatch.undo()
    assert cuda.unconfirmed(clf, plain.lines, lambda label: label) == 0


@pytest.mark.parametrize("bits", options.PRECISIONS)
@pytest.mark.parametrize("family", BACKBONES.names())
def test_a_sure_victim_hides_nothing_from_an_attack_in_fewer_bits(family: str, bits: str) -> None:
    """A head that adds 8,000 to every logit changes no difference between two texts; in half precision it would swallow them all."""
    clf = tiny_classifier(family, max_length=24)
    texts = sorted(set(TEXTS))
    expected = clf.logits(texts)
    head = [module for module in clf.model.modules() if getattr(module, "out_features", None) == len(clf.labels)][-1]
    with torch.no_grad():
        head.bias += 8000.0
    found = cuda.lowered(clf, bits).logits(texts) - 8000.0
    assert np.abs(found - expected).max() < 0.25 * np.ptp(expected, axis=0).max()


def test_only_a_model_at_hand_has_a_precision() -> None:
    with pytest.raises(TicketsError, match="no model at hand"):
        PWWS()(toy_victim(), Split.of(["good"], [0]), n=0, precision="bfloat16")
    with pytest.raises(TicketsError, match="bfloat16"):
        PWWS()(tiny_classifier("bert"), Split.of(["good"], [0]), n=0, precision="float8")


@pytest.mark.parametrize("live", [1, 2, 5, 64])
def test_two_groups_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: int) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = split_for(clf)
    PWWS()(clf, split, n=0, folder=tmp_path / "one")
    begin = services.Victim.__init__

    def two(self: services.Victim, *given: object, **named: object) -> None:
        begin(self, *given, **named)  # type: ignore[arg-type]
        self.groups = 2

    monkeypatch.setattr(services.Victim, "__init__", two)
    PWWS()(clf, split, n=0, folder=tmp_path / "two", live=live)
    assert stable_files(tmp_path / "one") == stable_files(tmp_path / "two")
