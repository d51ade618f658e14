"""Claims are fixed beforehand, judged over runs, adjusted within their family; goals and findings say no more than the runs do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging import arm, keep, made
from robust_tickets.errors import TicketsError
from robust_tickets.measure.verdict import compare_runs, holm
from robust_tickets.reproduce import published
from robust_tickets.reproduce.answers import verdicts
from robust_tickets.reproduce.arms import arms
from robust_tickets.reproduce.attacks import attack
from robust_tickets.reproduce.campaign import campaigns
from robust_tickets.reproduce.claims import (
    NOT_CHOSEN,
    PLAIN,
    families_of,
    family,
    first_seed,
    form_of,
    judge,
    names,
    screened,
    spreads,
    told,
    winner,
)
from robust_tickets.reproduce.findings import findings
from robust_tickets.reproduce.goals import Goal, goals
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.wording import HERE, answered, here

REAL, SUBSTITUTE = "textfooler-real", "textfooler-substitute"
BASE, NEAR, FAR = (80, 84, 88, 90, 98), (82, 85, 88, 91, 97), (110, 114, 118, 120, 128)
CONFIRM = tuple(f"{name}-confirm" for name in (REAL, SUBSTITUTE, "bertattack", "deepwordbug", "pwws"))


def screening(best: str = "c", table: str = "real") -> list[Outcome]:
    """Fine-tuning, six configurations of which one gains most, and the winner's forms on test."""
    runs = arm("finetune", {REAL: BASE, **dict.fromkeys(CONFIRM, BASE)}, train_seconds=100.0, parameters=110e6)
    for name in told()["screen"]["plain"][1:]:
        runs += arm(name, {REAL: (80, 81)})
    for letter in "abcdef":
        runs += arm(f"sturdy_{letter}", {REAL: (124, 126) if letter == best else (100, 101)}, config={"adversary": {"source": table}})
    forms = {"ticket": (83e6, 150.0), "full": (110e6, 190.0), "random": (83e6, 140.0)}
    for form, (size, seconds) in forms.items():
        about = {"config": {"adversary": {"source": table}}, "parameters": size, "train_seconds": seconds}
        runs += arm(f"sturdy_{best}_{form}", dict.fromkeys(CONFIRM, FAR), first=2 if form == "ticket" else 0, **about)
    return runs


def by_name(outcomes: list[Outcome]) -> dict[str, Goal]:
    return {goal.name: goal for goal in goals(outcomes)}


def test_what_is_claimed_can_be_run() -> None:
    assert set(told()["screen"]["arms"]) <= set(arms())
    for id in names():
        claims = family(id).claims
        assert claims, id
        for claim in claims:
            assert attack(claim.task, claim.attack).name == claim.attack
            for name in (claim.arm, claim.other):
                forms = [name] if name[0] != "@" else [form_of(name, one) for one in told()["screen"]["arms"]]
                forms = told()["screen"]["plain"] if name == PLAIN else forms
                assert set(forms) <= set(arms()), (id, name)
            if claim.split is not None:
                assert (claim.split == "test") == claim.attack.endswith("-confirm")
    given = told()["goals"]
    assert {given["seen"], *given["unseen"], *given["own_ground"]} <= {claim.attack for claim in family(given["family"]).claims}


def test_the_question_that_was_asked_is_a_family() -> None:
    pairs = {(claim.arm, claim.other, claim.attack) for claim in family("A").claims}
    assert pairs == {("earlyrobust", other, name) for other in ("finetune", "random") for name in (REAL, SUBSTITUTE)}
    assert (family("A").margin, told()["goals"]["gain"], told()["goals"]["clean_below"], told()["goals"]["cost"]) == (5.0, 10.0, 0.5, 2.0)
    with pytest.raises(TicketsError, match="no family"):
        family("Z")


