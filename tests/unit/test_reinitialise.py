"""Ablations of a ticket: exactly the entries inside, or exactly those outside, are drawn anew, on every backbone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refusing import refused
from robust_tickets.backbone.layout import encoder_of, layout_of
from robust_tickets.prune.compact import compact, zero_outside
from robust_tickets.prune.reinitialise import reinitialise_inside, reinitialise_outside
from robust_tickets.registry import BACKBONES
from robust_tickets.ticket.ticket import Ticket
from tiny import tiny_classifier


def structured(clf: Any, heads: float = 0.5, neurons: float = 0.5, seed: int = 0) -> Ticket:
    layout, rng = layout_of(clf.model), np.random.default_rng(seed)
    sizes = {"heads": layout.heads_of(clf.model), "neurons": layout.neurons_of(clf.model)}
    scores = {group: [rng.random(n) for n in counts] for group, counts in sizes.items()}
    return Ticket.from_scores(
        family=layout.family, scores=scores, unit_weights=layout.unit_weights(clf.model), heads=heads, neurons=neurons
    )  # fmt: skip


def unstructured(clf: Any, sparsity: float = 0.4, seed: int = 0) -> Ticket:
    layout, rng = layout_of(clf.model), np.random.default_rng(seed)
    matrices = layout.matrices_of(clf.model)
    masks = tuple(rng.random(module.weight.shape) >= sparsity for module in matrices.values())
    return Ticket(
        kind="unstructured", family=layout.family, names=tuple(matrices), masks={"weights": masks}, unit_weights={"weights": 1}
    )  # fmt: skip


def inside(clf: Any, ticket: Ticket) -> dict[str, torch.Tensor]:
    """What the ticket keeps of its matrices, read off another way: by cutting a model of ones."""
    prefix = "" if encoder_of(clf.model) is clf.model else f"{clf.model.base_model_prefix}."
    names = {f"{prefix}{name}" for name in layout_of(clf.model).matrices_of(clf.model)}
    if ticket.kind == "unstructured":
        return {f"{prefix}{n}": torch.tensor(m) for n, m in zip(ticket.names, ticket.masks["weights"], strict=True)}
    ones = clf.copy()
    with torch.no_grad():
        for parameter in ones.model.parameters():
            parameter.fill_(1.0)
    return {
        name: tensor.bool() for name, tensor in zero_outside(ones, ticket).model.state_dict().items() if name in names
    }


def changed(before: Any, after: Any) -> dict[str, torch.Tensor]:
    new = after.model.state_dict()
    return {name: tensor != new[name] for name, tensor in before.model.state_dict().items()}


@pytest.mark.parametrize("family", BACKBONES.names())
@pytest.mark.parametrize("make", [structured, unstructured])
def test_inside_and_outside_are_exactly_the_tickets_entries(make: Any, family: str) -> None:
    clf = tiny_classifier(family)
    ticket, before = make(clf), clf.digest
    moved = {
        "inside": changed(clf, reinitialise_inside(clf, ticket, 1)),
        "outside": changed(clf, reinitialise_outside(clf, ticket, 1)),
    }
    assert clf.digest == before
    kept = inside(clf, ticket)
    for name, mask in kept.items():
        assert torch.equal(moved["inside"][name], mask), name
        assert torch.equal(moved["outside"][name], ~mask), name
    biases = {name.removesuffix("weight") + "bias" for name in kept}
    for side, found in moved.items():
        for name, which in found.items():
            if name not in kept and name not in biases:
                assert not which.any(), f"{side}: {name} is no matrix of a ticket"


def test_the_axes_spelt_out_for_bert() -> None:
    """A head is rows of query, key and value and columns of the output; a neuron a row of the way up and a column of the way down."""
    clf = tiny_classifier()
    with torch.no_grad():
        for name, parameter in clf.model.named_parameters():
            if name.endswith("bias"):
                parameter.fill_(0.5)
    ticket = structured(clf)
    before, after = clf.model.state_dict(), reinitialise_outside(clf, ticket, 1).model.state_dict()
    width = clf.model.config.hidden_size // clf.model.config.num_attention_heads
    for i in range(clf.model.config.num_hidden_layers):
        layer = f"bert.encoder.layer.{i}."
        heads = torch.tensor(~ticket.masks["heads"][i]).repeat_interleave(width)
        neurons = torch.tensor(~ticket.masks["neurons"][i])
        rows = {f"attention.self.{part}": heads for part in ("query", "key", "value")} | {"intermediate.dense": neurons}
        columns = {"attention.output.dense": heads, "output.dense": neurons}
        for name, gone in rows.items():
            moved = before[f"{layer}{name}.weight"] != after[f"{layer}{name}.weight"]
            assert torch.equal(moved, gone[:, None].expand_as(moved)), name
            assert torch.equal(after[f"{layer}{name}.bias"], torch.where(gone, 0.0, 0.5)), name
        for name, gone in columns.items():
            moved = before[f"{layer}{name}.weight"] != after[f"{layer}{name}.weight"]
            assert torch.equal(moved, gone[None, :].expand_as(moved)), name
            assert torch.equal(after[f"{layer}{name}.bias"], before[f"{layer}{name}.bias"]), name
    assert torch.equal(before["bert.pooler.dense.weight"], after["bert.pooler.dense.weight"])


def test_values_are_a_new_layers_and_come_from_the_seed_alone() -> None:
    clf = tiny_classifier(hidden=64, neurons=256)
    ticket = structured(clf)
    name = "bert.encoder.layer.1.intermediate.dense"
    once, again, other = (reinitialise_inside(clf, ticket, seed).model.state_dict() for seed in (1, 1, 2))
    kept = torch.tensor(ticket.masks["neurons"][1].copy())
    drawn = once[f"{name}.weight"][kept]
    assert torch.equal(once[f"{name}.weight"], again[f"{name}.weight"])
    assert not torch.equal(once[f"{name}.weight"], other[f"{name}.weight"])
    assert float(drawn.std()) == pytest.approx(clf.model.config.initializer_range, rel=0.05)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.02)
    assert not once[f"{name}.bias"][kept].any()
    assert torch.equal(once[f"{name}.bias"][~kept], clf.model.state_dict()[f"{name}.bias"][~kept])
    small, pretrained = (compact(model, ticket) for model in (reinitialise_inside(clf, ticket), clf))
    theirs = layout_of(pretrained.model).matrices_of(pretrained.model)
    for matrix, module in layout_of(small.model).matrices_of(small.model).items():
        assert (module.weight != theirs[matrix].weight).all(), matrix
    # the same values, whatever the ticket: two ablations of two tickets differ by their tickets alone
    whole = structured(clf, heads=0.0, neurons=0.0)
    assert torch.equal(reinitialise_inside(clf, whole, 1).model.state_dict()[f"{name}.weight"][kept], drawn)


def test_tickets_of_another_shape_are_refused() -> None:
    wide, narrow = tiny_classifier(neurons=24), tiny_classifier(neurons=16)
    for ticket in (structured(wide), unstructured(wide)):
        with refused("ticket.shape"):
            reinitialise_outside(narrow, ticket)
