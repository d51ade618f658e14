"""Configs of pruned models: the stock config of a family plus what each layer kept. Imports no torch.

``Ticket<Family>Config`` is made from the family's stock config, for every registered backbone, so that a new backbone brings its own.
``kept_heads`` and ``kept_neurons`` hold, per layer, the kept indices counted in the dense model: enough to rebuild the uneven shapes
and to put everything back where it was. They are lists of numbers; in config.json a layer is one text, ``"0-5,7,9-12"``, since transformers
would write every number on a line of its own. Both forms are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robust_tickets.backbone.layout import layout_of
from robust_tickets.errors import TicketsError
from robust_tickets.registry import BACKBONES

PREFIX = "ticket-"
GROUPS = ("heads", "neurons")
LOADED_BY = "import robust_tickets.auto"  # written into config.json, for who meets the folder with transformers alone

_made: dict[str, Any] = {}  # family -> config class


def ticket_config(family: str) -> Any:
    """The config class of ``family``'s pruned models; always the same one."""
    if family not in _made:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        stock = CONFIG_MAPPING[family]
        body = {
            "__module__": __name__,
            "__doc__": f"{stock.__name__} and, per layer, the heads and neurons that a ticket kept.",
            "__annotations__": {
                "kept_heads": list | None,
                "kept_neurons": list | None,
            },  # per layer: indices, or their text
            "model_type": PREFIX + family,
            "kept_heads": None,  # None: all of them
            "kept_neurons": None,
            "stock_class": stock,
            "__post_init__": _read_texts,
            "to_dict": _write_texts,
        }
        _made[family] = type(f"Ticket{stock.__name__}", (stock,), body)
    return _made[family]


def _read_texts(self: Any, **kwargs: Any) -> None:
    """``__post_init__`` of every ticket config: texts become lists of indices."""
    self.stock_class.__post_init__(self, **kwargs)
    for group, size in layout_of(self).sizes(self).items():
        kept = getattr(self, f"kept_{group}")
        if isinstance(kept, list):
            setattr(
                self, f"kept_{group}", [from_text(layer, size) if isinstance(layer, str) else layer for layer in kept]
            )


def _write_texts(self: Any) -> dict[str, Any]:
    """``to_dict`` of every ticket config: lists of indices become texts, and the line that loads the model is added."""
    told: dict[str, Any] = self.stock_class.to_dict(self)
    for group in GROUPS:
        kept = told.get(f"kept_{group}")
        if kept is not None:
            told[f"kept_{group}"] = [layer if isinstance(layer, str) else to_text(layer) for layer in kept]
    return {**told, "loaded_by": LOADED_BY}


def to_text(indices: Sequence[int]) -> str:
    """Rising indices as text: ``[0, 1, 2, 5]`` is ``"0-2,5"``."""
    runs: list[list[int]] = []
    for i in indices:
        if runs and runs[-1][1] + 1 == i:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def from_text(text: str, size: int) -> list[int]:
    """The indices that ``to_text`` wrote; none may reach ``size``, so that no text asks for more memory than the model has."""
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last) if dash else (first, first)
        if (
            not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends)
            or not int(ends[0]) <= int(ends[1]) < size
        ):
            raise TicketsError(
                f"kept indices in the config: {part!r:.40} in {text!r:.40} is no index and no range below {size}",
                hint="the config is damaged or belongs to another model",
            )
        indices.extend(range(int(ends[0]), int(ends[1]) + 1))
        if len(indices) > size:  # ranges that overlap; refused below with the rest
            break
    return indices


def kept_by(config: Any) -> dict[str, list[list[int]]]:
    """What each layer of a pruned (or dense) model keeps of the dense one; refuses a config that cannot be true."""
    layers, sizes = config.num_hidden_layers, layout_of(config).sizes(config)
    return {group: _checked(group, getattr(config, f"kept_{group}", None), layers, sizes[group]) for group in GROUPS}


def _checked(group: str, kept: Any, layers: int, size: int) -> list[list[int]]:
    if kept is None:
        return [list(range(size)) for _ in range(layers)]
    field, hint = f"kept_{group} in the config", "the config is damaged or belongs to another model"
    if not isinstance(kept, Sequence) or len(kept) != layers:
        found = len(kept) if isinstance(kept, Sequence) else type(kept).__name__
        raise TicketsError(f"{field} must hold one list for each of the {layers} layers, got {found}", hint=hint)
    for layer, indices in enumerate(kept):
        whole = isinstance(indices, Sequence) and all(type(i) is int for i in indices)
        if not whole or not indices or list(indices) != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= size:
            raise TicketsError(
                f"{field}, layer {layer}, must be one or more rising indices from 0 to {size - 1}, got {indices!r:.80}",
                hint=hint,
            )
    return [list(indices) for indices in kept]


def convert(config: Any, config_class: Any, **changes: Any) -> Any:
    """``config`` as another class of its family, with ``changes``; model type and the kept indices are those of the new class."""
    told = config.to_dict()
    for name in ("model_type", "architectures", "transformers_version", "kept_heads", "kept_neurons", "loaded_by"):
        told.pop(name, None)
    new = config_class.from_dict({**told, **changes})
    new._attn_implementation = config._attn_implementation
    new.name_or_path = config.name_or_path
    return new


def __getattr__(name: str) -> Any:
    """``TicketBertConfig`` and its like, by name: what pickling and documentation tools ask a module for."""
    if name.startswith("Ticket") and name.endswith("Config"):
        for backbone in BACKBONES.names():
            config_class = ticket_config(BACKBONES.get(backbone).family)
            if config_class.__name__ == name:
                return config_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
