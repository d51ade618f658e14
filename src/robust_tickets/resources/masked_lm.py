"""A masked language model that offers words for a position: any transformers folder with a WordPiece tokenizer.

WordPiece marks a piece that continues a word by ``##``, and what an attack makes of the pieces depends on it, so that models with
another tokenizer (RoBERTa's, say) are refused. Weights are read from safetensors and computed with in float32.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.pretrained import load_model, load_tokenizer, read_config
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.resources.sentence_encoder import longest, model_files
from robust_tickets.resources.words import is_one_word

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONTINUES = "##"


class MaskedModel:
    """``logits(rows)`` scores the whole vocabulary at every token; the rest is what its tokenizer knows."""

    def __init__(self, model: PreTrainedModel, tokenizer: Any) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.longest = longest(model, tokenizer)
        self.mask = tokenizer.mask_token
        if self.mask is None or not any(token.startswith(CONTINUES) for token in self.tokens):
            raise TicketsError(
                f"the tokenizer of this {model.config.model_type} has no mask or does not mark pieces of words by {CONTINUES}",
                hint="give a masked language model with a WordPiece tokenizer, such as bert-base-uncased",
                code="masked.tokenizer",
            )

    @classmethod
    def load(cls, path: Path | str, *, device: str = "cpu") -> MaskedModel:
        folder = Path(path)
        if model_files(folder) is None:
            hint = "expected config.json, model.safetensors and a tokenizer"
            raise TicketsError(f"no masked language model in {folder}", hint=hint, code="masked.missing")
        import torch

        tokenizer = load_tokenizer(folder)
        model, missing = load_model(folder, "masked language model", read_config(folder), dtype=torch.float32)
        if missing:  # they are random: it would offer any word
            message = f"{folder} has no pretrained head for masked words (it lacks {min(missing)})"
            raise TicketsError(message, hint="take another checkpoint", code="masked.no_head")
        return cls(model.to(device), tokenizer)

    @cached_property
    def tokens(self) -> list[str]:
        """The token of every id; empty for those that only round the model's vocabulary up."""
        ids = list(range(self.model.config.vocab_size))
        return [token or "" for token in self.tokenizer.convert_ids_to_tokens(ids)]

    @cached_property
    def whole_words(self) -> np.ndarray:
        """Ids of tokens that are exactly one word without the mark of a piece, and not mere punctuation."""
        bare = [token.replace(CONTINUES, "") for token in self.tokens]
        punctuation = set(string.punctuation)
        return np.array([i for i, token in enumerate(bare) if is_one_word(token) and not set(token) <= punctuation])

    @tokenising()
    def encode(self, text: str) -> list[int]:
        """Token ids with the special ones, cut to what the model takes."""
        return list(self.tokenizer(text, truncation=True, max_length=self.longest)["input_ids"])

    @tokenising()
    def place(self, text: str) -> int | None:
        """At which token the first mask of ``text`` stands; none if it has none, or is cut before it.

        What follows a mask does not change how the text before it is read, and the last token of a cut text is a special one.
        """
        end = text.find(self.mask)
        ids = self.tokenizer(text[: end + len(self.mask)])["input_ids"] if end >= 0 else []
        found = ids.index(self.tokenizer.mask_token_id) if self.tokenizer.mask_token_id in ids else self.longest
        return found if found < self.longest - 1 else None

    @tokenising()
    def pieces(self, word: str) -> int:
        """How many tokens a word is when it stands alone."""
        return len(self.tokenizer(word, add_special_tokens=False)["input_ids"])

    def logits(self, rows: Sequence[list[int]], width: int) -> Any:
        """(texts, ``width``, vocabulary) on the model's device; rows are padded to ``width``, and padding gets its scores too."""
        import torch

        ids = np.full((len(rows), width), self.tokenizer.pad_token_id or 0)
        mask = np.zeros_like(ids)
        for line, marks, row in zip(ids, mask, rows, strict=True):
            line[: len(row)], marks[: len(row)] = row, 1
        given = {"input_ids": ids, "attention_mask": mask}
        with torch.inference_mode():
            on_device = {name: torch.from_numpy(each).to(self.model.device) for name, each in given.items()}
            return self.model(**on_device).logits.float()
