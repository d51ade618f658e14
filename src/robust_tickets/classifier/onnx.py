"""An ONNX file as a classifier: any graph from token ids to logits or probabilities, run by ONNX Runtime.

Inputs are found by name (input_ids, attention_mask, token_type_ids, any of them), as int32 or int64; the output is the one called logits or
probabilities, else the first. A graph is looked at before it is used: it answers a few texts, the longest among them, so that a wrong
tokenizer, length or number of labels shows at once, and rows that sum to 1 are taken as probabilities. A graph of fixed length is padded
to it, one of a fixed batch is filled up; without an attention mask only texts of one length share a batch, for padding would be read.
A graph of dynamically quantised weights scales its batch as a whole: answers that depend on their company are asked for one at a time.

A folder exported here has ``labels.json`` with all that; any other file takes a tokenizer and labels from its user, or from the
tokenizer's files and the ``config.json`` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.checkpoint import unnamed
from robust_tickets.classifier.encode import LONG, SHORT, Encoded, Inputs, Side, encoded, own_length
from robust_tickets.classifier.tokenizer import digest_of, has_tokenizer, read_tokenizer
from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, sha256_file
from robust_tickets.progress import say

if TYPE_CHECKING:
    from robust_tickets.classifier.classifier import Classifier

SCHEMA = 1  # of labels.json
INSTALL = 'pip install "robust-tickets[onnx]"'
KNOWN = ("input_ids", "attention_mask", "token_type_ids")
TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32, "tensor(bool)": np.bool_}
OUTPUTS = ("logits", "probabilities")
ROUNDING = 1e-5  # what company may move an answer of up to ORDINARY in float32; measured maxima are about a tenth
ORDINARY = 16.0


@dataclass(kw_only=True)
class Graph:
    """An open graph; called with encoded texts it gives logits (log p where it answers with probabilities)."""

    session: Any
    output: str
    inputs: Inputs
    types: dict[str, Any]  # the numpy type of each input
    width: int | None  # tokens of a text, where the graph fixes them
    height: int | None  # texts of a batch, where it fixes them
    probabilities: bool = False
    digest: str = ""

    def __call__(self, rows: Sequence[Encoded]) -> np.ndarray:
        out: np.ndarray | None = None
        for where in self.inputs.together(rows):
            size = self.height or len(where)
            for start in range(0, len(where), size):
                part = where[start : start + size]
                answers = self._run([rows[i] for i in part])
                out = np.zeros((len(rows), answers.shape[1]), dtype=np.float32) if out is None else out
                out[part] = answers
        assert out is not None
        return out

    def _run(self, rows: list[Encoded]) -> np.ndarray:
        full = rows + [rows[0]] * ((self.height or 0) - len(rows))
        given = {name: array.astype(self.types[name]) for name, array in self.inputs.arrays(full, self.width).items()}
        found = np.asarray(self.session.run([self.output], given)[0], dtype=np.float64)
        if found.ndim != 2 or len(found) != len(full) or not np.isfinite(found).all():
            raise TicketsError(
                f"the graph's {self.output!r} for {len(full)} text(s) has the shape {found.shape}, expected finite numbers (texts, labels)",
                hint="give the ONNX file of a sequence classifier",
            )
        found = found[: len(rows)]
        return np.log(np.clip(found, np.finfo(np.float32).tiny, None)) if self.probabilities else found


def open_onnx(
    path: str | Path,
    *,
    tokenizer: str | Path | None = None,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    columns: Sequence[str] | None = None,
) -> Classifier:
    """An ONNX file (or a folder with ``model.onnx``) as a Classifier that can be attacked and asked, but not trained."""
    from robust_tickets.classifier.classifier import Classifier

    path = Path(path)
    path = path / "model.onnx" if path.is_dir() else path
    if not path.is_file():
        raise TicketsError(f"there is no ONNX file {path}", hint="tickets export MODEL --format onnx writes one")
    about = _about(path.parent)
    words = Path(tokenizer) if tokenizer is not None else path.parent
    if tokenizer is None and not has_tokenizer(words):
        raise TicketsError(
            f"{path}: which tokenizer? none lies beside it",
            hint="--tokenizer FOLDER: the one the model was trained with",
        )
    config: Any = next(
        (read_json(f / "config.json") for f in (path.parent, words) if (f / "config.json").is_file()), {}
    )
    labels = tuple(labels or about.get("labels") or _labels(config))
    if not labels:
        raise TicketsError(
            f"{path}: what are its classes called?", hint="--labels bad,good in the order of the outputs"
        )
    reader = read_tokenizer(words)
    graph = _opened(path, reader, about.get("output"))
    positions = config.get("max_position_embeddings") if not about else None
    longest = (
        max_length or about.get("max_length") or own_length(reader, positions if isinstance(positions, int) else None)
    )
    longest = min(int(longest), graph.width or int(longest))
    _look(graph, reader, path, labels, longest)
    beside = path.parent / "config.json"
    own = about.get("labels") or (_labels(config) if beside.is_file() else ())
    if not unnamed(own) and own != labels:  # a tokenizer's folder elsewhere may be another model's
        raise TicketsError(
            f"{path} calls its classes {', '.join(own)}, as the files beside it say; got the names {', '.join(labels)}",
            hint="leave --labels out; what the data calls them is said by --label-map",
        )
    graph.digest = digest({"files": _digests(path), "words": digest_of(reader)})
    read = about.get("columns") or columns
    name = f"onnx:{path}"
    return Classifier(
        model=None, tokenizer=reader, labels=labels, max_length=longest, identity=name, columns=read, graph=graph
    )


def session_of(path: Path) -> Any:
    needed("onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; it warns of every weight that a graph carries and does not use
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime's errors share no public base class
        raise TicketsError(
            f"ONNX Runtime cannot open {path}: {str(problem).splitlines()[0]}", hint="the file is damaged: export again"
        ) from None


def needed(*packages: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise TicketsError(f"ONNX needs the package(s) {', '.join(missing)}", hint=INSTALL)


def _about(folder: Path) -> dict[str, Any]:
    """What an export wrote; nothing beside another's file."""
    path = folder / "labels.json"
    if not path.is_file():
        return {}
    about = read_json(path)
    try:
        if about["schema"] != SCHEMA:
            raise TicketsError(
                f"{path} has schema {about['schema']!r}, this version reads {SCHEMA}", hint="update the package"
            )
        told = {
            "labels": tuple(about["labels"]),
            "max_length": int(about["max_length"]),
            "columns": tuple(about["columns"]),
        }
        return told | {"output": str(about["output"])}
    except (KeyError, TypeError, ValueError):
        raise TicketsError(f"{path} is damaged", hint="export the model again") from None


