"""Resources of an attack, loaded: what ``Attack.found`` found, as the parts that a recipe's ``assemble`` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robust_tickets.resources.kinds import Resource

PARTS = {"vectors": "vectors", "tagger": "tags", "encoder": "encode", "masked": "language"}  # kind -> name of the part


def loaded(kinds: Sequence[str], found: Mapping[str, Resource], device: str) -> dict[str, Any]:
    """A part for every kind, models on ``device``; None for a kind that was dropped."""
    return {PARTS[kind]: _load(kind, found[kind], device) if kind in found else None for kind in kinds}


def _load(kind: str, resource: Resource, device: str) -> Any:
    if kind == "vectors":
        from robust_tickets.resources.vectors import load_words

        return load_words(resource.path, resource.digest)
    if kind == "tagger":
        from robust_tickets.resources.tagger import FunctionTagger, Tagger

        if resource.function is not None:
            return FunctionTagger(resource.function, name=resource.name)
        return Tagger.load(resource.path)
    if kind == "encoder":
        from robust_tickets.resources.sentence_encoder import SentenceEncoder
        from robust_tickets.resources.universal_sentence_encoder import UniversalEncoder

        if resource.function is not None:
            return UniversalEncoder(resource.function, name=resource.name).encode
        return SentenceEncoder.load(resource.path, device=device).encode
    from robust_tickets.resources.masked_lm import MaskedModel

    return MaskedModel.load(resource.path, device=device)
