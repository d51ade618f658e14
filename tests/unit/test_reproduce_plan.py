"""Plans: every published number of every table has its cell, units come once and seed by seed, `--only` keeps what it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.reproduce import published
from robust_tickets.reproduce.arms import arms, rows
from robust_tickets.reproduce.claims import family
from robust_tickets.reproduce.claims import fixed as families
from robust_tickets.reproduce.paths import Paths, _rows
from robust_tickets.reproduce.plan import (
    KEYS,
    SEARCHES,
    TICKET,
    Only,
    Plan,
    campaign,
    campaigns,
    plan,
    read_only,
)
from robust_tickets.stats.compare_runs import FEWEST_RUNS

IDS = [table.id for table in published.tables()]
NOWHERE = Paths()


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """All resources, the rest from the Hub."""
    folder = tmp_path_factory.mktemp("equipped")
    for name in ("substitute", "real", "tagger", "masked", "corpus", "encoder"):
        (folder / name).mkdir()
    return Paths(
        substitute=folder / "substitute", real=folder / "real", tagger=folder / "tagger", masked=folder / "masked",
        corpus=folder / "corpus", encoder=folder / "encoder",
    )  # fmt: skip


@pytest.fixture(scope="module")
def confirming(equipped: Paths, tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """With rows of SST-2 that have a labelled test, which the Hub has not."""
    folder = tmp_path_factory.mktemp("confirming")
    (folder / "data" / "sst2").mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (folder / "data" / "sst2" / f"{split}.csv").write_text("sentence,label\ngood,1\nbad,0\n")
    return replace(equipped, data=folder / "data", subset=True)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("flavour", ["corrected", "as-published", "as-released"])
def test_every_number_has_its_cell(id: str, flavour: str, equipped: Paths) -> None:
    made = plan([id], seeds=2, flavour=flavour, paths=equipped)
    if published.table(id).kind == "table":
        cells = {(c.row, c.task, c.backbone, c.metric, c.attack): c.published for c in made.cells}
        assert cells == {(c.row, c.task, c.backbone, c.metric, c.attack): c.value for c in published.cells(id)}
    else:
        assert {(c.row, c.task, c.x) for c in made.cells} == {
            (row.name, task, row.x) for row in rows(id, flavour) for task in row.tasks
        }
        assert {c.metric for c in made.cells} == ({TICKET} if id in SEARCHES else {"clean", "aua"})
    sound(made)
    for cell in made.cells:
        assert cell.why or cell.units
        assert cell.why or not cell.attack or cell.attacks


def sound(made: Plan) -> None:
    """Each unit once, seed by seed; every cell's attacks are run on all of its units; what cannot be made runs nothing."""
    assert len(set(made.units)) == len(made.units)
    if not made.title.startswith("campaign"):
        assert [(u.seed, u.repeat) for u in made.units] == sorted((u.seed, u.repeat) for u in made.units)
    assert set(made.attacks) == set(made.units) >= made.searches
    asked = {unit for cell in made.cells if not cell.why for unit in cell.units}
    assert asked == set(made.units)
    for cell in made.cells:
        for unit in cell.units if not cell.why else ():
            assert set(cell.attacks) <= {one.name for one in made.attacks[unit]}
            assert (unit in made.searches) <= (cell.metric == TICKET)


@pytest.mark.parametrize("name", list(campaigns()))
def test_campaigns_are_sound(name: str, equipped: Paths, confirming: Paths) -> None:
    made = campaign(name, confirming if name in ("A", "B") else equipped)
    sound(made)
    assert not made.missing
    assert not [cell for cell in made.cells if cell.why]
    assert {unit.arm for unit in made.units} <= set(arms())


def test_a_campaigns_parts_come_one_after_the_other(equipped: Paths) -> None:
    """What is dropped where time runs out is dropped from the end: IMDB is not begun before SST-2's other methods are through."""
    units = campaign("E", equipped).units
    others = [i for i, unit in enumerate(units) if unit.arm in ("pgd", "infobert", "imp")]
    before, after = ([i for i, unit in enumerate(units) if unit.task == task] for task in ("rte", "imdb"))
    assert max(before) < min(others) <= max(others) < min(after)
    assert [units[i].seed for i in after] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_what_is_confirmed_meets_every_attack(confirming: Paths) -> None:
    made = campaign("B", confirming)
    asked = {unit.arm: {one.name for one in made.attacks[unit]} for unit in made.units if not unit.repeat}
    assert {"finetune_epochs_7", "freelb3_epochs_7", "finetune_epochs_20", "sturdy_a_random"} <= asked.keys()
    common = {
        "bertattack",
        "bertattack_papers-real",
        "textbugger-real",
        "pwws",
        "deepwordbug",
        "textfooler-real-confirm",
    }
    assert all(common <= own for own in asked.values())
    assert {arm for arm, own in asked.items() if "pwws-confirm" in own} == {"sturdy_a_ticket", "finetune_average"}
    assert len({(cell.arm, cell.metric, cell.attack) for cell in made.cells}) == len(made.cells)


