"""A family's answer in a few sentences: each name once, each attack once, every number with its direction."""

from __future__ import annotations

from robust_tickets.measure.verdict import compare_runs
from robust_tickets.reproduce.claims import Claim, Judged
from robust_tickets.reproduce.verdicts import answered

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
