"""Few widths that batches are padded to: an engine that prepares every shape once (a captured graph) wants few, padding wants many.

With a token table the widths are chosen from the data: ``best`` minimises the padded tokens of an epoch plus a price for each width,
exactly, over the widths of a grid. Without one, nothing is known of the lengths: ``steps``. The time that a pass costs whatever its width
is the same for all choices, so tokens are what is to be compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError

MOST = 6
PRICE = 0.005  # share of an epoch's tokens that one more width must save: capturing a shape costs about so many steps
GRID = ((8, 128), (16, 256), (32, 0))  # multiples of, up to; 0: without end. Kernels like them
FIXED = ((8, 64), (16, 128), (32, 0))  # coarser: a width that is seldom met costs a capture too


def ladder(rungs: tuple[tuple[int, int], ...], longest: int) -> tuple[int, ...]:
    """The multiples up to ``longest``, which is the last one whether it is a multiple or not."""
    if longest < 1:
        raise TicketsError(f"widths end at 1 token or more, got {longest}", hint="give the classifier's max_length")
    found, last = list[int](), 0
    for step, end in rungs:
        end = min(end or longest, longest)
        found += range(last + step, end + 1, step)
        last = found[-1] if found else 0
    return (*(width for width in found if width < longest), longest)


def steps(longest: int) -> tuple[int, ...]:
    """Widths for texts of unknown length, at most ``longest`` tokens."""
    return ladder(FIXED, longest)


def best(maxima: Any, rows: Any, longest: int, most: int = MOST, price: float = PRICE) -> tuple[int, ...]:
    """At most ``most`` widths for batches with these longest rows and numbers of rows; each fits into one. ``longest``: the model's."""
    maxima, rows = np.asarray(maxima, dtype=np.int64), np.asarray(rows, dtype=np.int64)
    if most < 1 or price < 0:
        raise TicketsError(
            f"at least one width at a price of at least 0, got {most} and {price}", hint="leave both out"
        )
    if len(maxima) == 0:
        return (longest,)
    if maxima.max() > longest or maxima.min() < 0:
        raise TicketsError(
            f"a batch of {maxima.max()} tokens does not fit {longest}", hint="cut texts at the same length"
        )
    grid = np.array(ladder(GRID, longest))
    at = np.searchsorted(grid, maxima)  # the narrowest that a batch fits into
    used, at = np.unique(at, return_inverse=True)
    grid = grid[used]
    count = np.bincount(at, weights=rows)
    held = np.concatenate([[0], np.cumsum(count)])
    toll = price * float(count @ grid)
    # cost[j]: the least for the batches that fit into the first j widths of the grid, with k widths chosen; came[k][j]: how many of the
    # grid the one before the k-th leaves behind, if the k-th is grid[j]
    cost = np.concatenate([[0.0], np.full(len(grid), np.inf)])
    came, ends = [], []
    for _ in range(min(most, len(grid))):
        between = cost[:-1, None] + (held[None, 1:] - held[:-1, None]) * grid[None, :] + toll
        between[np.tril_indices(len(grid), -1)] = np.inf  # the width before is narrower
        came.append(between.argmin(0))
        cost = np.concatenate([[np.inf], between.min(0)])
        ends.append(cost[-1])
    chosen, j = list[int](), len(grid)
    for before in reversed(came[: int(np.argmin(ends)) + 1]):
        chosen.append(int(grid[j - 1]))
        j = int(before[j - 1])
    return tuple(reversed(chosen))


def widths_of(lengths: np.ndarray, order: Any, longest: int, most: int = MOST, price: float = PRICE) -> tuple[int, ...]:
    """``best`` for the batches of an ``order`` (the rows of each) of rows with these ``lengths``."""
    batches = list(order)
    if not batches:
        return (longest,)
    sizes = np.array([len(batch) for batch in batches])
    maxima = np.maximum.reduceat(lengths[np.concatenate(batches)], np.cumsum(sizes) - sizes)
    return best(maxima, sizes, longest, most, price)
