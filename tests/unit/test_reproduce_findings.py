"""Findings, and the words for verdicts and goals: they say no more than the runs do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from judging import BASE, CONFIRM, FAR, NEAR, REAL, SUBSTITUTE, arm, by_name, keep, made, screening
from robust_tickets.report.numbers import GLUE
from robust_tickets.reproduce.answers.parts import claim_cells
from robust_tickets.reproduce.answers.robust import verdicts
from robust_tickets.reproduce.claims import judge
from robust_tickets.reproduce.fill import beside, fill
from robust_tickets.reproduce.findings import findings
from robust_tickets.reproduce.goals import goals, reached_of
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page import make
from robust_tickets.reproduce.published import tables
from robust_tickets.reproduce.verdicts import HERE, answered, here, sentence, small

SPAN = f"{GLUE}to{GLUE}+"  # of an interval above 0


def test_findings_say_what_was_not_run() -> None:
    text = findings([])
    assert text.count("ot run") >= 2
    assert "**" not in text
    assert "0 of the papers' 1,066 printed numbers have runs of ours beside them" in text
    part = findings([o for o in screening() if o.unit.arm != "sturdy_e"])
    assert "Until then nothing is chosen" in part
    assert "reached" not in part.partition("## B")[2].partition("Not all run")[2]
    short = findings([o for o in screening() if (o.unit.arm, o.unit.seed) != ("finetune", 4)])
    assert "Not all run: Fine-tuning, 4 of 5 runs. Until then nothing is chosen" in short
    one = findings([o for o in screening() if (o.unit.arm, o.unit.seed) != ("sturdy_c", 1)])
    assert (
        "| SynonymHotFlip on the real lists, p 0.8: screened ticket, 1 run so far | 92.0 (0.0) | 62.0 (+18.0) | not run |"
        in one
    )
    assert one.count("so far") == 1


def test_findings_answer_with_intervals(tmp_path: Path) -> None:
    runs = [
        *screening(),
        *arm("earlyrobust", {REAL: NEAR, SUBSTITUTE: BASE}),
        *arm("random", {REAL: BASE, SUBSTITUTE: BASE}),
    ]
    text = findings(read_all(keep(tmp_path, runs)), tmp_path)
    assert "- sturdier than Fine-tuning: **not all run**" in text
    assert (
        "- sturdier than Random ticket: **not shown: undecided**" in text
        or "- sturdier than Random ticket: **not by 5 points or more: equivalent**" in text
    )
    assert (
        "Chosen on validation, 2 runs each, among 6 configurations and 6 plain trials, by clean accuracy and TextFooler (real"
        in text
    )
    ran = sum(cell.ours is not None for cell in beside(runs))
    assert f"{ran} of the papers' 1,066 printed numbers have runs of ours beside them" in text
    assert ran == sum(fill(one.id, runs).counts()["filled"] for one in tables() if one.kind != "figure") > 0
    assert (
        "The two, recipe and plain rival, are each the best of 6 by one rule; SST-2, 200 texts of test, which chose nothing."
        in text
    )
    assert (
        text.partition("## B")[2]
        .partition("\n\n")[2]
        .startswith("**Yes: 5 of 5 goals are reached. Against Fine-tuning, Synonym")
    )
    assert text.count("\n- **reached**: ") == 5
    row = next(line for line in text.splitlines() if line.startswith("| PWWS |"))
    assert row.startswith(
        "| PWWS | 59.0 (54.8–63.2), 5 runs | 44.0 (39.8–48.2), 5 runs | +15.0 (+10.1\u00a0to\u00a0+19.9) | "
    )
    assert row.endswith("| **sturdier** |")
    assert "no protection in general" not in text
    assert sum(max(1, -(-len(line) // 120)) for line in text.splitlines()) < 100  # two screens
    assert "| Fine-tuning | 92.0, 5 runs | 44.0 (39.8–48.2), 5 runs |" in text
    assert findings(read_all(tmp_path), tmp_path) == text


def test_findings_name_the_folder_that_they_are_of(tmp_path: Path) -> None:
    """By its name alone: those of a rehearsal beside the repository's results are not called `results`."""
    runs = arm("random", {REAL: BASE})
    for name in ("results", "rehearsal"):
        text = findings(runs, keep(tmp_path / name, runs))
        assert f"files in `{name}/`; the page is `{name}/index.html`." in text
        assert str(tmp_path) not in text
        assert findings(runs, tmp_path / name / "units" / "..") == text
    assert "files in `results/`" in findings(runs)


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
    assert claim_cells(replace(judged, comparison=close))[-1] == "**less sturdy**, by less than 5 points"
    assert small(replace(close, over_examples=(-5.2, -0.4))) == ""  # other texts do not bear it out
    assert small(replace(close, adjusted_p=0.9)) == ""  # equivalent, and called so


