"""Uneven heads and neurons cost no kernel: a compact model runs the operations of the whole one, of smaller shapes, and no others.

MPNet alone needs one copy a layer: its encoder computes one position bias for all heads, of which a layer with gaps between its heads
takes its own. Heads that are neighbours are a view of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from robust_tickets.prune.compact import compact
from robust_tickets.registry import BACKBONES
from robust_tickets.ticket.ticket import Ticket
from tiny import VARIANTS, tiny_classifier

VIEWS = {
    "view",
    "_unsafe_view",
    "t",
    "transpose",
    "permute",
    "slice",
    "select",
    "unsqueeze",
    "squeeze",
    "expand",
    "detach",
    "alias",
    "unbind",
}
FAMILIES = [*BACKBONES.names(), *VARIANTS]
GAPS = [[0, 2, 3], [1, 3], [0, 1, 3]]
NEIGHBOURS = [[1, 2, 3], [0, 1], [0, 1, 2]]
ALONE = [[2], [0, 1, 2, 3], [3]]
NEURONS = [list(range(0, 24, 2)), list(range(7)), [*range(5), *range(11, 24)]]


class Counting(TorchDispatchMode):
    """Which operations run, below autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[function._schema.name.removeprefix("aten::")] += 1
        return function(*args, **(kwargs or {}))


def operations(model: Any, *, training: bool) -> Counter[str]:
    ids = torch.randint(5, 40, (3, 9), generator=torch.Generator().manual_seed(0))
    model.train(training)
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    with Counting() as counted, torch.set_grad_enabled(training):
        logits = model(input_ids=ids, attention_mask=mask).logits
        if training:
            logits.sum().backward()
    return counted.seen


def more(family: str, heads: list[list[int]], *, training: bool) -> tuple[Counter[str], Counter[str]]:
    """Operations that the compact model runs more often than the whole one, and those it runs less often."""
    clf = tiny_classifier(family)
    ticket = Ticket.from_kept(clf, heads=heads, neurons=NEURONS)
    whole, small = (operations(m, training=training) for m in (clf.model, compact(clf, ticket).model))
    return small - whole, whole - small


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "mpnet"])
def test_no_operation_is_added(family: str, training: bool) -> None:
    assert more(family, GAPS, training=training) == ({}, {})


@pytest.mark.parametrize("family", FAMILIES)
def test_one_head_is_no_exception(family: str) -> None:
    """What was a copy may then be a view."""
    added, _ = more(family, ALONE, training=False)
    assert {name: count for name, count in added.items() if name not in VIEWS} == {}


def test_mpnet_copies_its_position_bias_once_a_layer() -> None:
    added, less = more("mpnet", GAPS, training=False)
    assert {name: count for name, count in added.items() if name not in VIEWS} == {"cat": len(GAPS)}
    assert not less


def test_mpnet_copies_nothing_where_heads_are_neighbours() -> None:
    added, less = more("mpnet", NEIGHBOURS, training=False)
    assert set(added) == {"slice"}
    assert not less
