"""ModernBERT (Warner et al. 2024): fused projections, a gated feed-forward layer, local and global attention.

``Wqkv`` stacks the rows of query, key and value; ``Wi`` stacks the activated half and the gate. A head has rows in
three blocks, a neuron in two, so a neuron holds three matrices' weights. Norms come before the projections and nothing
has a bias unless the config says so. The classifier's ``head`` is the one that the masked-language model was pretrained
with.
"""

from __future__ import annotations

from robust_tickets.backbone.layout import Layout

REGISTERED = Layout(
    family="modernbert",
    layers="layers",
    query="attn.Wqkv",
    key="attn.Wqkv",
    value="attn.Wqkv",
    attention_output="attn.Wo",
    up="mlp.Wi",
    gate="mlp.Wi",
    down="mlp.Wo",
    word_embeddings="embeddings.tok_embeddings",
    pretrained_head="head",
)
