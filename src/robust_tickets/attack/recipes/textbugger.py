"""TextBugger (Li, Ji, Du, Li and Wang, NDSS 2019): misspellings that a reader overlooks, and near words, in the whole text's meaning.

Words are ranked by how much the victim loses without them. Each in turn gets the best of five kinds of bugs (section III.C of the paper):
a space inserted, a character deleted, two neighbouring characters swapped, none of these at the ends of the word; a character replaced by
a look-alike; or one of its 5 nearest neighbours in word vectors. A sentence encoder must find the whole text similar to the original.

Where paper and TextAttack 0.3.11 disagree, TextAttack is followed, because published numbers come from it:

- ranking: the paper ranks sentences first and the words within each; TextAttack ranks all words of the text at once;
- look-alikes: the paper also takes neighbours on the keyboard; TextAttack has one table of 38 characters and tries every position;
- vectors: the paper's are GloVe's, TextAttack's are counter-fitted; neighbours take the case of the word;
- similarity: the paper's 0.8 is a cosine; TextAttack's 0.8 is angular, a cosine of 0.809;
- stop words stay (NLTK's list) and no word is changed twice. Of a pair, both columns are attacked.

Characters are drawn at random, anew at every visit, from streams of the example's own. TextAttack draws from one stream for all examples,
so that its result for an example depends on those before it; seeded before each example, it draws the same.

An inserted space makes one word two, and the words behind it move by one. The ranking does not: TextAttack goes on with the old indices,
so a word may be visited in another's place, and the last one not at all. That is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from robust_tickets.attack.attack import Attack, Prepared
from robust_tickets.attack.constraints.frozen import NoRepeat, NoStopwords
from robust_tickets.attack.constraints.sentence import SentenceSimilarity
from robust_tickets.attack.greedy import DropScore, Greedy
from robust_tickets.attack.transforms.characters import Deletion, Insertion, NeighbourSwap
from robust_tickets.attack.transforms.homoglyphs import Homoglyphs
from robust_tickets.attack.transforms.neighbours import Neighbours
from robust_tickets.attack.transforms.several import Several
from robust_tickets.config import resource, setting


@dataclass(frozen=True, kw_only=True)
class TextBugger(Attack):
    """The attack. ``vectors`` and ``encoder`` are paths or names; left out, they are looked for (see ``tickets doctor``).

    ``vectors="none"`` drops the bug of near words, ``encoder="none"`` the constraint, each under a name that says so.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("vectors", "encoder")

    vectors: str | None = resource()
    encoder: str | None = resource()
    neighbours: int = setting(5, at_least=1)
    similarity: float = setting(0.8, at_least=0, at_most=1)  # angular: 1 - angle/π

    def assemble(self, *, vectors: Any, encode: Callable[[list[str]], Any] | None) -> Prepared:
        """The attack from its parts; without ``vectors`` or ``encode`` its part is dropped, and the result says so."""
        from robust_tickets.resources.words import LOOKALIKE, nltk_stopwords

        bugs: list[Any] = [
            Insertion(" ", inner=True),
            Deletion(inner=True),
            NeighbourSwap(inner=True),
            Homoglyphs(LOOKALIKE),
        ]
        near = None if vectors is None else Neighbours(vectors, self.neighbours)
        bugs += [near] if near is not None else []
        stop = nltk_stopwords(self.rules().stopwords)
        rules = (NoRepeat(), NoStopwords(stop, "NLTK's English list"))
        checks = (SentenceSimilarity(self.similarity),) if encode is not None else ()
        return Prepared.of(
            "TextBugger",
            Greedy(ranking=DropScore(), transform=Several(tuple(bugs)), frozen=rules, constraints=checks),
            encode=encode,
            missing={"vectors": vectors, "encoder": encode},
            warm=None if near is None else near.warmed(stop),
        )


REGISTERED = TextBugger
