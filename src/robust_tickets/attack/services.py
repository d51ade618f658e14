"""Services: answer the questions of many examples in batches.

For the victim, texts are taken by length, tokenised a portion at a time, looked up by token ids (per example: what it has seen;
across examples: what this round already ran) and run in batches of at most ``token_budget`` padded tokens; on a GPU, in fixed shapes
(see ``cuda``) unless a budget was asked for. Softmax is taken in float32 on the CPU.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from robust_tickets.attack.cuda import Shapes
from robust_tickets.attack.example import Ask, Encode, Fill, Slope
from robust_tickets.attack.goals import Row
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier, Encoded, batches_by_size
from robust_tickets.classifier.base import LESS, in_halves, out_of_memory, reason_of
from robust_tickets.classifier.classifier import evaluating
from robust_tickets.classifier.encode import clean
from robust_tickets.errors import FAILED, TicketsError

if TYPE_CHECKING:
    import torch

    from robust_tickets.resources.masked_lm import MaskedModel

VICTIM_BUDGETS = {"cpu": 512, "gpu": 32_768}  # padded tokens a batch: a CPU likes small batches, a GPU must be fed
CHARACTERS = 2_000_000  # tokenised at a time; about half a million tokens, a second of a GPU's work and some 20 MB
LIVE = {"cpu": 8, "gpu": 1024}  # examples under attack at the same time; on a CPU few suffice, and progress is steadier

Answer = tuple[np.ndarray, np.ndarray, int]  # probabilities, logits and predicted class of one input
T = TypeVar("T")
R = TypeVar("R")


def within_memory(
    service: Victim | Masked, run: Callable[[list[T]], list[R]], items: list[T], size: Callable[[T], int]
) -> list[R]:
    """``run(items)``; a batch too large for the memory is cut in halves, and those of the service to come are smaller."""
    import torch

    def alone(item: T, problem: Exception) -> R:
        message = f"not enough memory for one text of {size(item)} tokens: {reason_of(problem)}"
        raise TicketsError(message, hint=LESS, exit_code=FAILED, code="attack.memory") from None

    def smaller(some: list[T], half: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        service.token_budget = max(1, min(service.token_budget, half * max(map(size, some))))

    def ends(problem: Exception) -> Exception | None:
        return None if out_of_memory(problem) else problem

    return in_halves(run, items, alone, ends=ends, smaller=smaller)


class Sent:
    """Stands for the shapes in a worker process."""

    def __init__(self, send: Callable[[Any], Any]) -> None:
        self.send = send

    def logits(self, rows: list[Encoded]) -> Any:
        import torch

        return torch.from_numpy(self.send(rows))


class Victim:
    """A classifier as a service of the scheduler."""

    def __init__(self, clf: Classifier, token_budget: int | None = None, temperature: float = 1.0) -> None:
        self.clf, self.temperature = clf, temperature
        where = "cpu" if clf.device.type == "cpu" else "gpu"
        self.token_budget = token_budget or VICTIM_BUDGETS[where]
        self.live = LIVE[where]
        self.shapes: Shapes | Sent | None = Shapes.of(clf) if token_budget is None else None
        # while one half's texts are on the GPU, the other half's words are looked up
        self.groups = 2 if where == "gpu" else 1
        # a temperature below 1 makes the logits' rounding larger too
        self.rounding = clf.noise * max(1.0, 1 / temperature)
        self.noise = 0.0 if self.shapes else self.rounding

    @property
    def divisible(self) -> bool:
        """Whether worker processes may share the work: the forward passes are then a function of token ids alone."""
        return self.shapes is not None

    def half(self, send: Callable[[Any], Any]) -> Victim:
        """The part of the service that runs in a worker (see ``workers``): everything but the forward passes."""
        twin = copy.copy(self)
        twin.shapes = Sent(send)
        return twin

    def together(self, requests: Sequence[list[Encoded]]) -> list[Any]:
        """The logits of each worker's rows."""
        assert self.shapes is not None  # without fixed shapes there are no workers
        logits = self.shapes.logits([row for rows in requests for row in rows]).numpy()
        ends = np.cumsum([len(rows) for rows in requests])[:-1]
        return np.split(logits, ends)

    def answer(self, questions: Sequence[Ask]) -> list[list[Row]]:
        asking: dict[tuple[str, ...], list[Ask]] = {}
        for question in questions:
            question.passes = 0  # a question may come again after a failed batch
            for text in question.texts:
                asking.setdefault(text, []).append(question)
        keys: dict[tuple[str, ...], bytes] = {}
        fresh: dict[bytes, Answer] = {}
        exact: dict[bytes, Answer] = {}
        texts = list(asking)
        # token ids take many times the memory of the text
        for where in batches_by_size([sum(map(len, text)) for text in texts], CHARACTERS, longest_first=False):
            portion = [texts[i] for i in where]
            ordinary: dict[bytes, tuple[Encoded, Ask]] = {}
            alone: dict[bytes, tuple[Encoded, Ask]] = {}
            for text, encoded in zip(portion, self.clf.encode(portion), strict=True):
                keys[text] = key = _key(encoded)
                for question in asking[text]:
                    if question.alone and key not in exact:
                        alone.setdefault(key, (encoded, question))
                    elif not question.alone and key not in question.known and key not in fresh:
                        ordinary.setdefault(key, (encoded, question))
            fresh |= self._run(ordinary, self.token_budget)
            exact |= self._run(alone, 1)
        return [[_row(question, keys[text], fresh, exact) for text in question.texts] for question in questions]

    def _run(self, wanted: dict[bytes, tuple[Encoded, Ask]], budget: int) -> dict[bytes, Answer]:
        import torch

        keys = list(wanted)
        found: dict[bytes, Answer] = {}
        sizes = [wanted[key][0].size for key in keys]
        batches = [list(range(len(keys)))] if self.shapes is not None and keys else self.clf.batches(sizes, budget)
        for where in batches:
            logits = self._logits([wanted[keys[i]][0] for i in where])
            probabilities = torch.softmax(logits, dim=-1)
            predicted = probabilities.numpy().argmax(axis=1)
            if self.temperature != 1:
                logits = logits / self.temperature
                probabilities = torch.softmax(logits, dim=-1)
            for i, p, z, top in zip(where, probabilities.numpy(), logits.numpy(), predicted, strict=True):
                found[keys[i]] = p.copy(), z.copy(), int(top)
                wanted[keys[i]][1].passes += 1
        return found

    def _logits(self, rows: list[Encoded]) -> torch.Tensor:
        import torch

        if self.shapes is not None:
            return self.shapes.logits(rows)
        return torch.cat(within_memory(self, lambda some: [self.clf.forward(some)], rows, lambda row: row.size))


