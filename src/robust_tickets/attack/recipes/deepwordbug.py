"""DeepWordBug (Gao, Lanchantin, Soffa and Qi, 2018): a few wrong characters, so that the words that matter become unknown ones.

Words are scored by what the victim loses when the word is unknown, and the best of four edits is made to each in turn (section III of the
paper): two neighbouring characters swapped, one replaced by a random letter, one deleted, a random letter inserted. All edits together
stay within a Levenshtein distance of 30 from the original text. It needs no resource at all.

Where paper and TextAttack 0.3.11 disagree, TextAttack is followed, because published numbers come from it:

- scores: the paper combines what the victim loses on the text up to the word and on the text from it, which suits recurrent networks;
  TextAttack replaces the word by ``[UNK]`` in the whole text;
- search: the paper edits the highest-ranked words without asking the victim again, by one kind of edit (substitution in its main results);
  TextAttack makes one candidate of each kind, asks the victim about all, and keeps the best if it raises the score;
- stop words stay (NLTK's list), no word is changed twice, and a word of one letter is left alone. Of a pair, both columns are attacked.

Characters are drawn at random at every visit, from streams of the example's own; see TextBugger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.constraints import EditDistance, NoRepeat, NoStopwords
from robust_tickets.attack.greedy import UNKNOWN, DropScore, GreedySearch
from robust_tickets.attack.transforms import CharacterEdit
from robust_tickets.config import setting


@dataclass(frozen=True, kw_only=True)
class DeepWordBug(Attack):
    """The attack. ``edits`` are all four kinds, or substitution alone as in the paper's main results; ``most_edits`` is the limit."""

    edits: Literal["all", "substitution"] = "all"
    most_edits: int = setting(30, at_least=0)

    def build(self, use: Loaded) -> GreedySearch:
        every = (CharacterEdit("swap"), CharacterEdit("substitute"), CharacterEdit("delete"), CharacterEdit("insert"))
        return GreedySearch(
            title="DeepWordBug",
            ranking=DropScore(UNKNOWN),
            transformations=every if self.edits == "all" else (CharacterEdit("substitute"),),
            modifiable=(NoRepeat(), NoStopwords(self.rules().stopwords)),
            constraints=(EditDistance(self.most_edits),),
        )


REGISTERED = DeepWordBug
