"""PWWS: probability weighted word saliency (Ren, Deng, He and Che, ACL 2019). The embedded default: WordNet is all it needs.

Candidates of a word are its WordNet synonyms (section 3.2.1 of the paper). Each word gets the candidate that lowers the victim's
confidence most; words are visited by that gain, weighted by the softmax of their saliency, which is what the victim loses when the word
is unknown (3.2.2). Swap in that order until the label changes.

Where paper and TextAttack disagree, TextAttack is followed, because published numbers come from it:

- the paper also replaces named entities by others of the same kind; TextAttack does not;
- the paper's gain and saliency are differences to the clean probability; TextAttack takes the scores 1 - p(label) themselves. For the
  gain that shifts every word's factor alike by the clean score; a softmax does not see a shift;
- the paper fixes a word's substitute on the original text; TextAttack tries all candidates again on the current text and moves only if
  the score rises;
- the paper asks for a synonym of the same part of speech; TextAttack takes all synsets;
- TextAttack leaves stop words alone and changes no word twice.

Candidates keep WordNet's case. Multi-word lemmas are left out. There is no constraint on the whole text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.constraints import NoRepeat, NoStopwords
from robust_tickets.attack.greedy import GreedySearch, WeightedSaliency
from robust_tickets.attack.transforms import Synonyms
from robust_tickets.resources import wordnet


@dataclass(frozen=True, kw_only=True)
class PWWS(Attack):
    """The attack; it has no settings of its own. Call it with a classifier and a split."""

    def resources(self) -> dict[str, dict[str, Any]]:
        return {"synonyms": wordnet.about(), **super().resources()}

    def build(self, use: Loaded) -> GreedySearch:
        return GreedySearch(
            title="PWWS",
            ranking=WeightedSaliency(),
            transformations=(Synonyms(),),
            modifiable=(NoRepeat(), NoStopwords(self.rules().stopwords)),
        )


REGISTERED = PWWS