def _row(question: Ask, key: bytes, fresh: dict[bytes, Answer], exact: dict[bytes, Answer]) -> Row:
    row = question.known.get(key)
    if question.alone:
        if row is None:
            row = question.known[key] = Row(*exact[key])
        row.probabilities, row.logits, row.predicted, row.exact, row.score = *exact[key], True, None
    elif row is None:
        row = question.known[key] = Row(*fresh[key])
    return row


def _key(encoded: Encoded) -> bytes:
    """A short name of an input: 16 bytes instead of hundreds of numbers, for the thousands of rows an example may see."""
    if encoded.columns:  # a callable's input is its text
        data = "\x00".join(f"{len(part)} {part}" for part in encoded.columns).encode("utf-8", "surrogatepass")
    else:
        data = encoded.data + b"/" + encoded.kinds
    return hashlib.blake2b(data, digest_size=16).digest()


class Encoder:
    """``encode`` turns a list of texts into one row each; equal texts of one round are encoded once."""

    def __init__(self, encode: Any) -> None:
        self.encode = encode

    def half(self, send: Callable[[Any], Any]) -> Encoder:
        """The part that runs in a worker (see ``workers``): texts are tokenised there where the encoder lets them."""
        owner = self._divided()
        return Encoder(send if owner is None else lambda texts: send(owner.ids(texts)))

    def together(self, requests: Sequence[Sequence[Any]]) -> list[np.ndarray]:
        owner = self._divided()
        encode = self.encode if owner is None else owner.vectors
        found = np.asarray(encode([each for request in requests for each in request]))
        return np.split(found, np.cumsum([len(request) for request in requests])[:-1])

    def _divided(self) -> Any:
        """The encoder whose method ``encode`` is, if it can tokenise (``ids``) and compute (``vectors``) apart."""
        owner = getattr(self.encode, "__self__", None)
        return owner if hasattr(owner, "ids") and hasattr(owner, "vectors") else None

    def answer(self, questions: Sequence[Encode]) -> list[list[np.ndarray]]:
        together = list(dict.fromkeys(text for question in questions if not question.alone for text in question.texts))
        # by length, so that texts of like length are padded together, whatever the encoder's own batches are
        together.sort(key=len)
        found = dict(zip(together, np.asarray(self.encode(together)), strict=True)) if together else {}
        alone = (text for question in questions if question.alone for text in question.texts)
        apart = {text: np.asarray(self.encode([text]))[0] for text in alone}
        return [[(apart if question.alone else found)[text] for text in question.texts] for question in questions]


# how much a batch may move a score in float32; measured with BERT-base: 1.2e-4 over all scores of 14 texts
MASKED_NOISE = 1e-3
MASKED_BUDGETS = {"cpu": 512, "gpu": 8_192}  # padded tokens a batch; 30,000 scores each make a gigabyte of the larger
Blank = tuple[list[int], int, int | None]  # token ids, width to fill up to, the one token to answer for


