"""Sentence vectors from any transformers encoder folder: the mean over its tokens, or what its sentence-transformers files ask for.

It stands in for the Universal Sentence Encoder of the papers (``resources.universal_sentence_encoder``), so results name it as a substitute.
Vectors have unit length, so that their product is the cosine. sentence-transformers is not needed; its folders are read as they are:
pooling, dense layers and normalisation in the order of modules.json. Every part is applied or the folder is refused: vectors without one
of its parts would be another encoder's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.classifier.base import batches_by_size
from robust_tickets.classifier.pretrained import inside, load_model, load_tokenizer, load_weights, read_config
from robust_tickets.classifier.tokenizer import Splicer, packed, tokenised
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import listed, mapping, read_json
from robust_tickets.resources.universal_sentence_encoder import UniversalEncoder, saved_model_files, whole

if TYPE_CHECKING:
    import torch

TOKENS = {"cpu": 4_096, "gpu": 65_536}  # tokens a batch, padding included
FILES = (
    "config.json",
    "*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "sentence_bert_config.json",
    "modules.json",
    "[0-9]_*/config.json",
    "[0-9]_*/*.safetensors",
    "0_Transformer/*.json",
    "0_Transformer/*.txt",
)


def encoder_files(path: Path) -> list[Path] | None:
    """The files of an encoder folder, or of a SavedModel, that decide its vectors; none if it is incomplete."""
    return saved_model_files(path) or model_files(path)


def model_files(path: Path) -> list[Path] | None:
    """The files of a transformers folder; none if it has no config, weights or tokenizer."""
    files = list(dict.fromkeys(file for pattern in FILES for file in sorted(path.glob(pattern))))
    names = {file.name for file in files if file.parent == transformer_folder(path)}
    complete = "config.json" in names and any(name.endswith(".safetensors") for name in names)
    return (
        files
        if complete and names & {"tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model"}
        else None
    )


class SentenceEncoder:
    """``encode(texts)`` gives one unit vector a text. The same list gives the same bits; the other texts of a batch move it by less than 1e-6."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        pooling: tuple[str, ...] = ("mean",),
        steps: Sequence[Step] = (),
        max_length: int = 256,
        lower: bool = False,
    ) -> None:
        self.model, self.tokenizer, self.name, self.pooling = model.eval(), tokenizer, name, pooling
        self.steps, self.max_length, self.lower = list(steps), max_length, lower
        self._splicer: tuple[Splicer | None] | None = None  # made when texts are first encoded

    @classmethod
    def load(
        cls, path: Path | str, *, name: str | None = None, device: str = "cpu"
    ) -> SentenceEncoder | UniversalEncoder:
        """The encoder of a folder, whichever kind lies there."""
        folder = Path(path)
        if saved_model_files(folder):
            return UniversalEncoder.load(folder, name=name)
        if model_files(folder) is None:
            raise TicketsError(
                f"no sentence encoder in {folder}",
                hint="expected config.json, model.safetensors and a tokenizer",
                code="encoder.missing",
            )
        import torch

        pooling, steps, inner = poolings(folder), steps_after(folder, device), transformer_folder(folder)
        tokenizer = load_tokenizer(inner)
        model, missing = load_model(inner, "encoder", read_config(inner), dtype=torch.float32)
        if lost := sorted(key for key in missing if "pooler" not in key):  # no pooling of ours asks the pooler
            raise TicketsError(
                f"{folder} lacks weights of the encoder ({lost[0]} and {len(lost) - 1} more)",
                hint="get it again",
                code="encoder.damaged",
            )
        settings = _settings_of(folder, inner)
        return cls(
            model.to(device),
            tokenizer,
            name=name or folder.name,
            pooling=pooling,
            steps=steps,
            max_length=_max_length(settings, model, tokenizer),
            lower=settings.get("do_lower_case") is True,
        )

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows in float32, one a text, in the order given."""
        return self.vectors(self.ids(texts))

    def vectors(self, ids: Sequence[np.ndarray]) -> np.ndarray:
        """The same from the token ids of each text."""
        import torch

        width = width_after(self.steps, self.model.config.hidden_size * len(self.pooling))
        rows = np.empty((len(ids), width), dtype=np.float32)
        device = self.model.device
        budget = TOKENS["cpu" if device.type == "cpu" else "gpu"]
        for batch in batches_by_size([len(each) for each in ids], budget, longest_first=False):
            tokens, mask = (
                torch.from_numpy(array).to(device) for array in self._padded([ids[place] for place in batch])
            )
            with torch.inference_mode():
                states = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
                pooled = pool(states, mask, self.pooling)
                for step in self.steps:
                    pooled = step(pooled)
                rows[batch] = torch.nn.functional.normalize(pooled.float(), dim=-1).cpu().numpy()
        return rows

    @tokenising()
    def ids(self, given: Sequence[str]) -> list[np.ndarray]:
        """Token ids of each text: put together from its pieces where the tokenizer allows it (see ``splice``), else read whole."""
        texts = [whole(text).lower() if self.lower else whole(text) for text in given]
        if self._splicer is None:
            self._splicer = (Splicer.of(self.tokenizer),)
        (splicer,) = self._splicer
        found: list[bytes | None] = [None] * len(texts) if splicer is None else splicer.framed(texts, self.max_length)
        left = [place for place, ids in enumerate(found) if ids is None]
        if left:
            read, _ = tokenised(self.tokenizer, [[texts[place] for place in left]], self.max_length)
            for place, ids in zip(left, read, strict=True):
                found[place] = packed(ids)
        return [np.frombuffer(ids or b"", dtype="<i4") for ids in found]

    def _padded(self, ids: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Ids and attention mask of one batch, filled up on the tokenizer's side."""
        longest = max(len(row) for row in ids)
        tokens = np.full((len(ids), longest), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros_like(tokens)
        for line, marks, row in zip(tokens, mask, ids, strict=True):
            cut = slice(longest - len(row), None) if self.tokenizer.padding_side == "left" else slice(0, len(row))
            line[cut], marks[cut] = row, 1
        return tokens, mask


def _settings_of(*folders: Path) -> Mapping[str, Any]:
    """The content of sentence_bert_config.json, wherever it lies."""
    files = [folder / "sentence_bert_config.json" for folder in folders]
    return mapping(next((read_json(file) for file in files if file.is_file()), {}))


def _max_length(settings: Mapping[str, Any], model: Any, tokenizer: Any) -> int:
    """What the encoder was trained with, else what the model and its tokenizer can take."""
    limits = [
        settings.get("max_seq_length"),
        getattr(model.config, "max_position_embeddings", None),
        tokenizer.model_max_length,
    ]
    return min(limit for limit in [*limits, 512] if isinstance(limit, int) and limit > 0)


# in the order in which sentence-transformers puts them side by side, where several are asked for
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
SPELLINGS = {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")
HINT = "folders of a transformer, pooling, dense layers and normalisation can be used"
Step = Callable[["torch.Tensor"], "torch.Tensor"]


def parts_of(folder: Path) -> list[tuple[str, Path]]:
    """The kind and folder of every part after the transformer; without modules.json, whatever pooling there is."""
    file = folder / "modules.json"
    if not file.is_file():
        return [("Pooling", folder / "1_Pooling")]
    raw = read_json(file)
    try:
        parts = [(str(part["type"]).rpartition(".")[2], folder / str(part["path"])) for part in raw]
    except (TypeError, KeyError):
        raise TicketsError(
            f"{file} is not a list of modules", hint="get the folder again", code="encoder.damaged"
        ) from None
    if outside := [part["path"] for part in raw if not inside(str(part["path"]))]:
        raise TicketsError(
            f"{file} names the folder {outside[0]!r:.80}, expected one inside",
            hint="get the folder again",
            code="encoder.modules",
        )
    kinds = [kind for kind, _ in parts]
    refused = [kind for kind in kinds[1:] if kind not in ("Pooling", "Dense", "Normalize", "Dropout")]
    if refused or kinds[:1] != ["Transformer"] or kinds[1:2] != ["Pooling"] or kinds.count("Pooling") != 1:
        raise TicketsError(f"{file} asks for {', '.join(kinds) or 'nothing'}", hint=HINT, code="encoder.modules")
    return parts[1:]


def transformer_folder(folder: Path) -> Path:
    """Where the transformer itself lies: in older folders in one of its own."""
    inner = folder / "0_Transformer"
    return inner if (inner / "config.json").is_file() and not (folder / "config.json").is_file() else folder


def poolings(folder: Path) -> tuple[str, ...]:
    """How tokens become one vector: the mean, unless its pooling file says otherwise."""
    place = next(place for kind, place in parts_of(folder) if kind == "Pooling")
    file = place / "config.json"
    if not file.is_file():
        return ("mean",)
    raw = _settings(file)
    asked = [
        key.removeprefix("pooling_mode_") for key, on in raw.items() if key.startswith("pooling_mode_") and on is True
    ]
    asked = asked or list(map(str, listed(raw.get("pooling_mode", "mean"))))
    modes = [SPELLINGS.get(each, each) for each in asked]
    if unknown := sorted(set(modes) - set(POOLINGS)):
        raise TicketsError(
            f"{file} asks for pooling by {', '.join(unknown)}",
            hint=f"known are {', '.join(POOLINGS)}",
            code="encoder.modules",
        )
    return tuple(sorted(modes, key=POOLINGS.index))


def _settings(file: Path) -> dict[str, Any]:
    raw = read_json(file)
    if not isinstance(raw, dict):
        raise TicketsError(f"{file} is not a JSON object", hint="get the folder again", code="encoder.damaged")
    return raw


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
            place = (
                weight * torch.arange(1, states.shape[1] + 1, device=states.device, dtype=states.dtype)[None, :, None]
            )
            rows.append((states * place).sum(1) / place.sum(1).clamp(min=1e-9))
        else:
            total = (states * weight).sum(1)
            rows.append(total / (count.sqrt() if mode == "mean_sqrt_len" else count))
    return torch.cat(rows, dim=-1)


def steps_after(folder: Path, device: str) -> list[Step]:
    """What is done to the pooled rows, in order."""
    import torch

    steps: list[Step] = []
    for kind, place in parts_of(folder):
        if kind == "Normalize":
            steps.append(lambda rows: torch.nn.functional.normalize(rows, dim=-1))
        elif kind == "Dense":
            steps.append(_dense(place, device))
    return steps


def width_after(steps: list[Step], pooled: int) -> int:
    """The width of the vectors."""
    for step in reversed(steps):
        if (wide := getattr(step, "out_features", None)) is not None:
            return int(wide)
    return pooled


def _dense(place: Path, device: str) -> Step:
    import torch
    from safetensors import SafetensorError

    class Dense(torch.nn.Module):
        def __init__(self, weight: Any, bias: Any, activation: torch.nn.Module) -> None:
            super().__init__()
            self.weight, self.bias, self.activation, self.out_features = weight, bias, activation, weight.shape[0]

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.activation(torch.nn.functional.linear(rows, self.weight, self.bias))
            return answer

    name = str(_settings(place / "config.json").get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in ACTIVATIONS:
        raise TicketsError(
            f"{place} asks for the activation {name}",
            hint=f"known are {', '.join(ACTIVATIONS)}",
            code="encoder.modules",
        )
    try:
        weights = load_weights(place)
        weight = weights["linear.weight"].float().to(device)
    except (OSError, KeyError, SafetensorError):
        raise TicketsError(
            f"{place} has no model.safetensors with its layer",
            hint="save it in that form; pickles are not read",
            code="encoder.damaged",
        ) from None
    bias = weights.get("linear.bias")
    return Dense(weight, None if bias is None else bias.float().to(device), getattr(torch.nn, name)())
