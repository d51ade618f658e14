"""RoBERTa (Liu et al. 2019): BERT's modules, positions counted from ``padding_idx + 1``, no token types."""

from __future__ import annotations

from dataclasses import replace

from robust_tickets.backbone.bert import REGISTERED as BERT

REGISTERED = replace(BERT, family="roberta", reserved_positions=2)
