"""A family's answer in a few sentences: each name once, each attack once, every number with its direction."""

from __future__ import annotations

from dataclasses import replace

from judging import BASE, FAR, arm
from robust_tickets.reproduce.claims import HERE, Claim, Judged, answered, here, judge, sentence, small
from robust_tickets.stats.compare_runs import compare_runs

REAL, SUBSTITUTE = "textfooler-real", "textfooler-substitute"
TICKET, WHOLE, RANDOM = "sturdy_a_ticket", "sturdy_a_full", "sturdy_a_random"
SPREAD = (-0.4, -0.2, 0.0, 0.2, 0.4)


def judged(arm: str, other: str, attack: str, difference: float, spread: float = 1.0) -> Judged:
    found = compare_runs([50 + difference + spread * s for s in SPREAD], [50 + spread * s for s in reversed(SPREAD)])
    return Judged(
        claim=Claim(arm=arm, other=other, attack=attack, task="sst2", split=None),
        comparison=found,
        arm=None,
        other=None,
    )


def test_forms_of_one_recipe_are_named_by_their_form_under_an_attack_that_is_named_once() -> None:
    found = [
        judged(TICKET, WHOLE, REAL, -2.3),
        judged(TICKET, RANDOM, REAL, 3.4),
        judged(TICKET, "finetune_epochs_7", REAL, 9.9),
        judged(WHOLE, "finetune_epochs_7", REAL, 12.2),
        judged(TICKET, "freelb3", REAL, 1.0, spread=40.0),
    ]
    assert answered(found) == (
        "Under TextFooler (real lists), ASCC on the real lists: EarlyRobust ticket is 2.3 points weaker than the whole model, 3.4 sturdier "
        "than the random ticket and 9.9 sturdier than Fine-tuning, 7 epochs. The whole model is 12.2 points sturdier than Fine-tuning, 7 "
        "epochs. 1 of 5 claims is undecided."
    )


def test_a_rival_is_named_once_for_all_attacks() -> None:
    found = [
        judged(TICKET, "finetune_average", attack, gain)
        for attack, gain in ((REAL, 11.0), (SUBSTITUTE, -6.0), ("pwws", -9.9))
    ]
    assert answered(found) == (
        "Against Fine-tuning, weights averaged, ASCC on the real lists: EarlyRobust ticket is 11.0 points sturdier under TextFooler "
        "(real lists), 6.0 weaker under TextFooler (substitute lists) and 9.9 weaker under PWWS."
    )


def test_an_arm_that_is_named_again_keeps_a_name() -> None:
    found = [
        judged(TICKET, other, attack, 9.0) for attack in (REAL, SUBSTITUTE) for other in (WHOLE, RANDOM, "finetune")
    ]
    first, second = answered(found).split(". ")
    assert first.startswith(
        "Under TextFooler (real lists), ASCC on the real lists: EarlyRobust ticket is 9.0 points sturdier than the whole"
    )
    assert second.startswith(
        "Under TextFooler (substitute lists), the EarlyRobust ticket is 9.0 points sturdier than the whole model, 9.0"
    )
    assert answered([judged("earlyrobust_first", "finetune", REAL, 0.1), judged(TICKET, WHOLE, REAL, 0.1)]) == (
        "EarlyRobust and Fine-tuning lie within 5 points of each other under TextFooler (real lists). ASCC on the real lists: EarlyRobust "
        "ticket and the whole model lie within 5 points of each other under TextFooler (real lists)."
    )


def test_a_verdict_that_other_texts_may_change_says_so() -> None:
    judged = judge("A", [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR})])[0].comparison
    assert judged is not None
    assert judged.verdict == "different"
    for low, high, words in ((4.0, 26.0, ""), (-0.5, 30.0, HERE), (-30.0, 0.5, HERE), (-9.0, -1.0, "")):
        assert here(replace(judged, over_examples=(low, high))) == words
    assert here(replace(judged, over_examples=None)) == ""
    same = replace(judged, difference=0.5, adjusted_p=0.9, adjusted_equivalence_p=0.01)
    assert same.verdict == "equivalent"
    for low, high, words in ((-4.9, 4.9, ""), (-5.1, 4.0, HERE), (-1.0, 6.0, HERE)):
        assert here(replace(same, over_examples=(low, high))) == words
    assert (
        here(replace(judged, adjusted_p=0.9, adjusted_equivalence_p=0.9, over_examples=(-9.0, 9.0))) == ""
    )  # undecided anyway


def test_a_difference_that_is_sure_and_small_is_called_small() -> None:
    """Both can be shown at once; a reader who asks whether two are as good as each other wants both."""
    judged = judge("A", [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR})])[0]
    assert judged.comparison is not None
    large = replace(judged.comparison, adjusted_equivalence_p=0.9, over_examples=(4.0, 26.0))
    assert small(large) == ""
    close = replace(large, difference=-2.3, adjusted_equivalence_p=0.01, over_examples=(-3.7, -1.0))
    assert close.verdict == "different"
    assert small(close) == ", by less than 5 points"
    assert "less sturdy, by less than 5 points, −2.3" in sentence(replace(judged, comparison=close))
    assert small(replace(close, over_examples=(-5.2, -0.4))) == ""  # other texts do not bear it out
    assert small(replace(close, adjusted_p=0.9)) == ""  # equivalent, and called so
