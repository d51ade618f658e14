"""TextFooler (Jin, Jin, Zhou and Szolovits, AAAI 2020): near words that keep the part of speech and the meaning of the sentence.

Words are ranked by how much the victim loses without them (step 1 of the paper). Each in turn is replaced by one of its 50 nearest
neighbours in counter-fitted vectors that keeps the part of speech and, by a sentence encoder, the meaning (step 2); the best candidate
stays, and among candidates that change the label the most similar one wins.

Where paper and TextAttack 0.3.11 disagree, TextAttack is followed, because published numbers come from it:

- word vectors: the paper says cosine at least 0.7, the authors' code and TextAttack say 0.5;
- sentences: the paper compares whole sentences; the authors' code and TextAttack compare windows of 15 words with the *current* text
  and ask for an angle of at most 0.5 rad (angular similarity 0.840845057); texts of fewer than 15 words pass unmeasured;
- ranking: the paper adds the other class's gain when deleting a word changes the label; TextAttack takes the score 1 - p(label);
- stop words: a list of 266 of the authors' own, compared with their case;
- pairs: the premise stays, but only where the columns are called premise and hypothesis; under any other names both are attacked.

The encoder of the paper is the Universal Sentence Encoder, the vectors are those of Mrksic et al. (2016). A substitute for either is
named in the result and flagged. No constraint is dropped silently: a resource that cannot be found is an error, and ``encoder="none"``
or ``tagger="none"`` drops its constraint under a name that says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.constraints import (
    KeepColumn,
    NoRepeat,
    NoStopwords,
    SamePartOfSpeech,
    SentenceSimilarity,
    WordCosine,
)
from robust_tickets.attack.greedy import DropScore, GreedySearch
from robust_tickets.attack.transforms import NearestWords
from robust_tickets.config import resource, setting


@dataclass(frozen=True, kw_only=True)
class TextFooler(Attack):
    """The attack. ``vectors``, ``tagger`` and ``encoder`` are paths or names; left out, they are looked for (see ``tickets doctor``)."""

    vectors: str | None = resource(required=True)
    tagger: str | None = resource()
    encoder: str | None = resource()
    neighbours: int = setting(50, at_least=1)
    word_similarity: float = setting(0.5, at_least=-1, at_most=1)  # cosine
    sentence_similarity: float = setting(0.840845057, at_least=0, at_most=1)  # angular: 1 - angle/π
    window: int = setting(15, at_least=1)  # words

    def build(self, use: Loaded) -> GreedySearch:
        return GreedySearch(
            title="TextFooler",
            ranking=DropScore(),
            transformations=(NearestWords(use.vectors, self.neighbours),),
            modifiable=(NoRepeat(), NoStopwords("textfooler"), KeepColumn(("premise", "hypothesis"), "premise")),
            constraints=(
                WordCosine(use.vectors, self.word_similarity),
                SamePartOfSpeech(use.tagger),
                SentenceSimilarity(
                    self.sentence_similarity, self.window, reference="current", skip_short=True, encoder=use.encoder
                ),
            ),
        )


REGISTERED = TextFooler
