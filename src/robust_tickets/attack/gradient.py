"""The gradient's service: how steep the victim's loss is at each word of a text, for texts of many examples at once.

A word's slope is the L1 norm of the mean of the gradients at its tokens, taken with respect to the output of the word-embedding layer,
of the cross-entropy of the predicted class. One backward pass answers for all words of a text; it is no query, as in TextAttack.

Tokens are matched to words as TextAttack matches them: along the text, a token belongs to a word if what is left of the word begins with
it. A word none of whose tokens is found so (accents that the tokenizer strips, or what lies behind the cut) has slope 0. Since 0.3.11
TextAttack cuts a single text behind the last word asked for, and asks for so many words at most as the model has positions (``cut``). The
class is the one predicted for the text so cut, which may be another than the whole text's.
TextAttack leaves dropout on in this pass, so that its ranking is drawn anew each time; here the model is in eval mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robust_tickets.attack.asking import Slope
from robust_tickets.attack.text import Text
from robust_tickets.attack.victim import Victim
from robust_tickets.classifier import Encoded, batches_by_size
from robust_tickets.classifier.passing import evaluating

PASSES = 4  # a backward pass keeps what a forward pass drops: batches are smaller by this
MOST_WORDS = 1024
MARKS = ("##", "Ġ", "__")  # what tokenizers put before or into tokens


class Gradient:
    def __init__(self, victim: Victim) -> None:
        self.clf, self.temperature = victim.clf, victim.temperature
        self.noise = victim.rounding  # also where the victim runs in fixed shapes: a backward pass does not
        self.token_budget = max(1, victim.token_budget // PASSES)
        model, tokenizer = victim.clf.model, victim.clf.tokenizer
        positions = getattr(model.config, "max_position_embeddings", None)
        self.most = min(MOST_WORDS, tokenizer.model_max_length, *([positions - 2] if positions else []))

    def answer(self, questions: Sequence[Slope]) -> list[np.ndarray]:
        """One array a question: the slopes of its words, of the first ``most`` of them in the order of the text where it is cut."""
        asked = [_cut(question, self.most) for question in questions]
        rows = self.clf.encode([text.columns for text, _ in asked])
        found: list[np.ndarray] = [np.empty(0)] * len(questions)
        together = [i for i, question in enumerate(questions) if not question.alone]
        alone = [i for i, question in enumerate(questions) if question.alone]
        batches = [
            [together[k] for k in where]
            for where in batches_by_size([rows[i].size for i in together], self.token_budget)
        ]
        for where in [*batches, *([i] for i in alone)]:
            slopes = self._slopes([rows[i] for i in where], [questions[i] for i in where])
            for i, gradient in zip(where, slopes, strict=True):
                text, words = asked[i]
                tokens = self.clf.tokenizer.convert_ids_to_tokens(list(rows[i].ids))
                places = aligned(text.words, tokens)
                found[i] = np.array([_norm(gradient, places[word]) for word in words], dtype=np.float64)
        return found

    def _slopes(self, rows: list[Encoded], questions: list[Slope]) -> list[np.ndarray]:
        """The gradient at every token, (tokens, width) float32 a text."""
        import torch

        model = self.clf.model
        embedded: list[Any] = []

        def hold(_module: Any, _inputs: Any, output: Any) -> Any:
            embedded.append(output.detach().requires_grad_())
            return embedded[-1]

        handle = model.get_input_embeddings().register_forward_hook(hold)
        try:
            with torch.enable_grad(), evaluating(model):
                logits = model(**self.clf.batch(rows)).logits.float() / self.temperature
                labels = logits.argmax(dim=1)
                loss = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
                others = logits.masked_fill(torch.nn.functional.one_hot(labels, logits.shape[1]).bool(), -torch.inf)
                odds = torch.logsumexp(others, dim=1) - logits.gather(1, labels[:, None])[:, 0]
                wanted = torch.tensor([question.odds for question in questions], device=logits.device)
                (gradient,) = torch.autograd.grad(torch.where(wanted, odds, loss).sum(), embedded[0])
                first, second = logits.detach().topk(2, dim=1).values.unbind(dim=1)
                near = (first - second <= 2 * self.noise).tolist()
        finally:
            handle.remove()
        found = [each[: row.size].float().cpu().numpy() for each, row in zip(gradient, rows, strict=True)]
        return [
            self._slopes([row], [question])[0]
            if close and len(rows) > 1
            else each  # the batch may have chosen the class
            for each, row, question, close in zip(found, rows, questions, near, strict=True)
        ]


def _cut(question: Slope, most: int) -> tuple[Text, list[int]]:
    """The text to take the gradient of, and the words to answer for."""
    text, words = question.text, list(question.words)
    if not question.cut or not words:
        return text, words
    words = sorted(words)[:most]
    if len(text.columns) > 1:
        return text, words
    count = words[-1] + 1
    return Text((text.columns[0][: text.spans[words[-1]][2]],), text.spans[:count], text.words[:count]), words


def aligned(words: Sequence[str], tokens: Sequence[str]) -> list[list[int]]:
    """The places of each word's tokens, found from left to right; after a word without any, the search goes on where it last matched."""
    bare = [_bare(token).lower() for token in tokens]
    found: list[list[int]] = []
    at = last = 0
    for word in words:
        rest, mine = word.lower(), list[int]()
        while at < len(bare) and rest:
            if rest.startswith(bare[at]):
                rest = rest[len(bare[at]) :]
                mine.append(at)
                last = at
            at += 1
        if not mine:
            at = last
        found.append(mine)
    return found


def _bare(token: str) -> str:
    for mark in MARKS:
        token = token.replace(mark, "")
    return token


def _norm(gradient: np.ndarray, places: list[int]) -> float:
    return float(np.abs(gradient[places].mean(axis=0)).sum()) if places else 0.0
