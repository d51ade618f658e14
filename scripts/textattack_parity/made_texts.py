"""The corpus of the made-up comparison: texts from own words and templates, by seed; nothing is taken from a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np


def _words(said: str) -> list[str]:
    return said.split()


NOUNS = _words(
    "kettle garden teacher river window engine letter market doctor bridge winter kitchen farmer ticket village summer painter harbour "
    "pencil mountain sailor station basket dinner lawyer castle meadow hammer bottle journey morning music picture story actor plot scene "
    "song child dog cat house road street tree boat train clock paper glass money price worker friend enemy answer question"
)
VERBS = _words(
    "opens breaks carries follows forgets paints repairs sells teaches visits watched carried helped pulled mended enjoyed hated liked "
    "running walking singing cooking building counting drawing said made found took gave kept lost began run walk sing cook build count"
)
ADJECTIVES = _words(
    "warm cold bright dull quick slow happy sad heavy light quiet loud good bad great poor clever foolish gentle rude fresh stale clean "
    "dirty rich empty strong weak wonderful terrible awful lovely brilliant boring fine nice strange modern ancient little big"
)
ADVERBS = _words("really quite almost never always slowly quickly gladly hardly badly well rather often truly simply")
SMALL = _words(
    "the a of and in on to with for is was it this that not but very he she they we you i at by from as are be an or so"
)
ODD = _words(
    "don't can't it's we'll well-made half-way mother-in-law U.S. e.g. 3rd 42 1,000 7:30 O'Neil rock'n'roll x-ray C++ @home #tag "
    "under_score naïve café Ünder straße façade Москва привет книга سلام كتاب שלום 😀 🚀 👍🏽 ½ ﬁne 'quoted' \"said\" -- ... — … <b> "
    "a/b AND OR I"
)
STEMS = _words(
    "blor crast drim flun gorv hest jalt kren lurb mong nist plov quend rasp slim trov vand wexl yorn zeph brant clof drask fenn gliv "
    "harn jost kelv lomp murd norb pliv rusk stel tarn vosk wilt yelp zorn brisk chald dovet elmer frond grast hobb irken jund kilm "
    "lask merv nolt orbid pask quilm rond serv tolk umber vind worm yask"
)
PLAIN = tuple(dict.fromkeys(NOUNS + VERBS + ADJECTIVES + ADVERBS))
ENDS = (" ", " ", " ", " ", " ", " ", ", ", ". ", "! ", "? ", "; ", ": ", " (", ") ", " - ", "  ", "\t", " ... ")

COLUMNS = {
    "text": ("text",),
    "premise": ("premise", "hypothesis"),
    "question": ("question", "sentence"),
    "sentence": ("sentence1", "sentence2"),
}


class Sample(NamedTuple):
    """One text of the corpus; its label is what the victim says, moved on by ``shift``, so that some are skipped."""

    kind: str  # of COLUMNS
    texts: tuple[str, ...]
    classes: int
    shift: int


SPECIAL = (
    "good",
    "GOOD",
    "Terrible.",
    "the of and in on",
    "The Of And In On",
    "I",
    "I I I I I",
    "good good good good bad bad bad bad",
    "dull plot dull plot dull plot dull plot dull plot dull plot dull plot dull plot dull plot",
    "blorx qqqq zzzz wwww",
    "42 1000 7:30 3rd",
    "😀 😀 🚀 good 👍🏽",
    "Это хорошая книга и плохой film",
    "هذا كتاب جميل and a good story",
    "naïve café straße façade Ünder warm",
    "  two  spaces   before    words  ",
    "(good) [bad] {warm} <cold>",
    "'good' \"bad\" `warm` ‘cold’ “bright”",
    "well-made half-way -good- _bad_ *warm* @cold",
    "don't can't won't it's we'll O'Neil's good",
    "The U.S. and the U.K. are big, e.g. rich.",
    "Good. Bad! Warm? Cold; bright: dull, quick... slow",
    "GOOD Bad wArM cold BRIGHT Dull",
    "line one good\nline two bad\n\nline four warm",
    "a/b good/bad warm\\cold and&or",
    "http://example.org/good?bad=1 warm.cold@example.org",
    "goodbad warmcold brightdull",
    "good, good. good! good? (good) good-good",
    "it is the good one of the bad ones , not the warm one .",
    "ticket ticketed ticketing tickets river rivers",
    "ALL OF THIS IS SHOUTED AND THE STORY IS TERRIBLE",
    "all Of This Is Title Case And The Story Is Lovely",
    "a banana an ban a nana an a is in inn the theatre he heard her",
    "İstanbul is a good city and İzmir is a warm one, the river is cold",
    "ΣΑΣ ΟΔΟΣ good ς Σ bad",
    "the mark <SPLIT> stands in a good text, SPLIT I T",
    "He'd say they're good; we've warm tea and she'll carry it",
    "",
    "... !!! ---",
    "这个故事很好 good",
    "我喜欢这个城市 and the river, don't you? 天气很冷",
)
ENDED = (
    "good' bad- warm_ cold* bright@ dull'",
    "the dogs' dinner and the cats' house were good- and clean",
    "Wonderful--- actor's' story_ is *terrible* and @boring@ 'nice'",
    "a lovely' morning- in the old_ garden* of my friend@ was 'not' warm'",
    "the plot- of this- story- is- bad- and- slow-",
    "it's a 'good' and 'clever' picture, isn't it'",
)
PAIRED = (
    ("good story", "bad story"),
    ("The garden is warm.", "I like it."),
    ("S P L I T", "SPLIT T I"),
    ("warm", ""),
    ("The teacher opens the window", "the teacher opens the window"),
    ("A good story", "I I I like the garden"),
    ("", "warm garden"),
    ("这个故事很好", "the story is good"),
    ("Is the river cold?", "The river, never warm, is cold in winter."),
)


def groups() -> dict[str, list[Sample]]:
    """The corpus in groups of the same columns and classes: an attack is on one of them, and example n of it has the id "group:n"."""
    found: dict[str, list[Sample]] = {}
    for sample in corpus():
        found.setdefault(f"{sample.kind}{sample.classes}", []).append(sample)
    return found


def corpus() -> list[Sample]:
    """The whole corpus, in order."""
    found = [Sample("text", (text,), 2 + i % 2, int(i % 11 == 7)) for i, text in enumerate(SPECIAL)]
    found += list(_drawn("short", "text", 44, (1, 14), None))
    found += list(_drawn("middle", "text", 30, (15, 40), None))
    found += list(_drawn("long", "text", 6, (90, 250), None))
    for kind in ("premise", "question", "sentence"):
        pairs = [Sample(kind, pair, 2 + i % 2, 0) for i, pair in enumerate(PAIRED)]
        found += [*pairs, *_drawn(f"{kind}-drawn", kind, 16, (2, 24), (1, 14))]
    return [*found, *(Sample("text", (text,), 2 + i % 2, 0) for i, text in enumerate(ENDED))]


def digest() -> str:
    """SHA-256 over the corpus."""
    return hashlib.sha256(repr(corpus()).encode()).hexdigest()


def _drawn(
    name: str, kind: str, count: int, first: tuple[int, int], second: tuple[int, int] | None
) -> Iterator[Sample]:
    for i in range(count):
        draw = np.random.default_rng(int.from_bytes(hashlib.sha256(f"{name} {i}".encode()).digest()[:6], "big"))
        lengths = [first] if second is None else [first, second]
        texts = tuple(_text(draw, int(draw.integers(low, high + 1))) for low, high in lengths)
        yield Sample(kind, texts, 2 + int(draw.integers(2)), int(draw.integers(12) == 0))


def _text(draw: np.random.Generator, length: int) -> str:
    """``length`` words or so: mostly known ones, then small words, odd ones and words no resource knows."""
    pools = (
        NOUNS,
        VERBS,
        ADJECTIVES,
        ADVERBS,
        SMALL,
        ODD,
        [f"{stem}{'ed' if i % 2 else ''}" for i, stem in enumerate(STEMS)],
        ["xq", "vvv"],
    )
    shares = (0.2, 0.13, 0.17, 0.07, 0.26, 0.06, 0.09, 0.02)
    said = []
    for _ in range(length):
        pool = pools[int(draw.choice(len(pools), p=shares))]
        word = pool[int(draw.integers(len(pool)))]
        chance = draw.random()
        said.append(word.upper() if chance < 0.05 else word.capitalize() if chance < 0.13 else word)
    ends = [ENDS[int(draw.integers(len(ENDS)))] for _ in said]
    text = "".join(word + end for word, end in zip(said, ends, strict=True)).rstrip()
    return text + ("." if draw.random() < 0.5 else "")
