"""The Universal Sentence Encoder (Cer et al., 2018), the papers' own, from a TF-Hub module unpacked to a local folder.

Needs TensorFlow (extra ``use``); tensorflow_hub is not needed, a module is a SavedModel. Versions 3, 4 and 5 take a list of strings and
answer with rows or with a table that holds them; modules of TensorFlow 1 have a signature instead. It runs on the CPU: TensorFlow would
take the whole accelerator from the victim, and the encoder is small. A SavedModel is a program; load only one that you trust.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError

NAME = "universal-sentence-encoder"
GET = 'pip install "robust-tickets[use]"'
TEXTS = 256  # texts a call
Call = Callable[[list[str]], Any]


def saved_model_files(path: Path) -> list[Path] | None:
    """The files of a SavedModel folder; none if it is none."""
    if not (path / "saved_model.pb").is_file():
        return None
    parts = [file for part in ("variables", "assets") for file in sorted((path / part).glob("**/*")) if file.is_file()]
    return [path / "saved_model.pb", *parts]


class UniversalEncoder:
    """``encode(texts)`` gives one unit vector a text; ``call`` is a module of USE or a function of the user's."""

    def __init__(self, call: Call, *, name: str) -> None:
        self._call, self.name = call, name
        try:
            self.width = self._rows(["a"]).shape[1]
        except Exception as problem:  # TensorFlow's errors have no common base
            message = f"{name} does not encode a text: {_first_line(problem)}"
            hint = "expected a module of USE, or a function from a list of texts to one row a text"
            raise TicketsError(message, hint=hint, code="encoder.answer") from None

    @classmethod
    def load(cls, folder: Path, *, name: str | None = None) -> UniversalEncoder:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its start-up notes
        try:
            import tensorflow
        except ImportError:
            message = f"{folder} needs the package tensorflow, which is not installed"
            raise TicketsError(message, hint=GET, code="encoder.package") from None
        with suppress(RuntimeError, ValueError):  # too late, where the user's own code runs TensorFlow already
            tensorflow.config.set_visible_devices([], "GPU")
        try:
            call = _call(tensorflow, folder)
        except Exception as problem:  # TensorFlow's errors have no common base
            message = f"{folder} could not be loaded as a module of USE: {_first_line(problem)}"
            raise TicketsError(message, hint="get it again", code="encoder.damaged") from None
        return cls(call, name=name or folder.resolve().name)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows in float32, one a text, in the order given."""
        rows = np.empty((len(texts), self.width), dtype=np.float32)
        for start in range(0, len(texts), TEXTS):
            some = self._rows([whole(text) for text in texts[start : start + TEXTS]])
            rows[start : start + TEXTS] = some / np.maximum(np.linalg.norm(some, axis=1, keepdims=True), 1e-12)
        return rows

    def _rows(self, texts: list[str]) -> np.ndarray:
        answer = self._call(texts)
        if isinstance(answer, dict):
            answer = next((answer[name] for name in ("outputs", "default") if name in answer), [*answer.values()][-1])
        rows = np.asarray(answer, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            message = f"{self.name} answers {len(texts)} texts with the shape {rows.shape}"
            raise TicketsError(message, hint="expected one row a text", code="encoder.answer")
        return rows


def whole(text: str) -> str:
    """The text without half surrogates, which no encoder can read."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _call(tensorflow: Any, folder: Path) -> Call:
    """The module of a folder as a function of texts."""
    try:
        module = tensorflow.saved_model.load(str(folder))
    except ValueError:  # several graphs, for use and for training: the one for use has no tag
        module = tensorflow.saved_model.load(str(folder), tags=[])
    if callable(module):
        return lambda texts: module(tensorflow.constant(texts))
    name = next(name for name in ("default", "serving_default") if name in module.signatures)
    signature = module.signatures[name]
    (argument,) = signature.structured_input_signature[1]
    return lambda texts: signature(**{argument: tensorflow.constant(texts)})


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
