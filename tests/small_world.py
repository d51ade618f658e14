"""A small world for `tickets reproduce`, in folders: a tiny model under the name of BERT-base, an sst2-like task, neighbours of words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from robust_tickets.seeds import numpy_generator
from tiny import tiny_model, tiny_tokenizer
from toy import FILLER, SAID

NEAR = {
    "good": ["great", "fine"],
    "great": ["good"],
    "bad": ["poor", "awful"],
    "poor": ["bad"],
    "film": ["movie"],
    "movie": ["film"],
}


@dataclass(frozen=True, kw_only=True)
class World:
    """Its folders, as the flags of the verb name them."""

    data: Path
    models: Path
    resources: Path

    @property
    def flags(self) -> list[str]:
        return ["--data", str(self.data), "--models", str(self.models), "--resources", str(self.resources), "--subset"]


def small_world(
    folder: Path, *, train: int = 160, rows: int = 16, task: str = "sst2", backbone: str = "bert-base-uncased"
) -> World:
    """Written to ``folder``: ``train`` rows to train on and ``rows`` in either other split, no text twice."""
    for split, count in (("train", train), ("validation", rows), ("test", rows)):
        draw = numpy_generator(0, "small world", split)
        texts = [
            " ".join(
                [*draw.choice(FILLER, draw.integers(2, 6)), draw.choice(SAID[i % 2]), split[0], str(i)]
            )  # the last two: no duplicates
            for i in range(count)
        ]
        (folder / "data" / task).mkdir(parents=True, exist_ok=True)
        table = pa.table({"text": texts, "label": [i % 2 for i in range(count)]})
        pq.write_table(table, folder / "data" / task / f"{split}.parquet")
    model = tiny_model(
        "bert", "AutoModel", layers=2, max_position_embeddings=130
    )  # texts of the papers have 128 tokens at most
    model.save_pretrained(folder / "models" / backbone)
    tiny_tokenizer(model.config).save_pretrained(folder / "models" / backbone)
    (folder / "resources").mkdir()
    (folder / "resources" / "counterfitted_neighbors.json").write_text(json.dumps(NEAR))
    return World(data=folder / "data", models=folder / "models", resources=folder / "resources")