def test_a_caveat_is_about_the_claims_that_a_word_rests_on() -> None:
    """Of those that need it; where all do, no attack is named."""
    judged = judge(
        "A", [*arm("finetune", {REAL: BASE, SUBSTITUTE: BASE}), *arm("earlyrobust", {REAL: FAR, SUBSTITUTE: FAR})]
    )
    sure, doubtful, same = (
        [
            replace(one, comparison=one.comparison and replace(one.comparison, **changed))
            for one in judged
            if one.claim.other == "finetune"
        ]
        for changed in (
            {"over_examples": (4.0, 26.0)},
            {"over_examples": (-1.0, 31.0)},
            {"difference": 0.5, "adjusted_p": 0.9, "adjusted_equivalence_p": 0.01, "over_examples": (-6.0, 7.0)},
        )
    )
    assert verdicts(sure) == "yes"
    assert verdicts(doubtful) == f"yes{HERE}"
    assert (
        verdicts([sure[0], doubtful[1]])
        == "yes (on these texts; others may differ under TextFooler (substitute lists))"
    )
    assert verdicts([sure[0], same[1]]) == "under 1 attack of 2, not shown under the rest"
    assert verdicts([doubtful[0], same[1]]) == f"under 1 attack of 2{HERE}, not shown under the rest"
    assert verdicts(same) == f"not by 5 points or more: equivalent{HERE}"
    assert answered(same).endswith(f"under TextFooler (real lists) and TextFooler (substitute lists){HERE}.")
    close = replace(same[0], comparison=same[0].comparison and replace(same[0].comparison, over_examples=(-3.0, 4.0)))
    assert answered([close, same[1]]).endswith(
        "(on these texts; others may differ under TextFooler (substitute lists))."
    )


def test_goals_tell_what_other_texts_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HERE not in by_name(screening())["gain"].told
    monkeypatch.setattr("robust_tickets.reproduce.goals.here", lambda found: HERE)
    told = by_name(screening())
    assert HERE in told["gain"].told
    assert told["unseen"].told.count(HERE) == 3


def test_a_goal_that_few_runs_measured_is_told_as_such() -> None:
    shared = [replace(o, cost={**o.cost, "processes": 9}) for o in screening()]
    timed = [
        made("sturdy_c_ticket", 2, repeat=1, train_seconds=150.0),
        made("finetune", 0, repeat=1, train_seconds=100.0),
    ]
    found = goals([*shared, *timed])
    cost = next(goal for goal in found if goal.name == "cost")
    assert (cost.reached, cost.few) == (True, True)
    assert cost.told == "1.50 times: 150.0 s against 100.0 s, means of 1 and 1 runs, each alone on the device"
    assert reached_of(found) == "5 of 5 goals are reached, 1 of them measured in fewer than 5 runs"
    later = [replace(one, inputs={"code": code}) for one, code in zip(timed, "ab", strict=True)]
    assert by_name([*shared, *later])["cost"].told == f"{cost.told}, by 2 versions of the code"
    assert reached_of(goals(screening())) == "5 of 5 goals are reached"
    assert reached_of([replace(cost, few=False)]) == "1 of 1 goals is reached"


