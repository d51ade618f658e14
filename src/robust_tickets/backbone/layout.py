"""Layout: where a backbone keeps its query, key, value, output, up and down projections.

One file in ``backbone/`` is one family's Layout. Paths are dotted, relative to the encoder (``model.base_model``), so
that one Layout serves the bare encoder, the classifier and the masked-language model alike. A projection that several
of the names share is fused: its rows are that many stacked blocks of equal height, in the order of the fields
(ModernBERT's ``Wqkv``: query, key, value). A family whose attention keeps other things per head (MPNet's shared
position bias) subclasses and overrides a hook at the bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError
from robust_tickets.registry import BACKBONES

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel

# Families that no Layout can describe, and why.
REFUSED = {
    "albert": "its layers share one set of weights, so a head or neuron cut in one layer is cut in all of them and a "
    "mask for each layer has no meaning",
}


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
    gate: str = ""  # second projection of a gated feed-forward layer: down(act(up(x)) * gate(x)); "": none
    per_head: tuple[str, ...] = ()  # further projections with rows for each head, in the layers that have them
    neurons_setting: str = "intermediate_size"  # the config's name for the width of the feed-forward layers
    head_counts: tuple[str, ...] = ("num_attention_heads",)  # attributes of the attention: its number of heads,
    head_widths: tuple[str, ...] = ("all_head_size",)  # and the width of all of them
    reserved_positions: int = 0  # rows of the position table that no token uses (RoBERTa: from padding_idx + 1)
    pooler: str = ""  # path of the pooler's dense layer, relative to the encoder; "": none
    pretrained_head: str = ""  # module beside the encoder whose weights come pretrained (ModernBERT); "": none

    def layers_of(self, model: nn.Module) -> list[Any]:
        return list(encoder_of(model).get_submodule(self.layers))

    def words_of(self, model: PreTrainedModel) -> Any:
        """The word-embedding module, whose output adversaries perturb."""
        return encoder_of(model).get_submodule(self.word_embeddings)

    def sizes(self, config: Any) -> dict[str, int]:
        """Heads and neurons of one layer of the dense model."""
        return {"heads": int(config.num_attention_heads), "neurons": int(getattr(config, self.neurons_setting))}

    def head_size(self, model: PreTrainedModel) -> int:
        """Width of one head, which pruning never changes; some families may set it apart from the hidden size."""
        config = model.config
        return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)

    def rows_of(self, layer: Any) -> dict[str, tuple[str, int]]:
        """The projections whose rows belong to heads or neurons: path -> (group, number of stacked blocks)."""
        heads = (self.query, self.key, self.value, *(path for path in self.per_head if _has(layer, path)))
        neurons = (self.up, self.gate) if self.gate else (self.up,)
        groups = (("heads", heads), ("neurons", neurons))
        return {path: (group, paths.count(path)) for group, paths in groups for path in paths}

    def columns_of(self) -> dict[str, str]:
        """The projections of a layer whose columns belong to heads or neurons: path -> group."""
        return {self.attention_output: "heads", self.down: "neurons"}

    def heads_of(self, model: PreTrainedModel) -> list[int]:
        """Heads that each layer has now."""
        size = self.head_size(model)
        return [layer.get_submodule(self.attention_output).weight.shape[1] // size for layer in self.layers_of(model)]

    def neurons_of(self, model: PreTrainedModel) -> list[int]:
        """Feed-forward width that each layer has now."""
        return [layer.get_submodule(self.down).weight.shape[1] for layer in self.layers_of(model)]

    def units_of(self, model: PreTrainedModel) -> dict[str, list[int]]:
        """Heads and neurons that each layer has now."""
        return {"heads": self.heads_of(model), "neurons": self.neurons_of(model)}

    def unit_weights(self, model: PreTrainedModel) -> dict[str, int]:
        """Matrix weights of one head (q, k, v, o, further projections) and of one neuron (up, down, gate)."""
        size, hidden = {"heads": self.head_size(model), "neurons": 1}, model.config.hidden_size
        matrices = dict.fromkeys(size, 1)  # the columns of o, of down
        for group, blocks in self.rows_of(self.layers_of(model)[0]).values():
            matrices[group] += blocks
        return {group: matrices[group] * hidden * size[group] for group in size}

    def matrices_of(self, model: PreTrainedModel) -> dict[str, Any]:
        """The matrices that unstructured tickets mask, by name: q, k, v, o, up, down of every layer, then the pooler's.

        73 modules in BERT-base; 72 where the classifier has no pooler; four a layer where projections are fused.
        Biases, embeddings, norms and the classifier are never masked.
        """
        found = {}
        for i, layer in enumerate(self.layers_of(model)):
            rows = self.rows_of(layer)
            attention = [path for path, (group, _) in rows.items() if group == "heads"]
            forward = [path for path, (group, _) in rows.items() if group == "neurons"]
            for path in (*attention, self.attention_output, *forward, self.down):
                found[f"{self.layers}.{i}.{path}.weight"] = layer.get_submodule(path)
        if self.pooler and getattr(encoder_of(model), self.pooler.partition(".")[0], None) is not None:
            found[f"{self.pooler}.weight"] = encoder_of(model).get_submodule(self.pooler)
        return found

    def place_of(self, matrix: str) -> tuple[int, str] | None:
        """The layer of a matrix, and ``attention`` or ``feedforward``; None for the pooler's."""
        if not matrix.startswith(f"{self.layers}."):
            return None
        layer, _, path = matrix.removeprefix(f"{self.layers}.").removesuffix(".weight").partition(".")
        if not layer.isdecimal():
            return None
        return int(layer), "feedforward" if path in (self.up, self.gate, self.down) else "attention"

    def heads_changed(self, model: PreTrainedModel, layer: int, kept: list[int]) -> None:
        """What the family adjusts after ``layer`` lost heads; ``kept``: the indices among those it had."""

    def attention_flops(self, model: PreTrainedModel, heads: int, tokens: int) -> int:
        """Of the products between tokens in one layer of ``heads`` heads: scores, and the weighted sum of values."""
        return 2 * 2 * tokens * tokens * heads * self.head_size(model)


