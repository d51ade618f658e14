"""ELECTRA (Clark et al. 2020): BERT's modules without the pooler.

Word embeddings may be narrower than the layers (128 against 256 in the small one); perturbations have the words' width.
The pretrained encoder is the discriminator, which has no masked-language head; the generator, which has one, is
another, smaller model.
"""

from __future__ import annotations

from dataclasses import replace

from robust_tickets.backbone.bert import REGISTERED as BERT

REGISTERED = replace(BERT, family="electra", pooler="")
