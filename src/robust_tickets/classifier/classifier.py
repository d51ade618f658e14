"""Classifier: a transformers model or an ONNX graph, its tokenizer, labels and maximum length; or any callable that gives probabilities.

Everything downstream (training, attacks, prediction) sees this one type. Texts go in as strings or as tuples of one or two strings;
logits come out in float32, in the order of the texts, whatever the batches were.
"""

from __future__ import annotations

import copy
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from robust_tickets.backbone.layout import code_of_layout
from robust_tickets.classifier.base import shown
from robust_tickets.classifier.callable import Caller, Calls, fed, log_probabilities
from robust_tickets.classifier.checkpoint import (
    FOLDER,
    checked_labels,
    rename_labels,
    ticket_of,
    unnamed,
    update_digest,
    write_about,
)
from robust_tickets.classifier.encode import (
    Encoded,
    Inputs,
    Text,
    check_count,
    encoded,
    inputs_of,
    positions_of,
    rows_of,
)
from robust_tickets.classifier.pretrained import silence
from robust_tickets.classifier.tokenizer import Splicer, digest_of, save_tokenizer, settings_of
from robust_tickets.config import canonical
from robust_tickets.environment import device_of
from robust_tickets.errors import FAILED, TicketsError, tokenising
from robust_tickets.files import drop_links

if TYPE_CHECKING:
    import torch

    from robust_tickets.classifier.onnx import Graph


T = TypeVar("T")
R = TypeVar("R")


