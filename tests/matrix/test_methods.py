"""Every method on every backbone: search, draw, compact or apply, reload, one training step, expand. New files join by being there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robust_tickets as rt
from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split, Task
from robust_tickets.registry import BACKBONES, METHODS
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier, tiny_model, tiny_tokenizer

TEXTS = [
    f"the film {i} was {word} and not {other}" for i in range(8) for word, other in (("good", "bad"), ("awful", "fine"))
]
SHORT = {"epochs": 1, "batch_size": 8}
TUNING = FineTune(**SHORT, max_steps=1)
# What makes a method short here; one that is not named runs with its defaults. "method:variant" adds to it what leads to another ticket.
SETTINGS: dict[str, dict[str, Any]] = {
    "earlybert": SHORT,
    "earlyrobust": SHORT,
    "imp": {**SHORT, "sparsity": 0.2, "evaluation_rows": 4},
    "omp": {},
    "orticket": {**SHORT, "corpus": "{folder}/corpus.txt", "mlm": "{folder}/mlm", "block": 16},
    "prasanna": {"tuning": TUNING, "batch_size": 16},
    "random": {},
    "robustt": {**SHORT, "tuning": TUNING, "evaluation_rows": 4},
    "robustt:head": {"granularity": "head"},
    "robustt:neuron": {"granularity": "neuron"},
}


def small_task() -> Task:
    labels = [i % 2 for i in range(len(TEXTS))]
    splits = {name: Split.of(TEXTS, labels, name=name) for name in ("train", "validation", "test")}
    return Task(name="small", labels=("a", "b"), columns=("text",), splits=splits)


def method_for(name: str, family: str, folder: Path) -> Any:
    short = {**SETTINGS.get(name.partition(":")[0], {}), **SETTINGS.get(name, {})}
    settings = {k: v.format(folder=folder) if isinstance(v, str) else v for k, v in short.items()}
    if "mlm" in settings:
        (folder / "corpus.txt").write_text("\n".join(TEXTS), encoding="utf-8")
        model = tiny_model(family, "AutoModelForMaskedLM")
        model.save_pretrained(folder / "mlm")
        tiny_tokenizer(model.config).save_pretrained(folder / "mlm")
    return METHODS.get(name.partition(":")[0])(seed=3, **settings)


def drawn(ticket: Ticket) -> Ticket:
    """Another draw from the search's scores, of the ticket's own kind; Prasanna's search ends with its ticket, not with scores."""
    if ticket.kind == "unstructured":
        again = ticket.draw(sparsity=0.5)
        assert again.sparsity == pytest.approx(0.5, abs=1e-3)
        return again
    if ticket.provenance["method"]["name"] == "prasanna":
        assert max(ticket.removed.values()) > 0
        return ticket
    again = ticket.draw(heads=1 / 4, neurons=1 / 3)
    assert again.removed == pytest.approx({"heads": 1 / 4, "neurons": 1 / 3})
    return again


def zeros_are_where(clf: Classifier, ticket: Ticket) -> bool:
    matrices = layout_of(clf.model).matrices_of(clf.model)
    return all(
        bool((matrices[name].weight.detach()[torch.from_numpy(~mask)] == 0).all())
        for name, mask in zip(ticket.names, ticket.masks["weights"], strict=True)
    )


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.parametrize("method", [*METHODS.names(), *(name for name in SETTINGS if ":" in name)])
def test_every_stage_of_a_ticket(method: str, family: str, tmp_path: Path) -> None:
    task, start = small_task(), tiny_classifier(family)
    before = start.digest
    found = method_for(method, family, tmp_path)(start, task)
    assert start.digest == before, "a search leaves the classifier as it was"
    ticket = drawn(found.ticket)
    structured = ticket.kind == "structured"

    small = rt.compact(start, ticket) if structured else rt.apply(start, ticket)
    assert start.digest == before, "the ticket is applied to a copy"
    small.save_pretrained(tmp_path / "model")
    again = Classifier.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(small.logits(TEXTS), again.logits(TEXTS))

    FineTune(epochs=1, max_steps=1, batch_size=4, lr=1e-3)(again, task)
    assert not np.array_equal(again.logits(TEXTS), small.logits(TEXTS))
    if structured:
        dense = rt.expand(again)
        assert type(dense.model).__name__.startswith("Ticket") is False
        assert sum(p.numel() for p in again.model.parameters()) < sum(p.numel() for p in dense.model.parameters())
        torch.testing.assert_close(
            torch.tensor(dense.logits(TEXTS)), torch.tensor(again.logits(TEXTS)), atol=1e-5, rtol=0
        )
    else:
        assert not zeros_are_where(start, ticket)
        assert zeros_are_where(again, ticket)


def test_an_encoder_without_a_head_for_masked_words_is_refused(tmp_path: Path) -> None:
    """ELECTRA's pretrained encoder is a discriminator: no head for masked words comes with it, and none is drawn."""
    method = method_for("orticket", "electra", tmp_path)
    tiny_model("electra", "AutoModelForPreTraining").save_pretrained(tmp_path / "mlm")
    with pytest.raises(rt.TicketsError, match="no pretrained head for masked words"):
        method(tiny_classifier("electra"), small_task())
