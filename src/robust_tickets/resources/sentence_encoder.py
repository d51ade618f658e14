"""Sentence vectors from any transformers encoder folder: the mean over its tokens, or what its sentence-transformers files ask for.

It stands in for the Universal Sentence Encoder of the papers (``resources.universal_sentence_encoder``), so results name it as a substitute.
Vectors have unit length, so that their product is the cosine. sentence-transformers is not needed; its folders are read as they are:
pooling, dense layers and normalisation in the order of modules.json. Every part is applied or the folder is refused: vectors without one
of its parts would be another encoder's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.base import batches_by_size
from robust_tickets.classifier.encode import encoded
from robust_tickets.classifier.pretrained import inside, load_model, load_tokenizer, load_weights, read_config
from robust_tickets.classifier.tokenizer import Splicer
from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, read_json
from robust_tickets.resources.universal_sentence_encoder import UniversalEncoder, saved_model_files, whole

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


def encoder_files(path: Path) -> list[Path] | None:
    """The files of an encoder folder, or of a SavedModel, that decide its vectors; none if it is incomplete."""
    return saved_model_files(path) or model_files(path)


def model_files(path: Path) -> list[Path] | None:
    """The files of a transformers folder; none if it has no config, weights or tokenizer."""
    files = list(dict.fromkeys(file for pattern in FILES for file in sorted(path.glob(pattern))))
    names = {file.name for file in files if file.parent == _transformer(path)}
    weights = any(name.endswith(".safetensors") for name in names)
    return files if weights and "config.json" in names and names & set(VOCABULARIES) else None


def load_encoder(path: Path | str, *, device: str = "cpu") -> SentenceEncoder | UniversalEncoder:
    """The encoder of a folder, whichever kind lies there."""
    folder = Path(path)
    return UniversalEncoder.load(folder) if saved_model_files(folder) else SentenceEncoder.load(folder, device=device)


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
