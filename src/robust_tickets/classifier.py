"""Classifier: a transformers model, its tokenizer, its labels and its maximum length; or any callable that gives probabilities.

Everything downstream (training, attacks, prediction) sees this one type. Texts go in as strings or as tuples of one or two strings;
logits come out in float32, in the order of the texts, whatever the batches were.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robust_tickets import loading
from robust_tickets.config import canonical
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, write_json
from robust_tickets.heads import labels_of_config, rename_labels, with_labels
from robust_tickets.layout import layout_of
from robust_tickets.progress import say
from robust_tickets.texts import Text, columns_of

if TYPE_CHECKING:
    import torch

ABOUT = "tickets.json"
SCHEMA = 1
MAX_LENGTH = 128  # tokens; GLUE in all three papers
TOKEN_BUDGET = 8192  # padded tokens in one forward pass: 64 texts of full length


class Encoded(NamedTuple):
    """One text as the model sees it: hashable, so that texts with equal token ids can share a forward pass."""

    ids: tuple[Any, ...]  # token ids; for a wrapped callable, the text columns themselves
    types: tuple[int, ...] = ()
    size: int = 0  # tokens (words for a wrapped callable): what batches are sorted and budgeted by


class Classifier:
    """``model`` and ``tokenizer`` are None where a callable is wrapped; ``identity`` says what it was loaded from."""

    def __init__(
        self,
        *,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str],
        max_length: int = MAX_LENGTH,
        identity: str = "",
        columns: Sequence[str] = ("text",),
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.model, self.tokenizer, self.function = model, tokenizer, function
        self.labels = _checked_labels(labels)
        self.max_length, self.identity, self.columns = int(max_length), identity, tuple(columns)
        if model is not None:
            limit = model.config.max_position_embeddings - layout_of(model).reserved_positions
            if not 2 < self.max_length <= limit:
                raise TicketsError(
                    f"max_length must be between 3 and {limit}, the positions of this model; got {max_length}", hint="lower it"
                )
            if model.config.num_labels != len(self.labels):
                raise TicketsError(
                    f"the model has {model.config.num_labels} outputs, got {len(self.labels)} labels", hint="give one a class"
                )
            rename_labels(model.config, self.labels)
            model.eval()

    @classmethod
    def wrap(cls, function: Callable[..., Any], *, labels: Sequence[str], columns: Sequence[str] = ("text",)) -> Classifier:
        """Any callable from a list of strings (pairs: of 2-tuples) to probabilities of shape (texts, labels)."""
        if not callable(function):
            raise TicketsError(
                f"wrap expects a callable, got {type(function).__name__}", hint="give a function from texts to probabilities"
            )
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        return cls(model=None, tokenizer=None, labels=labels, function=function, identity=f"callable:{name}", columns=columns)

    @classmethod
    def from_pretrained(cls, name: str | Path, *, dtype: str = "float32", device: str | None = None) -> Classifier:
        """A saved classifier, head included."""
        return load_classifier(name, dtype=dtype, device=device)

    def save_pretrained(self, folder: str | Path) -> Path:
        """What transformers saves, readable by its auto classes, and ``tickets.json`` with the rest; that one is written last."""
        model = self._needs_model("saved")
        folder = Path(folder)
        if folder.is_file():
            raise TicketsError(f"{folder} is a file", hint="give a folder")
        try:
            with loading.silence():
                model.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
        except OSError as problem:
            raise TicketsError(
                f"could not write {folder}: {problem}", hint="check the disk and the folder's rights", exit_code=FAILED
            ) from None
        write_json(
            folder / ABOUT, {"schema": SCHEMA, "max_length": self.max_length, "columns": list(self.columns), "labels": list(self.labels)}
        )
        return folder

    def copy(self) -> Classifier:
        """A deep copy; a wrapped callable is shared, not copied."""
        twin = copy.copy(self)
        twin.model, twin.tokenizer = copy.deepcopy(self.model), copy.deepcopy(self.tokenizer)
        return twin

    def with_model(self, model: Any) -> Classifier:
        """The same tokenizer, labels and length around another model."""
        twin = copy.copy(self)
        twin.model = model
        rename_labels(model.config, self.labels)
        return twin

    @property
    def device(self) -> torch.device:
        import torch

        return self.model.device if self.model is not None else torch.device("cpu")

    def to(self, device: str | torch.device) -> Classifier:
        if self.model is not None:
            self.model.to(device)
        return self

    @property
    def token_types(self) -> bool:
        """Whether the model tells the two texts of a pair apart by token types."""
        return self.model is not None and getattr(self.model.config, "type_vocab_size", 0) > 1

    @property
    def digest(self) -> str:
        """sha256 of what determines the outputs: weights, config, tokenizer, labels, length. Reads every weight (1 s per GiB or so)."""
        h = hashlib.sha256(canonical([list(self.labels), self.max_length, list(self.columns)]).encode())
        if self.model is None:
            h.update(self.identity.encode())
            return h.hexdigest()
        told = {k: v for k, v in self.model.config.to_dict().items() if k not in _NOT_IN_DIGEST}
        h.update(canonical(told).encode())
        rules = json.loads(self.tokenizer.backend_tokenizer.to_str())
        h.update(canonical({k: v for k, v in rules.items() if k not in ("truncation", "padding")}).encode())  # these follow the last call
        for name, tensor in sorted(self.model.state_dict().items()):
            h.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
            h.update(memoryview(tensor.detach().cpu().contiguous().flatten().view(_bytes()).numpy()))
        return h.hexdigest()

    def encode(self, texts: Sequence[Text]) -> list[Encoded]:
        """Token ids, token types and size of each text, truncated to ``max_length``."""
        rows = [columns_of(text) for text in texts]
        if self.model is None:
            return [Encoded(ids=row, size=1 + sum(column.count(" ") for column in row)) for row in rows]
        if not rows:
            return []
        out: list[Encoded] = [Encoded(())] * len(rows)
        for width in (1, 2):  # the tokenizer wants single texts and pairs apart
            where = [i for i, row in enumerate(rows) if len(row) == width]
            if not where:
                continue
            parts = [[rows[i][column] for i in where] for column in range(width)]
            told = self.tokenizer(*parts, truncation=True, max_length=self.max_length, return_token_type_ids=self.token_types)
            types = told["token_type_ids"] if self.token_types else [()] * len(where)
            for i, ids, kinds in zip(where, told["input_ids"], types, strict=True):
                out[i] = Encoded(ids=tuple(ids), types=tuple(kinds), size=len(ids))
        return out

    def batch(self, rows: Sequence[Encoded]) -> dict[str, torch.Tensor]:
        """One padded batch, on the model's device."""
        import torch

        longest = max(len(row.ids) for row in rows)
        pad = self.tokenizer.pad_token_id
        filled = {
            "input_ids": [[*row.ids, *[pad] * (longest - len(row.ids))] for row in rows],
            "attention_mask": [[1] * len(row.ids) + [0] * (longest - len(row.ids)) for row in rows],
        }
        if self.token_types:
            filled["token_type_ids"] = [[*row.types, *[0] * (longest - len(row.types))] for row in rows]
        return {name: torch.tensor(values, device=self.device) for name, values in filled.items()}

    def logits_of_encoded(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Logits of one batch, float32 on the CPU, with the model in eval mode."""
        import torch

        if not rows:
            return torch.zeros((0, len(self.labels)))
        if self.model is None:
            return torch.from_numpy(self._call([row.ids for row in rows]))
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                logits = self.model(**self.batch(rows)).logits.float().cpu()
        finally:
            self.model.train(training)
        if not torch.isfinite(logits).all():
            raise TicketsError(
                f"the model {self.identity!r} gave logits that are not finite", hint="its weights are broken", exit_code=FAILED
            )
        return logits.clone()  # out of inference mode: callers may do arithmetic in place

    def logits(self, texts: Sequence[Text], token_budget: int | None = None) -> np.ndarray:
        """Logits of every text, in its order: (texts, labels) float32. ``token_budget``: padded tokens in one forward pass."""
        rows = self.encode(texts)
        out = np.zeros((len(rows), len(self.labels)), dtype=np.float32)
        for where in batches_by_size([row.size for row in rows], token_budget or TOKEN_BUDGET):
            out[where] = self.logits_of_encoded([rows[i] for i in where]).numpy()
        return out

    def predict(self, texts: Sequence[Text], token_budget: int | None = None) -> tuple[list[str], np.ndarray]:
        """The label of each text and its probabilities (texts, labels)."""
        logits = self.logits(texts, token_budget)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True)) if len(logits) else logits
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        return [self.labels[i] for i in probabilities.argmax(axis=1)], probabilities

    def _call(self, rows: list[tuple[str, ...]]) -> np.ndarray:
        """log p of the wrapped callable, so that softmax gives its p back."""
        assert self.function is not None
        given = self.function([row if len(row) > 1 else row[0] for row in rows])
        try:
            if hasattr(given, "detach"):
                given = given.detach().cpu()
            p = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise TicketsError(f"{self.identity} did not return numbers: {problem}", hint=_PROBABILITIES) from None
        expected = (len(rows), len(self.labels))
        if p.shape != expected:
            raise TicketsError(f"{self.identity} returned shape {p.shape}, expected {expected} (texts, labels)", hint=_PROBABILITIES)
        if not np.isfinite(p).all():
            raise TicketsError(f"{self.identity} returned values that are not finite", hint=_PROBABILITIES)
        wrong = np.flatnonzero((p < -1e-6).any(axis=1) | (abs(p.sum(axis=1) - 1) > 1e-3))
        if len(wrong):
            raise TicketsError(
                f"{self.identity} returned {p[wrong[0]].tolist()} for text {wrong[0]}: no probabilities", hint=_PROBABILITIES
            )
        return np.log(np.clip(p, np.finfo(np.float32).tiny, None)).astype(np.float32)

    def _needs_model(self, what: str) -> Any:
        if self.model is None:
            raise TicketsError(f"a wrapped callable cannot be {what}", hint="load a model with load_classifier")
        return self.model

    def __repr__(self) -> str:
        return f"Classifier({self.identity!r}, labels={list(self.labels)}, max_length={self.max_length})"


_PROBABILITIES = "return probabilities, one row a text and one column a label, rows summing to 1 (apply softmax to logits)"
_NOT_IN_DIGEST = {
    "transformers_version",
    "_name_or_path",
    "dtype",
    "architectures",
    "id2label",
    "label2id",
}  # labels are hashed by themselves


def _bytes() -> Any:
    import torch

    return torch.uint8


def batches_by_size(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions in batches of like size whose padded size (texts times the longest) stays within ``budget``; longest first."""
    batch: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):  # stable; the first batch shows at once whether memory suffices
        if batch and (len(batch) + 1) * sizes[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def load_classifier(
    name: str | Path,
    task: Any = None,
    *,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    device: str | None = None,
) -> Classifier:
    """A classifier from a folder, an embedded name ("minilm") or a Hub id, for the labels of ``task`` (or ``labels``).

    A checkpoint's own head is kept where its label names are the wanted ones, in whatever order; else a new head is drawn from
    ``seed``. Without wanted labels the checkpoint must bring a head. ``max_length`` defaults to what was saved with it, else 128.
    """
    import torch

    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise TicketsError(f"unknown dtype {dtype!r}", hint="one of float32, bfloat16, float16, float64")
    found = loading.find_checkpoint(name)
    config = loading.read_config(found.folder)
    about = read_json(found.folder / ABOUT) if (found.folder / ABOUT).is_file() else {}
    wanted = _checked_labels(labels if labels is not None else task.labels) if labels is not None or task is not None else None
    tokenizer = loading.read_tokenizer(found.folder)
    model, has_head = loading.read_model(found.folder, config, dtype=dtype, seed=seed)
    if wanted is None:
        if not has_head:
            raise TicketsError(f"{found.identity} has no classification head", hint="give a task or labels=[...] for a new one")
        wanted = labels_of_config(config)
    model, kept = with_labels(model, wanted, has_head=has_head, seed=seed)
    if has_head and not kept:
        say(f"{found.identity}: its head knows {', '.join(labels_of_config(config))}; a new one is made for {', '.join(wanted)}")
    limit = config.max_position_embeddings - layout_of(config).reserved_positions
    length = max_length if max_length is not None else min(about.get("max_length", MAX_LENGTH), limit)
    columns = task.columns if task is not None else about.get("columns", ("text",))
    model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return Classifier(model=model, tokenizer=tokenizer, labels=wanted, max_length=length, identity=found.identity, columns=columns)


def _checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    labels = tuple(str(label) for label in labels)
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise TicketsError(f"a classifier needs two or more different labels, got {list(labels)}", hint="name every class once")
    return labels