def _labels(config: Any) -> tuple[str, ...]:
    """The classes that a transformers config names."""
    names = config.get("id2label") if isinstance(config, dict) else None
    try:
        return tuple(str(names[str(i)]) for i in range(len(names))) if names else ()
    except (KeyError, TypeError):
        return ()


def _opened(path: Path, tokenizer: Any, output: str | None) -> Graph:
    session = session_of(path)
    asked = {node.name: node for node in session.get_inputs()}
    odd = [name for name in asked if name not in KNOWN]
    if odd or "input_ids" not in asked:
        raise TicketsError(
            f"{path} takes {', '.join(asked)}; expected input_ids and perhaps {' and '.join(KNOWN[1:])}",
            hint="export the graph with these names, or give a function: tickets attack my_module:function",
        )
    strange = [node.type for node in asked.values() if node.type not in TYPES]
    if strange:
        raise TicketsError(
            f"{path} takes {strange[0]}, expected int64 or int32 token ids", hint="export the graph anew"
        )
    offered = [node.name for node in session.get_outputs()]
    names = tuple(name for name in KNOWN if name in asked)
    shape = asked["input_ids"].shape
    height, width = (size if isinstance(size, int) and size > 0 else None for size in (shape[0], shape[1]))
    pad = tokenizer.pad_token_id
    blind = ("attention_mask" not in names or pad is None) and width is None  # padding would be read like any token
    return Graph(
        session=session,
        output=output or next((name for name in OUTPUTS if name in offered), offered[0]),
        inputs=Inputs(names=names, side="equal" if blind else "right", pad=pad or 0),
        types={name: TYPES[node.type] for name, node in asked.items()},
        width=width,
        height=height,
    )


