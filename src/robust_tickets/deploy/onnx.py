"""ONNX export by torch's own exporter, checked against torch; ``classifier.onnx`` reads it.

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

from robust_tickets.classifier.onnx import needed, open_onnx, session_of
from robust_tickets.classifier.tokenizer import SCHEMA
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import write_json
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    from robust_tickets.classifier import ModelClassifier

__all__ = ["check", "open_onnx", "write"]
OPSET = 18  # the oldest that torch's exporter writes without converting; ONNX Runtime reads it since 1.14
TOLERANCE = 1e-4  # absolute, on logits; fp32 on both sides differs by about 1e-6
INLINE = 1 << 30  # bytes of weights that go into model.onnx itself; protobuf ends at 2 GiB
NOISY = ("torch.onnx._internal.exporter._registration", "onnxscript.optimizer._constant_folding")


def write(clf: ModelClassifier, folder: Path, config: Any) -> None:
    """``model.onnx`` and what serving it needs into ``folder``; raises unless ONNX Runtime gives torch's logits."""
    import torch

    needed("onnx", "onnxscript", "onnxruntime")
    path, size = folder / "model.onnx", sum(p.numel() * 4 for p in clf.model.parameters())
    given = _inputs(clf, 2, min(7, clf.max_length))
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=clf.max_length)
    with _quiet(), torch.random.fork_rng(devices=[]):
        program = torch.onnx.export(
            _graph_of(clf),
            tuple(torch.from_numpy(array) for array in given.values()),
            input_names=list(given),
            output_names=["logits"],
            dynamic_shapes=(tuple({0: batch, 1: length} for _ in given),),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # with dynamo=True it never is
        _drop_traces(program.model)
        program.save(path, external_data=size > INLINE)
        _drop_shapes(path)
    check(clf, path)
    clf.save_tokenizer(folder)
    config.save_pretrained(folder)
    about = {"labels": list(clf.labels), "max_length": clf.max_length, "columns": list(clf.columns)}
    write_json(folder / "labels.json", {"schema": SCHEMA, **about, "inputs": list(given), "output": "logits"})


def check(clf: ModelClassifier, path: Path) -> float:
    """The largest difference of logits between torch and the written file, over batches and lengths the exporter never saw."""
    import torch

    session, graph, longest, worst = session_of(path), _graph_of(clf), clf.max_length, 0.0
    for rows, columns in ((1, 3), (1, longest), (2, 7), (3, 1), (5, max(2, longest // 2)), (8, 19)):
        given = _inputs(clf, rows, min(columns, longest))
        with torch.inference_mode():
            expected = graph(*(torch.from_numpy(array) for array in given.values())).numpy()
        got = session.run(["logits"], given)[0]
        gap = float(np.abs(got - expected).max()) if got.shape == expected.shape else float("nan")
        if not gap <= TOLERANCE:  # also catches NaN
            message = f"ONNX Runtime and torch disagree by {gap:.2g} on {rows} texts of {columns} tokens"
            hint = "export dense or compact, and report this with the versions of torch, onnxscript and onnxruntime"
            raise TicketsError(message, hint=hint, exit_code=FAILED, code="export.disagrees")
        worst = max(worst, gap)
    return worst


def _graph_of(clf: ModelClassifier) -> Any:
    """A copy of the model, for tracing may leave fake tensors in it, that takes its inputs by position and gives the logits alone."""
    import torch

    class LogitsOnly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = copy.deepcopy(clf.model).to("cpu", torch.float32)

        def forward(self, *inputs: Any) -> Any:
            return self.model(**dict(zip(clf.inputs.names, inputs, strict=True))).logits

    return LogitsOnly().eval()


def _inputs(clf: ModelClassifier, rows: int, columns: int) -> dict[str, np.ndarray]:
    """Seeded token ids, every second row ending in padding, every second token type switching half-way."""
    dice = numpy_generator(0, "onnx", rows, columns)
    pad = clf.tokenizer.pad_token_id
    ids = dice.integers(0, clf.model.config.vocab_size, (rows, columns), dtype=np.int64)
    ids[ids == pad] = clf.tokenizer.cls_token_id
    mask, types = np.ones_like(ids), np.zeros_like(ids)
    mask[1::2, (columns + 1) // 2 :] = 0
    types[:, columns // 2 :] = 1
    made = {"input_ids": np.where(mask == 1, ids, pad), "attention_mask": mask, "token_type_ids": types * mask}
    return {name: made[name] for name in clf.inputs.names}


def _drop_shapes(path: Path) -> None:
    """Leave the shapes of weights to the weights: given twice, they contradict what ONNX Runtime's quantisation makes of a weight."""
    import onnx

    made = onnx.load(path, load_external_data=False)
    weights = {weight.name for weight in made.graph.initializer}
    others = [value for value in made.graph.value_info if value.name not in weights]
    del made.graph.value_info[:]
    made.graph.value_info.extend(others)
    path.write_bytes(made.SerializeToString(deterministic=True))


def _drop_traces(model: Any) -> None:
    """Drop the stack traces that the exporter notes on every node: they show the builder's paths and are most of a small file."""
    model.metadata_props.clear()
    for graph in (model.graph, *model.functions.values()):
        outputs = [output for node in graph for output in node.outputs]
        for thing in (graph, *graph, *graph.inputs, *graph.outputs, *outputs):
            thing.metadata_props.clear()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what the exporter says about itself: deprecations, merged axis names, what it did not fold."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\)", category=FutureWarning)
            warnings.filterwarnings("ignore", message=r"# The axis name: (batch|length) will not be used")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
