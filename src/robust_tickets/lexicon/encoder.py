"""Sentence vectors from any transformers encoder folder: the mean over its tokens (or the first token, where its pooling file says so).

It stands in for the Universal Sentence Encoder of the papers, so results name it as a substitute. Vectors have unit length, so that
their product is the cosine. sentence-transformers is not needed; its folders are read as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json

TOKENS = 4_096  # tokens a batch, padding included
FILES = (
    "config.json",
    "*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)


def encoder_files(path: Path) -> list[Path] | None:
    """The files of an encoder folder that decide its vectors; none if it has no config, weights or tokenizer."""
    files = [file for pattern in FILES for file in sorted(path.glob(pattern))]
    names = {file.name for file in files}
    complete = "config.json" in names and any(name.endswith(".safetensors") for name in names) and names & {"tokenizer.json", "vocab.txt"}
    return files if complete else None


class SentenceEncoder:
    """``encode(texts)`` gives one unit vector a text. The same list gives the same bits; a text's company moves it by less than 1e-6."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str, pooling: str = "mean", max_length: int = 256) -> None:
        self.model, self.tokenizer, self.name, self.pooling, self.max_length = model.eval(), tokenizer, name, pooling, max_length

    @classmethod
    def load(cls, path: Path | str, *, name: str | None = None, device: str = "cpu") -> SentenceEncoder:
        folder = Path(path)
        if encoder_files(folder) is None:
            raise TicketsError(f"no sentence encoder in {folder}", hint="expected config.json, model.safetensors and a tokenizer")
        import torch
        from transformers import AutoModel, AutoTokenizer

        pooling = _pooling(folder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            with no_bar():
                model, report = AutoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True)
        except (OSError, ValueError, KeyError) as problem:
            why = (str(problem).splitlines() or [type(problem).__name__])[0]
            raise TicketsError(f"{folder} could not be loaded: {why}", hint="give a folder that save_pretrained wrote") from None
        missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)  # the mean needs no pooler
        if missing:
            raise TicketsError(f"{folder} lacks weights of the encoder ({missing[0]} and {len(missing) - 1} more)", hint="get it again")
        model = model.to(device)
        return cls(model, tokenizer, name=name or folder.name, pooling=pooling, max_length=_max_length(folder, model, tokenizer))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows in float32, one a text, in the order given."""
        import torch

        width = self.model.config.hidden_size
        rows = np.empty((len(texts), width), dtype=np.float32)
        if not texts:
            return rows
        ids = self.tokenizer(list(texts), truncation=True, max_length=self.max_length)["input_ids"]
        for batch in _batches([len(each) for each in ids]):
            padded = self.tokenizer.pad({"input_ids": [ids[place] for place in batch]}, return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                states = self.model(**padded).last_hidden_state
                mask = padded["attention_mask"].unsqueeze(-1).to(states.dtype)
                pooled = states[:, 0] if self.pooling == "cls" else (states * mask).sum(1) / mask.sum(1).clamp(min=1)
                rows[batch] = torch.nn.functional.normalize(pooled.float(), dim=-1).cpu().numpy()
        return rows


@contextmanager
def no_bar() -> Iterator[None]:
    """Loading takes a moment; transformers' own bar would only clutter."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _batches(lengths: list[int]) -> list[list[int]]:
    """Places sorted by length (ties by place), cut so that a padded batch holds at most ``TOKENS`` tokens."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if not batches or (len(batches[-1]) + 1) * lengths[place] > TOKENS:
            batches.append([])
        batches[-1].append(place)
    return batches


def _pooling(folder: Path) -> str:
    file = folder / "1_Pooling" / "config.json"
    if not file.is_file():
        return "mean"
    raw = read_json(file)
    modes = sorted(key.removeprefix("pooling_mode_") for key, on in raw.items() if key.startswith("pooling_mode_") and on is True)
    modes = modes or [str(raw.get("pooling_mode", "mean"))]
    names = {"mean_tokens": "mean", "mean": "mean", "cls_token": "cls", "cls": "cls"}
    if len(modes) != 1 or modes[0] not in names:
        raise TicketsError(
            f"{file} asks for pooling by {', '.join(modes)}", hint="encoders that take the mean or the first token can be used"
        )
    return names[modes[0]]


def _max_length(folder: Path, model: Any, tokenizer: Any) -> int:
    """What the encoder was trained with, else what the model and its tokenizer can take."""
    file = folder / "sentence_bert_config.json"
    said = read_json(file).get("max_seq_length") if file.is_file() else None
    limits = [said, getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length]
    return min(limit for limit in [*limits, 512] if isinstance(limit, int) and limit > 0)