def test_a_table_is_a_family_of_its_own_method_against_the_other_rows() -> None:
    claims = family("ER-T3").claims
    assert {claim.task for claim in claims} == set(published.table("ER-T3").tasks)
    assert {claim.arm for claim in claims} == {"earlyrobust"}
    assert "random" in {claim.other for claim in claims}
    assert len(set(claims)) == len(claims)
    assert families_of("ER-T3") == ("ER-T3",)
    assert families_of("campaign B2") == ("B", "B-forms", "B-validation")
    assert families_of("ER-F2") == families_of("OR-T2") == ()


def test_claims_are_adjusted_together(tmp_path: Path) -> None:
    runs = [
        *arm("finetune", {REAL: BASE, SUBSTITUTE: BASE}),
        *arm("earlyrobust", {REAL: FAR, SUBSTITUTE: NEAR}),
        *arm("random", {REAL: NEAR, SUBSTITUTE: FAR}),
    ]
    judged = judge("A", read_all(keep(tmp_path, runs)), tmp_path)
    alone = [compare_runs([c / 2 for c in a], [c / 2 for c in b]) for a, b in ((FAR, BASE), (FAR, NEAR), (NEAR, BASE), (NEAR, FAR))]
    found = [one.comparison for one in judged]
    assert [c and c.adjusted_p for c in found] == pytest.approx(holm([c.p or 0.0 for c in alone]))
    assert [one.verdict for one in judged] == ["different", "different", "undecided", "different"]
    assert all(c is not None and c.of == 4 and c.over_examples is not None for c in found)
    assert judged[2].substituted == ("made-up vectors",)
    assert judged[3].comparison is not None
    assert judged[3].comparison.difference < 0


def test_claims_to_come_are_counted_already() -> None:
    """But for a table: many of its rows will never be run."""
    runs = [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR}), *arm("freelb3", {REAL: FAR})]

    def counted(id: str) -> set[int]:
        return {one.comparison.of for one in judge(id, runs) if one.comparison}

    assert (counted("A"), counted("C-methods"), counted("ER-T1")) == ({4}, {2}, {1})
    (early,) = [one.comparison for one in judge("A", runs) if one.comparison]
    assert early.p is not None
    assert early.adjusted_p == pytest.approx(4 * early.p)


def test_four_runs_make_no_claim() -> None:
    runs = [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR[:4]})]
    first, *others = judge("A", runs)
    assert first.verdict == "too few runs"
    assert first.comparison is not None
    assert (first.comparison.n, first.comparison.adjusted_p) == ((4, 5), None)
    assert {one.verdict for one in others} == {"not run"}
    assert all(one.why for one in others)


def test_different_examples_are_not_compared() -> None:
    other = [replace(o, attacks=tuple(replace(a, examples="e" * 64) for a in o.attacks)) for o in arm("earlyrobust", {REAL: FAR})]
    first = judge("A", [*arm("finetune", {REAL: BASE}), *other])[0]
    assert (first.comparison, first.why) == (None, "the two were attacked on different examples")
    other = [replace(o, attacks=tuple(replace(a, scoring="other") for a in o.attacks)) for o in arm("earlyrobust", {REAL: FAR})]
    first = judge("A", [*arm("finetune", {REAL: BASE}), *other])[0]
    assert (first.comparison, first.why) == (None, "the two were attacked by different rules, or with different words")


def test_repeats_are_reported_and_do_not_weigh() -> None:
    again = [made("finetune", 0, {REAL: count}, repeat=r) for r, count in ((1, 60), (2, 90))]
    runs = [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: NEAR})]
    assert judge("A", [*runs, *again])[0].comparison == judge("A", runs)[0].comparison
    (spread,) = spreads([*runs, *again], task="sst2", attack=REAL)
    assert (spread.name, spread.repeated, spread.within_range) == ("finetune", 3, 15.0)
    assert spreads(runs, task="sst2", attack=REAL) == ()
    assert "up to 15.0 points apart (Fine-tuning, 3 runs, TextFooler, real lists)" in findings([*runs, *again])


