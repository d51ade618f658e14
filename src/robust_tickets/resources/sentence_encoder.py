"""Sentence vectors: from any transformers encoder folder, or by the Universal Sentence Encoder (Cer et al., 2018), the papers' own.

Vectors have unit length, so that their product is the cosine. Of a folder's tokens the mean is taken, or what its sentence-transformers
files ask for: pooling, dense layers and normalisation in the order of modules.json. That package is not needed; its folders are read as
they are. Every part is applied or the folder is refused: vectors without one of its parts would be another encoder's.

The Universal Sentence Encoder needs TensorFlow (extra ``use``); tensorflow_hub is not needed, a TF-Hub module unpacked to a local folder is
a SavedModel. Versions 3, 4 and 5 take a list of strings and answer with rows or with a table that holds them; modules of TensorFlow 1
have a signature instead. It runs on the CPU: TensorFlow would take the whole accelerator from the victim, and the encoder is small. A
SavedModel is a program; load only one that you trust.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.base import batches_by_size
from robust_tickets.classifier.encode import encoded
from robust_tickets.classifier.pretrained import inside, load_model, load_tokenizer, load_weights, read_config
from robust_tickets.classifier.tokenizer import Splicer
from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, read_json

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

TOKENS = {"cpu": 4_096, "gpu": 65_536}  # tokens a batch, padding included
LONGEST = 512  # tokens of a text, where its model takes more
VOCABULARIES = ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")
FILES = (
    "config.json",
    "*.safetensors",
    *VOCABULARIES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "sentence_bert_config.json",
    "modules.json",
    "[0-9]_*/config.json",
    "[0-9]_*/*.safetensors",
    "0_Transformer/*.json",
    "0_Transformer/*.txt",
)
# in the order in which sentence-transformers puts them side by side, where several are asked for
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
SPELLINGS = {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")
Step = Callable[["torch.Tensor"], "torch.Tensor"]

USE = "universal-sentence-encoder"
GET_TENSORFLOW = 'pip install "robust-tickets[use]"'
TEXTS = 256  # that one call of it encodes
Call = Callable[[list[str]], Any]


def encoder_files(path: Path) -> list[Path] | None:
    """The files of an encoder folder, or of a SavedModel, that decide its vectors; none if it is incomplete."""
    return saved_model_files(path) or model_files(path)


def model_files(path: Path) -> list[Path] | None:
    """The files of a transformers folder; none if it has no config, weights or tokenizer."""
    files = list(dict.fromkeys(file for pattern in FILES for file in sorted(path.glob(pattern))))
    names = {file.name for file in files if file.parent == _transformer(path)}
    weights = any(name.endswith(".safetensors") for name in names)
    return files if weights and "config.json" in names and names & set(VOCABULARIES) else None


def saved_model_files(path: Path) -> list[Path] | None:
    """The files of a SavedModel folder; none if it is none."""
    if not (path / "saved_model.pb").is_file():
        return None
    parts = [file for part in ("variables", "assets") for file in sorted((path / part).glob("**/*")) if file.is_file()]
    return [path / "saved_model.pb", *parts]


def load_encoder(path: Path | str, *, device: str = "cpu") -> SentenceEncoder | UniversalEncoder:
    """The encoder of a folder, whichever kind lies there."""
    folder = Path(path)
    return UniversalEncoder.load(folder) if saved_model_files(folder) else SentenceEncoder.load(folder, device=device)


def whole(text: str) -> str:
    """The text without half surrogates, which no encoder can read."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class SentenceEncoder:
    """``encode(texts)`` gives one unit vector a text. The same list gives the same bits; the other texts of a batch move it by less than 1e-6."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Any,
        *,
        pooling: tuple[str, ...] = ("mean",),
        steps: Sequence[Step] = (),
        max_length: int = 256,
        lower: bool = False,
    ) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.pooling, self.steps, self.max_length, self.lower = pooling, steps, max_length, lower
        self._splicer: tuple[Splicer | None] | None = None  # made when texts are first encoded

    @classmethod
    def load(cls, path: Path | str, *, device: str = "cpu") -> SentenceEncoder:
        folder = Path(path)
        if model_files(folder) is None:
            hint = "expected config.json, model.safetensors and a tokenizer"
            raise TicketsError(f"no sentence encoder in {folder}", hint=hint, code="encoder.missing")
        import torch

        inner = _transformer(folder)
        pooling, steps = _parts(folder, device)
        tokenizer = load_tokenizer(inner)
        model, missing = load_model(inner, "encoder", read_config(inner), dtype=torch.float32)
        if lost := sorted(key for key in missing if "pooler" not in key):  # no pooling of ours asks the pooler
            message = f"{folder} lacks weights of the encoder ({lost[0]} and {len(lost) - 1} more)"
            raise _damaged(message)
        files = [each / "sentence_bert_config.json" for each in (folder, inner)]
        settings = mapping(next((read_json(file) for file in files if file.is_file()), {}))
        return cls(
            model.to(device),
            tokenizer,
            pooling=pooling,
            steps=steps,
            max_length=longest(model, tokenizer, settings.get("max_seq_length")),
            lower=settings.get("do_lower_case") is True,
        )

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows in float32, one a text, in the order given."""
        return self.vectors(self.ids(texts))

    def vectors(self, ids: Sequence[np.ndarray]) -> np.ndarray:
        """The same from the token ids of each text."""
        import torch

        device = self.model.device
        budget = TOKENS["cpu" if device.type == "cpu" else "gpu"]
        batches = list(batches_by_size([len(each) for each in ids], budget, longest_first=False))
        found = []
        for batch in batches:
            tokens, mask = (torch.from_numpy(each).to(device) for each in self._padded([ids[place] for place in batch]))
            with torch.inference_mode():
                rows = pool(self.model(input_ids=tokens, attention_mask=mask).last_hidden_state, mask, self.pooling)
                for step in self.steps:
                    rows = step(rows)
                found.append(torch.nn.functional.normalize(rows.float(), dim=-1).cpu().numpy())
        return np.concatenate(found)[np.concatenate(batches).argsort()]

    def ids(self, given: Sequence[str]) -> list[np.ndarray]:
        """Token ids of each text: put together from its pieces where the tokenizer allows it (see ``splice``), else read whole."""
        texts = [whole(text).lower() if self.lower else whole(text) for text in given]
        if self._splicer is None:
            self._splicer = (Splicer.of(self.tokenizer),)
        rows = encoded(self.tokenizer, self._splicer[0], [(text,) for text in texts], self.max_length, False)
        return [np.frombuffer(row.data, dtype="<i4") for row in rows]

    def _padded(self, ids: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Ids and attention mask of one batch, filled up on the tokenizer's side."""
        width = max(len(row) for row in ids)
        tokens = np.full((len(ids), width), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros_like(tokens)
        for line, marks, row in zip(tokens, mask, ids, strict=True):
            cut = slice(width - len(row), None) if self.tokenizer.padding_side == "left" else slice(0, len(row))
            line[cut], marks[cut] = row, 1
        return tokens, mask


def longest(model: PreTrainedModel, tokenizer: Any, trained: object = None) -> int:
    """How many tokens of a text are read: what the model was ``trained`` with, else what it and its tokenizer can take."""
    limits = [trained, getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length, LONGEST]
    return min(limit for limit in limits if isinstance(limit, int) and limit > 0)


def _transformer(folder: Path) -> Path:
    """Where the transformer itself lies: in older folders in one of its own."""
    inner = folder / "0_Transformer"
    return inner if (inner / "config.json").is_file() and not (folder / "config.json").is_file() else folder


# --- what sentence-transformers' files ask for


def _parts(folder: Path, device: str) -> tuple[tuple[str, ...], list[Step]]:
    """How tokens become one vector, and what is done to it then; without modules.json, whatever pooling there is."""
    import torch

    file = folder / "modules.json"
    parts = [("Transformer", folder), ("Pooling", folder / "1_Pooling")]
    if file.is_file():
        try:
            raw = [(str(part["type"]).rpartition(".")[2], str(part["path"])) for part in read_json(file)]
        except (TypeError, KeyError):
            raise _damaged(f"{file} is not a list of modules") from None
        if outside := [path for _, path in raw if not inside(path)]:
            raise _refused(f"{file} names the folder {outside[0]!r:.80}, expected one inside", "get the folder again")
        parts = [(kind, folder / path) for kind, path in raw]
    kinds = [kind for kind, _ in parts]
    if kinds[:2] != ["Transformer", "Pooling"] or not set(kinds[2:]) <= {"Dense", "Normalize", "Dropout"}:
        hint = "folders of a transformer, pooling, dense layers and normalisation can be used"
        raise _refused(f"{file} asks for {', '.join(kinds) or 'nothing'}", hint)
    steps: list[Step] = []
    for kind, place in parts[2:]:
        if kind == "Normalize":
            steps.append(lambda rows: torch.nn.functional.normalize(rows, dim=-1))
        elif kind == "Dense":
            steps.append(_dense(place, device))
    return _poolings(parts[1][1] / "config.json"), steps


def _poolings(file: Path) -> tuple[str, ...]:
    """The mean, unless the pooling file says otherwise."""
    raw = mapping(read_json(file)) if file.is_file() else {}
    on = [key.removeprefix("pooling_mode_") for key in raw if key.startswith("pooling_mode_") and raw[key] is True]
    modes = [SPELLINGS.get(str(each), str(each)) for each in on or listed(raw.get("pooling_mode", "mean"))]
    if unknown := sorted(set(modes) - set(POOLINGS)):
        raise _refused(f"{file} asks for pooling by {', '.join(unknown)}", f"known are {', '.join(POOLINGS)}")
    return tuple(sorted(modes, key=POOLINGS.index))


def _dense(place: Path, device: str) -> Step:
    import torch
    from safetensors import SafetensorError

    asked = mapping(read_json(place / "config.json")).get("activation_function", "Tanh")
    name = str(asked).rpartition(".")[2]
    if name not in ACTIVATIONS:
        raise _refused(f"{place} asks for the activation {name}", f"known are {', '.join(ACTIVATIONS)}")
    try:
        weights = {key.removeprefix("linear."): each.float() for key, each in load_weights(place).items()}
        height, width = weights["weight"].shape
        layer = torch.nn.Linear(width, height, bias="bias" in weights, device="meta")  # draws nothing
        layer.load_state_dict(weights, assign=True)
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError):
        hint = "save it in that form; pickles are not read"
        raise _damaged(f"{place} has no model.safetensors with its layer", hint) from None
    return torch.nn.Sequential(layer, getattr(torch.nn, name)()).requires_grad_(False).to(device)


def _refused(message: str, hint: str) -> TicketsError:
    return TicketsError(message, hint=hint, code="encoder.modules")


def _damaged(message: str, hint: str = "get the folder again") -> TicketsError:
    return TicketsError(message, hint=hint, code="encoder.damaged")


def pool(states: torch.Tensor, mask: torch.Tensor, modes: tuple[str, ...]) -> torch.Tensor:
    """One row a text from the states of its tokens; ``mask`` is 0 on padding."""
    import torch

    weight = mask.unsqueeze(-1).to(states.dtype)
    count = weight.sum(1).clamp(min=1)
    rows = []
    for mode in modes:
        if mode == "cls":
            rows.append(states[:, 0])
        elif mode == "max":
            rows.append(states.masked_fill(weight == 0, float("-inf")).max(1).values)
        elif mode == "lasttoken":
            last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
            rows.append(states[torch.arange(len(states), device=states.device), last])
        elif mode == "weightedmean":  # later tokens count more
            place = torch.arange(1, states.shape[1] + 1, device=states.device, dtype=states.dtype)
            later = weight * place[None, :, None]
            rows.append((states * later).sum(1) / later.sum(1).clamp(min=1e-9))
        else:
            total = (states * weight).sum(1)
            rows.append(total / (count.sqrt() if mode == "mean_sqrt_len" else count))
    return torch.cat(rows, dim=-1)


# --- the Universal Sentence Encoder


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
            raise TicketsError(message, hint=GET_TENSORFLOW, code="encoder.package") from None
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
            (name,) = [name for name in ("outputs", "default") if name in answer][:1] or answer  # else its only one
            answer = answer[name]
        rows = np.asarray(answer, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            message = f"{self.name} answers {len(texts)} texts with the shape {rows.shape}"
            raise TicketsError(message, hint="expected one row a text", code="encoder.answer")
        return rows


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
