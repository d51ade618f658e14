"""DeBERTa-v2 and -v3 (He et al. 2021, 2023): attention between contents and relative positions.

v3 projects the relative positions with the content's query and key (``share_att_key``). v2 may have two projections of
its own for them; they have rows for each head and are cut with it. The table of relative positions is as wide as the
layers and stays whole. The pooler belongs to the classifier, not to the encoder, and no checkpoint brings it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robust_tickets.backbone.layout import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class DebertaLayout(Layout):
    def attention_flops(self, model: PreTrainedModel, heads: int, tokens: int) -> int:
        """Also the projected positions, and their scores against queries (c2p) and keys (p2c)."""
        config, width = model.config, heads * self.head_size(model)
        if not getattr(config, "relative_attention", False):
            return super().attention_flops(model, heads, tokens)
        buckets = getattr(config, "position_buckets", -1)
        span = buckets if buckets > 0 else config.max_relative_positions
        rows = 2 * (span if span > 0 else config.max_position_embeddings)
        kinds = set(config.pos_att_type or ()) & {"c2p", "p2c"}
        projected = 2 if getattr(config, "share_att_key", False) else len(kinds)  # shared ones both run
        positions = 2 * rows * config.hidden_size * width * projected + 2 * tokens * rows * width * len(kinds)
        return super().attention_flops(model, heads, tokens) + positions


REGISTERED = DebertaLayout(
    family="deberta-v2",
    layers="encoder.layer",
    query="attention.self.query_proj",
    key="attention.self.key_proj",
    value="attention.self.value_proj",
    attention_output="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
    word_embeddings="embeddings.word_embeddings",
    per_head=("attention.self.pos_key_proj", "attention.self.pos_query_proj"),
)