def test_findings_and_page_judge_the_family_of_the_goals_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bootstrapped, which takes its time; the goals are told from what the claims are."""
    outcomes = read_all(keep(tmp_path, screening()))
    assert goals(outcomes, tmp_path) == goals(outcomes, tmp_path, judge("B", outcomes, tmp_path))
    monkeypatch.setattr("robust_tickets.reproduce.goals.judge", lambda *_: pytest.fail("judged again"))
    assert "5 of 5 goals are reached" in findings(outcomes, tmp_path)
    assert "5 of 5 goals are reached" in make(tmp_path, outcomes)


def test_intervals_of_two_runs_are_told_neither_of_goals_nor_of_claims(tmp_path: Path) -> None:
    for runs, shown in ((3, True), (2, False)):
        first = {"sturdy_c_ticket": 2, "sturdy_c_full": 0, "sturdy_c_random": 0}  # seeds
        few = [one for one in screening() if one.unit.seed < runs + first.get(one.unit.arm, 9)]
        told = by_name(few)
        assert [SPAN in told[name].told for name in ("gain", "unseen")] == [shown] * 2
        assert (SPAN in findings(few, keep(tmp_path / str(runs), few))) == shown


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


def test_the_screening_shows_another_attack_which_chooses_nothing() -> None:
    real = {"a": (124, 126), "b": (100, 101)}
    other = {"a": (20, 21), "b": (160, 161)}  # of 200
    runs = [one for one in screening("a") if one.unit.arm not in ("finetune", "sturdy_a", "sturdy_b")]
    runs += arm("finetune", {REAL: BASE, SUBSTITUTE: BASE})
    for letter in "ab":
        runs += arm(f"sturdy_{letter}", {REAL: real[letter], SUBSTITUTE: other[letter]})
    assert (
        "The recipe is ASCC on the real lists: EarlyRobust ticket, the plain rival Fine-tuning, each the best of 6 by"
        in findings(runs)
    )
    early = findings([one for one in runs if one.unit.arm != "sturdy_f"])
    rows = {
        line.split("|")[1].strip(): line
        for line in early.splitlines()
        if line.startswith("| ") and "screened ticket |" in line
    }
    assert "| 62.5 (+18.5) | 10.2 (−33.8) |" in rows["ASCC on the real lists: screened ticket"]
    assert "| 50.2 (+6.2) | 80.2 (+36.2) |" in rows["SynonymSwap on the real lists, half clean: screened ticket"]


LESS = (50, 54, 58, 60, 68)
RIGHT = 184  # examples of 200 that a model has right before an attack, if nothing else is said


def told_of(source: str = "@real", best: str = "c", right: int = RIGHT, **held: tuple[int, ...]) -> str:
    """Findings where the chosen ticket has these under attacks by their names, and as much as its rival under the others."""
    values = {
        name: held.get(name.partition("-")[0] + name.partition("-")[2].partition("confirm")[0].rstrip("-"), BASE)
        for name in CONFIRM
    }
    ticket, config = f"sturdy_{best}_ticket", {"adversary": {"source": source}}
    others = [one for one in screening(best) if one.unit.arm != ticket]
    runs = arm(ticket, {**values, "textbugger-real": LESS}, first=2, right=right, config=config)
    return findings([*others, *runs, *plain_bugged()])


def plain_bugged() -> list[Outcome]:
    return [made("finetune", seed, {"textbugger-real": count}) for seed, count in zip(range(5, 10), BASE, strict=True)]


def test_a_recipe_that_helps_only_where_it_was_trained_is_told_as_such() -> None:
    """Every claim of the family stands in the table, those too that are in no goal, and so do losses that nothing was claimed about."""
    text = told_of(textfoolerreal=FAR, bertattack=LESS)
    assert "no protection in general" in text
    for name, word in (
        ("TextFooler, real lists", "sturdier"),
        ("TextFooler, substitute lists", "undecided"),
        ("BERT-Attack", "less sturdy"),
    ):
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} | "))
        assert f"| **{word}** |" in row
    assert "TextBugger (real lists) 29.0 beside 44.0: lower under 1 of 1." in text
    assert "no protection in general" not in told_of(textfoolerreal=FAR)
    assert "no protection in general" not in told_of(bertattack=LESS)


def test_the_firmest_plain_trial_is_shown_where_the_rule_passes_it_over() -> None:
    """By the number alone it may beat what was chosen; that it lost clean accuracy is no reason to hide it."""
    runs = [one for one in screening() if one.unit.arm != "finetune_epochs_25"]
    text = findings([*runs, *arm("finetune_epochs_25", {REAL: (90, 92)}, right=180)])
    assert (
        "The rule passes Fine-tuning, 25 epochs over for its clean accuracy (−2.0); so no claim holds it against the recipe: "
        in text
    )
    assert "45.5 (real lists) beside 62.5 (real lists)." in text
    assert "The rule passes" not in findings(screening())


def test_a_headline_counts_the_claims_that_are_not_run() -> None:
    part = [o for o in screening() if o.unit.arm != "sturdy_c_ticket"] + arm(
        "sturdy_c_ticket", {CONFIRM[0]: FAR}, first=2
    )
    assert "4 of 5 claims are not run.**" in findings(part)
    assert "claims are not run" not in findings(screening())


def test_advice_is_given_of_the_words_that_were_trained_on() -> None:
    assert "no protection in general" in told_of(textfoolerreal=FAR, bertattack=LESS)
    assert "no protection in general" not in told_of("wordnet", textfoolerreal=FAR, bertattack=LESS)


def test_advice_names_the_recipe_that_ships_and_a_clean_loss_only_where_these_are_what_was_measured() -> None:
    words = {"textfoolerreal": FAR, "bertattack": LESS}
    assert "train on them (`tickets run sturdy`): " in told_of(best="a", **words)
    assert "train on them: " in told_of(best="c", **words)  # another adversary than the recipe's
    assert " under BERT-Attack and −2.0 clean: no protection" in told_of(right=RIGHT - 4, **words)
    for right in (RIGHT, RIGHT + 4):
        assert " under BERT-Attack: no protection" in told_of(right=right, **words)


def test_what_has_runs_is_not_called_not_run() -> None:
    """Trained and not attacked there, or run and used to choose: each is another thing than nothing."""
    rest = [o for o in screening() if o.unit.arm not in ("sturdy_c_full", "finetune_epochs_20")]
    text = findings([*rest, *arm("sturdy_c_full", {REAL: FAR}), *arm("finetune_epochs_20", {REAL: (80, 81)})])
    line = [line for line in text.splitlines() if line.startswith("Not run: ")][-1]
    assert "whole model: trained, not attacked by TextFooler (real lists, held out) on test" in line
    assert "Fine-tuning, 20 epochs: only runs that took part in choosing it" in line
    assert "FreeLB-3" in line
    assert "not run" not in line.removeprefix("Not run: ")
    alone = [o for o in screening() if o.unit.arm != "finetune"]
    assert "The screening of 6 configurations: Fine-tuning, over which gains are taken, is not run." in findings(alone)
    few = [o for o in screening() if o.unit.arm != "finetune" or o.unit.seed < 3]
    assert "the gain over the mean of 3 runs of Fine-tuning" in findings(few)


def test_claims_about_words_that_were_trained_on_stand_beside_other_words() -> None:
    """The forms are claimed to be sturdier under one attack alone, the recipe's own ground."""

    def told(table: str, *names: str) -> list[str]:
        kinds = dict.fromkeys((SUBSTITUTE, "bertattack", "deepwordbug"), LESS) | {"pwws": BASE}
        more = {name: arm(name, kinds, first=20, config={"adversary": {"source": table}}) for name in names}
        text = findings([*screening(table=table), *(run for some in more.values() for run in some)])
        return [line for line in text.splitlines() if "All this is under words trained on. " in line]

    both = ("sturdy_c_ticket", "sturdy_c_full")
    (line,) = told("@real", *both)
    assert (
        "Under TextFooler (substitute lists), BERT-Attack, DeepWordBug and PWWS, on validation, not claimed, " in line
    )
    assert line.endswith("the EarlyRobust ticket has 29.0, 29.0, 29.0, 44.0, under 0 of 4 lower than whole model.")
    assert told("wordnet", *both) == told("@real", both[0]) == told("@real", both[1]) == []


