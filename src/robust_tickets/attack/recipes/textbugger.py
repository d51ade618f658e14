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

Characters are drawn at random at every visit, from streams of the example's own. TextAttack draws from one stream for all examples,
so that its result for an example depends on those before it; seeded before each example, it draws the same.

An inserted space makes one word two, and the words behind it move by one. The ranking does not: TextAttack continues with the old indices,
so a word may be visited in another's place, and the last one not at all. That is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.components import Transformation
from robust_tickets.attack.constraints import NoRepeat, NoStopwords, SentenceSimilarity
from robust_tickets.attack.greedy import DropScore, GreedySearch
from robust_tickets.attack.transforms import CharacterEdit, Homoglyphs, NearestWords
from robust_tickets.config import resource, setting


@dataclass(frozen=True, kw_only=True)
class TextBugger(Attack):
    """The attack. ``vectors`` and ``encoder`` are paths or names; left out, they are looked for (see ``tickets doctor``).

    ``vectors="none"`` drops the bug of near words, ``encoder="none"`` the constraint, each under a name that says so.
    """

    vectors: str | None = resource()
    encoder: str | None = resource()
    neighbours: int = setting(5, at_least=1)
    similarity: float = setting(0.8, at_least=0, at_most=1)  # angular: 1 - angle/π

    def build(self, use: Loaded) -> GreedySearch:
        bugs: tuple[Transformation, ...] = (
            CharacterEdit("insert", inner=True, letters=" "),
            CharacterEdit("delete", inner=True),
            CharacterEdit("swap", inner=True),
            Homoglyphs(),
        )
        near = () if use.vectors is None else (NearestWords(use.vectors, self.neighbours),)
        return GreedySearch(
            title="TextBugger",
            ranking=DropScore(),
            transformations=(*bugs, *near),
            modifiable=(NoRepeat(), NoStopwords(self.rules().stopwords)),
            constraints=(SentenceSimilarity(self.similarity, encoder=use.encoder),),
        )


REGISTERED = TextBugger