def test_the_screening_chooses_by_its_rule_once_it_is_whole() -> None:
    runs = screening("c")
    assert winner(runs) == "sturdy_c"
    assert [one.goals for one in screened(runs)] == [2, 1, 1, 1, 1, 1]
    assert winner([o for o in runs if o.unit.arm != "sturdy_f"]) is None
    # a gain that costs more clean accuracy than is allowed comes after one that reaches both goals
    costly = [o if o.unit.arm != "sturdy_a" else made("sturdy_a", o.unit.seed, {REAL: 150}, right=178) for o in runs]
    assert winner(costly) == "sturdy_c"
    cheap = [o if o.unit.arm != "sturdy_a" else made("sturdy_a", o.unit.seed, {REAL: 150}, right=183) for o in runs]
    assert winner(cheap) == "sturdy_a"


def test_runs_after_the_choice_do_not_choose_again() -> None:
    runs = screening("f")
    unlucky = [made("sturdy_f", seed, {REAL: 60}, config={"adversary": {"source": "real"}}) for seed in (2, 3, 4)]
    assert winner([*runs, *unlucky]) == "sturdy_f"
    assert [one.n for one in screened([*runs, *unlucky])] == [2] * 6
    half = [o for o in runs if not (o.unit.arm == "sturdy_b" and o.unit.seed == 1)]
    assert winner(half) is None
    early = [o for o in runs if not (o.unit.arm == "finetune" and o.unit.seed == 4)]
    assert winner(early) is None  # one more run of it would move every gain
    assert {part.seeds for part in campaigns()["B"].parts} == {told()["screen"]["seeds"]}


def test_the_runs_that_chose_a_recipe_are_in_no_claim_about_it() -> None:
    """Not where it is confirmed, nor where it was chosen; fine-tuning, over which every gain is taken, keeps all its runs."""
    assert {name: first_seed(name) for name in ("sturdy_c", "sturdy_c_ticket", "sturdy_f", "finetune_epochs_20", "finetune_average")} == (
        dict.fromkeys(("sturdy_c", "sturdy_c_ticket", "sturdy_f", "finetune_epochs_20", "finetune_average"), 2)
    )
    assert {name: first_seed(name) for name in ("finetune", "sturdy_f_ticket", "sturdy_c_full", "freelb3")} == (
        dict.fromkeys(("finetune", "sturdy_f_ticket", "sturdy_c_full", "freelb3"), 0)
    )
    lucky = (184, 184, *FAR)  # the first two chose it
    judged = judge("B-validation", [*screening("f"), *arm("sturdy_f", {REAL: lucky[2:]}, first=2)])
    (found,) = [one.comparison for one in judged if one.comparison]
    assert (found.n, found.difference) == ((5, 5), 15.0)


def test_a_longer_rival_buys_no_time() -> None:
    values = {name: (*BASE, *BASE[:2]) if name in CONFIRM else (*FAR, *FAR[:2]) for name in (REAL, *CONFIRM)}
    longer = arm("finetune_epochs_25", values, train_seconds=250.0, parameters=110e6)
    runs = [o for o in screening() if o.unit.arm != "finetune_epochs_25"] + longer
    slow = [replace(o, cost={**o.cost, "train_seconds": 210.0}) if o.unit.arm == "sturdy_c_ticket" else o for o in runs]
    assert winner(slow, among="plain") == "finetune_epochs_25"
    assert by_name(slow)["cost"].reached is False
    assert by_name(slow)["gain"].reached is True


def test_one_attack_that_is_lost_is_enough() -> None:
    runs = []
    for one in screening():
        if one.unit.arm == "sturdy_c_ticket":
            lost = [replace(a, statuses=a.statuses.replace("f", "s", 50)) if a.name == CONFIRM[2] else a for a in one.attacks]
            one = replace(one, attacks=tuple(a for a in lost if a.name != CONFIRM[4]))
        runs.append(one)
    assert by_name(runs)["unseen"].reached is False