def test_the_attack_with_a_sentence_encoder_is_told_under_a() -> None:
    """Under each set of candidates, which is named: on the one a ticket may be ahead, on the other behind."""
    lists = [(name, [f"{name}-encoder{share}" for share in (50, 75, 90)]) for name in (REAL, SUBSTITUTE)]

    def runs(*some: tuple[str, list[str]]) -> list[Outcome]:
        kinds = dict.fromkeys((name for own, more in some for name in (own, *more)), BASE)
        return [run for name in ("finetune", "earlyrobust", "random") for run in arm(name, kinds)]

    def said(*names: str) -> str:
        gaps = " and ".join(f"0.0, 0.0, 0.0 ({name} lists)" for name in names)
        told = f"{gaps} against Fine-tuning; {gaps} against Random ticket."
        return f"passes 50, 75 and 90 % of the candidates of TextFooler, not claimed: {told}"

    assert said("real", "substitute") in findings(runs(*lists))
    assert said("real") in findings(runs(lists[0]))
    assert said("substitute") in findings(runs(lists[1]))
    assert "substitute sentence encoder" not in findings([o for o in runs(*lists) if o.unit.arm != "random"])


def test_other_ways_to_train_are_told_where_they_claim() -> None:
    base = [*arm("finetune", {REAL: BASE, SUBSTITUTE: BASE}), *arm("earlyrobust", {REAL: NEAR, SUBSTITUTE: BASE})]
    freelb, few = arm("freelb3", {REAL: FAR, SUBSTITUTE: BASE}), arm("earlybert", {REAL: FAR, SUBSTITUTE: FAR})[:3]
    assert "FreeLB" not in findings(base).partition("## B")[0]
    text = findings([*base, *freelb, *few]).partition("## B")[0]
    assert "FreeLB-3 sturdier than Fine-tuning: under 1 attack of 2" in text
    assert "+15.0 (real lists) and 0.0 (substitute lists)." in text
    assert "EarlyBERT" not in text  # three runs are shown on the page and claim nothing


