"""An ONNX file as a classifier: any graph from token ids to logits or probabilities, run by ONNX Runtime.

Inputs are found by name (input_ids, attention_mask, token_type_ids, any of them), as int32 or int64; the output is the one called logits or
probabilities, else the first. A graph answers a few texts before it is used, the longest among them, so that a wrong tokenizer, length or
number of labels shows at once, and rows that sum to 1 are taken as probabilities. A graph of fixed length is padded to it, one of a fixed
batch is filled up; without an attention mask only texts of one length share a batch, for padding would be read. A graph of dynamically
quantised weights scales its batch as a whole: where answers depend on the other texts, texts are asked one at a time.

A folder exported here has ``labels.json`` with all that; any other file takes a tokenizer and labels from its user, or from the
tokenizer's files and the ``config.json`` beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.base import TokenClassifier, log_probabilities, unnamed
from robust_tickets.classifier.encode import KNOWN, LONG, SHORT, Encoded, Inputs
from robust_tickets.classifier.pretrained import first_line
from robust_tickets.classifier.tokenizer import digest_of, has_tokenizer, own_length, read_about, read_tokenizer
from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import mapping, read_json, sha256_file
from robust_tickets.progress import say

if TYPE_CHECKING:
    import torch

TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32, "tensor(bool)": np.bool_}
OUTPUTS = ("logits", "probabilities")


class OnnxClassifier(TokenClassifier):
    """A session of ONNX Runtime with its tokenizer and labels; it can be attacked and asked, but not trained."""

    kind = "an ONNX graph"

    def __init__(self, path: Path, session: Any, *, output: str | None, **shared: Any) -> None:
        self.session, self.path = session, path
        super().__init__(identity=f"onnx:{path}", **shared)
        nodes = {node.name: node for node in session.get_inputs()}
        if "input_ids" not in nodes or not set(nodes) <= set(KNOWN) or any(n.type not in TYPES for n in nodes.values()):
            message = f"{path} takes {', '.join(nodes)}; expected input_ids and perhaps {' and '.join(KNOWN[1:])}"
            hint = "export the graph with these names, or give a function: tickets attack my_module:function"
            raise TicketsError(message, hint=hint, code="onnx.inputs")
        self.types = {name: TYPES[node.type] for name, node in nodes.items()}
        # texts of a batch and tokens of a text, where the graph fixes them
        shape = nodes["input_ids"].shape[:2]
        self.height, self.width = (size if isinstance(size, int) and size > 0 else None for size in shape)
        self.max_length = min(self.max_length, self.width or self.max_length)
        offered = [node.name for node in session.get_outputs()]
        self.output = output or next((name for name in OUTPUTS if name in offered), offered[0])
        pad = self.tokenizer.pad_token_id
        blind = ("attention_mask" not in nodes or pad is None) and self.width is None  # padding is read like any token
        names = tuple(name for name in KNOWN if name in nodes)
        self.inputs = Inputs(names=names, side="equal" if blind else "right", pad=pad or 0)
        self.gives_probabilities = False
        found = self._try()
        self._choose_side(("equal",) if blind else ("right", "equal"))
        if self.inputs.side == "alone":
            say(f"{path.name}: its answers depend on the batch (quantised weights?): texts are asked one at a time")
        self.gives_probabilities = bool((found >= 0).all() and (np.abs(found.sum(axis=1) - 1) < 1e-3).all())
        if self.gives_probabilities:
            say(f"{path.name}: its output {self.output!r} sums to 1 and is taken as probabilities")
        self._files = self._hash_files()

    def _run(self, rows: Sequence[Encoded]) -> torch.Tensor:
        import torch

        size = self.height or len(rows)
        found = np.concatenate([self._ask(rows[start : start + size]) for start in range(0, len(rows), size)])
        return torch.from_numpy((log_probabilities(found) if self.gives_probabilities else found).astype(np.float32))

    def _ask(self, rows: Sequence[Encoded]) -> np.ndarray:
        """The graph's numbers for one batch, filled up to its height."""
        full = [*rows, *[rows[0]] * ((self.height or 0) - len(rows))]
        given: dict[str, Any] = {
            name: array.astype(self.types[name]) for name, array in self.inputs.arrays(full, self.width).items()
        }
        found = np.asarray(self.session.run([self.output], given)[0], dtype=np.float64)
        if found.shape != (len(full), len(self.labels)):
            message = f"{self.path} gives the shape {found.shape} for {len(full)} texts and {len(self.labels)} labels"
            hint = "give the ONNX file of a sequence classifier; --labels names every output once, in their order"
            raise TicketsError(message, hint=hint, code="classifier.labels")
        return found[: len(rows)]

    def _hash_outputs(self, total: hashlib._Hash) -> None:
        total.update(self._files.encode())

    def _hash_files(self) -> str:
        """The digest of the graph, its weights where they lie apart, what an export wrote beside it, and the tokenizer."""
        files = {"graph": self.path, "labels": self.path.parent / "labels.json"}
        for pattern in (f"{self.path.name}*", "*.data", "*.onnx_data"):
            files |= {file.name: file for file in self.path.parent.glob(pattern) if file != self.path}
        hashes = {name: sha256_file(file) for name, file in sorted(files.items()) if file.is_file()}
        return digest({"files": hashes, "words": digest_of(self.tokenizer)})

    def _try(self) -> np.ndarray:
        """The answers to a few texts; refused is a graph that does not answer, or not with one number a label."""
        if self.max_length < 3:
            message = f"max_length must be at least 3, got {self.max_length}"
            raise TicketsError(message, hint="leave it out for the tokenizer's own", code="classifier.max_length")
        rows = self.encode([SHORT, LONG, f"{LONG} " * (self.max_length // 8 + 1)])
        try:
            return np.concatenate([self._ask([row]) for row in rows])
        except TicketsError:
            raise
        except Exception as problem:
            message = f"{self.path} does not answer texts of {self.max_length} tokens: {first_line(problem)}"
            hint = "give --max-length if it reads shorter texts, and see that --tokenizer is its own"
            raise TicketsError(message, hint=hint, code="onnx.failed") from None


def open_onnx(
    path: str | Path,
    *,
    tokenizer: str | Path | None = None,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    columns: Sequence[str] | None = None,
) -> OnnxClassifier:
    """Open an ONNX file (or a folder with ``model.onnx``) with what lies beside it, or with what is given."""
    path = Path(path)
    path = path / "model.onnx" if path.is_dir() else path
    if not path.is_file():
        hint = "tickets export MODEL --format onnx writes one"
        raise TicketsError(f"there is no ONNX file {path}", hint=hint, code="onnx.missing")
    about, words = read_about(path.parent / "labels.json"), Path(tokenizer or path.parent)
    if tokenizer is None and not has_tokenizer(words):
        hint = "--tokenizer FOLDER: the one the model was trained with"
        raise TicketsError(f"{path}: no tokenizer lies beside it", hint=hint, code="onnx.tokenizer")
    own = tuple(about.get("labels") or _labels(_config(path.parent)))
    names = tuple(labels or own or _labels(_config(words)))
    if not names:
        hint = "--labels bad,good in the order of the outputs"
        raise TicketsError(f"{path}: the names of its classes are not known", hint=hint, code="onnx.labels")
    if not unnamed(own) and own != names:
        message = f"{path} calls its classes {', '.join(own)}; got the names {', '.join(names)}"
        hint = "leave --labels out; --label-map translates those of the data"
        raise TicketsError(message, hint=hint, code="classifier.labels")
    reader = read_tokenizer(words)
    positions = (_config(path.parent) or _config(words)).get("max_position_embeddings")
    length = about.get("max_length") or own_length(reader, positions if isinstance(positions, int) else None)
    return OnnxClassifier(
        path,
        session_of(path),
        output=about.get("output"),
        tokenizer=reader,
        labels=names,
        max_length=max_length or length,
        columns=about.get("columns") or columns,
    )


def session_of(path: Path) -> Any:
    """ONNX Runtime's session of a file, on the CPU."""
    needed("onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; it warns of every weight that a graph carries and does not use
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime's errors share no public base class
        message = f"ONNX Runtime cannot open {path}: {first_line(problem)}"
        raise TicketsError(message, hint="the file is damaged: export again", code="onnx.damaged") from None


def needed(*packages: str) -> None:
    """Refuse where ``packages`` are not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        message = f"ONNX needs the package(s) {', '.join(missing)}"
        raise TicketsError(message, hint='pip install "robust-tickets[onnx]"', code="onnx.package")


def _config(folder: Path) -> Mapping[str, Any]:
    return mapping(read_json(folder / "config.json")) if (folder / "config.json").is_file() else {}


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes that a transformers config names."""
    names = mapping(config.get("id2label"))
    return tuple(str(names[str(i)]) for i in range(len(names)) if str(i) in names)
