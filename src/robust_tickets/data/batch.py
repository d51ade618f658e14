"""Batches: tokenised on the way or from a token table, bucketed by length, in an order of seed, epoch and batch size alone.

Rows are shuffled, cut into pools of some batches, sorted by length inside a pool and cut into batches, whose order is shuffled
again: padding is rare, and every row comes exactly once an epoch. The order costs two integers a row; texts are read per batch. A
token table changes neither the order nor a single number; ``widths`` adds padding, so that there are few shapes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.data.task import Split
from robust_tickets.data.tokens import TokenTable
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    import torch

POOL = 50  # batches that are sorted by length together
PLAIN = "by characters, padded to the longest"  # without widths, and in every checkpoint that does not say


@dataclass(frozen=True, kw_only=True)
class Batches:
    """``epoch(e)`` gives the batches of epoch ``e``; with ``shuffle=False`` longest first, each with the row positions in ``index``."""

    split: Split
    tokenizer: Any
    batch_size: int
    max_length: int
    seed: int = 0
    shuffle: bool = True
    token_types: bool = False  # does the model take token_type_ids
    tokens: TokenTable | None = field(
        default=None, compare=False, repr=False
    )  # of the same split, tokenizer, length and types
    widths: tuple[int, ...] = ()  # tokens that a batch is padded to: the first that holds it; none: its longest row
    by_tokens: bool = (
        False  # pools are sorted by tokens, not by characters: a fifth less padding, and an order that needs the table
    )

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.max_length < 1:
            raise TicketsError(
                f"batch_size and max_length must be at least 1, got {self.batch_size} and {self.max_length}",
                hint="change the value",
            )
        if any(width < 1 for width in self.widths) or list(self.widths) != sorted(set(self.widths)):
            raise TicketsError(
                f"widths must rise, from 1 token or more, got {self.widths}",
                hint="leave them out to pad to the longest",
            )
        if self.by_tokens and self.tokens is None:
            raise TicketsError("an order by tokens needs a token table", hint="give tokens, or leave by_tokens out")
        if self.tokens is not None and len(self.tokens) != len(self.split):
            raise TicketsError(
                f"a token table of {len(self.tokens)} rows for a split of {len(self.split)}",
                hint="make it of the split that is read",
            )

    def __len__(self) -> int:
        return -(-len(self.split) // self.batch_size)

    @property
    def reading(self) -> str:
        """What order and padding depend on besides the settings: a run that goes on must read as it did."""
        if not self.by_tokens and not self.widths:
            return PLAIN
        return f"by {'tokens' if self.by_tokens else 'characters'}, padded to {self.widths or 'the longest'}"

    def order(self, epoch: int) -> Iterator[np.ndarray]:
        """The row positions of each batch."""
        return self._order(epoch, 0)

    def _order(self, epoch: int, start: int) -> Iterator[np.ndarray]:
        lengths = self.tokens.lengths if self.tokens is not None and self.by_tokens else self.split.lengths
        size = self.batch_size
        if not self.shuffle:
            rows = np.argsort(-lengths, kind="stable")
            batches: np.ndarray = np.arange(len(self))
        else:
            generator = numpy_generator(self.seed, "batches", epoch)
            rows = generator.permutation(len(lengths))
            for pool in range(0, len(rows), POOL * size):
                part = rows[pool : pool + POOL * size]
                rows[pool : pool + POOL * size] = part[np.argsort(lengths[part], kind="stable")]
            batches = generator.permutation(len(self))
        for number in batches[start:]:
            yield rows[number * size : (number + 1) * size]

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[dict[str, torch.Tensor]]:
        """The batches of an epoch from number ``start`` on; those before it are neither read nor tokenised."""
        for rows in self._order(epoch, start):
            yield self._batch(rows)

    def _batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        import torch

        batch = (
            self._read(rows)
            if self.tokens is None
            else self.tokens.batch(rows, self._width(int(self.tokens.lengths[rows].max())))
        )
        batch["labels"] = torch.from_numpy(self.split.labels[rows].astype(np.int64))
        if not self.shuffle:
            batch["index"] = torch.from_numpy(rows.astype(np.int64))
        return batch

    def _width(self, longest: int) -> int:
        """Tokens that a batch with this longest row is padded to."""
        if not self.widths:
            return longest
        at = bisect_left(self.widths, longest)
        return max(longest, min(self.widths[at] if at < len(self.widths) else self.max_length, self.max_length))

    @tokenising()
    def _read(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """The same rows, tokenised now."""
        from torch.nn.functional import pad

        examples = self.split.take(rows)
        encoded = self.tokenizer(
            *([e.texts[i] for e in examples] for i in range(len(self.split.columns))),
            truncation="longest_first",
            max_length=self.max_length,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
            return_token_type_ids=self.token_types,
        )
        names = ("input_ids", "attention_mask", *(("token_type_ids",) if self.token_types else ()))
        longest = encoded["input_ids"].shape[1]
        more = self._width(longest) - longest
        if not more:
            return {name: encoded[name] for name in names}
        filling = {
            "input_ids": self.tokenizer.pad_token_id,
            "token_type_ids": getattr(self.tokenizer, "pad_token_type_id", 0) or 0,
        }
        sides = (more, 0) if self.tokenizer.padding_side == "left" else (0, more)
        return {name: pad(encoded[name], sides, value=filling.get(name, 0)) for name in names}
