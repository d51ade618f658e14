"""DistilBERT (Sanh et al. 2019): BERT's layer under other names, six of them, no token types, no pooler."""

from __future__ import annotations

from robust_tickets.backbone.layout import Layout

REGISTERED = Layout(
    family="distilbert",
    layers="transformer.layer",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    attention_output="attention.out_lin",
    up="ffn.lin1",
    down="ffn.lin2",
    word_embeddings="embeddings.word_embeddings",
    neurons_setting="hidden_dim",
    head_counts=("n_heads",),
    head_widths=("dim",),
)