def test_the_confirming_split_is_for_the_chosen_recipe_alone(equipped: Paths) -> None:
    with refused("protocol.confirm"):
        plan(["ER-T1"], paths=equipped, groups=["main", "confirm"])
    for name in ("C", "D", "E", "F"):
        with refused("protocol.confirm"):
            campaign(name, equipped, groups=["pwws-confirm"])
        assert not any(one.group == "confirm" for all in campaign(name, equipped).attacks.values() for one in all)


def test_fine_tuning_is_confirmed_where_it_is_run(confirming: Paths) -> None:
    """The recipe that wins is held against A's runs of fine-tuning; a second training of theirs might give others."""
    made = campaign("A", confirming)
    confirmed = {(u.arm, u.repeat) for u in made.units if any(one.group == "confirm" for one in made.attacks[u])}
    assert confirmed == {("finetune", 0)}
    repeats = [unit for unit in campaign("A", confirming).units if unit.repeat]
    assert len(repeats) == 6
    assert {one.group for unit in repeats for one in campaign("A", confirming).attacks[unit]} == {"main"}
    (main,) = [
        one for one in campaign("A", confirming).cells if (one.arm, one.attack) == ("finetune", "textfooler-real")
    ]
    assert len(main.units) == 7  # five seeds, and the first twice more


def test_of_a_search_alone_nothing_is_attacked(equipped: Paths) -> None:
    only = [("task", "sst2"), ("backbone", "bert-base-uncased")]
    made = plan(["OR-F1", "ER-F4"], seeds=1, only=only, groups=["main"], paths=equipped)
    assert made.searches
    for unit in made.units:
        assert len(made.attacks[unit]) == (0 if unit in made.searches else 2)


def test_campaigns_may_be_asked_for_together(equipped: Paths) -> None:
    both, first, second = (campaign(name, equipped) for name in ("a, B", "A", "B"))
    every = dict.fromkeys((*first.units, *second.units))
    assert both.units == (*(unit for unit in every if not unit.repeat), *(unit for unit in every if unit.repeat))
    assert any(unit.repeat for unit in both.units)
    assert both.title == f"{first.title}; {second.title}"
    with refused("plan.unknown_campaign"):
        campaign("A,X", equipped)


def test_what_took_part_in_the_choice_is_confirmed_with_other_seeds(confirming: Paths) -> None:
    seeds: dict[str, list[int]] = {}
    *units, timed = campaign("B", confirming).units
    assert (timed.arm, timed.seed, timed.repeat) == ("sturdy_a_ticket", 2, 1)
    for unit in units:
        seeds.setdefault(unit.arm, []).append(unit.seed)
    fresh, whole = [2, 3, 4, 5, 6], [0, 1, 2, 3, 4]
    assert seeds["sturdy_a_ticket"] == seeds["finetune_average"] == seeds["finetune_epochs_20"] == fresh
    assert seeds["sturdy_a_full"] == seeds["freelb3"] == seeds["finetune_epochs_7"] == whole


def test_the_confirming_campaign_needs_labels(equipped: Paths, confirming: Paths) -> None:
    made = campaign("b", confirming)
    sound(made)
    (confirmed,) = {
        attack.table.get("split") for unit in made.units for attack in made.attacks[unit] if attack.group == "confirm"
    }
    assert confirmed == "test"
    assert len(campaign("B", equipped).missing) == 1
    assert not any(attack.group == "confirm" for all in campaign("B", equipped).attacks.values() for attack in all)
    (confirming.data / "sst2" / "test.csv").unlink()  # type: ignore[operator]
    try:
        _rows.cache_clear()
        assert len(campaign("B", confirming).missing) == 1
    finally:
        (confirming.data / "sst2" / "test.csv").write_text("sentence,label\ngood,1\nbad,0\n")  # type: ignore[operator]
        _rows.cache_clear()


