"""Masks on single weights: exactly zero through training, copies, precision, saving and reloading; refused where they do not fit."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

import robust_tickets as rt
from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.backbone.cost import outside_masks
from robust_tickets.backbone.layout import layout_of
from robust_tickets.backbone.weight_masks import check_zeros, masks_of
from robust_tickets.errors import TicketsError
from robust_tickets.registry import BACKBONES
from robust_tickets.search.random import RandomTicket
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier, tiny_model
from toy import toy_task

TEXTS = ["a good film", "the plot was awful"]
HARD: dict[str, Any] = {"epochs": 2, "batch_size": 8, "lr": 1e-2, "weight_decay": 0.1}


def ticket_for(clf: Any, sparsity: float = 0.5, seed: int = 0) -> rt.Ticket:
    return RandomTicket(sparsity=sparsity, seed=seed)(clf).ticket


def outside(clf: Any) -> dict[str, torch.Tensor]:
    modules = layout_of(clf.model).matrices_of(clf.model)
    return {name: modules[name].weight.detach()[~mask] for name, mask in masks_of(clf.model).items()}


def inside(clf: Any) -> torch.Tensor:
    modules = layout_of(clf.model).matrices_of(clf.model)
    return torch.cat([modules[name].weight.detach()[mask] for name, mask in masks_of(clf.model).items()])


def assert_exact(clf: Any, ticket: rt.Ticket) -> None:
    kept = masks_of(clf.model)
    assert tuple(kept) == ticket.names
    assert all(
        np.array_equal(kept[name].cpu().numpy(), mask)
        for name, mask in zip(ticket.names, ticket.masks["weights"], strict=True)
    )
    assert not any(values.count_nonzero() for values in outside(clf).values())


def test_apply_sets_the_outside_to_zero_in_a_copy_and_leaves_the_rest() -> None:
    clf = tiny_classifier()
    before = clf.digest
    ticket = ticket_for(clf)
    masked = rt.apply(clf, ticket)
    assert clf.digest == before
    assert not masks_of(clf.model)
    assert_exact(masked, ticket)
    for name, tensor in clf.model.state_dict().items():
        mask = masks_of(masked.model).get(name.removeprefix("bert."))
        assert torch.equal(masked.model.state_dict()[name], tensor if mask is None else torch.where(mask, tensor, 0.0))
    assert masked.model.state_dict().keys() == clf.model.state_dict().keys()  # no mask in it: stock shapes, stock names
    assert outside_masks(masked) == sum(int((~m).sum()) for m in ticket.masks["weights"])


@pytest.mark.parametrize("adversary", [None, FreeLB(steps=2)])
def test_training_with_decay_keeps_the_zeros_and_moves_the_rest(adversary: Any) -> None:
    clf = tiny_classifier()
    ticket = ticket_for(clf)
    masked = rt.apply(clf, ticket)
    start = inside(masked)
    FineTune(**HARD, adversary=adversary)(masked, toy_task())
    assert_exact(masked, ticket)
    assert (inside(masked) != start).float().mean() > 0.9


@pytest.mark.parametrize("again", ["copy", "deepcopy", "pickle", "with_model", "saved", "half", "unfrozen"])
def test_whatever_is_done_to_it_the_next_training_keeps_the_zeros(again: str, tmp_path: Path) -> None:
    ticket = ticket_for(tiny_classifier())
    masked = rt.apply(tiny_classifier(), ticket)
    FineTune(**{**HARD, "epochs": 1})(masked, toy_task())
    if again == "copy":
        masked = masked.copy()
    elif again in ("deepcopy", "pickle"):
        twin = copy.deepcopy(masked.model)
        masked = masked.with_model(pickle.loads(pickle.dumps(twin)) if again == "pickle" else twin)  # noqa: S301  # our own bytes
    elif again == "with_model":
        masked = tiny_classifier().with_model(masked.model)
    elif again == "saved":
        masked = rt.Classifier.from_pretrained(masked.save_pretrained(tmp_path))
    elif again == "half":
        masked.model.half()
    else:
        masked.model.requires_grad_(False)
        masked = masked.copy()
        assert masked.logits(TEXTS).shape == (2, 2)
        masked.model.requires_grad_(True)
    FineTune(**HARD)(masked, toy_task())
    assert_exact(masked, ticket)
    assert all(len(m.weight._backward_hooks) == 1 for m in layout_of(masked.model).matrices_of(masked.model).values())


def test_training_a_masked_model_is_training_with_masked_gradients() -> None:
    """Against a loop that masks by hand, without hooks."""
    ticket = ticket_for(tiny_classifier())
    masked, plain = rt.apply(tiny_classifier(), ticket), tiny_classifier()
    modules = layout_of(plain.model).matrices_of(plain.model)
    masks = dict(zip(ticket.names, map(torch.from_numpy, (m.copy() for m in ticket.masks["weights"])), strict=True))
    batch = {**plain.batch(plain.encode(TEXTS)), "labels": torch.tensor([1, 0])}
    with torch.no_grad():
        for name, module in modules.items():
            module.weight.masked_fill_(~masks[name], 0)
    optimisers = [torch.optim.AdamW(c.model.parameters(), lr=1e-2, weight_decay=0.1) for c in (masked, plain)]
    for _ in range(3):
        for clf, optimiser in zip((masked, plain), optimisers, strict=True):
            optimiser.zero_grad()
            clf.model(**batch).loss.backward()
            if clf is plain:
                for name, module in modules.items():
                    module.weight.grad.mul_(masks[name])
            optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(masked.model.parameters(), plain.model.parameters(), strict=True))


def test_saved_masks_come_back_and_stock_transformers_gives_the_same_logits(tmp_path: Path) -> None:
    clf = tiny_classifier()
    masked = rt.apply(clf, ticket_for(clf))
    masked.save_pretrained(tmp_path)
    again = rt.Classifier.from_pretrained(tmp_path)
    assert again.digest == masked.digest
    assert_exact(again, ticket_for(clf))
    stock = clf.with_model(AutoModelForSequenceClassification.from_pretrained(tmp_path).eval())
    assert np.array_equal(stock.logits(TEXTS), masked.logits(TEXTS))
    assert np.array_equal(again.logits(TEXTS), masked.logits(TEXTS))
    assert stock.digest != masked.digest  # the same weights, but they would train differently
    other = rt.load_classifier(tmp_path, labels=("x", "y", "z"))
    assert_exact(other, ticket_for(clf))  # another head, the same encoder
    stock.save_pretrained(tmp_path)
    assert not masks_of(
        rt.Classifier.from_pretrained(tmp_path).model
    )  # the ticket of the earlier model is not this one's


def test_applied_twice_keeps_what_both_keep() -> None:
    clf = tiny_classifier()
    first, second = ticket_for(clf, seed=1), ticket_for(clf, seed=2)
    both = rt.apply(rt.apply(clf, first), second)
    assert rt.apply(rt.apply(clf, second), first).digest == both.digest
    for mask, a, b in zip(masks_of(both.model).values(), first.masks["weights"], second.masks["weights"], strict=True):
        assert np.array_equal(mask.numpy(), a & b)
    check_zeros(both.model)
    assert rt.apply(both, first).digest == both.digest


def test_a_ticket_fits_its_backbone_with_and_without_a_pooler() -> None:
    whole, without = tiny_model("bert", "AutoModel"), tiny_model("bert", "AutoModelForMaskedLM")
    ticket = ticket_for(whole)
    assert "pooler.dense.weight" in ticket.names
    masked = rt.apply(without, ticket)
    assert tuple(masks_of(masked)) == ticket.names[:-1]
    bare = ticket_for(without)
    assert tuple(masks_of(rt.apply(whole, bare))) == ticket.names[:-1]  # the pooler stays whole


@pytest.mark.parametrize("family", BACKBONES.names())
def test_every_backbone_trains_with_exact_masks(family: str, tmp_path: Path) -> None:
    clf = tiny_classifier(family, layers=2)
    ticket = ticket_for(clf)
    masked = rt.apply(clf, ticket)
    FineTune(**{**HARD, "epochs": 1})(masked, toy_task(16))
    assert_exact(masked, ticket)
    again = rt.Classifier.from_pretrained(masked.save_pretrained(tmp_path))
    assert again.digest == masked.digest
    assert rt.expand(again).digest == masked.digest
    small = rt.compact(masked, RandomTicket()(clf).ticket)
    assert len(masks_of(small.model)) == len(masks_of(masked.model))
    assert np.allclose(rt.expand(small).logits(TEXTS), small.logits(TEXTS), atol=1e-6)
    FineTune(**{**HARD, "epochs": 1})(small, toy_task(16))
    check_zeros(small.model)


def test_a_masked_model_is_exported_dense_and_not_compact(tmp_path: Path) -> None:
    from robust_tickets.deploy.export import export

    clf = tiny_classifier()
    masked = rt.apply(clf, ticket_for(clf, 0.4))
    with pytest.raises(TicketsError, match="no smaller model"):
        export(masked, tmp_path / "small")
    folder = export(masked, tmp_path / "dense", "dense")
    stock = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert np.array_equal(clf.with_model(stock).logits(TEXTS), masked.logits(TEXTS))
    export(masked, tmp_path / "dense", "dense")  # an earlier export may be replaced, its ticket included


def test_a_masked_model_is_exported_to_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from robust_tickets.classifier.onnx import open_onnx
    from robust_tickets.deploy.export import export

    clf = tiny_classifier(layers=1)
    masked = rt.apply(clf, ticket_for(clf))
    opened = open_onnx(export(masked, tmp_path / "onnx", "onnx"))
    wanted = masked.predict(TEXTS)[1]
    assert np.allclose(opened.predict(TEXTS)[1], wanted, atol=1e-4)
    check_zeros(masked.model)


@pytest.mark.shared
def test_bert_base_in_files_and_memory(shared: Path, tmp_path: Path) -> None:
    """Masks of about 11 MB, scores apart; a draw of 85.5 million weights within 1.5 GB beyond model and scores."""
    from robust_tickets.backbone.cost import peak_memory, reset_peak_memory
    from robust_tickets.search.imp import magnitudes

    clf = rt.load_classifier(shared / "models" / "bert-base-uncased", labels=("a", "b"), device="cpu")
    family, scores = magnitudes(clf)
    assert (len(scores), sum(s.size for s in scores.values())) == (73, 85_524_480)
    measured = reset_peak_memory()
    before = peak_memory()
    ticket = rt.Ticket.from_weight_scores(family=family, names=list(scores), scores=list(scores.values()), sparsity=0.6)
    assert not measured or peak_memory() - before < 1.5e9
    ticket.save(tmp_path)
    assert (
        10.5e6 < (tmp_path / "ticket.safetensors").stat().st_size + (tmp_path / "ticket.json").stat().st_size < 11.5e6
    )
    assert sum(int((~m).sum()) for m in ticket.masks["weights"]) == 51_314_688


def test_weights_that_are_not_the_tickets_are_neither_saved_nor_loaded(tmp_path: Path) -> None:
    clf = tiny_classifier()
    masked = rt.apply(clf, ticket_for(clf))
    masked.save_pretrained(tmp_path)
    with torch.no_grad():
        masked.model.bert.encoder.layer[1].attention.self.query.weight.add_(1e-3)
    with refused("masks.not_zero"):
        masked.save_pretrained(tmp_path / "grown")
    clf.model.save_pretrained(tmp_path)
    with refused("model.masks"):
        rt.Classifier.from_pretrained(tmp_path)
    rt.Ticket.from_kept(clf, heads=[[0]] * 3, neurons=[[0]] * 3).save(tmp_path / "ticket")
    with refused("model.masks"):
        rt.Classifier.from_pretrained(tmp_path)


def test_what_does_not_match_is_refused() -> None:
    clf = tiny_classifier()
    for other, code in (
        (RandomTicket()(clf).ticket, "kind"),
        (ticket_for(tiny_classifier("roberta")), "family"),
        *((ticket_for(tiny_classifier(**size)), "shape") for size in ({"neurons": 16}, {"layers": 4}, {"layers": 2})),
    ):
        with refused(f"ticket.{code}"):
            rt.apply(clf, other)
    function = rt.Classifier.wrap(lambda texts: [[0.5, 0.5]] * len(texts), labels=("a", "b"))
    for model, code in (([], "model.type"), (function, "classifier.no_model")):
        with refused(code):
            rt.apply(model, ticket_for(clf))
    with refused("ticket.kind"):
        rt.compact(clf, ticket_for(clf))