def test_what_to_do_is_said_first_and_only_where_claims_bear_it_out() -> None:
    def told_of(real: tuple[float, ...], substitute: tuple[float, ...], n: int = 5) -> str:
        names = {"finetune": (BASE, BASE), "random": (BASE, BASE), "earlyrobust": (real, substitute)}
        runs = [run for name, (one, other) in names.items() for run in arm(name, {REAL: one, SUBSTITUTE: other})[:n]]
        return findings(runs).partition("## A")[0]

    assert (
        "**In short.** Take a searched ticket for its size: that it is sturdier at equal length is not shown."
        in told_of(BASE, BASE)
    )
    assert "**In short.** A searched ticket is smaller, and sturdier at equal length." in told_of(FAR, FAR)
    assert "In short" not in told_of(FAR, BASE)  # the answer tells which
    assert "In short" not in told_of(BASE, BASE, n=4)
    assert "In short" not in findings([])
    runs = [run for name in ("finetune", "random", "earlyrobust") for run in arm(name, {REAL: BASE, SUBSTITUTE: BASE})]
    small = findings([replace(runs[0], notes=("sst2: 48 of the 67,349 rows of train",)), *runs[1:]])
    assert "1 of 15 results is of a part of the data, a rehearsal" in small
    assert "In short" not in small
