"""A2T (Yoo and Qi, Findings of EMNLP 2021): an attack cheap enough for adversarial training, because it ranks words by gradient.

One backward pass of the victim's loss ranks all words (section 3.1 of the paper): a word matters by the L1 norm of the gradient at its
embedding, the mean over its pieces. Each word in turn is replaced by one of its 20 nearest neighbours in counter-fitted vectors with a
cosine of at least 0.8 that keeps the part of speech; a sentence encoder must find the whole text similar to the original (cosine 0.9).
With ``mlm=True`` (A2T-MLM in the paper) the words are the 20 best of a masked language model for the masked word instead, without the
cosine between words. At most 10 % of the words change, but 4 in any case.

The ranking needs the model itself: a victim that only answers, as a callable or an exported graph, is refused.

Where paper and TextAttack 0.3.11 disagree, TextAttack is followed:

- ranking: TextAttack leaves dropout on while it takes the gradient, so that its order is drawn again each time; here dropout is off. The
  label of the loss is the predicted one, which is the true one for every example that is attacked. Since 0.3.11 the gradient is that of
  the text up to the last word that may change, and no more words are ranked than the model has positions; see ``attack.services`` for how
  tokens are matched to words;
- the paper's 10 % has no least number of words; TextAttack's 4 lets texts of fewer than 31 words change more;
- the encoder is a DistilBERT tuned on similarity of sentences (STS-B). Stop words (NLTK's) stay. Of a pair, the premise stays, but only
  where the columns are called premise and hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.constraints import (
    KeepColumn,
    NoRepeat,
    NoStopwords,
    SamePartOfSpeech,
    SentenceSimilarity,
    ShareModified,
    WordCosine,
)
from robust_tickets.attack.greedy import GradientRanking, GreedySearch
from robust_tickets.attack.transforms import MaskedWord, NearestWords
from robust_tickets.config import resource, setting
from robust_tickets.errors import TicketsError
from robust_tickets.resources.kinds import NONE

ENCODER = ("sentence-transformers/stsb-distilbert-base", "stsb-distilbert-base")  # the paper's: tuned on STS-B


@dataclass(frozen=True, kw_only=True)
class A2T(Attack):
    """The attack. Resources are paths or names; left out, they are looked for (see ``tickets doctor``).

    ``vectors`` are used without ``mlm``, the masked language model ``masked`` with it.
    """

    white_box: ClassVar[bool] = True

    mlm: bool = False
    vectors: str | None = resource()
    masked: str | None = resource()
    tagger: str | None = resource()
    encoder: str | None = resource()
    words: int = setting(20, at_least=1)  # candidates of a word
    word_similarity: float = setting(0.8, at_least=-1, at_most=1)  # cosine
    sentence_similarity: float = setting(0.9, at_least=-1, at_most=1)  # cosine
    share: float = setting(0.1, at_least=0, at_most=1)  # of words that may change
    least: int = setting(4, at_least=1)  # words that may change in any case

    def __post_init__(self) -> None:
        super().__post_init__()
        source = "masked" if self.mlm else "vectors"
        if getattr(self, source) == NONE:
            message = f"A2T.{source} cannot be dropped: the candidates come from there"
            raise TicketsError(message, hint="give a path, or change mlm", code="settings.required")

    def needs(self) -> tuple[str, ...]:
        return tuple(kind for kind in super().needs() if kind != ("vectors" if self.mlm else "masked"))

    def resources(self) -> dict[str, dict[str, Any]]:
        found = super().resources()
        if "encoder" in found:  # the other attacks' own, the Universal Sentence Encoder, is a substitute here
            found["encoder"]["substitute"] = found["encoder"]["name"] not in ENCODER
        return found

    def build(self, use: Loaded) -> GreedySearch:
        return GreedySearch(
            title="A2T-MLM" if self.mlm else "A2T",
            ranking=GradientRanking(),
            transformations=(
                (MaskedWord(use.masked, self.words) if self.mlm else NearestWords(use.vectors, self.words)),
            ),
            modifiable=(
                NoRepeat(),
                NoStopwords(self.rules().stopwords),
                KeepColumn(("premise", "hypothesis"), "premise"),
                ShareModified(self.share, self.least),
            ),
            constraints=(
                *(() if self.mlm else (WordCosine(use.vectors, self.word_similarity),)),
                SamePartOfSpeech(use.tagger, swap=False),
                SentenceSimilarity(self.sentence_similarity, metric="cosine", encoder=use.encoder),
            ),
        )


REGISTERED = A2T
