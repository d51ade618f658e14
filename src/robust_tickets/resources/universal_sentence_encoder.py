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


def needs(path: Path) -> list[tuple[str, str]]:
    """Packages to use what lies at ``path`` with: none for what is not a SavedModel."""
    return [] if saved_model_files(path) is None else [("tensorflow", GET)]


class UniversalEncoder:
    """``encode(texts)`` gives one unit vector a text; ``call`` is a module of USE or a function of the user's."""

    def __init__(self, call: Call, *, name: str) -> None:
        self._call, self.name = call, name
        try:
            self.width = self._rows(["a"]).shape[1]
        except TicketsError:
            raise
        except Exception as problem:  # TensorFlow's errors have no common base
            raise TicketsError(
                f"{name} does not encode a text: {_first(problem)}",
                hint="expected a module of USE, or a function from a list of texts to one row a text",
                code="encoder.answer",
            ) from None

    @classmethod
    def load(cls, path: Path | str, *, name: str | None = None) -> UniversalEncoder:
        folder = Path(path)
        if saved_model_files(folder) is None:
            raise TicketsError(
                f"no SavedModel in {folder}",
                hint="expected saved_model.pb: unpack the module there",
                code="encoder.missing",
            )
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its start-up notes
        try:
            import tensorflow
        except ImportError:
            raise TicketsError(
                f"{folder} needs the package tensorflow, which is not installed", hint=GET, code="encoder.package"
            ) from None
        with suppress(RuntimeError, ValueError):  # too late, where the user's own code runs TensorFlow already
            tensorflow.config.set_visible_devices([], "GPU")
        module = _module(tensorflow, folder)
        return cls(_call(tensorflow, module, folder), name=name or folder.resolve().name)

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
            name = next((name for name in ("outputs", "default") if name in answer), None)
            if name is None and len(answer) != 1:
                raise TicketsError(
                    f"{self.name} answers with {sorted(answer)}",
                    hint="expected outputs or default, one row a text",
                    code="encoder.answer",
                )
            answer = answer[name] if name else next(iter(answer.values()))
        rows = np.asarray(answer, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            raise TicketsError(
                f"{self.name} answers {len(texts)} texts with the shape {rows.shape}",
                hint="expected one row a text",
                code="encoder.answer",
            )
        return rows


def whole(text: str) -> str:
    """The text without half surrogates, which no encoder can read."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _module(tensorflow: Any, folder: Path) -> Any:
    try:
        try:
            return tensorflow.saved_model.load(str(folder))
        except ValueError:  # several graphs, for use and for training: the one for use has no tag
            return tensorflow.saved_model.load(str(folder), tags=[])
    except Exception as problem:  # TensorFlow's errors have no common base
        raise TicketsError(
            f"{folder} could not be loaded: {_first(problem)}",
            hint="the module is damaged: get it again",
            code="encoder.damaged",
        ) from None


def _call(tensorflow: Any, module: Any, folder: Path) -> Call:
    if callable(module):
        return lambda texts: module(tensorflow.constant(texts))
    signature = _signature(module, folder)
    names = list(signature.structured_input_signature[1])
    if len(names) != 1:
        raise TicketsError(
            f"{folder} takes {', '.join(names)}, not one list of texts",
            hint="give a module of USE",
            code="encoder.modules",
        )
    return lambda texts: signature(**{names[0]: tensorflow.constant(texts)})


def _signature(module: Any, folder: Path) -> Any:
    for name in ("default", "serving_default"):
        if name in module.signatures:
            return module.signatures[name]
    raise TicketsError(
        f"{folder} has no signature to call it by, only {sorted(module.signatures)}",
        hint="give a module of USE",
        code="encoder.modules",
    )


def _first(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
