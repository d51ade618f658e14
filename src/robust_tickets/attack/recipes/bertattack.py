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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from robust_tickets.attack.attack import Attack, Prepared
from robust_tickets.attack.constraints.changed import ShareChanged
from robust_tickets.attack.constraints.frozen import NoRepeat, NoStopwords
from robust_tickets.attack.constraints.sentence import SentenceSimilarity
from robust_tickets.attack.greedy import UNKNOWN, DropScore, Greedy
from robust_tickets.attack.services import Masked
from robust_tickets.attack.transforms.masked import Suited
from robust_tickets.config import resource, setting


@dataclass(frozen=True, kw_only=True)
class BertAttack(Attack):
    """The attack. ``masked`` and ``encoder`` are paths or names; left out, they are looked for (see ``tickets doctor``)."""

    NEEDS: ClassVar[tuple[str, ...]] = ("masked", "encoder")

    masked: str | None = resource(required=True)  # the masked language model
    encoder: str | None = resource()
    words: int | None = setting(None, at_least=1)  # K; left out, by the rules: 48, or 8 for TextAttack 0.3.11
    share: float = setting(0.4, above=0, at_most=1)  # of words that may change
    similarity: float = setting(0.2, at_least=-1, at_most=1)  # cosine

    def assemble(self, *, language: Any, encode: Callable[[list[str]], Any] | None) -> Prepared:
        """The attack from its parts; without ``encode`` the constraint is dropped, and the result says so."""
        from robust_tickets.resources.words import nltk_stopwords

        offered = Suited(language, self.words or self.rules().masked_words)
        rules = (NoRepeat(), NoStopwords(nltk_stopwords(self.rules().stopwords), "NLTK's English list"))
        checks: list[Any] = [ShareChanged(self.share)]
        checks += [SentenceSimilarity(self.similarity, metric="cosine")] if encode is not None else []
        return Prepared.of(
            "BERT-Attack",
            Greedy(ranking=DropScore(UNKNOWN), transform=offered, frozen=rules, constraints=tuple(checks)),
            encode=encode,
            services={"masked": Masked(language, offered.count)},
            missing={"encoder": encode},
        )


REGISTERED = BertAttack