def _look(graph: Graph, tokenizer: Any, path: Path, labels: Sequence[str], longest: int) -> None:
    """Ask a few texts: refuse a graph that does not answer, or not with one number a label; see whether these are probabilities."""
    if longest < 3:
        raise TicketsError(f"max_length must be at least 3, got {longest}", hint="leave it out for the tokenizer's own")
    texts = [(SHORT,), (LONG,), (f"{LONG} " * (longest // 8 + 1),)]
    rows = encoded(tokenizer, None, texts, longest, "token_type_ids" in graph.inputs.names)
    try:
        found = np.concatenate([graph([row]) for row in rows])
    except TicketsError:
        raise
    except Exception as problem:
        raise TicketsError(
            f"{path} does not answer texts of {rows[0].size}, {rows[1].size} and {rows[2].size} tokens: {str(problem).splitlines()[0]}",
            hint="give --max-length if it reads shorter texts, and see that --tokenizer is its own",
        ) from None
    if found.shape[1] != len(labels):
        raise TicketsError(
            f"{path} gives {found.shape[1]} numbers a text, there are {len(labels)} labels ({', '.join(labels)})",
            hint="--labels names every output once, in their order",
        )
    graph.inputs = _shared(graph, tokenizer, longest)
    if graph.inputs.side == "alone":
        say(
            f"{path.name}: its answers depend on the other texts of a batch (quantised weights?): texts are asked about one at a time"
        )
    sums = np.abs(found.astype(np.float64).sum(axis=1) - 1)
    graph.probabilities = bool((found >= 0).all() and (sums < 1e-3).all())
    if graph.probabilities:
        say(f"{path.name}: its output {graph.output!r} sums to 1 and is taken as probabilities")


def _shared(graph: Graph, tokenizer: Any, longest: int) -> Inputs:
    """The graph's inputs with the widest way of sharing a batch that leaves every answer as it is alone."""
    given = graph.inputs
    short, long = encoded(tokenizer, None, [(SHORT,), (LONG,)], longest, "token_type_ids" in given.names)
    (cut,) = encoded(tokenizer, None, [(LONG,)], short.size, "token_type_ids" in given.names)
    ways: list[tuple[Side, list[Encoded]]] = [("right", [short, long, cut]), ("equal", [short, cut])]
    try:
        for side, rows in ways if given.side == "right" else ways[1:]:
            if rows[0] == rows[-1] and side == "equal":
                continue  # to a tokenizer that knows no word of them they are one text, which shows nothing
            graph.inputs = replace(given, side="alone")
            alone = graph(rows)
            graph.inputs = replace(given, side=side)
            moved = np.abs(graph(rows) - alone).max()
            if moved <= ROUNDING * max(1.0, float(np.abs(alone).max()) / ORDINARY):
                return graph.inputs
    finally:
        graph.inputs = given
    return replace(given, side="alone")


def _digests(path: Path) -> dict[str, str]:
    """sha256 of the graph, of its weights where they lie apart, and of what an export wrote beside it."""
    apart = {*path.parent.glob(f"{path.name}*"), *path.parent.glob("*.data"), *path.parent.glob("*.onnx_data")}
    files = {"graph": path, "labels": path.parent / "labels.json"} | {file.name: file for file in apart if file != path}
    return {name: sha256_file(file) for name, file in sorted(files.items()) if file.is_file()}
