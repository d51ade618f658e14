"""A faster attack on a copy of the victim in fewer bits, and how many of its outcomes the victim itself confirms.

The search runs on the copy; afterwards the clean text and the final text of every example are put to the victim in its own precision.
What it says otherwise is counted as ``unconfirmed``: a success that is none, a failure that is a success, a skipped text that is not.
An example may have fallen at another text or query in full precision; only a second attack can tell.

The head of the copy, and the pooler before it, stay in float32. Where a victim is sure of itself, a word moves its logits by a hundredth,
and at logits of 5 float16 goes in steps of 0.004, bfloat16 of 0.03: an attack would find nothing to follow, and the victim look sturdy.
What the layers hand to the head is rounded by the same share whether it is sure or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from robust_tickets.backbone.layout import encoder_of
from robust_tickets.checks import one_of
from robust_tickets.classifier import Classifier
from robust_tickets.errors import TicketsError
from robust_tickets.stats.metrics import ERROR, FAILED, SKIPPED, SUCCESS, UNKNOWN

PRECISIONS = ("bfloat16", "float16")
HEAD = "float32"  # and the pooler
AT_A_TIME = 512  # examples


def lowered(clf: Classifier, precision: str | None) -> Classifier:
    """``clf`` itself, or a copy that computes in ``precision``, up to its head."""
    if precision is None:
        return clf
    one_of("the precision of an attack", precision, PRECISIONS)
    if clf.model is None:
        raise TicketsError(
            f"{clf.identity} is no model at hand: its precision cannot be lowered",
            hint="leave precision out, or load the model itself",
        )
    import torch

    twin = clf.copy()
    twin.model.to(getattr(torch, precision))
    for module in _head(twin.model):
        module.float()
        module.register_forward_pre_hook(_widened, with_kwargs=True)
    return twin


def _head(model: Any) -> list[Any]:
    """All that follows the encoder's layers."""
    encoder = encoder_of(model)
    if encoder is model:
        return []
    return [
        module
        for module in (getattr(encoder, "pooler", None), *model.children())
        if module is not None and module is not encoder
    ]


def _widened(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a module is given, with its floats as float32."""
    return tuple(map(_wide, given)), {name: _wide(value) for name, value in named.items()}


def _wide(value: Any) -> Any:
    import torch

    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def unconfirmed(clf: Classifier, lines: Iterable[bytes], target: Any) -> int:
    """How many outcomes ``clf`` does not confirm; ``target`` gives its class for a label of the task."""
    count = 0
    for some in _portions(line for line in map(json.loads, lines) if line["status"] not in (UNKNOWN, ERROR)):
        texts = [tuple(text) for line in some for text in (line["original"], line["perturbed"] or line["original"])]
        said = clf.logits(texts).argmax(axis=1).reshape(-1, 2)
        for line, (before, after) in zip(some, said, strict=True):
            label = target(line["label"])
            status = SKIPPED if before != label else SUCCESS if after != label else FAILED
            count += status != line["status"]
    return count


def _portions(lines: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for line in lines:
        some.append(line)
        if len(some) == AT_A_TIME:
            yield some
            some = []
    if some:
        yield some