def batches_by_size(sizes: Sequence[int], budget: int, *, longest_first: bool = True) -> Iterator[list[int]]:
    """Positions in batches of like size whose padded size (texts times the longest) stays within ``budget``."""
    batch: list[int] = []
    # stable; the longest first, so that the first batch shows at once whether memory suffices
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i] if longest_first else sizes[i]):
        if batch and (len(batch) + 1) * max(sizes[batch[0]], sizes[i]) > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def in_halves(
    run: Callable[[list[T]], list[R]],
    items: list[T],
    alone: Callable[[T, Exception], R],
    *,
    ends: Callable[[Exception], Exception | None],
    smaller: Callable[[list[T], int], None] = lambda items, half: None,
) -> list[R]:
    """``run(items)``; a call that fails is made in halves, after ``smaller(items, half)``, down to one item, which ``alone`` answers for.

    What ``ends`` gives for a failure is raised at once.
    """
    try:
        return run(items)
    except Exception as problem:
        end = ends(problem)
        if end is problem or not items:
            raise
        if end is not None:
            raise end from None
        if len(items) == 1:
            return [alone(items[0], problem)]
    half = len(items) // 2  # outside the handler, which holds what the failed call had in memory
    smaller(items, half)
    first = in_halves(run, items[:half], alone, ends=ends, smaller=smaller)
    return first + in_halves(run, items[half:], alone, ends=ends, smaller=smaller)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """``model`` in eval mode, and afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def check_tokens(rows: Sequence[Encoded]) -> None:
    if not all(row.size for row in rows):
        raise TicketsError(
            "the tokenizer gives no token for a text, so the model has nothing to read", hint="leave such texts out"
        )


def check_logits(logits: Any, identity: str) -> None:
    import torch

    if not torch.isfinite(logits).all():
        raise TicketsError(
            f"the model {identity!r} gave logits that are not finite", hint="its weights are broken", exit_code=FAILED
        )


MAX_LENGTH = 128  # tokens; GLUE in all three papers
TOKEN_BUDGET = 8192  # padded tokens in one forward pass: 64 texts of full length


class Classifier:
    """``model`` is None where there is only a ``graph`` or a callable, ``tokenizer`` where a callable is wrapped.

    ``identity`` says what it was loaded from.
    """

    def __init__(
        self,
        *,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str],
        max_length: int = MAX_LENGTH,
        identity: str = "",
        columns: Sequence[str] | None = None,
        function: Callable[..., Any] | None = None,
        graph: Graph | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.function, self.graph = model, tokenizer, function, graph
        self._settings = settings_of(tokenizer)  # as they came, for saving
        self._splicer: tuple[Any, Splicer | None] | None = (
            None  # made when texts are first encoded; pieces stay remembered
        )
        self.labels, self.batch_size = checked_labels(labels), batch_size
        self.inputs: Inputs | None = graph.inputs if graph is not None else None
        self.max_length, self.identity = int(max_length), identity
        self.columns, self.columns_known = tuple(columns or ("text",)), columns is not None
        if model is not None:
            limit = positions_of(model)
            if self.max_length < 3 or (limit is not None and self.max_length > limit):
                raise TicketsError(
                    f"max_length must be between 3 and {limit or 'any'}, the positions of this model; got {max_length}",
                    hint="give a length between these, or leave it out",
                )
            if model.config.num_labels != len(self.labels):
                raise TicketsError(
                    f"the model has {model.config.num_labels} outputs, got {len(self.labels)} labels",
                    hint="give one a class",
                )
            rename_labels(model.config, self.labels)
            model.eval()
            self.inputs = inputs_of(model, tokenizer, self.max_length)

    @classmethod
    def wrap(
        cls,
        function: Callable[..., Any],
        *,
        labels: Sequence[str],
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        retries: int = 0,
        rate_limit: float | None = None,
        timeout: float | None = None,
        backoff: float = 0.5,
        name: str | None = None,
    ) -> Classifier:
        """Any callable from a list of strings (pairs: of 2-tuples) to probabilities of shape (texts, labels), or a transformers pipeline
        for texts: answers in {"label": …, "score": …} are matched to ``labels`` by name.

        For one that is slow, far away or paid for: ``batch_size`` texts in one call, ``retries`` of a call that raised (after ``backoff``
        seconds, then twice as long each time), ``rate_limit`` calls a second, ``timeout`` seconds for an answer. ``name``: what results
        call it, if not by its module and its own name.
        """
        if not callable(function):
            raise TicketsError(
                f"wrap expects a callable, got {function!r:.60} ({type(function).__name__})",
                hint="give a function from texts to probabilities",
            )
        own = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        name = f"callable:{name or own}"
        calls = Calls(batch_size=batch_size, retries=retries, rate_limit=rate_limit, timeout=timeout, backoff=backoff)
        asked = Caller(fed(function, checked_labels(labels), name), name, calls)
        return cls(
            model=None,
            tokenizer=None,
            labels=labels,
            function=asked,
            identity=name,
            columns=columns,
            batch_size=batch_size,
        )

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, max_length: int | None = None, dtype: str = "float32", device: str | None = None
    ) -> Classifier:
        """A saved classifier of any family that transformers has, head included; also ``"RUN:ARM"`` of a run, or an ONNX file or folder."""
        from robust_tickets.classifier.loading import load_classifier

        return load_classifier(name, max_length=max_length, dtype=dtype, device=device)

    def save_pretrained(self, folder: str | Path) -> Path:
        """What transformers saves, readable by its auto classes, and ``tickets.json`` with the rest; that one is written last.

        The masks of an unstructured ticket go into ``ticket/``; without this package the weights outside are zeros like any others.
        """
        from safetensors import SafetensorError

        model = self.needs_model("saved")
        ticket = ticket_of(model)
        folder = Path(folder)
        if folder.is_file():
            raise TicketsError(f"{folder} is a file", hint="give a folder")
        try:
            drop_links(folder)
            with silence():
                model.save_pretrained(folder)
                self.save_tokenizer(folder)
            for weights in folder.glob(
                "*.safetensors"
            ):  # safetensors writes for the owner alone; these are files like all others
                weights.chmod(0o666 & ~_umask())
        except (OSError, SafetensorError) as problem:  # what safetensors raises on a full disk is no OSError
            raise TicketsError(
                f"could not write {folder}: {problem}", hint="check the disk and the folder's rights", exit_code=FAILED
            ) from None
        if ticket is not None:
            ticket.save(folder / FOLDER)
        write_about(
            folder, max_length=self.max_length, columns=self.columns, labels=self.labels, masked=ticket is not None
        )
        return folder

    def save_tokenizer(self, folder: Path) -> None:
        """The same bytes whatever it read before."""
        save_tokenizer(self.tokenizer, folder, self.max_length, self._settings)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, **upload: Any) -> Any:
        """What ``save_pretrained`` writes, in one commit to the Hub; ``upload`` goes to ``huggingface_hub``'s ``upload_folder``."""
        from huggingface_hub import HfApi

        hub = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            name = hub.create_repo(repo_id, private=private, exist_ok=True).repo_id
            return hub.upload_folder(
                repo_id=name, folder_path=folder, **{"commit_message": "Upload classifier", **upload}
            )

    def copy(self) -> Classifier:
        """A deep copy; a wrapped callable is shared, not copied."""
        twin = copy.copy(self)
        twin.model, twin.tokenizer, twin._splicer = copy.deepcopy(self.model), copy.deepcopy(self.tokenizer), None
        return twin

    def with_model(self, model: Any) -> Classifier:
        """The same tokenizer, labels and length around another model."""
        twin = copy.copy(self)
        twin.model = model
        rename_labels(model.config, self.labels)
        return twin

    def afresh(self) -> Classifier:
        """The same classifier, past the answers that are kept of a callable (``Calls``), to see what it says now."""
        twin = copy.copy(self)
        if isinstance(self.function, Caller):
            twin.function = partial(self.function, afresh=True)
        return twin

    @property
    def device(self) -> torch.device:
        import torch

        return self.model.device if self.model is not None else torch.device("cpu")

    def to(self, device: str | torch.device) -> Classifier:
        if self.model is not None:
            self.model.to(device_of(device))
        return self

    @property
    def token_types(self) -> bool:
        """Whether the model tells the two texts of a pair apart by token types."""
        return self.inputs is not None and "token_type_ids" in self.inputs.names

    def named(self, labels: Sequence[str]) -> Classifier:
        """The same classifier with names for classes that nobody named (LABEL_0, LABEL_1, …), in the order of its outputs."""
        names = checked_labels(labels)
        if names == self.labels:  # said of several models at once, of which some know it
            return self
        if not unnamed(self.labels) or len(names) != len(self.labels):
            raise TicketsError(
                f"{self.identity} calls its classes {', '.join(self.labels)}; got the names {', '.join(names)}",
                hint="names are for LABEL_0, LABEL_1, …, one each; what the data calls them is said by --label-map",
            )
        self.labels = names
        if self.model is not None:
            rename_labels(self.model.config, names)
        return self

    def check_columns(self, columns: Sequence[str], name: str) -> None:
        """Refuse texts of another number of columns than it is known to read."""
        if self.columns_known and len(columns) != len(self.columns):
            raise TicketsError(
                f"{name} has {len(columns)} text column(s) ({', '.join(columns)}), the classifier {self.identity!r} reads "
                f"{len(self.columns)} ({', '.join(self.columns)})",
                hint="name the text column(s): --text sentence, or --text premise,hypothesis for a pair",
            )

    @property
    def cut_at(self) -> int | None:
        """Tokens of a text that it reads; None for a callable, which cuts texts as it likes."""
        return self.max_length if self.tokenizer is not None else None

    @property
    def digest(self) -> str:
        """sha256 of what determines the outputs: weights, masks, config, tokenizer, labels, length, the file of a plug-in's backbone.

        Reads every weight, about 1 s a GiB.
        """
        h = hashlib.sha256(canonical([list(self.labels), self.max_length, list(self.columns)]).encode())
        if self.model is None:
            h.update((self.graph.digest if self.graph is not None else self.identity).encode())
            return h.hexdigest()
        told = {k: v for k, v in self.model.config.to_dict().items() if k not in _NOT_IN_DIGEST}
        h.update(canonical(told).encode())
        h.update(digest_of(self.tokenizer).encode())
        if code := code_of_layout(self.model):
            h.update(canonical(code).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            h.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
            h.update(memoryview(tensor.detach().cpu().contiguous().flatten().view(_bytes()).numpy()))
        update_digest(h, self.model)
        return h.hexdigest()

    def encode(self, texts: Sequence[Text], max_length: int | None = None) -> list[Encoded]:
        """Token ids, token types and size of each text, truncated to ``max_length``, by default the classifier's own."""
        rows = rows_of(texts)
        if self.tokenizer is None:
            return [Encoded(columns=row, size=1 + sum(column.count(" ") for column in row)) for row in rows]
        if self._splicer is None or self._splicer[0] is not self.tokenizer:
            with tokenising():
                self._splicer = self.tokenizer, Splicer.of(self.tokenizer)
        return encoded(self.tokenizer, self._splicer[1], rows, max_length or self.max_length, self.token_types)

    def cuts(self, text: Text) -> bool:
        """Whether ``text`` has more tokens than are read; never said of a callable's."""
        return self.tokenizer is not None and self.encode([text], self.max_length + 1)[0].size > self.max_length

    def batches(self, sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
        """Positions in batches of like size: of at most ``batch_size`` texts for a callable that names one, else within ``budget``."""
        if self.batch_size is None:
            yield from batches_by_size(sizes, budget)
            return
        order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        yield from (order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size))

    def batch(self, rows: Sequence[Encoded]) -> dict[str, torch.Tensor]:
        """One padded batch, on the model's device."""
        import torch

        assert self.inputs is not None
        return {name: torch.from_numpy(array).to(self.device) for name, array in self.inputs.arrays(rows).items()}

    def logits_of_encoded(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Logits of one batch, float32 on the CPU, with the model in eval mode."""
        import torch

        if not rows:
            return torch.zeros((0, len(self.labels)))
        if self.tokenizer is not None:
            check_tokens(rows)
        if self.graph is not None:
            return torch.from_numpy(self.graph(rows))
        if self.model is None:
            return torch.from_numpy(
                log_probabilities(self.function, [row.columns for row in rows], self.labels, self.identity)
            )
        assert self.inputs is not None
        logits = torch.zeros(
            (len(rows), len(self.labels))
        )  # made here, out of inference mode: callers may do arithmetic in place
        with torch.inference_mode(), evaluating(self.model):
            for where in self.inputs.together(rows):
                logits[where] = self.model(**self.batch([rows[i] for i in where])).logits.float().cpu()
        check_logits(logits, self.identity)
        return logits

    def logits(self, texts: Sequence[Text], token_budget: int | None = None) -> np.ndarray:
        """Logits of every text, in its order: (texts, labels) float32. ``token_budget``: padded tokens in one forward pass."""
        return self.logits_of_rows(self.encode(texts), token_budget)

    def logits_of_rows(self, rows: Sequence[Encoded], token_budget: int | None = None) -> np.ndarray:
        """``logits`` of texts that are encoded already."""
        out = np.zeros((len(rows), len(self.labels)), dtype=np.float32)
        for where in self.batches([row.size for row in rows], token_budget or TOKEN_BUDGET):
            out[where] = self.logits_of_encoded([rows[i] for i in where]).numpy()
        return out

    def predict(self, texts: Sequence[Text], token_budget: int | None = None) -> tuple[list[str], np.ndarray]:
        """The label of each text and its probabilities (texts, labels)."""
        texts = rows_of(texts)
        if self.columns_known:
            check_count(texts, self.columns, self.identity)
        p = probabilities(self.logits(texts, token_budget))
        return [self.labels[i] for i in p.argmax(axis=1)], p

    def needs_model(self, what: str) -> Any:
        if self.model is None:
            kind = "an ONNX graph" if self.graph is not None else "a wrapped callable"
            raise TicketsError(f"{kind} cannot be {what}", hint="load a model with load_classifier")
        return self.model

    def __repr__(self) -> str:
        return shown(self)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax of every row."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True)) if len(logits) else logits
    return powers / powers.sum(axis=1, keepdims=True)


_NOT_IN_DIGEST = {
    "transformers_version",
    "_name_or_path",
    "dtype",
    "architectures",
    "id2label",
    "label2id",
    "loaded_by",
}  # labels are hashed by themselves


def _umask() -> int:
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return mask


def _bytes() -> Any:
    import torch

    return torch.uint8


UNSTEADY = 0.01  # by which a callable's answers to one text may differ: services round, and batch
PROBES = 8  # texts a callable is asked about, to tell it from others of the same name


def probed(clf: Classifier, texts: Iterable[tuple[str, ...]]) -> tuple[list[list[float] | None], Exception | None]:
    """The probabilities of each text, None where it failed, and the last problem. A model is known by its weights and is not asked.

    What is kept of a callable's answers is neither asked nor added to, so that a later answer to the same text is one of its own.
    """
    found: list[list[float] | None] = []
    problem: Exception | None = None
    if clf.identity.startswith("callable:"):
        now = clf.afresh()
        for text in texts:
            try:
                found.append(np.exp(now.logits([text])[0].astype(np.float64)).round(4).tolist())
            except Exception as failure:  # this text's own, unless all fail
                problem = failure
                found.append(None)
    return found, problem
