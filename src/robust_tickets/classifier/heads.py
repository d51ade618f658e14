"""Classification heads and their labels: keep one whose names fit, reorder it, or draw a new one from the seed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier.checkpoint import assemble, fresh
from robust_tickets.errors import TicketsError


def labels_of_config(config: Any) -> tuple[str, ...]:
    """The label names a checkpoint brings, in the order of its outputs."""
    given = config.id2label
    if set(given) != set(range(len(given))):
        raise TicketsError(
            f"{config.name_or_path or 'the model'}: id2label in config.json names the classes {', '.join(map(str, sorted(given)))}, "
            f"expected 0 to {len(given) - 1}",
            hint="give every output its name there, counted from 0",
        )
    return tuple(str(given[i]) for i in range(len(given)))


def check_head(config: Any, identity: str) -> None:
    """Refuse a head that does not choose one class of several: its answers are no probabilities of classes."""
    kind = getattr(config, "problem_type", None)
    if config.num_labels == 1 or kind == "regression":
        raise TicketsError(
            f"{identity} has a regression head ({config.num_labels} output(s)): it gives a number, not a class",
            hint="give a classifier; or wrap the model in a function that turns the number into probabilities of classes",
        )
    if kind == "multi_label_classification":
        raise TicketsError(
            f"{identity} is a multi-label classifier: any number of its {config.num_labels} labels may hold at once",
            hint="wrap it in a function that gives one label's probability and its complement: tickets attack my_module:function",
        )


def rename_labels(config: Any, labels: Sequence[str]) -> None:
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}


def with_labels(model: Any, wanted: Sequence[str], *, has_head: bool, seed: int) -> tuple[Any, bool]:
    """``model`` with outputs in the order of ``wanted``, and whether its own head was kept."""
    order = fitting(model.config, wanted) if has_head else None
    if order is not None:
        if order != list(range(len(order))):
            _reorder(model, order)
        rename_labels(model.config, wanted)
        return model, True
    config = copy.deepcopy(model.config)
    rename_labels(config, wanted)
    pretrained = layout_of(model).pretrained_head  # stays, like the pooler of the families that have one
    prefixes = (f"{model.base_model_prefix}.", *([f"{pretrained}."] if pretrained else []))
    stays = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(prefixes)}
    head = _shapes_of_head(type(model), config, prefixes)
    for name, tensor in head.items():
        head[name] = tensor.to(model.dtype)
    return assemble(type(model), config, {**stays, **fresh(head, config, seed)}, dict(model.named_buffers())), False


def _shapes_of_head(model_class: Any, config: Any, prefixes: tuple[str, ...]) -> dict[str, Any]:
    import torch

    with torch.device("meta"):
        return {
            name: tensor for name, tensor in model_class(config).state_dict().items() if not name.startswith(prefixes)
        }


def fitting(config: Any, wanted: Sequence[str]) -> list[int] | None:
    """Which of the checkpoint's outputs each wanted label is; None where the names differ. Case is ignored where that is unambiguous."""
    have = labels_of_config(config)
    for fold in (str, str.casefold):
        names = [fold(label) for label in have]
        if len(set(names)) == len(names) and sorted(names) == sorted(fold(label) for label in wanted):
            return [names.index(fold(label)) for label in wanted]
    return None


def _reorder(model: Any, order: list[int]) -> None:
    import torch

    prefix = f"{model.base_model_prefix}."
    last = [
        m
        for name, m in model.named_modules()
        if not name.startswith(prefix) and getattr(m, "out_features", None) == len(order)
    ]
    if not last:
        raise TicketsError(
            f"no output layer with {len(order)} outputs in {type(model).__name__}",
            hint="give labels in the checkpoint's order",
        )
    with torch.no_grad():
        for parameter in last[-1].parameters():
            parameter.copy_(parameter[order].clone())


def unnamed(labels: Sequence[str]) -> bool:
    """Whether these are what transformers writes where nobody named the classes."""
    return all(label == f"LABEL_{i}" for i, label in enumerate(labels))


def checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TicketsError(
            f"labels are a list of names, got {labels!r:.80}",
            hint='labels=["bad", "good"], in the order of the outputs',
        )
    labels = tuple(str(label) for label in labels)
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise TicketsError(
            f"a classifier needs two or more different labels, got {list(labels)}", hint="name every class once"
        )
    return labels
