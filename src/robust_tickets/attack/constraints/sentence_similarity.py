"""A candidate must mean nearly what the text meant, by a sentence encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robust_tickets.attack.components import Candidate, Constraint
from robust_tickets.attack.example import Encode, ExampleState, Steps
from robust_tickets.attack.text import Text
from robust_tickets.config import resource, setting
from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from robust_tickets.attack.scheduler import Service


@dataclass(frozen=True)
class SentenceSimilarity(Constraint):
    """Similarity of two windows around the changed word at least ``least``: the candidate's, and the original or the current text's.

    The metric is the cosine, or the angular similarity 1 - angle/π. Without a ``window`` (in words) it is the whole text from its first
    to its last word. With ``skip_short`` a candidate of fewer words than the window passes with similarity 1 and is not encoded. A
    candidate whose replacement holds no word is refused: there is no changed word to look around.

    The similarity is computed in the encoder's own precision and by the operations TextAttack uses, because its rounding shows: where
    the rules do not clamp a cosine, rounding beyond 1 leaves no angle, and the candidate is refused. As with scores (see ``example``), a
    cosine too near to a limit for a batch to decide is measured again with every window encoded alone.
    """

    least: float = setting(
        0.8,
        at_least=-1,
        at_most=1,
        hint="TextAttack has 0.8 on whole texts for TextBugger, 0.840845057 in 15 words for TextFooler (both angular)",
    )
    window: int | None = setting(None, at_least=1)
    metric: Literal["angular", "cosine"] = "angular"
    reference: Literal["original", "current"] = "original"
    skip_short: bool = False
    encoder: Callable[[list[str]], Any] = resource()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric == "angular" and self.least < 0:
            raise TicketsError(
                f"an angular similarity is from 0 to 1, got {self.least}",
                hint="raise least, or set the metric to cosine",
                code="settings.limit",
            )

    def services(self) -> Mapping[str, Service]:
        from robust_tickets.attack.services import Encoder

        return {"encoder": Encoder(self.encoder)}

    @property
    def _size(self) -> float:
        """Words of a window."""
        return math.inf if self.window is None else self.window

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> Steps:
        self._forget(example)
        worded = [candidate for candidate in candidates if candidate.placed()]
        measured = [candidate for candidate in worded if not (self.skip_short and candidate.count() < self._size)]
        for candidate in worded:
            candidate.cosine, candidate.likeness, candidate.sharpen = 1.0, 1.0, None
        against = example.original if self.reference == "original" else current
        pairs = [self._windows(candidate, against) for candidate in measured]
        yield from self._encode(example, [text for pair in pairs for text in pair])
        self._measure(example, measured, pairs)
        for candidate, pair in zip(measured, pairs, strict=True):
            candidate.sharpen = sharpen = self._sharpener(example, candidate, pair)
            if self._close(example, candidate):
                yield from sharpen()
        return [candidate for candidate in worded if self._passes(candidate)]

    def _windows(self, candidate: Candidate, against: Text) -> tuple[str, str]:
        # TextAttack takes whichever of the new words its set yields first, which need not be the leftmost
        around = next(iter({index for index, _ in candidate.placed()}))
        return against.window(around, self._size), candidate.window(around, self._size)

    def _measure(self, example: ExampleState, candidates: list[Candidate], pairs: Sequence[tuple[str, str]]) -> None:
        """In the precision of the vectors, operation by operation as TextAttack does it. No row depends on the others."""
        if not pairs:
            return
        import torch

        known = example.kept(self, _Vectors)
        ours, theirs = (torch.from_numpy(np.stack([known.of(pair[side]) for pair in pairs])) for side in (0, 1))
        cosines = torch.nn.functional.cosine_similarity(ours, theirs, dim=1)
        alike = example.rules.angular(cosines) if self.metric == "angular" else cosines
        for candidate, cosine, value in zip(candidates, cosines.tolist(), alike.tolist(), strict=True):
            candidate.cosine, candidate.likeness = min(1.0, max(-1.0, cosine)), value

    def _passes(self, candidate: Candidate) -> bool:
        return candidate.likeness is not None and candidate.likeness >= self.least  # not a number: no

    def _close(self, example: ExampleState, candidate: Candidate) -> bool:
        """Whether a batch may have moved the cosine across a limit."""
        limits = example.rules.angular_limits(self.least) if self.metric == "angular" else [self.least]
        cosine, noise = candidate.cosine, example.vector_noise
        return cosine is not None and any(abs(cosine - limit) <= noise for limit in limits)

    def _sharpener(self, example: ExampleState, candidate: Candidate, pair: tuple[str, str]) -> Callable[[], Steps]:
        def sharpen() -> Steps:
            yield from self._encode(example, pair, alone=True)
            self._measure(example, [candidate], [pair])

        return sharpen

    def _encode(self, example: ExampleState, texts: Sequence[str], alone: bool = False) -> Steps:
        known = example.kept(self, _Vectors)
        wanted = [text for text in dict.fromkeys(texts) if text not in (known.exact if alone else known.rows)]
        if not wanted:
            return
        found = yield Encode(wanted, alone)
        known.rows.update(zip(wanted, found, strict=True))
        if alone:
            known.exact.update(wanted)

    def _forget(self, example: ExampleState) -> None:
        """Drop the windows around another word; the whole original text is wanted every time."""
        known, kept = example.kept(self, _Vectors), ""
        if self.window is None and self.reference == "original" and len(example.original):
            kept = example.original.window(0, math.inf)
        known.rows = {text: row for text, row in known.rows.items() if text == kept}
        known.exact &= {kept}

    def describe(self) -> str:
        where = "over the whole text" if self.window is None else f"in a window of {self.window} words"
        short = ", shorter texts pass" if self.skip_short and self.window is not None else ""
        return f"sentence encoder: {self.metric} similarity with the {self.reference} text at least {self.least} {where}{short}"


@dataclass(slots=True)
class _Vectors:
    """The encoder's vectors by text, for the word being visited, and the texts that were encoded alone."""

    rows: dict[str, np.ndarray] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)

    def of(self, text: str) -> np.ndarray:
        vector = self.rows[text]
        return vector if vector.dtype == np.float64 else vector.astype(np.float32)


REGISTERED = SentenceSimilarity
