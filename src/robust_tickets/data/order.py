"""Batches in the order of the file, as the released EarlyRobust code reads them: a switch for comparison, not for use.

Sources sorted by class (IMDB) then show one class only for half an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robust_tickets.data.batching import Batches


class FileOrder(Batches):
    """Row after row, the same in every epoch."""

    def _order(self, epoch: int, start: int) -> Iterator[np.ndarray]:
        for first in range(start * self.batch_size, len(self.split), self.batch_size):
            yield np.arange(first, min(first + self.batch_size, len(self.split)))
