"""Whether texts are mostly English: a cheap guess for a warning, never a gate.

WordNet, the vectors, the tagger and the stop words all are English, and an attack on other text would find few candidates and so call
any model robust. Two shares decide: Latin letters among the letters, and words that WordNet or a stop-word list knows among the words.
Words known, measured: 0.91 (AG News) to 0.99 (SNLI) in seven English sets, 0.86 in the worst ten texts; 0.40 to 0.57 in short passages
of Italian, German, Spanish, French and Dutch.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from robust_tickets.lexicon import stopwords, wordnet
from robust_tickets.lexicon.words import word_list

TEXTS = 400  # looked at; more move the shares by little
CHARACTERS = 4000  # of each of them, some 700 words: one text of megabytes must not cost seconds
ASCII_LETTERS = 0.8  # at least this share of the letters
KNOWN_WORDS = 0.7  # at least this share of the words


def shares(texts: Iterable[str]) -> tuple[float, float] | None:
    """Shares of ASCII letters among the letters and of known words among the words; none where there is no letter."""
    letters = ascii_letters = count = recognised = 0
    for text in islice(texts, TEXTS):
        for word in word_list(text[:CHARACTERS]):
            found = [character for character in word if character.isalpha()]
            if not found:
                continue  # numbers belong to no language
            letters += len(found)
            ascii_letters += sum(map(str.isascii, found))
            count += 1
            recognised += word.lower() in stopwords.TEXTFOOLER or word.lower() in stopwords.NLTK or wordnet.known(word)
    return (ascii_letters / letters, recognised / count) if letters else None


def mostly_english(texts: Iterable[str]) -> bool:
    """True for English, and where there is nothing to judge by; false for other languages and for texts without a single letter."""
    sample = list(islice((text for text in texts if text and not text.isspace()), TEXTS))
    if not sample:
        return True
    found = shares(sample)
    return found is not None and found[0] >= ASCII_LETTERS and found[1] >= KNOWN_WORDS
