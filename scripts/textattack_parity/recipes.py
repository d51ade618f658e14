"""TextAttack's recipes as the comparison runs them: each version's own ``build``, and the papers' shell from each version's own parts."""

from __future__ import annotations

import io
import itertools
import types
from collections.abc import Iterator
from typing import Any

RECIPES = ("textfooler", "pwws", "textbugger", "deepwordbug", "bertattack", "bertattack_papers", "a2t")

MOST = 200_000  # combinations of pieces, half a minute; TextAttack itself would need 20 s for these


def build(recipe: str, wrapper: Any, uncut: bool = False) -> Any:
    from textattack import attack_recipes as theirs

    if recipe == "bertattack_papers":
        return _papers(wrapper)
    if recipe == "textbugger":
        _homoglyph_file()
    if recipe == "bertattack" and not uncut:
        _stop_early()
    name = {
        "textfooler": "TextFoolerJin2019",
        "pwws": "PWWSRen2019",
        "textbugger": "TextBuggerLi2018",
        "deepwordbug": "DeepWordBugGao2018",
        "bertattack": "BERTAttackLi2020",
        "a2t": "A2TYoo2021",
    }[recipe]
    return getattr(theirs, name).build(wrapper)


def _homoglyph_file() -> None:
    """0.3.11 opens a file that its wheel lacks, so that TextBugger cannot be built; what the file says is not used. An empty one does."""
    from textattack.transformations.word_swaps import word_swap_homoglyph_swap as module

    module.open = lambda *given, **options: io.StringIO("")


def _stop_early() -> None:
    """BERT-Attack tries all K^n combinations of n pieces, 14 hours for "mother-in-law" at K=48, and then uses the first K it kept.

    The sorting in between is lost (its result is assigned to nothing), so combinations after the Kth kept one have no effect. They are not
    made. ``--uncut`` makes them, for examples that end within a lifetime. Where hardly any combination is one word even the first K take
    too long: after ``MOST`` the example counts as one TextAttack fails on.
    """
    from textattack.shared import utils
    from textattack.transformations.word_swaps import word_swap_masked_lm as module

    made: list[Any] = []
    plain = module.WordSwapMaskedLM.__init__

    def init(self: Any, *given: Any, **options: Any) -> None:
        plain(self, *given, **options)
        made[:] = [self]

    def product(*choices: Any) -> Iterator[Any]:
        kept = 0
        for tried, combination in enumerate(itertools.product(*choices)):
            if tried == MOST:
                raise TimeoutError(f"more than {MOST} of {len(choices[0])}^{len(choices)} combinations")
            yield combination
            joined = "".join(made[0]._lm_tokenizer.convert_ids_to_tokens([int(i) for i in combination])).replace(
                "##", ""
            )
            kept += utils.is_one_word(joined)
            if kept == made[0].max_candidates:
                return

    module.WordSwapMaskedLM.__init__ = init
    module.itertools = types.SimpleNamespace(product=product)


def _papers(wrapper: Any) -> Any:
    """What two papers' released code calls BERT-Attack: BAE's shell with neighbours in the vectors for candidates."""
    from textattack import Attack
    from textattack.constraints.grammaticality import PartOfSpeech
    from textattack.constraints.pre_transformation import (
        InputColumnModification,
        RepeatModification,
        StopwordModification,
    )
    from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.transformations import WordSwapEmbedding

    encoder = UniversalSentenceEncoder(threshold=0.2, metric="cosine", compare_against_original=True, window_size=15)
    columns = [InputColumnModification([a, b], {a}) for a, b in (("sentence1", "sentence2"), ("sentence", "question"))]
    constraints = [
        RepeatModification(),
        StopwordModification(),
        *columns,
        PartOfSpeech(allow_verb_noun_swap=True),
        encoder,
    ]
    return Attack(
        UntargetedClassification(wrapper),
        constraints,
        WordSwapEmbedding(max_candidates=50),
        GreedyWordSwapWIR("delete"),
    )