def test_every_claim_gets_its_runs(confirming: Paths) -> None:
    """A family whose runs nobody plans would stay undecided for ever. And nobody else is confirmed."""
    planned: dict[tuple[str, str], set[int]] = {}
    for name in campaigns():
        for unit, all in campaign(name, confirming).attacks.items():
            for attack in all:
                if unit.repeat == 0:
                    planned.setdefault((unit.arm, attack.name), set()).add(unit.seed)
                assert attack.group != "confirm" or unit.arm.startswith(("sturdy_a", "finetune", "freelb3"))
    for name, told in families()["families"].items():
        claims = {(claim.attack, claim.arm, claim.other) for claim in family(name).claims}
        runs = [min(len(planned[arm, attack]) for arm in arms) for attack, *arms in claims]
        assert sum(count >= FEWEST_RUNS for count in runs) == told.get("made", len(claims)), name


def test_only_keeps_what_it_names(equipped: Paths) -> None:
    made = plan(
        ["ER-T1", "RT-T1"],
        only=[
            ("task", "sst2"),
            ("method", "EarlyRobust"),
            ("method", "finetune"),
            ("attack", "textfooler-real"),
            ("seed", "3"),
        ],
        paths=equipped,
    )
    assert {cell.task for cell in made.cells} == {"sst2"}
    assert {cell.arm for cell in made.cells} == {"earlyrobust_first", "finetune"}
    assert {(u.arm, u.seed) for u in made.units} == {
        ("earlyrobust_first", 3),
        ("finetune", 3),
    }  # RT-T1's fine-tuning is ER-T1's
    assert {one.name for all in made.attacks.values() for one in all} == {"textfooler-real"}
    assert {cell.attack for cell in made.cells} == {None, "textfooler"}


def test_only_a_metric_attacks_no_more_than_it_needs(equipped: Paths) -> None:
    made = plan(["ER-T1"], seeds=1, only=[("task", "sst2"), ("metric", "clean")], paths=equipped)
    assert not any(made.attacks.values())
    assert {cell.metric for cell in made.cells} == {"clean"}


def test_groups_are_run_whole(equipped: Paths) -> None:
    made = plan(
        ["ER-T1"], seeds=1, only=[("task", "sst2"), ("method", "finetune")], paths=equipped, groups=["main", "more"]
    )
    (names,) = [{one.name for one in all} for all in made.attacks.values()]
    assert {"pwws", "deepwordbug", "textfooler-real"} <= names
    less = plan(["ER-T1"], seeds=1, only=[("task", "sst2"), ("method", "finetune")], paths=equipped, groups=["main"])
    (why,) = {cell.why for cell in less.cells if cell.attack == "textbugger"}
    assert why == "textbugger is not asked for: --attacks more"


def test_what_is_missing_is_told_once_and_leaves_the_rest(tmp_path: Path) -> None:
    made = plan(["ER-T1"], seeds=1, only=[("task", "sst2")], paths=NOWHERE)
    assert len(set(made.missing)) == len(made.missing)
    assert any("counterfit-substitute" in words for words in made.missing)
    assert not any(cell.why for cell in made.cells if cell.metric == "clean")
    assert not any(made.attacks.values())
    (tmp_path / "data").mkdir()
    none = plan(["ER-T1"], seeds=1, only=[("task", "sst2")], paths=Paths.find(data=tmp_path / "data"))
    assert none.units == ()


names = (
    st.text(st.characters(categories=["L", "N"], include_characters="-_ %"), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool)
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), names), max_size=5))
def test_pairs_are_read_as_written(pairs: list[tuple[str, str]]) -> None:
    assert read_only([f"{key}={value}" for key, value in pairs]) == tuple(pairs)
    joined = {key: [value for known, value in pairs if known == key] for key, _ in pairs}
    assert sorted(read_only([f"{key} = {' , '.join(values)}" for key, values in joined.items()])) == sorted(pairs)


@given(st.sets(names, max_size=4), st.sets(names, min_size=1, max_size=4))
def test_only_takes_what_is_named_and_refuses_what_nothing_has(asked: set[str], there: set[str]) -> None:
    only = Only([("method", name) for name in sorted(asked)])
    lower = {name.lower() for name in asked}
    assert {name for name in there if only.takes("method", name)} == {
        name for name in there if not asked or name.lower() in lower
    }
    if lower <= {name.lower() for name in there}:
        only.check()
    else:
        with refused("plan.only_value"):
            only.check()


@pytest.mark.parametrize(
    ("asked", "name"), [("SST-2", "sst2"), ("AG News", "ag_news"), ("sst_2", "sst2"), ("imdb", "imdb")]
)
def test_a_task_may_be_asked_for_as_the_papers_write_it(asked: str, name: str) -> None:
    only = Only([("task", asked)])
    assert only.takes("task", name)
    assert not only.takes("task", "mrpc")
    only.check()
    assert not Only([("method", "fine-tune")]).takes("method", "finetune")  # rows differ by less than that
