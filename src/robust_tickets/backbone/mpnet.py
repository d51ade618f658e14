"""MPNet (Song et al. 2020): one relative position bias for every head, added in every layer.

A layer that lost heads must read its own rows of that bias, so each of its attentions gets a small pre-hook that
selects them. The hook is an object on the module: it is copied with the model, and the Ticket classes attach it again
when they are built from a config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robust_tickets.backbone.layout import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class SliceBias:
    """Selects the kept heads of the position bias, the third argument of the attention.

    By slices, one a run of neighbours: no index tensor that would have to follow the model to its device or into a
    traced graph.
    """

    def __init__(self, kept: list[int]) -> None:
        self.runs: list[tuple[int, int]] = []
        for head in kept:
            if self.runs and self.runs[-1][1] == head:
                self.runs[-1] = (self.runs[-1][0], head + 1)
            else:
                self.runs.append((head, head + 1))

    def __call__(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if kwargs.get("position_bias") is not None:
            return args, {**kwargs, "position_bias": self._select(kwargs["position_bias"])}
        if len(args) > 2 and args[2] is not None:
            return (*args[:2], self._select(args[2]), *args[3:]), kwargs
        return args, kwargs

    def _select(self, bias: Any) -> Any:
        import torch

        parts = [bias[:, first:end] for first, end in self.runs]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


@dataclass(frozen=True, kw_only=True)
class MPNetLayout(Layout):
    def heads_changed(self, model: PreTrainedModel, layer: int, kept: list[int]) -> None:
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
