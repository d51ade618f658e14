"""BERT (Devlin et al. 2019), and everything saved as it: MiniLM, TinyBERT, BGE, E5."""

from __future__ import annotations

from robust_tickets.backbone.layout import Layout

REGISTERED = Layout(
    family="bert",
    layers="encoder.layer",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    attention_output="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
    word_embeddings="embeddings.word_embeddings",
    pooler="pooler.dense",
)
