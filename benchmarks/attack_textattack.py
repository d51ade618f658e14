"""How much faster is an attack than TextAttack's, and are the results the same? TextFooler on SST-2 sentences, example by example.

Both attack the same classifier with the same word vectors (a substitute), tagger and sentence encoder (MiniLM); TextAttack 0.3.11 runs
in an environment of its own (``--textattack PYTHON``; ``scripts/textattack_parity`` makes one), first with its default padding to 512
tokens, then padded to 128, then with the dynamic padding it does not have. Every outcome is compared: status, text, queries.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from _measure import save

from robust_tickets import TextFooler, load_classifier
from robust_tickets.attack.text import Text
from robust_tickets.resources.vectors import Vectors

QUESTION = "TextFooler against TextAttack's, same victim, same resources, same examples"


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__)
    said.add_argument("--victim", required=True, help="folder of a sequence classifier for SST-2")
    said.add_argument("--about", required=True, help="what the victim is, for the record")
    said.add_argument("--about-encoder", default="all-MiniLM-L6-v2")
    said.add_argument("--about-vectors", default="substitute for the counter-fitted ones")
    said.add_argument("--texts", required=True, help="parquet file with text and label")
    said.add_argument("--vectors", required=True)
    said.add_argument("--tagger", required=True)
    said.add_argument("--encoder", required=True)
    said.add_argument("--textattack", required=True, help="the Python of TextAttack's environment")
    said.add_argument("--n", type=int, default=12, help="examples for TextAttack and the comparison")
    said.add_argument("--all", type=int, default=0, help="examples for this package alone, besides")
    said.add_argument("--pads", default="512,128,dynamic")
    said.add_argument("--threads", type=int, default=0)
    said.add_argument("--seconds", type=float, default=0, help="TextAttack stops after so many, with what it has")
    said.add_argument("--precision", default="", help="attack a copy in bfloat16, besides")
    said.add_argument("--name", default="attack_textattack")
    asked = said.parse_args()
    texts, labels = read(asked.texts)
    with tempfile.TemporaryDirectory() as scratch:
        theirs = textattack(asked, texts[: asked.n], labels[: asked.n], Path(scratch))
    ours = ours_on(asked, texts[: asked.n], labels[: asked.n])
    measured: dict[str, Any] = {"textattack_versions": theirs["versions"], "ours": brief(ours), "textattack": {}}
    for pad, way in theirs["ways"].items():
        count = len(way["outcomes"])
        same = sum(a == b for a, b in zip(way["outcomes"], ours["outcomes"], strict=False))
        their_queries = sum(queries for _, _, queries in way["outcomes"])
        rate = their_queries / way["seconds"]
        measured["textattack"][pad] = {
            "examples": count,
            "seconds": way["seconds"],
            "cpu_seconds": way["cpu_seconds"],
            "queries_per_second": rate,
            "same_status_text_and_queries": same,
            "ours_times_as_fast": ours["queries"] / ours["attack_seconds"] / rate,
        }
        measured["different"] = [
            {"row": row, "theirs": a, "ours": b}
            for row, (a, b) in enumerate(zip(way["outcomes"], ours["outcomes"], strict=False))
            if a != b
        ][:5]
    if asked.all:
        whole = ours_on(asked, texts[: asked.all], labels[: asked.all])
        measured["ours_on_all"] = brief(whole)
        for told in measured["textattack"].values():
            told["ours_on_all_times_as_fast"] = whole["queries"] / whole["attack_seconds"] / told["queries_per_second"]
        if asked.precision:
            fast = ours_on(asked, texts[: asked.all], labels[: asked.all], precision=asked.precision)
            differ = sum(a[0] != b[0] for a, b in zip(fast["outcomes"], whole["outcomes"], strict=True))
            texts_differ = sum(a[:2] != b[:2] for a, b in zip(fast["outcomes"], whole["outcomes"], strict=True))
            measured["ours_on_all_" + asked.precision] = brief(fast) | {
                "statuses_differ": differ,
                "final_texts_differ": texts_differ,
            }
            for told in measured["textattack"].values():
                told[f"ours_on_all_{asked.precision}_times_as_fast"] = (
                    fast["queries"] / fast["attack_seconds"] / told["queries_per_second"]
                )
    save(
        asked.name,
        QUESTION,
        {
            "victim": asked.about,
            "encoder": asked.about_encoder,
            "vectors": asked.about_vectors,
            "attack": "TextFooler",
            "rows": "the first of SST-2's validation split",
            "threads": asked.threads or "default",
        },
        measured,
    )


def read(path: str) -> tuple[list[str], list[int]]:
    import pyarrow.parquet as parquet

    table = parquet.read_table(path).to_pydict()
    return table["text"], table["label"]


def textattack(asked: Any, texts: list[str], labels: list[int], scratch: Path) -> dict[str, Any]:
    """TextAttack's outcomes; neighbours of the words are given to it, so that ties of the vectors fall alike."""
    vectors = Vectors.load(asked.vectors)
    words = {word.lower() for text in texts for word in Text.of(text).words} & vectors.index.keys()
    vectors.look_up(words, 50)
    rows = vectors.index
    nearest = {rows[word]: [rows[near] for near, _ in vectors.neighbours(word, 50)] for word in sorted(words)}
    job = {
        "recipe": "textfooler",
        "texts": texts,
        "labels": labels,
        "victim": asked.victim,
        "vectors": asked.vectors,
        "tagger": asked.tagger,
        "encoder": asked.encoder,
        "nearest": nearest,
        "pads": asked.pads.split(","),
        "threads": asked.threads,
        "seconds": asked.seconds,
        "cache": str(scratch / "cache"),
    }
    (scratch / "job.json").write_text(json.dumps(job))
    side = Path(__file__).with_name("_textattack.py")
    subprocess.run(
        [asked.textattack, str(side), str(scratch / "job.json"), str(scratch / "out.json")],
        check=True,
        env=dict(os.environ),
    )
    return json.loads((scratch / "out.json").read_text())


def ours_on(asked: Any, texts: list[str], labels: list[int], precision: str | None = None) -> dict[str, Any]:
    import torch

    from robust_tickets.data.task import Split

    if asked.threads:
        torch.set_num_threads(asked.threads)
    clf = load_classifier(asked.victim, max_length=512)
    attack = TextFooler(vectors=asked.vectors, tagger=asked.tagger, encoder=asked.encoder)
    attack.resources()  # hashing the files is not the attack, nor is the table of neighbours, which TextAttack has as a file
    Vectors.load(asked.vectors, digest=attack.found()["vectors"].digest).look_up(
        (w.lower() for text in texts for w in Text.of(text).words), 50
    )
    wall, cpu = time.perf_counter(), time.process_time()
    result = attack(clf, Split.of(texts, labels), n=0, precision=precision)
    spent, used = time.perf_counter() - wall, time.process_time() - cpu
    examples = list(result.examples())
    return {
        "outcomes": [[e.status, e.perturbed[0] if e.perturbed else e.original[0], e.queries] for e in examples],
        "queries": sum(e.queries for e in examples),
        "seconds": spent,  # with loading the resources
        "attack_seconds": result.seconds,  # without loading, as TextAttack's are
        "cpu_seconds": used,
        "aua": result.aua,
        "clean": result.clean,
        "unconfirmed": result.unconfirmed,
        "n": result.n,
    }


def brief(found: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in found.items() if k != "outcomes"} | {
        "queries_per_second": found["queries"] / found["attack_seconds"]
    }


if __name__ == "__main__":
    main()
