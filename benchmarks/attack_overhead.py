"""What does an attack cost besides the models? Milliseconds of Python a query, with a victim and an encoder that answer at once.

TextFooler with real words, vectors and tagger on sentences (SST-2, 25 tokens) and reviews (IMDB, cut at 256 tokens), one process, one
thread; loading and the table of neighbours are left out. ``read whole`` tokenises every text from end to end, as before token ids were
put together from pieces.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from _measure import save, spread

from robust_tickets import TextFooler
from robust_tickets.attack.attack import Loaded
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Encoded, ModelClassifier
from robust_tickets.data.task import Split
from robust_tickets.resources.tagger import Tagger
from robust_tickets.resources.vectors import Vectors
from robust_tickets.seeds import numpy_generator

QUESTION = "Python's milliseconds a query of TextFooler, models excluded"
REPEATS = 5


class Free(ModelClassifier):
    """Answers by adding up a number for each token; the time it takes is not counted."""

    spent = 0.0
    weights = numpy_generator(0, "weights").normal(size=200_000).astype(np.float32) * 0.4

    def forward(self, rows: Sequence[Encoded]) -> torch.Tensor:
        begun = time.process_time()
        told = np.zeros((len(rows), 2), dtype=np.float32)
        for line, row in zip(told, rows, strict=True):
            line[1] = self.weights[np.frombuffer(row.data, dtype="<i4")].sum()
        Free.spent += time.process_time() - begun
        return torch.from_numpy(told)


class Bare(TextFooler):
    """TextFooler with resources at hand and an encoder that finds all texts alike."""

    def resources(self) -> dict[str, dict[str, Any]]:
        return {}

    def prepare(self, device: str) -> Any:
        ones = Loaded(vectors=VECTORS, tagger=TAGGER, encoder=lambda texts: np.ones((len(texts), 8), dtype=np.float32))
        return self.assemble(ones)


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__)
    for name in ("tokenizer", "vectors", "tagger", "sentences", "reviews"):
        said.add_argument(f"--{name}", required=True)
    asked = said.parse_args()
    torch.set_num_threads(1)
    global VECTORS, TAGGER
    VECTORS, TAGGER = Vectors.load(asked.vectors), Tagger.load(asked.tagger)
    found = {}
    for name, file, count, longest in (("sentences", asked.sentences, 200, 128), ("reviews", asked.reviews, 20, 256)):
        texts = _texts(file, count)
        VECTORS.look_up((word.lower() for text in texts for word in Text.of(text).words), 50)
        ways = {
            "pieces": _victim(asked.tokenizer, longest, pieces=True),
            "read whole": _victim(asked.tokenizer, longest, pieces=False),
        }
        milliseconds: dict[str, list[float]] = {way: [] for way in ways}
        outcomes = {}
        for turn in range(REPEATS + 1):
            for way, victim in ways.items():
                split = Split.of(texts, victim.logits(texts).argmax(axis=1).tolist())
                Free.spent = 0.0
                begun = time.process_time()
                result = Bare()(victim, split, n=0, live=256)
                spent = time.process_time() - begun - Free.spent
                examples = list(result.examples())
                outcomes[way] = [(e.status, e.perturbed, e.queries) for e in examples]
                if turn:  # the first turn warms up
                    milliseconds[way].append(1000 * spent / sum(e.queries for e in examples))
        assert outcomes["pieces"] == outcomes["read whole"], "tokenising changed a result"
        words = float(np.mean([len(Text.of(text)) for text in texts]))
        found[name] = {
            "examples": count,
            "mean_words": words,
            "milliseconds": {way: spread(values) for way, values in milliseconds.items()},
        }
    save(
        "attack_overhead",
        QUESTION,
        {"attack": "TextFooler", "repeats": REPEATS, "threads": 1, "clock": "CPU time of the process"},
        found,
    )


def _texts(file: str, count: int) -> list[str]:
    import pyarrow.parquet as parquet

    column = parquet.read_table(file)["text"]
    return [column[int(row)].as_py() for row in np.linspace(0, len(column) - 1, count, dtype=int)]


def _victim(tokenizer: str, longest: int, *, pieces: bool) -> Free:
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(**shape, num_labels=2))
    words = AutoTokenizer.from_pretrained(tokenizer)
    made = Free(model=model, tokenizer=words, labels=["negative", "positive"], max_length=longest, identity="free")
    if not pieces:
        made._splicer = words, None
    return made


if __name__ == "__main__":
    main()
