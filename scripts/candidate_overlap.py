"""How many of an attack's candidates stand in the tables of words that a recipe may train on, as docs/findings.md has it.

Run ``python scripts/candidate_overlap.py --data FOLDER --models FOLDER --resources FOLDER`` once; four minutes on one core. Asked are the
first candidates of an attack: every word of a text that it may change, with each replacement that passes its constraints (the sentence
encoder's left out). Trained on is what the adversaries swap: words of one token, by the table that they build of the same source. Texts
are SST-2's validation, drawn by a seed; no victim takes part.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.attack.example import ExampleState, steps
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.attack.recipes.bertattack import BertAttack
from robust_tickets.attack.recipes.deepwordbug import DeepWordBug
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.text import Text
from robust_tickets.data.load import load_task
from robust_tickets.reproduce.paths import Paths
from robust_tickets.resources.synonyms import SynonymTable, synonym_table
from robust_tickets.seeds import numpy_generator

TEXTS = 200


def told(step: Any, services: Mapping[str, Any]) -> Any:
    """The result of a step, with its questions answered."""
    asking = steps(step)
    try:
        question = next(asking)
        while True:
            question = asking.send(services[question.service].answer([question])[0])
    except StopIteration as end:
        return end.value


def candidates(search: GreedySearch, text: str) -> list[tuple[str, list[str]]]:
    """The words of a text that an attack may change, each with what it would try."""
    original, services = Text.of(text), search.services()
    example = ExampleState(original=original, goal=Untargeted(0), column_names=("sentence",), noise=0.0)
    found = []
    for index in sorted(search.changeable(example, original)):
        tried = told(search.candidates(example, original, index), services)
        found.append((original.words[index], list(dict.fromkeys(one.new for one in tried))))
    return found


def seen(table: SynonymTable, vocabulary: Mapping[str, int], word: str, tokens: list[str]) -> set[str]:
    """What a word was swapped for in training."""
    number = vocabulary.get(word.lower())
    return set() if number is None else {tokens[i] for i in table.candidates[number, 1 : table.counts[number]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "models", "resources"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    from transformers import AutoTokenizer

    places = Paths.find(data=asked.data, models=asked.models, resources=asked.resources)
    split = load_task("sst2", data=asked.data / "sst2", validation="none").split("validation")
    texts = [
        split[int(row)].texts[0]
        for row in numpy_generator(asked.seed, "candidate_overlap").permutation(len(split))[:TEXTS]
    ]
    tokenizer = AutoTokenizer.from_pretrained(places.masked)
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    sources = {"real": str(places.real), "substitute": str(places.substitute), "wordnet": "wordnet"}
    tables = {name: synonym_table(tokenizer, source=source) for name, source in sources.items()}
    words = {"tagger": str(places.tagger), "encoder": "none"}
    attacks = {
        "textfooler-real": TextFooler(vectors=str(places.real), **words),
        "textfooler-substitute": TextFooler(vectors=str(places.substitute), **words),
        "bertattack": BertAttack(masked=str(places.masked), encoder="none"),
        "deepwordbug": DeepWordBug(),
        "pwws": PWWS(),
    }
    found: dict[str, Any] = {"texts": len(texts), "seed": asked.seed}
    for name, attack in attacks.items():
        search = attack.prepare("cpu")
        tried = [pair for text in texts for pair in candidates(search, text)]
        total = sum(len(new) for _, new in tried)
        found[name] = {"words": len(tried), "candidates": total}
        for source, table in tables.items():
            hits = [len({x.lower() for x in new} & seen(table, vocabulary, word, tokens)) for word, new in tried]
            found[name][source] = {
                "candidates": round(sum(hits) / total, 4),
                "words": round(sum(map(bool, hits)) / len(tried), 4),
            }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
