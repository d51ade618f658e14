"""The masked language model's service: texts of many examples in, the best words for each of their tokens out.

Texts are taken by length and run in batches of at most ``token_budget`` padded tokens; the best ids are chosen on the device, so that of
a text's scores (30,000 a token) only a few come back. As with the victim (see ``game``), an answer is *defined* as that of the text run
alone: it says how far apart neighbouring scores are, and who needs an order that a batch could have turned asks again, alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robust_tickets.attack.asking import Fill
from robust_tickets.attack.failures import within_memory
from robust_tickets.classifier import batches_by_size
from robust_tickets.classifier.texts import clean

NOISE = (
    1e-3  # how much a batch may move a score in float32; measured with BERT-base: 1.2e-4 over all scores of 14 texts
)
BUDGETS = {"cpu": 512, "gpu": 8_192}  # padded tokens a batch; 30,000 scores each make a gigabyte of the larger


@dataclass(slots=True)
class Filled:
    """Best ids first, one row a token (one row in all where only one was asked for)."""

    ids: np.ndarray  # (tokens, words) int32
    gaps: (
        np.ndarray
    )  # (tokens, words) float32: by how much each scores above the next; the last, above the best that is left out
    exact: bool  # run alone


class Masked:
    """``count`` words a token, out of the ids in ``among`` (left out: all)."""

    def __init__(
        self, language: Any, count: int, among: np.ndarray | None = None, token_budget: int | None = None
    ) -> None:
        self.language, self.among = language, among
        self.count = min(count, language.model.config.vocab_size if among is None else len(among))
        self.token_budget = token_budget or BUDGETS["cpu" if language.model.device.type == "cpu" else "gpu"]

    def answer(self, questions: Sequence[Fill]) -> list[Filled]:
        keys = [(question.text, question.rows, question.at, question.alone) for question in questions]
        distinct = list(dict.fromkeys(keys))
        rows = [self.language.encode(clean(text)) for text, *_ in distinct]
        widths = [max(len(row), wanted) for row, (_, wanted, *_) in zip(rows, distinct, strict=True)]
        found: dict[tuple[str, int, int | None, bool], Filled] = {}
        together = [i for i, key in enumerate(distinct) if not key[3]]
        batches = [
            [together[k] for k in where] for where in batches_by_size([widths[i] for i in together], self.token_budget)
        ]
        for where in [*batches, *([i] for i, key in enumerate(distinct) if key[3])]:
            best = self._best([rows[i] for i in where], [widths[i] for i in where], [distinct[i][2] for i in where])
            for i, (ids, gaps) in zip(where, best, strict=True):
                found[distinct[i]] = Filled(ids, gaps, exact=len(where) == 1)
        return [found[key] for key in keys]

    def _best(
        self, rows: list[list[int]], widths: list[int], at: list[int | None]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and gaps of a batch; one too large for the memory is cut in halves, and the batches to come are smaller."""

        def run(some: list[tuple[list[int], int, int | None]]) -> list[tuple[np.ndarray, np.ndarray]]:
            return self._chosen(
                [row for row, _, _ in some], [width for _, width, _ in some], [place for _, _, place in some]
            )

        def smaller(some: list[tuple[list[int], int, int | None]], half: int) -> None:
            self.token_budget = max(1, min(self.token_budget, half * max(width for _, width, _ in some)))

        asked = list(zip(rows, widths, at, strict=True))
        return within_memory(run, asked, lambda one: f"the masked language model on {one[1]} tokens", smaller)

    def _chosen(
        self, rows: list[list[int]], widths: list[int], at: list[int | None]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        import torch

        logits = self.language.logits(rows, max(widths))
        parts = [
            each[:width] if place is None else each[place : place + 1]
            for each, width, place in zip(logits, widths, at, strict=True)
        ]
        scores = torch.cat(parts)
        among = None if self.among is None else torch.from_numpy(self.among).to(scores.device)
        scores = scores if among is None else scores.index_select(-1, among)
        best, ids = scores.topk(min(self.count + 1, scores.shape[-1]), dim=-1)
        ids = ids if among is None else among[ids]
        steps = best[:, :-1] - best[:, 1:]
        if steps.shape[-1] < self.count:  # nothing is left out
            steps = torch.cat([steps, torch.full_like(best[:, :1], torch.inf)], dim=-1)
        ends = np.cumsum([len(part) for part in parts])[:-1]
        kept, gaps = ids[:, : self.count].to(torch.int32).cpu().numpy(), steps.cpu().numpy()
        return list(zip(np.split(kept, ends), np.split(gaps, ends), strict=True))
