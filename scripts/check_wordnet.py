"""Compare ``robust_tickets.resources.wordnet.synonyms`` with NLTK's reader on WordNet 3.0's own files.

``python scripts/check_wordnet.py`` takes every lemma, every irregular form and 50,000 made-up inflections (seeded); ``--golden FILE``
writes NLTK's answers for 300 of them, which a test compares with wherever WordNet is not installed. Needs ``nltk``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

from robust_tickets.resources.words import is_one_word
from robust_tickets.seeds import numpy_generator

NEEDED = (
    *("cntlist.rev", "index.sense"),
    *(f"{kind}.{part}" for kind in ("data", "index") for part in ("adj", "adv", "noun", "verb")),
    *(f"{part}.exc" for part in ("adj", "adv", "noun", "verb")),
)
ENDINGS = ("s", "es", "ies", "ed", "ing", "er", "est", "ves", "men", "ly", "'s")


def reader(folder: Path, scratch: Path) -> Any:
    """NLTK's reader on ``folder``; its ``lexnames`` (names of lexicographer files) Debian leaves out, and synonyms do not need them."""
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        def map_wn(self, version: str = "wordnet") -> None:
            """No map to other versions of WordNet: that needs a further corpus and has no part in synonyms."""

    for name in NEEDED:
        if (folder / name).is_file():
            (scratch / name).write_bytes((folder / name).read_bytes())
    (scratch / "lexnames").write_text("".join(f"{number:02d}\tfile{number}\t1\n" for number in range(45)))
    nltk.data.path.append(str(scratch))  # NLTK refuses to read elsewhere
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that other languages are missing
        return Reader(str(scratch), None)


def answer(nltk_wordnet: Any, word: str) -> list[str]:
    """What PWWS asks of NLTK: single-word lemma names of all synsets, without the word as it is written."""
    names = {name for synset in nltk_wordnet.synsets(word) for name in synset.lemma_names()}
    return sorted(name for name in names if name != word and "_" not in name and is_one_word(name))


def sample(folder: Path, inflections: int, seed: int = 0) -> list[str]:
    """Every lemma and irregular form, then seeded inflections of lemmas in lower case, Capitalised or UPPER case."""
    words: dict[str, None] = {}
    for name in NEEDED:
        if (name.startswith("index.") and name != "index.sense") or name.endswith(".exc"):
            lines = (folder / name).read_text(encoding="utf-8").splitlines()
            words.update(dict.fromkeys(line.split()[0] for line in lines if not line.startswith(" ")))
    plain = list(words)
    choose = numpy_generator(seed, "check_wordnet")
    for number in choose.integers(len(plain), size=inflections):
        word, ending = plain[number], ENDINGS[choose.integers(len(ENDINGS))]
        stem = word[: len(word) - int(choose.integers(3))]  # so that "carr" + "ies" and "mak" + "ing" come up
        words[(str.lower, str.capitalize, str.upper)[choose.integers(3)](stem + ending)] = None
    return list(words)


def write_golden(path: Path, nltk_wordnet: Any, words: list[str]) -> None:
    """300 words with NLTK's answers: 160 in lower case and 60 cased that have synonyms, and 80 that have none."""
    shuffled = [words[number] for number in numpy_generator(1, "golden").permutation(len(words))]
    plain = [word for word in shuffled if answer(nltk_wordnet, word) and word.islower()][:160]
    cased = [word for word in shuffled if answer(nltk_wordnet, word) and not word.islower()][:60]
    none = [word for word in shuffled if not answer(nltk_wordnet, word)][:80]
    lines = [f"{json.dumps(word)}: {json.dumps(answer(nltk_wordnet, word))}" for word in sorted(plain + cased + none)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    from robust_tickets.resources.wordnet import synonyms

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--inflections", type=int, default=50_000)
    parser.add_argument("--golden", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        theirs = reader(chosen.wordnet, Path(scratch))
        words = sample(chosen.wordnet, chosen.inflections)
        if chosen.golden:
            write_golden(chosen.golden, theirs, words)
        different = [word for word in words if list(synonyms(word)) != answer(theirs, word)]
        print(
            f"{len(words)} words, {sum(bool(synonyms(word)) for word in words)} with synonyms, {len(different)} differ {different[:10]}"
        )
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
