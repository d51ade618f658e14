"""What a training reads: batches of the task's training split, from a token table where the run is long enough to pay for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from robust_tickets.progress import say

ENOUGH = 0.9  # of an epoch; who reads less of it tokenises what he reads


def batches_of(
    clf: Any,
    task: Any,
    batch_size: int,
    seed: int,
    *,
    file_order: bool = False,
    reads: int | None = None,
    widths: bool | None = None,
) -> Any:
    """Batches of the task's training split, as ``clf`` reads them: shuffled, or in the order of the file.

    ``reads`` is how many batches the run will read: about an epoch of them, and the split is tokenised once and kept; fewer (or not known),
    and texts are tokenised as they come, unless their tokens are kept already. ``widths`` pads to one of a few widths, not to the longest,
    and in a long run sorts pools by tokens; so it is done on a GPU, whichever engine runs there, so that the eager one stays the others'
    reference. A short run is not sorted by tokens even where they are kept: what it learns must not depend on who filled the cache before.
    """
    from robust_tickets.data.arrow_tables import token_table
    from robust_tickets.data.batching import Batches, steps, widths_of
    from robust_tickets.data.order import FileOrder

    kind = FileOrder if file_order else Batches
    batches = kind(
        split=task.train,
        tokenizer=clf.tokenizer,
        batch_size=batch_size,
        max_length=clf.max_length,
        seed=seed,
        token_types=clf.token_types,
    )
    enough = reads is not None and reads >= ENOUGH * len(batches)
    tokens = token_table(task.train, clf.tokenizer, clf.max_length, clf.token_types, make=enough)
    if tokens is not None:
        batches = replace(batches, tokens=tokens)
    if clf.device.type == "cuda" if widths is None else widths:
        batches = replace(batches, by_tokens=enough and tokens is not None)
        told = (
            widths_of(tokens.lengths, batches.order(0), clf.max_length)
            if enough and tokens is not None
            else steps(clf.max_length)
        )
        batches = replace(batches, widths=told)
    return batches


def tell_cut(batches: Any) -> None:
    """Say how many texts fill the model's length, where one in a hundred does: what stands behind it is not read."""
    if batches.tokens is None:
        return
    full, rows = int((batches.tokens.lengths >= batches.max_length).sum()), len(batches.tokens)
    if full > 0.01 * rows:
        say(
            f"train: {full} of {rows} rows fill the {batches.max_length} tokens that are read; longer ones are cut (max_length)"
        )
