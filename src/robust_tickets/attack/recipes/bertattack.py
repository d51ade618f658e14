"""BERT-Attack (Li, Ma, Guo, Xue and Qiu, EMNLP 2020): BERT's masked language model offers words that suit their place.

Words are ranked by how much the victim loses when they are hidden (section 3.1 of the paper). Each in turn is replaced by what the masked
language model finds likely there, reading the text unmasked: K tokens for a word of one token; for a word of several pieces, K words
joined from the pieces' tokens (section 3.2). The best candidate stays. At most 40 % of the words may change, and a sentence encoder must
find the whole text similar to the original.

Where paper and TextAttack 0.3.11 disagree, TextAttack is followed, because published numbers come from it:

- ranking: the paper hides a word behind [MASK] and compares logits; TextAttack puts [UNK] and takes the score 1 - p(label);
- pieces: the paper orders the K^n combinations of n pieces by perplexity and takes the first K; TextAttack computes the perplexities and
  throws the order away (a sorted list is never used), so that the first K in the order of the Cartesian product remain. They are the same
  words without scoring any combination, which is what makes TextAttack's attack take hours;
- candidates: the paper's code drops stop words and pieces, and antonyms for sentiment; TextAttack drops tokens that are no word or a piece
  only. [UNK] and [SEP] pass, and joined pieces may carry punctuation;
- K: the paper's authors say 48, TextAttack up to 0.3.10 too; 0.3.11 has 8. Without ``compat`` it is 48 here;
- share of words: 40 %, which the authors gave TextAttack, rounded up; similarity: cosine 0.2 for all data sets, where the authors filter
  afterwards by another threshold for each. Stop words (NLTK's) stay. Of a pair, both columns are attacked.

The papers on robust tickets call another attack by this name: see ``bertattack_papers``.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.constraints import NoRepeat, NoStopwords, SentenceSimilarity, ShareChanged
from robust_tickets.attack.greedy import UNKNOWN, DropScore, GreedySearch
from robust_tickets.attack.transforms import UnmaskedWords
from robust_tickets.config import resource, setting


@dataclass(frozen=True, kw_only=True)
class BertAttack(Attack):
    """The attack. ``masked`` and ``encoder`` are paths or names; left out, they are looked for (see ``tickets doctor``)."""

    masked: str | None = resource(required=True)  # the masked language model
    encoder: str | None = resource()
    words: int | None = setting(None, at_least=1)  # K; left out, by the rules: 48, or 8 for TextAttack 0.3.11
    share: float = setting(0.4, above=0, at_most=1)  # of words that may change
    similarity: float = setting(0.2, at_least=-1, at_most=1)  # cosine

    def build(self, use: Loaded) -> GreedySearch:
        return GreedySearch(
            title="BERT-Attack",
            ranking=DropScore(UNKNOWN),
            transformations=(UnmaskedWords(use.masked, self.words or self.rules().masked_words),),
            modifiable=(NoRepeat(), NoStopwords(self.rules().stopwords)),
            constraints=(
                ShareChanged(self.share),
                SentenceSimilarity(self.similarity, metric="cosine", encoder=use.encoder),
            ),
        )


REGISTERED = BertAttack
