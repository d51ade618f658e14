"""Batches of a split: their order, the widths they are padded to, and a thread that makes them ahead.

Rows are shuffled, cut into pools of some batches, sorted by length inside a pool and cut into batches, whose order is shuffled again:
padding is rare, and every row comes exactly once an epoch. A token table changes neither the order nor a single number; ``widths`` adds
padding, so that there are few shapes. A view is made with its batch, by a generator of the seed, the epoch and the row: nothing is stored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from robust_tickets.classifier.tokenizer import tokenised
from robust_tickets.data.arrow_tables import TokenTable, token_table
from robust_tickets.data.task import Example, Split, Task
from robust_tickets.errors import TicketsError
from robust_tickets.progress import say
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from robust_tickets.classifier import ModelClassifier

    Inputs = Mapping[str, Tensor]  # what a model is called with


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows as a model reads them. ``index`` has their positions in the split, ``views`` other wordings of them."""

    inputs: Inputs
    labels: Tensor
    index: Tensor
    views: Mapping[str, Inputs] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def pinned(self) -> Batch:
        """In memory that a GPU copies from without waiting."""

        def pin(inputs: Inputs) -> Inputs:
            return {name: value.pin_memory() for name, value in inputs.items()}

        views = {name: pin(view) for name, view in self.views.items()}
        return Batch(pin(self.inputs), self.labels.pin_memory(), self.index, views)

    def tensors(self) -> dict[str, Tensor]:
        """What a step computes with, by names of one level."""
        views = {f"{view}/{name}": value for view, inputs in self.views.items() for name, value in inputs.items()}
        return {**self.inputs, **views, "labels": self.labels}


def parts_of(tensors: Mapping[str, Tensor]) -> tuple[Inputs, Tensor, dict[str, Inputs]]:
    """Inputs, labels and views of a batch, from its ``tensors()``."""
    found: dict[str, dict[str, Tensor]] = {"": {}}
    for name, value in tensors.items():
        view, _, key = name.rpartition("/")
        found.setdefault(view, {})[key] = value
    inputs = found.pop("")
    return inputs, inputs.pop("labels"), dict(found)


class View(Protocol):
    """Another wording of each text, read beside the text itself. ``draws`` follow from seed, name, epoch and row."""

    @property
    def name(self) -> str: ...

    def make(self, example: Example, draws: np.random.Generator) -> tuple[str, ...]:
        """The texts of the other wording: as many as ``example.texts``."""


MOST = 6
PRICE = 0.005  # share of an epoch's tokens that one more width must save: capturing a shape costs about so many steps
GRID = ((8, 128), (16, 256), (32, 0))  # multiples of, up to; 0: without end. Kernels like them
FIXED = ((8, 64), (16, 128), (32, 0))  # coarser: a width that is seldom met costs a capture too


def ladder(rungs: tuple[tuple[int, int], ...], longest: int) -> tuple[int, ...]:
    """The multiples up to ``longest``, which is the last one whether it is a multiple or not."""
    found, last = list[int](), 0
    for step, end in rungs:
        found += range(last + step, min(end or longest, longest) + 1, step)
        last = found[-1] if found else 0
    return (*(width for width in found if width < longest), longest)


def steps(longest: int) -> tuple[int, ...]:
    """Widths for texts of unknown length, at most ``longest`` tokens."""
    return ladder(FIXED, longest)


def best(
    maxima: Sequence[int], rows: Sequence[int], longest: int, most: int = MOST, price: float = PRICE
) -> tuple[int, ...]:
    """At most ``most`` widths for batches with these longest rows (``maxima``) and numbers of rows.

    They minimise, exactly, the padded tokens of an epoch plus a price for each width, over the widths of a grid.
    """
    if len(maxima) == 0:
        return (longest,)
    grid = np.array(ladder(GRID, longest))
    used, at = np.unique(np.searchsorted(grid, maxima), return_inverse=True)  # the narrowest that each batch fits into
    grid, count = grid[used], np.bincount(at, weights=rows)
    held = np.concatenate([[0], np.cumsum(count)])
    toll = price * float(count @ grid)
    # cost[j]: the least for the batches that fit into the first j widths of the grid, with k widths chosen;
    # came[k][j]: how many of the grid the one before the k-th leaves behind, if the k-th is grid[j]
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