def test_plain_fine_tuning_has_as_many_trials_and_its_best_is_to_be_beaten() -> None:
    asked = told()["screen"]
    assert len(asked["plain"]) == len(asked["arms"])
    runs = screening("c")
    assert winner(runs, among="plain") == "finetune"
    assert {one.claim.other for one in judge("B", runs)} == {"finetune"}
    better = [o for o in runs if o.unit.arm != "finetune_epochs_15"] + arm("finetune_epochs_15", {REAL: FAR, CONFIRM[0]: BASE})
    assert winner(better, among="plain") == "finetune_epochs_15"
    assert {one.claim.other for one in judge("B", better)} == {"finetune_epochs_15"}
    untried = [o for o in runs if o.unit.arm != "finetune_epochs_25"]
    assert winner(untried, among="plain") is None
    assert {one.why for one in judge("B", untried)} == {NOT_CHOSEN}
    assert by_name(untried)["size"].told == NOT_CHOSEN


def test_the_ticket_that_is_judged_is_the_one_that_was_screened() -> None:
    assert [form_of("@own", f"sturdy_{letter}") for letter in "abcdef"] == [*(f"sturdy_{x}_ticket" for x in "abcde"), "sturdy_f"]
    assert {one.claim.arm for one in judge("B", screening("f"))} == {"sturdy_f"}


def test_goals_that_are_reached() -> None:
    found = by_name(screening())
    assert {name: goal.reached for name, goal in found.items()} == dict.fromkeys(("gain", "unseen", "clean", "cost", "size"), True)
    assert "+15.0 points" in found["gain"].told
    assert found["cost"].told.startswith("1.50 times: 150.0 s against 100.0 s")
    assert "PWWS" in found["unseen"].asked


@pytest.mark.parametrize(
    ("changed", "goal", "reached"),
    [
        ({"held": {CONFIRM[0]: 100}}, "gain", False),  # 50.0 in every run: 6 points more
        ({"held": {CONFIRM[2]: 88}}, "unseen", False),
        ({"right": 182}, "clean", False),
        ({"train_seconds": 210.0}, "cost", False),
        ({"train_seconds": 190.0, "search_seconds": 11.0}, "cost", False),
        ({"processes": 2}, "cost", None),
        ({"parameters": 110e6}, "size", False),
    ],
)  # fmt: skip
def test_goals_that_are_not(changed: dict[str, object], goal: str, reached: bool | None) -> None:
    runs = []
    for outcome in screening():
        if outcome.unit.arm == "sturdy_c_ticket":
            counts = {a.name: a.statuses.count("f") for a in outcome.attacks}
            told: dict[str, object] = {"parameters": 83e6, "train_seconds": 150.0, **changed}
            held = {**counts, **told.pop("held", {})}  # type: ignore[dict-item]
            outcome = made("sturdy_c_ticket", outcome.unit.seed, held, **told)  # type: ignore[arg-type]
        runs.append(outcome)
    found = by_name(runs)
    assert found[goal].reached is reached
    assert [name for name, one in found.items() if one.reached is not True] == [goal]


def test_an_attack_with_the_words_that_were_trained_on_is_not_unseen() -> None:
    assert list(told()["overlap"]) == ["@real", "@substitute", "wordnet"]
    assert "Trained on real lists, which hold of the candidates of TextFooler (real lists) 72.2 %," in findings(screening(table="@real"))
    assert "Trained on wordnet, which hold of the candidates of TextFooler (real lists) 12.7 %," in findings(screening(table="wordnet"))
    goal = by_name(screening(table="wordnet"))["unseen"]
    assert "PWWS" not in goal.asked
    assert "PWWS, held out is left out" in goal.told


def test_nothing_is_judged_before_it_is_chosen() -> None:
    assert {one.why for one in judge("B", arm("finetune", {REAL: BASE}))} == {NOT_CHOSEN}
    assert {goal.reached for goal in goals([])} == {None}


