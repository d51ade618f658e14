"""MPNet (Song et al. 2020): one relative position bias, computed by the encoder for every head and added in every layer.

A layer that lost heads must read its own rows of that bias, so each of its attentions gets a small pre-hook that selects them. The
hook is an object on the module: it is copied with the model, and the Ticket classes attach it again when they are built from a config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robust_tickets.layout import Layout


class SliceBias:
    """Selects the kept heads of the position bias, the third argument of the attention."""

    def __init__(self, kept: list[int]) -> None:
        self.kept = kept
        self._index: Any = None  # the same on the device that asked last

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if kwargs.get("position_bias") is not None:
            return args, {**kwargs, "position_bias": self._select(kwargs["position_bias"])}
        if len(args) > 2 and args[2] is not None:
            return (*args[:2], self._select(args[2]), *args[3:]), kwargs
        return args, kwargs

    def _select(self, bias: Any) -> Any:
        import torch

        if self._index is None or self._index.device != bias.device:
            with torch.inference_mode(False):  # else an index made during inference could not take part in training
                self._index = torch.tensor(self.kept, device=bias.device)
        return bias.index_select(1, self._index)


@dataclass(frozen=True, kw_only=True)
class MPNetLayout(Layout):
    def heads_changed(self, model: Any, layer: int, kept: list[int]) -> None:
        self.layers_of(model)[layer].attention.attn.register_forward_pre_hook(SliceBias(kept), with_kwargs=True)


REGISTERED = MPNetLayout(
    family="mpnet",
    layers="encoder.layer",
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    attention_output="attention.attn.o",
    up="intermediate.dense",
    down="output.dense",
    word_embeddings="embeddings.word_embeddings",
    reserved_positions=2,
    pooler="pooler.dense",
)