def encoder_of(model: nn.Module) -> Any:
    """The encoder inside a classifier or masked-language model, or the model itself."""
    return getattr(model, "base_model", model)


def prefix_of(model: PreTrainedModel) -> str:
    """What the encoder's names begin with in the state dict of ``model``."""
    return "" if encoder_of(model) is model else f"{model.base_model_prefix}."


def has_layout(model: PreTrainedModel | PreTrainedConfig) -> bool:
    """Whether ``model`` (or a config) is of a family that can be pruned."""
    stock = _family(model).removeprefix("ticket-")
    return stock not in REFUSED and stock.replace("-", "_") in BACKBONES.names()


def layout_of(model: PreTrainedModel | PreTrainedConfig | str) -> Layout:
    """The Layout of ``model``'s family (a model's, a config's, or by its name); refuses families that no file describes."""
    family = _family(model)
    stock = family.removeprefix("ticket-")
    name = stock.replace("-", "_")
    if stock in REFUSED:
        message = f"the backbone family {family!r} cannot be pruned: {REFUSED[stock]}"
        raise TicketsError(message, hint=f"choose another: {', '.join(BACKBONES.names())}", code="backbone.refused")
    if name not in BACKBONES.names():
        message = f"the backbone family {family!r} has no layout; known: {', '.join(BACKBONES.names())}"
        hint = "choose a known family, or describe yours in a few lines (docs/guides/backbones.md)"
        raise TicketsError(message, hint=hint, code="backbone.unknown")
    layout = BACKBONES.get(name)
    if not isinstance(layout, Layout) or layout.family != stock:
        found = f"one of {layout.family!r}" if isinstance(layout, Layout) else f"a {type(layout).__name__}"
        message = f"the backbone {name!r} must be a Layout of the family {stock!r}, its entry point gives {found}"
        hint = "name the entry point like the family, with _ for - (docs/guides/backbones.md)"
        raise TicketsError(message, hint=hint, code="backbone.not_a_layout")
    return layout


def code_of_layout(model: PreTrainedModel | PreTrainedConfig) -> dict[str, str]:
    """The hash of the file that describes a plug-in's family, by module; empty for ours."""
    return BACKBONES.code(layout_of(model).family.replace("-", "_")) if has_layout(model) else {}


def _family(model: PreTrainedModel | PreTrainedConfig | str) -> str:
    return (
        model
        if isinstance(model, str)
        else str(getattr(getattr(model, "config", model), "model_type", type(model).__name__))
    )


def _has(layer: Any, path: str) -> bool:
    try:
        layer.get_submodule(path)
    except AttributeError:
        return False
    return True
