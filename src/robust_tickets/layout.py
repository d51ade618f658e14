"""Layout: where a backbone keeps its query, key, value, output, up and down projections.

One file in ``backbone/`` is one family's Layout. Paths are dotted, relative to the encoder (``model.base_model``), so that one
Layout serves the bare encoder, the classifier and the masked-language model alike. A family whose attention keeps other things
per head (MPNet's shared position bias) subclasses and overrides the hook at the bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.registry import BACKBONES


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Names of one family; all paths below ``layers`` are relative to one layer."""

    family: str  # transformers' model_type
    layers: str  # path of the list of layers
    query: str
    key: str
    value: str
    attention_output: str
    up: str
    down: str
    word_embeddings: str
    reserved_positions: int = 0  # rows of the position table that no token ever uses (RoBERTa counts from padding_idx + 1)
    pooler: str = ""  # path of the pooler's dense layer, relative to the encoder; "" where the family has none

    def layers_of(self, model: Any) -> list[Any]:
        return list(encoder_of(model).get_submodule(self.layers))

    def words_of(self, model: Any) -> Any:
        """The word-embedding module, whose output adversaries perturb."""
        return encoder_of(model).get_submodule(self.word_embeddings)

    def head_size(self, model: Any) -> int:
        """Width of one head, which pruning never changes."""
        return int(model.config.hidden_size // model.config.num_attention_heads)

    def heads_of(self, model: Any) -> list[int]:
        """Heads that each layer has now."""
        size = self.head_size(model)
        return [layer.get_submodule(self.query).weight.shape[0] // size for layer in self.layers_of(model)]

    def neurons_of(self, model: Any) -> list[int]:
        """Feed-forward width that each layer has now."""
        return [layer.get_submodule(self.down).weight.shape[1] for layer in self.layers_of(model)]

    def unit_weights(self, model: Any) -> dict[str, int]:
        """Matrix weights that one head (q, k, v, o) and one neuron (up, down) hold."""
        hidden = model.config.hidden_size
        return {"heads": 4 * hidden * self.head_size(model), "neurons": 2 * hidden}

    def matrices_of(self, model: Any) -> dict[str, Any]:
        """The matrices that unstructured tickets mask, by name in the encoder: q, k, v, o, up, down of every layer, then the pooler's.

        73 modules in BERT-base; 72 where the classifier has no pooler. Biases, embeddings, norms and the classifier are never masked.
        """
        paths = list(dict.fromkeys((self.query, self.key, self.value, self.attention_output, self.up, self.down)))
        found = {
            f"{self.layers}.{i}.{path}.weight": layer.get_submodule(path) for i, layer in enumerate(self.layers_of(model)) for path in paths
        }
        if self.pooler and getattr(encoder_of(model), self.pooler.partition(".")[0], None) is not None:
            found[f"{self.pooler}.weight"] = encoder_of(model).get_submodule(self.pooler)
        return found

    def heads_changed(self, model: Any, layer: int, kept: list[int]) -> None:
        """Bookkeeping after layer ``layer`` lost heads; ``kept`` are the indices among those it had."""


def encoder_of(model: Any) -> Any:
    """The encoder inside a classifier or masked-language model, or the model itself."""
    return getattr(model, "base_model", model)


def layout_of(model: Any) -> Layout:
    """The Layout of ``model``'s family; refuses families that no file describes."""
    family = str(getattr(getattr(model, "config", model), "model_type", type(model).__name__))
    name = family.removeprefix("ticket-").replace("-", "_")
    if name not in BACKBONES.names():
        raise TicketsError(
            f"the backbone family {family!r} has no layout; known: {', '.join(BACKBONES.names())}",
            hint="choose a known family, or describe yours in one file (docs/concepts.md, Backbones)",
        )
    layout = BACKBONES.get(name)
    assert isinstance(layout, Layout)
    return layout
