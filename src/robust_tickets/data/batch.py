"""Batches: tokenised on the way, bucketed by length, in an order that depends on seed, epoch and batch size alone.

Rows are shuffled, cut into pools of some batches, sorted by length inside a pool and cut into batches, whose order is shuffled
again: padding is rare, and every row comes exactly once an epoch. The order costs two integers a row; texts are read per batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    import torch

POOL = 50  # batches that are sorted by length together


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

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.max_length < 1:
            raise TicketsError(
                f"batch_size and max_length must be at least 1, got {self.batch_size} and {self.max_length}", hint="change the value"
            )

    def __len__(self) -> int:
        return -(-len(self.split) // self.batch_size)

    def order(self, epoch: int) -> Iterator[np.ndarray]:
        """The row positions of each batch."""
        return self._order(epoch, 0)

    def _order(self, epoch: int, start: int) -> Iterator[np.ndarray]:
        lengths, size = self.split.lengths, self.batch_size
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

        examples = self.split.take(rows)
        columns = [[e.texts[i] for e in examples] for i in range(len(self.split.columns))]
        encoded = self.tokenizer(
            *columns,
            truncation="longest_first",
            max_length=self.max_length,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
            return_token_type_ids=self.token_types,
        )
        batch: dict[str, torch.Tensor] = {key: encoded[key] for key in ("input_ids", "attention_mask")}
        if self.token_types:
            batch["token_type_ids"] = encoded["token_type_ids"]
        batch["labels"] = torch.tensor([e.label for e in examples], dtype=torch.long)
        if not self.shuffle:
            batch["index"] = torch.from_numpy(rows.astype(np.int64))
        return batch