def test_findings_say_what_was_not_run() -> None:
    text = findings([])
    assert text.count("ot run") >= 2
    assert "**" not in text
    part = findings([o for o in screening() if o.unit.arm != "sturdy_e"])
    assert "Until then nothing is chosen" in part
    assert "reached" not in part.partition("## B")[2].partition("Not run")[2]
    short = findings([o for o in screening() if (o.unit.arm, o.unit.seed) != ("finetune", 4)])
    assert "Not run: Fine-tuning, 4 of 5 runs. Until then nothing is chosen" in short


def test_findings_answer_with_intervals(tmp_path: Path) -> None:
    runs = [*screening(), *arm("earlyrobust", {REAL: NEAR, SUBSTITUTE: BASE}), *arm("random", {REAL: BASE, SUBSTITUTE: BASE})]
    text = findings(read_all(keep(tmp_path, runs)), tmp_path)
    assert "- than Fine-tuning: **not all run**" in text
    assert (
        "- than Random ticket: **not shown: undecided**" in text or "- than Random ticket: **not by 5 points or more: equivalent**" in text
    )
    assert "Screened on SST-2, validation" in text
    assert "the best by the same rule, **Fine-tuning**, is what is to be beaten" in text
    assert text.count("| **reached** |") == 5
    assert "PWWS, held out: +15.0 points (+10.1\u00a0to\u00a0+19.9), 5 and 5 runs, different |" in text
    assert sum(max(1, -(-len(line) // 120)) for line in text.splitlines()) < 100  # two screens
    assert "| **sturdier** |" in text
    assert "| Fine-tuning | 92.0, 5 runs | 44.0 (39.8–48.2), 5 runs |" in text
    assert findings(read_all(tmp_path), tmp_path) == text


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
    assert here(replace(judged, adjusted_p=0.9, adjusted_equivalence_p=0.9, over_examples=(-9.0, 9.0))) == ""  # undecided anyway


def test_a_word_for_several_claims() -> None:
    base = arm("finetune", {REAL: BASE, SUBSTITUTE: BASE})

    def word(real: tuple[int, ...], substitute: tuple[int, ...]) -> str:
        judged = judge("A", [*base, *arm("earlyrobust", {REAL: real, SUBSTITUTE: substitute})])
        return verdicts([one for one in judged if one.claim.other == "finetune"])

    assert word(FAR, FAR) == "yes"
    assert word(FAR, NEAR) == "under 1 attack of 2, not shown under the rest"
    assert word((40, 44, 41, 45, 42), FAR) == "no: under some attacks less sturdy"
    assert word((88, 88, 89, 87, 88), (88, 87, 88, 89, 88)) in (
        "not by 5 points or more: equivalent",
        "not shown: undecided",
        "not shown: undecided in part",
    )
    assert word(FAR[:3], FAR[:3]) == "no claim: too few runs"


@settings(max_examples=25)
@given(st.lists(st.integers(0, 184), min_size=5, max_size=7), st.lists(st.integers(0, 184), min_size=5, max_size=7))
def test_a_claim_turned_round_has_the_same_verdict(a: list[int], b: list[int]) -> None:
    first = judge("A", [*arm("earlyrobust", {REAL: tuple(a)}), *arm("finetune", {REAL: tuple(b)})])[0]
    second = judge("A", [*arm("earlyrobust", {REAL: tuple(b)}), *arm("finetune", {REAL: tuple(a)})])[0]
    assert first.verdict == second.verdict
    assert first.comparison is not None
    assert second.comparison is not None
    assert first.comparison.difference == pytest.approx(-second.comparison.difference)


def test_what_may_not_hold_of_other_texts_is_said_so() -> None:
    judged = judge("A", [*arm("finetune", {REAL: BASE}), *arm("earlyrobust", {REAL: FAR})])[0]
    assert judged.comparison is not None
    for over, sure in (((-0.3, 6.5), False), ((0.3, 6.5), True), (None, True)):
        one = replace(judged, comparison=replace(judged.comparison, over_examples=over))
        assert ("others may differ" not in answered([one])) is sure
        assert "EarlyRobust is sturdier than Fine-tuning by 15.0 points" in answered([one])
