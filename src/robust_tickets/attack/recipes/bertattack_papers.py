"""What the papers on robust tickets call "BERT-Attack". It is not BERT-Attack: no masked language model takes part in it.

The code released with Robust Lottery Tickets (Zheng et al., ACL 2022, on TextAttack 0.3.0) and EarlyRobust (Xi et al., EMNLP 2022, on
0.3.4) builds TextAttack's BAE (Garg and Ramakrishnan, 2020) and then exchanges its parts: words come from the 50 nearest neighbours in
counter-fitted vectors instead of the masked language model, with no threshold on their cosine; BAE's encoder constraint is replaced by a
far weaker one, a cosine of 0.2 in windows of 15 words, also on texts shorter than that. What BAE leaves: words are ranked by deletion,
NLTK's stop words stay, and the part of speech is kept, or a noun becomes a verb and the other way round. To compare with those papers'
tables, use this recipe; for the attack of Li et al., use ``bertattack``.

The papers name a limit of 90 % on the words changed; in the code it is commented out, so there is none here. The code freezes one column
of a pair, under the names (sentence1, sentence2) and (sentence, question). GLUE's QNLI calls its columns (question, sentence), so that the
second rule never holds there and both columns are attacked. Both rules are kept as they are.

The code attacks the first N examples of a split in its order: give ``subset="first"`` for the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.constraints import KeepColumn, NoRepeat, NoStopwords, SamePartOfSpeech, SentenceSimilarity
from robust_tickets.attack.greedy import DropScore, GreedySearch
from robust_tickets.attack.transforms import NearestWords
from robust_tickets.config import resource, setting


@dataclass(frozen=True, kw_only=True)
class BertAttackPapers(Attack):
    """The attack. ``vectors``, ``tagger`` and ``encoder`` are paths or names; left out, they are looked for (see ``tickets doctor``)."""

    vectors: str | None = resource(required=True)
    tagger: str | None = resource()
    encoder: str | None = resource()
    neighbours: int = setting(50, at_least=1)
    similarity: float = setting(0.2, at_least=-1, at_most=1)  # cosine
    window: int = setting(15, at_least=1)  # words

    def build(self, use: Loaded) -> GreedySearch:
        return GreedySearch(
            title="BERT-Attack of the papers (not BERT-Attack)",
            ranking=DropScore(),
            transformations=(NearestWords(use.vectors, self.neighbours),),
            modifiable=(
                NoRepeat(),
                NoStopwords(self.rules().stopwords),
                KeepColumn(("sentence1", "sentence2"), "sentence1"),
                KeepColumn(("sentence", "question"), "sentence"),
            ),
            constraints=(
                SamePartOfSpeech(use.tagger),
                SentenceSimilarity(self.similarity, self.window, metric="cosine", encoder=use.encoder),
            ),
        )


REGISTERED = BertAttackPapers
