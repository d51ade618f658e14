"""Base of adversaries that swap words: a synonym table on the device, and which positions of a batch may be swapped.

Only words that are one token are swapped, by words that are one token (see ``resources.synonyms``): ids change in
place, positions and labels stay. Padding, special tokens, stop words and pieces of longer words are never swapped; in a
masked-language model neither are the tokens to predict, and a word whose continuation is masked counts as continued.

A model trained on the table that an attack uses is robust to that attack by construction: report it, or attack with
another table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robust_tickets.adversary.objective import IGNORED, Adversary, Ground, Objective
from robust_tickets.config import setting
from robust_tickets.errors import TicketsError
from robust_tickets.resources.synonyms import SynonymTable, source_of, synonym_table


class Words(nn.Module):
    """A synonym table as buffers, built again from the source when a run is resumed."""

    candidates: Tensor
    counts: Tensor
    joined: Tensor
    open: Tensor

    def __init__(self, table: SynonymTable) -> None:
        super().__init__()
        for name in ("candidates", "counts", "joined", "open"):
            self.register_buffer(name, torch.from_numpy(getattr(table, name)), persistent=False)

    @property
    def most(self) -> int:
        """Candidates of the word that has most, itself included."""
        return self.candidates.shape[1]

    def of(self, ids: Tensor) -> Tensor:
        """The candidates of every token, itself first, shape (batch, tokens, most)."""
        return self.candidates[ids].long()

    def swappable(self, inputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Where a whole word stands that has candidates, shape (batch, tokens), boolean."""
        ids = inputs["input_ids"]
        asked = labels != IGNORED if labels.ndim == 2 else torch.zeros_like(ids, dtype=torch.bool)
        written = torch.where(asked, labels, ids) if labels.ndim == 2 else ids  # what stood there before it was masked
        continues = torch.zeros_like(asked)
        continues[:, 1:] = self.joined[written[:, 1:]] & self.open[written[:, :-1]]
        continued = torch.zeros_like(asked)
        continued[:, :-1] = continues[:, 1:]
        return (self.counts[ids] > 1) & ~continues & ~continued & ~asked & inputs["attention_mask"].bool()


@dataclass(frozen=True, kw_only=True)
class WordSpace(Adversary):
    """Where the table comes from, and how many candidates a word has at most, besides itself."""

    source: str = "wordnet"  # "wordnet", "vectors", a folder of word vectors, or a JSON file {word: [word, …]}
    candidates: int = setting(50, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.source, str):
            message = f"{type(self).__name__}.source is a name or a path as text, got {self.source!r}"
            raise TicketsError(message, hint='"wordnet", say', code="adversary.source")

    def begin(self, ground: Ground) -> Words:
        if ground.tokenizer is None:
            message = f"{type(self).__name__} swaps words and so needs the tokenizer"
            raise TicketsError(message, hint="give make_step its tokenizer=", code="adversary.tokenizer")
        rows = ground.words.shape[0]
        table = synonym_table(ground.tokenizer, source=self.source, candidates=self.candidates, rows=rows)
        if table.counts.max(initial=1) == 1:
            where = f"no word of the vocabulary has a candidate in {table.source.name}"
            message = f"{type(self).__name__} would swap nothing: {where}"
            hint = "check the source; a file of word lists has its words in lower case"
            raise TicketsError(message, hint=hint, code="adversary.swaps_nothing")
        return Words(table)

    def resources(self) -> dict[str, dict[str, Any]]:
        """The field that names a file or table, and what was found there: its digest belongs into a run's identity."""
        return {"source": source_of(self.source).record()}

    def covers(self, tokenizer: Any, texts: Iterable[str]) -> dict[str, float]:
        """How many words ``texts`` hold, and which shares of them are one token, stop words, and swappable."""
        return synonym_table(tokenizer, source=self.source, candidates=self.candidates).coverage(tokenizer, texts)


def table_of(objective: Objective) -> Words:
    assert isinstance(objective.memory, Words)
    return objective.memory


def chosen(objective: Objective, positions: Tensor, p: float) -> Tensor:
    """Those of ``positions`` that are swapped this time: each with probability ``p``."""
    return positions & (torch.rand(positions.shape, generator=objective.generator, device=positions.device) < p)
