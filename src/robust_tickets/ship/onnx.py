"""ONNX: written by torch's own exporter, checked against torch before anyone sees the file, and opened again as a Classifier.

The graph takes the model as it is (a compact model stays compact) with free batch and sequence axes. Beside ``model.onnx`` lie the
tokenizer, ``labels.json`` (labels, maximum length, names of the inputs) and the stock family's ``config.json``, which is all that a
server needs; nothing in the folder needs this package.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.tokens import VOCABULARIES
from robust_tickets.config import digest
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, sha256_file, write_json
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    from robust_tickets.classifier import Classifier

SCHEMA = 1
OPSET = 18  # the oldest that torch's exporter writes without converting; ONNX Runtime reads it since 1.14
TOLERANCE = 1e-4  # absolute, on logits; fp32 on both sides differs by about 1e-6
INSTALL = 'pip install "robust-tickets[onnx]"'
TOKENIZER_SETTINGS = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
INLINE = 1 << 30  # bytes of weights that go into model.onnx itself; protobuf ends at 2 GiB


def write(clf: Classifier, folder: Path, config: Any) -> None:
    """``model.onnx`` and what serving it needs into ``folder``; raises unless ONNX Runtime gives torch's logits."""
    import torch

    _needed("onnx", "onnxscript", "onnxruntime")
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if clf.token_types else [])]
    graph, traced = (_logits_only()(copy.deepcopy(clf.model).to("cpu", torch.float32), names).eval() for _ in range(2))
    size = sum(p.numel() * p.element_size() for p in graph.parameters())
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=clf.max_length)
    with _quiet(), torch.random.fork_rng(devices=[]):
        program = torch.onnx.export(
            traced,  # a copy of its own: tracing may leave fake tensors in a module's caches
            tuple(torch.from_numpy(a) for a in _inputs(clf, names, 2, min(7, clf.max_length)).values()),
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=(tuple({0: batch, 1: length} for _ in names),),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # with dynamo=True it never is
        _forget_where(program.model)
        program.save(folder / "model.onnx", external_data=size > INLINE)
    check(clf, graph, names, folder / "model.onnx")
    clf.tokenizer.save_pretrained(folder)
    config.save_pretrained(folder)
    write_json(
        folder / "labels.json",
        {
            "schema": SCHEMA,
            "labels": list(clf.labels),
            "max_length": clf.max_length,
            "columns": list(clf.columns),
            "inputs": names,
            "output": "logits",
        },
    )


def check(clf: Classifier, graph: Any, names: list[str], path: Path) -> float:
    """The largest difference of logits between torch and the written file, over batches and lengths the exporter never saw."""
    import torch

    session = _session(path)
    longest = clf.max_length
    worst = 0.0
    for rows, columns in ((1, 3), (1, longest), (2, 7), (3, 1), (5, max(2, longest // 2)), (8, min(19, longest))):
        given = _inputs(clf, names, rows, min(columns, longest))
        with torch.inference_mode():
            expected = graph(*(torch.from_numpy(a) for a in given.values())).numpy()
        got = session.run(["logits"], given)[0]
        gap = float(np.abs(got - expected).max()) if got.shape == expected.shape else float("nan")
        if not gap <= TOLERANCE:  # also catches NaN
            raise TicketsError(
                f"ONNX Runtime and torch disagree by {gap:.2g} on {rows} text(s) of {columns} tokens; {TOLERANCE:g} is allowed",
                hint="export dense or compact instead, and report this with the versions of torch, onnxscript and onnxruntime",
                exit_code=FAILED,
            )
        worst = max(worst, gap)
    return worst


def open_onnx(path: str | Path) -> Classifier:
    """An exported ``model.onnx`` (or its folder) as a Classifier that can be attacked and asked, but not trained."""
    from robust_tickets.classifier import Classifier

    path = Path(path)
    path = path / "model.onnx" if path.is_dir() else path
    about_path = path.parent / "labels.json"
    if not path.is_file() or not about_path.is_file():
        raise TicketsError(f"{path} is not an exported ONNX model with labels.json beside it", hint="tickets export MODEL --format onnx")
    about = read_json(about_path)
    try:
        if about["schema"] != SCHEMA:
            raise TicketsError(f"{about_path} has schema {about['schema']!r}, this version reads {SCHEMA}", hint="update the package")
        labels, longest, names, columns = tuple(about["labels"]), int(about["max_length"]), list(about["inputs"]), tuple(about["columns"])
    except (KeyError, TypeError, ValueError):
        raise TicketsError(f"{about_path} is damaged", hint="export the model again") from None
    from robust_tickets.classifier.tokens import read_tokenizer

    session, tokenizer = _session(path), read_tokenizer(path.parent)

    def probabilities(texts: list[Any]) -> np.ndarray:
        parts = [list(column) for column in zip(*texts, strict=True)] if isinstance(texts[0], tuple) else [texts]
        told = tokenizer(*parts, truncation=True, max_length=longest, padding=True, return_tensors="np", return_token_type_ids=True)
        logits = session.run(["logits"], {name: told[name].astype(np.int64) for name in names})[0].astype(np.float64)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    clf = Classifier.wrap(probabilities, labels=labels, columns=columns)
    clf.identity = f"onnx:{_identity(path)}"
    return clf


def _identity(path: Path) -> str:
    """sha256 over every file that the answers depend on: the graph, its weights where they lie apart, the tokenizer, the labels."""
    words = {file.name: file for pattern in (*VOCABULARIES, *TOKENIZER_SETTINGS) for file in path.parent.glob(pattern)}
    files = words | {"graph": path, "weights": path.with_name(f"{path.name}.data"), "labels": path.parent / "labels.json"}
    return digest({name: sha256_file(file) for name, file in files.items() if file.is_file()})


def _logits_only() -> Any:
    """A module class that takes the inputs by position and gives the logits alone; made here so that importing loads no torch."""
    import torch

    class LogitsOnly(torch.nn.Module):
        def __init__(self, model: Any, names: list[str]) -> None:
            super().__init__()
            self.model, self.names = model, names

        def forward(self, *inputs: Any) -> Any:
            return self.model(**dict(zip(self.names, inputs, strict=True))).logits

    return LogitsOnly


def _inputs(clf: Classifier, names: list[str], rows: int, columns: int) -> dict[str, np.ndarray]:
    """Seeded token ids, every second row ending in padding, every second token type switching half-way."""
    dice = numpy_generator(0, "onnx", rows, columns)
    pad = clf.tokenizer.pad_token_id
    ids = dice.integers(0, clf.model.config.vocab_size, (rows, columns), dtype=np.int64)
    ids[ids == pad] = clf.tokenizer.cls_token_id
    mask = np.ones_like(ids)
    mask[1::2, (columns + 1) // 2 :] = 0
    types = np.zeros_like(ids)
    types[:, columns // 2 :] = 1
    made = {"input_ids": np.where(mask == 1, ids, pad), "attention_mask": mask, "token_type_ids": types * mask}
    return {name: made[name] for name in names}


def _forget_where(model: Any) -> None:
    """Drop the stack traces that the exporter notes on every node: they tell the builder's paths and are most of a small file."""
    for graph in (model.graph, *model.functions.values()):
        for thing in (graph, *graph):
            thing.metadata_props.clear()
        for value in (*graph.inputs, *graph.outputs, *(output for node in graph for output in node.outputs)):
            value.metadata_props.clear()
    model.metadata_props.clear()


def _session(path: Path) -> Any:
    _needed("onnxruntime")
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime's errors share no public base class
        raise TicketsError(
            f"ONNX Runtime cannot open {path}: {str(problem).splitlines()[0]}", hint="the file is damaged: export again"
        ) from None


def _needed(*packages: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise TicketsError(f"ONNX needs the package(s) {', '.join(missing)}", hint=INSTALL)


NOISY = ("torch.onnx._internal.exporter._registration", "onnxscript.optimizer._constant_folding")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides what the exporter says about itself: deprecations, merged axis names, that torchvision is absent, what it did not fold."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\)", category=FutureWarning)
            warnings.filterwarnings("ignore", message=r"# The axis name: (batch|length) will not be used", category=UserWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
