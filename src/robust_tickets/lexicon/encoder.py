"""Sentence vectors from any transformers encoder folder: the mean over its tokens, or what its sentence-transformers files ask for.

It stands in for the Universal Sentence Encoder of the papers (``lexicon.use``), so results name it as a substitute. Vectors have unit
length, so that their product is the cosine. sentence-transformers is not needed; its folders are read as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import read_json
from robust_tickets.lexicon.modules import Step, pool, poolings, steps_after, transformer_folder, width_after
from robust_tickets.lexicon.pretrained import load_model, load_tokenizer, read_config
from robust_tickets.lexicon.splice import Splicer, packed
from robust_tickets.lexicon.use import UniversalEncoder, saved_model_files, whole

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
    """The files of an encoder folder that decide its vectors (or of a SavedModel, see ``lexicon.use``); none if it is incomplete."""
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
    """``encode(texts)`` gives one unit vector a text. The same list gives the same bits; a text's company moves it by less than 1e-6."""

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
                f"no sentence encoder in {folder}", hint="expected config.json, model.safetensors and a tokenizer"
            )
        import torch

        pooling, steps, inner = poolings(folder), steps_after(folder, device), transformer_folder(folder)
        tokenizer = load_tokenizer(inner)
        model, missing = load_model(inner, "encoder", read_config(inner), dtype=torch.float32)
        if lost := sorted(key for key in missing if "pooler" not in key):  # no pooling of ours asks the pooler
            raise TicketsError(
                f"{folder} lacks weights of the encoder ({lost[0]} and {len(lost) - 1} more)", hint="get it again"
            )
        said = _said(folder, inner)
        return cls(
            model.to(device),
            tokenizer,
            name=name or folder.name,
            pooling=pooling,
            steps=steps,
            max_length=_max_length(said, model, tokenizer),
            lower=said.get("do_lower_case") is True,
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
        for batch in _batches([len(each) for each in ids], TOKENS["cpu" if device.type == "cpu" else "gpu"]):
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
            told = self.tokenizer([texts[place] for place in left], truncation=True, max_length=self.max_length)[
                "input_ids"
            ]
            for place, ids in zip(left, told, strict=True):
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


def _batches(lengths: list[int], budget: int) -> list[list[int]]:
    """Places sorted by length (ties by place), cut so that a padded batch holds at most ``budget`` tokens."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if not batches or (len(batches[-1]) + 1) * lengths[place] > budget:
            batches.append([])
        batches[-1].append(place)
    return batches


def _said(*folders: Path) -> dict[str, Any]:
    """What sentence_bert_config.json says, wherever it lies."""
    files = [folder / "sentence_bert_config.json" for folder in folders]
    raw: Any = next((read_json(file) for file in files if file.is_file()), {})
    return raw if isinstance(raw, dict) else {}


def _max_length(said: dict[str, Any], model: Any, tokenizer: Any) -> int:
    """What the encoder was trained with, else what the model and its tokenizer can take."""
    limits = [
        said.get("max_seq_length"),
        getattr(model.config, "max_position_embeddings", None),
        tokenizer.model_max_length,
    ]
    return min(limit for limit in [*limits, 512] if isinstance(limit, int) and limit > 0)