def widths_of(lengths: np.ndarray, order: Iterable[np.ndarray], longest: int) -> tuple[int, ...]:
    """``best`` for the batches of an ``order`` (the rows of each) of rows with these ``lengths``."""
    batches = [lengths[rows] for rows in order]
    return best([int(batch.max()) for batch in batches], [len(batch) for batch in batches], longest)


POOL = 50  # batches that are sorted by length together
PLAIN = "by characters, padded to the longest"  # without widths, and in every checkpoint that does not say


@dataclass(frozen=True, kw_only=True)
class Batches:
    """``epoch(e)`` gives the batches of epoch ``e``.

    ``order`` is "shuffled", "longest" (first), or "file", that of the released EarlyRobust code: a switch for
    comparison, not for use, as a source sorted by class (IMDB) then shows one class only for half an epoch.
    """

    split: Split
    tokenizer: PreTrainedTokenizerBase
    batch_size: int
    max_length: int
    seed: int = 0
    order: Literal["shuffled", "longest", "file"] = "shuffled"
    token_types: bool = False  # does the model take token_type_ids
    # of the same split, tokenizer, length and types
    tokens: TokenTable | None = field(default=None, compare=False, repr=False)
    widths: tuple[int, ...] = ()  # tokens that a batch is padded to: the first that holds it; none: its longest row
    by_tokens: bool = False  # pools sorted by tokens, not characters: a fifth less padding, but needs the table
    views: tuple[View, ...] = ()

    def __len__(self) -> int:
        return -(-len(self.split) // self.batch_size)

    @property
    def reading(self) -> str:
        """What order and padding depend on besides the settings: a resumed run must read as it did."""
        if not self.by_tokens and not self.widths:
            return PLAIN
        return f"by {'tokens' if self.by_tokens else 'characters'}, padded to {self.widths or 'the longest'}"

    def rows(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        """The row positions of each batch, from batch number ``start`` on."""
        lengths = self.tokens.lengths if self.tokens is not None and self.by_tokens else self.split.lengths
        size = self.batch_size
        if self.order != "shuffled":
            rows = np.argsort(-lengths, kind="stable") if self.order == "longest" else np.arange(len(lengths))
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

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number ``start`` on; those before it are neither read nor tokenised."""
        import torch

        for rows in self.rows(epoch, start):
            views = {}
            if self.tokens is None or self.views:
                examples = self.split.take(rows)
                views = {view.name: self._view(view, epoch, rows, examples) for view in self.views}
            table = self.tokens
            yield Batch(
                inputs=self._read([e.texts for e in examples]) if table is None else self._padded(table, rows),
                labels=torch.from_numpy(self.split.labels[rows].astype(np.int64)),
                index=torch.from_numpy(rows.astype(np.int64)),
                views=views,
            )

    def _view(self, view: View, epoch: int, rows: np.ndarray, examples: list[Example]) -> Inputs:
        draws = (numpy_generator(self.seed, "views", view.name, epoch, int(row)) for row in rows)
        made = [view.make(example, draw) for example, draw in zip(examples, draws, strict=True)]
        if not all(isinstance(texts, tuple) and len(texts) == len(self.split.columns) for texts in made):
            message = f"the view {view.name!r} must make a tuple of {len(self.split.columns)} text(s) of each example"
            raise TicketsError(message, hint="return (text,), or both texts of a pair", code="view.texts")
        return self._read(made)

    def _padded(self, table: TokenTable, rows: np.ndarray) -> Inputs:
        longest = int(table.lengths[rows].max())
        width = next((width for width in self.widths if width >= longest), self.max_length) if self.widths else 0
        return table.batch(rows, min(width, self.max_length))

    def _read(self, texts: list[tuple[str, ...]]) -> Inputs:
        """Texts or pairs, tokenised now."""
        columns = [[row[i] for row in texts] for i in range(len(self.split.columns))]
        tokens = tokenised(self.tokenizer, columns, self.max_length, self.token_types)
        return self._padded(TokenTable.of(self.tokenizer, *tokens), np.arange(len(texts)))


DEPTH = 8
NAME = "batches ahead"  # of the thread
PATIENCE = 0.02  # seconds between two looks at whether the thread has left


def prefetched(batches: Iterable[Batch], depth: int = DEPTH, pin: bool = False) -> Generator[Batch]:
    """The same batches, up to ``depth`` of them made ahead; ``pin``: in pinned memory.

    What fails there is raised here, where the batch would have come. Closing the generator stops the thread; whoever leaves a loop over it
    early closes it (``contextlib.closing``), for a traceback keeps it alive. Pinning allocates memory through the driver from the thread:
    a graph captured meanwhile needs ``torch.cuda.graph(capture_error_mode="thread_local")``, for the default refuses what any thread does.
    """
    ready: Queue[Batch | None] = Queue(depth)  # None: there are no more
    leave, problems = Event(), list[BaseException]()

    def work() -> None:
        try:
            with closing(batches) if isinstance(batches, Generator) else nullcontext():
                for batch in batches:
                    if not leave.is_set():
                        ready.put(batch.pinned() if pin else batch)
                    if leave.is_set():  # also while it waited for a place: no further batch is made
                        break
        except BaseException as problem:  # raised by the consumer
            problems.append(problem)
        ready.put(None)

    thread = Thread(target=work, name=NAME, daemon=True)
    thread.start()
    try:
        while (batch := ready.get()) is not None:
            yield batch
        if problems:
            raise problems[0]
    finally:
        leave.set()
        while thread.is_alive():
            with suppress(Empty):
                while True:  # it may wait for a place
                    ready.get_nowait()
            thread.join(PATIENCE)


ENOUGH = 0.9  # of an epoch; a run that reads less tokenises what it reads


def batches_of(
    clf: ModelClassifier,
    task: Task,
    batch_size: int,
    seed: int,
    *,
    file_order: bool = False,
    reads: int | None = None,
    widths: bool | None = None,
) -> Batches:
    """Batches of the task's training split, as ``clf`` reads them: shuffled, or in the order of the file.

    ``reads`` is how many batches the run will read: about an epoch of them, and the split is tokenised once and kept; fewer (or not known),
    and texts are tokenised as they come, unless their tokens are kept already. ``widths`` pads to one of a few widths, and in a long run
    sorts pools by tokens; so it is done on a GPU, whichever engine runs there. A short run is not sorted by tokens even where they are
    kept: what it learns must not depend on who filled the cache before.
    """
    batches = Batches(
        split=task.train,
        tokenizer=clf.tokenizer,
        batch_size=batch_size,
        max_length=clf.max_length,
        seed=seed,
        order="file" if file_order else "shuffled",
        token_types=clf.token_types,
    )
    enough = reads is not None and reads >= ENOUGH * len(batches)
    tokens = token_table(task.train, clf.tokenizer, clf.max_length, clf.token_types, make=enough)
    batches = replace(batches, tokens=tokens)
    if not (clf.device.type == "cuda" if widths is None else widths):
        return batches
    if tokens is None or not enough:
        return replace(batches, widths=steps(clf.max_length))
    batches = replace(batches, by_tokens=True)
    return replace(batches, widths=widths_of(tokens.lengths, batches.rows(0), clf.max_length))


def report_cut(batches: Batches) -> None:
    """Log which share of the texts fills the model's length, where it is one in a hundred: what follows it is not read."""
    full = float((batches.tokens.lengths >= batches.max_length).mean()) if batches.tokens is not None else 0
    if full > 0.01:
        say(f"train: {full:.0%} of the texts fill the {batches.max_length} tokens that are read (max_length)")
