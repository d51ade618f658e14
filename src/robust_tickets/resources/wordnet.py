"""WordNet 3.0's synonyms, shipped with the package as one 650 kB table (built by ``scripts/build_wordnet.py``).

``synonyms(word)`` gives what NLTK's ``wordnet.synsets(word)`` gives over all parts of speech, its lemma names flattened: the word is
lower-cased, and its base forms are found by WordNet's lists of irregular forms or, failing that, by its rules of detachment (man 7
morphy). The names keep their case ("Paris"). As PWWS wants them, the word itself and names of several words are left out.
The table is read on the first call (about a tenth of a second); a look-up takes microseconds. See WORDNET-LICENSE.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from robust_tickets.resources.words import is_one_word

LONGEST = 100  # characters; no form in WordNet has more, and longer words are not worth remembering
# WordNet's rules of detachment: an ending and what to put in its place. All that fit are tried.
RULES = {
    part: [tuple(rule.split(">")) for rule in rules.split()]
    for part, rules in {
        "noun": "s> ses>s ves>f xes>x zes>z ches>ch shes>sh men>man ies>y",
        "verb": "s> ies>y es>e es> ed>e ed> ing>e ing>",
        "adj": "er> est> er>e est>e",
        "adv": "",
    }.items()
}


class Part(NamedTuple):
    """One part of speech: its synsets as lines of names, which of them name a lemma, and its irregular forms."""

    synsets: list[str]
    naming: dict[str, list[int]]
    irregular: dict[str, list[str]]


@cache
def _table() -> tuple[dict[str, Part], str]:
    """The parts of speech by name, and the digest of the content."""
    data = gzip.decompress((files("robust_tickets.resources") / "files" / "wordnet.txt.gz").read_bytes())
    blocks = iter(data.decode().rstrip("\n").split("\n\n"))
    parts = {}
    for block in blocks:
        name, *synsets = block.split("\n")
        naming: dict[str, list[int]] = {}
        for number, names in enumerate(synsets):
            for lemma in names.lower().split(" "):
                naming.setdefault(lemma, []).append(number)
        forms = (line.split(" ") for line in next(blocks).split("\n"))
        parts[name] = Part(synsets, naming, {form[0]: form[1:] for form in forms})
    return parts, hashlib.sha256(data).hexdigest()


def base_forms(word: str, part: str) -> list[str]:
    """The lemmas that ``word`` may be a form of as a ``part`` of speech ("noun", "verb", "adj", "adv"), itself first if it is one."""
    table = _table()[0][part]
    detached = [word.removesuffix(ending) + new for ending, new in RULES[part] if word.endswith(ending)]
    forms = table.irregular.get(word, detached)
    return [form for form in dict.fromkeys([word, *forms]) if form in table.naming]


def synonyms(word: str) -> tuple[str, ...]:
    """Single-word lemma names of every synset of ``word``, sorted, without ``word`` as it is written."""
    return _synonyms(word) if len(word) <= LONGEST else ()


@lru_cache(maxsize=1 << 16)
def _synonyms(word: str) -> tuple[str, ...]:
    found: set[str] = set()
    for part, table in _table()[0].items():
        for form in base_forms(word.lower(), part):
            for number in table.naming[form]:
                found.update(table.synsets[number].split(" "))
    return tuple(sorted(name for name in found if name != word and "_" not in name and is_one_word(name)))


def digest() -> str:
    """SHA-256 of the table's content, the name of this resource in results."""
    return _table()[1]


def about() -> dict[str, Any]:
    """The table as a resource of a result."""
    names = {"kind": "synonyms", "name": "WordNet 3.0", "origin": "this package"}
    return {**names, "digest": digest(), "substitute": False}