@dataclass(slots=True)
class Filled:
    """Best ids first, one row a token (one row in all where only one was asked for)."""

    ids: np.ndarray  # (tokens, words) int32
    # (tokens, words) float32: by how much each scores above the next; the last, above the best that is left out
    gaps: np.ndarray
    exact: bool  # run alone


class Masked:
    """``count`` words a token, out of the ids in ``among`` (left out: all)."""

    def __init__(
        self, language: MaskedModel, count: int, among: np.ndarray | None = None, token_budget: int | None = None
    ) -> None:
        self.language, self.among = language, among
        self.count = min(count, language.model.config.vocab_size if among is None else len(among))
        self.token_budget = token_budget or MASKED_BUDGETS["cpu" if language.model.device.type == "cpu" else "gpu"]

    def answer(self, questions: Sequence[Fill]) -> list[Filled]:
        keys = [(question.text, question.rows, question.at, question.alone) for question in questions]
        distinct = list(dict.fromkeys(keys))
        rows = [self.language.encode(clean(text)) for text, *_ in distinct]
        blanks = [(row, max(len(row), wanted), at) for row, (_, wanted, at, _) in zip(rows, distinct, strict=True)]
        batches = _batches([alone for *_, alone in distinct], [width for _, width, _ in blanks], self.token_budget)
        found: dict[tuple[str, int, int | None, bool], Filled] = {}
        for where in batches:
            best = within_memory(self, self._best, [blanks[i] for i in where], lambda blank: blank[1])
            for i, (ids, gaps) in zip(where, best, strict=True):
                found[distinct[i]] = Filled(ids, gaps, exact=len(where) == 1)
        return [found[key] for key in keys]

    def _best(self, blanks: list[Blank]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and gaps of a batch."""
        import torch

        logits = self.language.logits([row for row, _, _ in blanks], max(width for _, width, _ in blanks))
        parts = [
            each[:width] if at is None else each[at : at + 1]
            for each, (_, width, at) in zip(logits, blanks, strict=True)
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


def _batches(alone: Sequence[bool], sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions in batches of like size within ``budget``, then one by one what is asked ``alone``."""
    together = [i for i, each in enumerate(alone) if not each]
    for where in batches_by_size([sizes[i] for i in together], budget):
        yield [together[k] for k in where]
    yield from ([i] for i, each in enumerate(alone) if each)


PASSES = 4  # a backward pass keeps what a forward pass drops: batches are smaller by this
MOST_WORDS = 1024
MARKS = ("##", "Ġ", "__")  # what tokenizers put before or into tokens


class Gradient:
    """How steep the victim's loss is at each word; batches need their own noise, for a backward pass has no fixed shapes."""

    def __init__(self, victim: Victim) -> None:
        self.clf, self.temperature = victim.clf.needs_model("attacked by its gradients"), victim.temperature
        self.noise = victim.rounding
        self.token_budget = max(1, victim.token_budget // PASSES)
        model, tokenizer = self.clf.model, self.clf.tokenizer
        positions = getattr(model.config, "max_position_embeddings", None)
        self.most = min(MOST_WORDS, tokenizer.model_max_length, *([positions - 2] if positions else []))

    def answer(self, questions: Sequence[Slope]) -> list[np.ndarray]:
        """One array a question: the slopes of its words, of the first ``most`` of them in the order of the text where it is cut."""
        asked = [_cut(question, self.most) for question in questions]
        rows = self.clf.encode([text.columns for text, _ in asked])
        found: list[np.ndarray] = [np.empty(0)] * len(questions)
        alone, sizes = [question.alone for question in questions], [row.size for row in rows]
        for where in _batches(alone, sizes, self.token_budget):
            slopes = self._slopes([rows[i] for i in where], [questions[i] for i in where])
            for i, gradient in zip(where, slopes, strict=True):
                text, words = asked[i]
                positions = aligned(text.words, self.clf.tokenizer.convert_ids_to_tokens(list(rows[i].ids)))
                found[i] = np.array([_norm(gradient, positions[word]) for word in words], dtype=np.float64)
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
    text = question.text
    words = text.rules.ranked_by_gradient(question.words, most)
    end = text.rules.gradient_end(len(text.columns), words)
    if end is None:
        return text, words
    return Text((text.columns[0][: text.spans[end][2]],), text.spans[: end + 1], text.words[: end + 1]), words


def aligned(words: Sequence[str], tokens: Sequence[str]) -> list[list[int]]:
    """The positions of each word's tokens, from left to right; after a word without any, continue where one last matched."""
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


def _norm(gradient: np.ndarray, positions: list[int]) -> float:
    return float(np.abs(gradient[positions].mean(axis=0)).sum()) if positions else 0.0
