"""The sentence encoder's service: windows of many examples in, vectors out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robust_tickets.attack.asking import Encode

NOISE = 1e-5  # how much a batch may move a cosine in float32; measured maxima are about a tenth


class Encoder:
    """``encode`` turns a list of texts into one row each; equal texts of one round are encoded once."""

    def __init__(self, encode: Any) -> None:
        self.encode = encode

    def half(self, send: Callable[[Any], Any]) -> Encoder:
        """The part that runs in a worker (see ``workers``): texts are tokenised there where the encoder lets them."""
        owner = self._divided()
        return Encoder(send if owner is None else lambda texts: send(owner.ids(texts)))

    def together(self, requests: Sequence[Sequence[Any]]) -> list[np.ndarray]:
        owner = self._divided()
        found = np.asarray(
            (self.encode if owner is None else owner.vectors)([each for request in requests for each in request])
        )
        return np.split(found, np.cumsum([len(request) for request in requests])[:-1])

    def _divided(self) -> Any:
        """The encoder whose method ``encode`` is, if it can tokenise (``ids``) and compute (``vectors``) apart."""
        owner = getattr(self.encode, "__self__", None)
        return owner if hasattr(owner, "ids") and hasattr(owner, "vectors") else None

    def answer(self, questions: Sequence[Encode]) -> list[list[np.ndarray]]:
        together = list(dict.fromkeys(text for question in questions if not question.alone for text in question.texts))
        # by length, so that texts of like length are padded together, whatever the encoder's own batches are
        together.sort(key=len)
        found = dict(zip(together, np.asarray(self.encode(together)), strict=True)) if together else {}
        apart = {
            text: np.asarray(self.encode([text]))[0]
            for question in questions
            if question.alone
            for text in question.texts
        }
        return [[(apart if question.alone else found)[text] for text in question.texts] for question in questions]
