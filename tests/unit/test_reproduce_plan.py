"""Plans: every published number of every table has its cell, jobs come once and seed by seed, `--only` keeps what it names."""

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
from robust_tickets.reproduce.plan import KEYS, SEARCHES, TICKET, Only, Plan, campaign, campaigns, plan, read_only
from robust_tickets.stats.compare_runs import FEWEST_RUNS

IDS = [table.id for table in published.tables()]
COUNTED = Paths(counted=True)  # nothing is missing
SST2 = ("task", "sst2")


def of(made: Plan, group: str) -> set[str]:
    """The arms that a group's attacks are run on."""
    return {unit.arm for unit in made.units if any(one.group == group for one in made.attacks[unit])}


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("flavour", ["corrected", "as-published", "as-released"])
def test_every_number_has_its_cell(id: str, flavour: str) -> None:
    made = plan([id], seeds=2, flavour=flavour, paths=COUNTED)
    if published.table(id).kind == "table":
        cells = {(c.row, c.task, c.backbone, c.metric, c.attack): c.published for c in made.cells}
        assert cells == {(c.row, c.task, c.backbone, c.metric, c.attack): c.value for c in published.cells(id)}
    else:
        points = {(row.name, task, row.x) for row in rows(id, flavour) for task in row.tasks}
        assert {(c.row, c.task, c.x) for c in made.cells} == points
        assert {c.metric for c in made.cells} == ({TICKET} if id in SEARCHES else {"clean", "aua"})
    sound(made)
    for cell in made.cells:
        assert cell.why or (cell.units and (not cell.attack or cell.attacks))


def sound(made: Plan) -> None:
    """Each job once, seed by seed; every cell's attacks are run on all of its jobs; what cannot be made runs nothing."""
    assert len(set(made.units)) == len(made.units)
    if not made.title.startswith("campaign"):
        assert [(u.seed, u.repeat) for u in made.units] == sorted((u.seed, u.repeat) for u in made.units)
    assert set(made.attacks) == set(made.units) >= made.searches
    assert {unit for cell in made.cells if not cell.why for unit in cell.units} == set(made.units)
    for cell in made.cells:
        for unit in cell.units if not cell.why else ():
            assert set(cell.attacks) <= {one.name for one in made.attacks[unit]}
            assert (unit in made.searches) <= (cell.metric == TICKET)


@pytest.mark.parametrize("name", list(campaigns()))
def test_campaigns_are_sound(name: str) -> None:
    made = campaign(name, COUNTED)
    sound(made)
    assert not made.missing
    assert not [cell for cell in made.cells if cell.why]
    assert {unit.arm for unit in made.units} <= set(arms())
    assert len({cell.key for cell in made.cells}) == len(made.cells)


def test_a_campaigns_parts_come_one_after_the_other() -> None:
    """What is dropped where time runs out is dropped from the end: IMDB is not begun before SST-2's other methods are through."""
    units = campaign("E", COUNTED).units
    others = [i for i, unit in enumerate(units) if unit.arm in ("pgd", "infobert", "imp")]
    before, after = ([i for i, unit in enumerate(units) if unit.task == task] for task in ("rte", "imdb"))
    assert max(before) < min(others) <= max(others) < min(after)
    assert [units[i].seed for i in after] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_campaigns_may_be_asked_for_together() -> None:
    both, first, second = (campaign(name, COUNTED) for name in ("a, B", "A", "B"))
    every = dict.fromkeys((*first.units, *second.units))
    assert both.units == (*(unit for unit in every if not unit.repeat), *(unit for unit in every if unit.repeat))
    assert any(unit.repeat for unit in both.units)
    assert both.title == f"{first.title}; {second.title}"
    with refused("plan.unknown_campaign"):
        campaign("A,X", COUNTED)


def test_what_is_confirmed_meets_every_attack() -> None:
    made = campaign("B", COUNTED)
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


def test_the_confirming_split_is_for_the_chosen_recipe_alone() -> None:
    with refused("protocol.confirm"):
        plan(["ER-T1"], paths=COUNTED, groups=["main", "confirm"])
    for name in campaigns():
        with refused("protocol.confirm"):
            campaign(name, COUNTED, groups=["pwws-confirm"])
        assert (name in ("A", "B")) == bool(of(campaign(name, COUNTED), "confirm"))


def test_fine_tuning_is_confirmed_where_it_is_run() -> None:
    """The recipe that wins is held against A's runs of fine-tuning; a second training of theirs might give others."""
    made = campaign("A", COUNTED)
    assert of(made, "confirm") == {"finetune"}
    repeats = [unit for unit in made.units if unit.repeat]
    assert len(repeats) == 6
    assert {one.group for unit in repeats for one in made.attacks[unit]} == {"main"}
    (main,) = [one for one in made.cells if (one.arm, one.attack) == ("finetune", "textfooler-real")]
    assert len(main.units) == 7  # five seeds, and the first twice more


def test_what_took_part_in_the_choice_is_confirmed_with_other_seeds() -> None:
    seeds: dict[str, list[int]] = {}
    *units, timed = campaign("B", COUNTED).units
    assert (timed.arm, timed.seed, timed.repeat) == ("sturdy_a_ticket", 2, 1)
    for unit in units:
        seeds.setdefault(unit.arm, []).append(unit.seed)
    fresh, whole = [2, 3, 4, 5, 6], [0, 1, 2, 3, 4]
    assert seeds["sturdy_a_ticket"] == seeds["finetune_average"] == seeds["finetune_epochs_20"] == fresh
    assert seeds["sturdy_a_full"] == seeds["freelb3"] == seeds["finetune_epochs_7"] == whole


def test_the_confirming_campaign_needs_labels(tmp_path: Path) -> None:
    resources = ("substitute", "real", "tagger", "masked", "corpus", "encoder")
    equipped = Paths(**dict.fromkeys(resources, tmp_path))  # type: ignore[arg-type]
    (hub,) = campaign("B", equipped).missing
    assert "no labels" in hub
    assert not of(campaign("B", equipped), "confirm")
    (tmp_path / "sst2").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "sst2" / f"{split}.csv").write_text("sentence,label\ngood,1\nbad,0\n")
    here = replace(equipped, data=tmp_path, subset=True)
    assert campaign("B", here).missing == ()
    (tmp_path / "sst2" / "test.csv").unlink()
    _rows.cache_clear()
    (file,) = campaign("B", here).missing
    assert "test.parquet" in file


def test_every_claim_gets_its_runs() -> None:
    """A family whose runs nobody plans would stay undecided for ever. And nobody else is confirmed."""
    planned: dict[tuple[str, str], set[int]] = {}
    for name in campaigns():
        for unit, all in campaign(name, COUNTED).attacks.items():
            for attack in all:
                if unit.repeat == 0:
                    planned.setdefault((unit.arm, attack.name), set()).add(unit.seed)
                assert attack.group != "confirm" or unit.arm.startswith(("sturdy_a", "finetune", "freelb3"))
    for name, told in families()["families"].items():
        claims = {(claim.attack, claim.arm, claim.other) for claim in family(name).claims}
        runs = [min(len(planned[arm, attack]) for arm in arms) for attack, *arms in claims]
        assert sum(count >= FEWEST_RUNS for count in runs) == told.get("made", len(claims)), name


def test_of_a_search_alone_nothing_is_attacked() -> None:
    only = [SST2, ("backbone", "bert-base-uncased")]
    made = plan(["OR-F1", "ER-F4"], seeds=1, only=only, groups=["main"], paths=COUNTED)
    assert made.searches
    assert {len(made.attacks[unit]) for unit in made.units if unit not in made.searches} == {2}
    assert not any(made.attacks[unit] for unit in made.searches)


def test_only_keeps_what_it_names() -> None:
    only = [SST2, ("method", "EarlyRobust"), ("method", "finetune"), ("attack", "textfooler-real"), ("seed", "3")]
    made = plan(["ER-T1", "RT-T1"], only=only, paths=COUNTED)
    assert {cell.task for cell in made.cells} == {"sst2"}
    assert {cell.arm for cell in made.cells} == {"earlyrobust_first", "finetune"}
    # RT-T1's fine-tuning is ER-T1's
    assert {(u.arm, u.seed) for u in made.units} == {("earlyrobust_first", 3), ("finetune", 3)}
    assert {one.name for all in made.attacks.values() for one in all} == {"textfooler-real"}
    assert {cell.attack for cell in made.cells} == {None, "textfooler"}
    clean = plan(["ER-T1"], seeds=1, only=[SST2, ("metric", "clean")], paths=COUNTED)
    assert not any(clean.attacks.values())
    assert {cell.metric for cell in clean.cells} == {"clean"}


def test_groups_are_run_whole() -> None:
    only = [SST2, ("method", "finetune")]
    (whole,) = plan(["ER-T1"], seeds=1, only=only, paths=COUNTED, groups=["main", "more"]).attacks.values()
    assert {"pwws", "deepwordbug", "textfooler-real"} <= {one.name for one in whole}
    less = plan(["ER-T1"], seeds=1, only=only, paths=COUNTED, groups=["main"])
    (why,) = {cell.why for cell in less.cells if cell.attack == "textbugger"}
    assert "--attacks more" in why


def test_what_is_missing_is_said_once_and_leaves_the_rest(tmp_path: Path) -> None:
    made = plan(["ER-T1"], seeds=1, only=[SST2], paths=Paths())
    assert len(set(made.missing)) == len(made.missing)
    assert any("counterfit-substitute" in words for words in made.missing)
    assert not any(cell.why for cell in made.cells if cell.metric == "clean")
    assert not any(made.attacks.values())
    (tmp_path / "data").mkdir()
    assert plan(["ER-T1"], seeds=1, only=[SST2], paths=Paths.find(data=tmp_path / "data")).units == ()


characters = st.characters(categories=["L", "N"], include_characters="-_ %")
names = st.text(characters, min_size=1, max_size=8).map(str.strip).filter(bool)


@given(st.lists(st.tuples(st.sampled_from(KEYS), names), max_size=5))
def test_pairs_are_read_as_written(pairs: list[tuple[str, str]]) -> None:
    assert read_only([f"{key}={value}" for key, value in pairs]) == tuple(pairs)
    joined = {key: [value for known, value in pairs if known == key] for key, _ in pairs}
    assert sorted(read_only([f"{key} = {' , '.join(values)}" for key, values in joined.items()])) == sorted(pairs)


@given(st.sets(names, max_size=4), st.sets(names, min_size=1, max_size=4))
def test_only_takes_what_is_named_and_refuses_what_nothing_has(asked: set[str], there: set[str]) -> None:
    only = Only([("method", name) for name in sorted(asked)])
    lower = {name.lower() for name in asked}
    taken = {name for name in there if only.takes("method", name)}
    assert taken == {name for name in there if not asked or name.lower() in lower}
    if lower <= {name.lower() for name in there}:
        only.check()
    else:
        with refused("plan.only_value"):
            only.check()


@pytest.mark.parametrize(("asked", "name"), [("SST-2", "sst2"), ("AG News", "ag_news"), ("sst_2", "sst2")])
def test_a_task_may_be_asked_for_as_the_papers_write_it(asked: str, name: str) -> None:
    only = Only([("task", asked)])
    assert only.takes("task", name)
    assert not only.takes("task", "mrpc")
    only.check()
    assert not Only([("method", "fine-tune")]).takes("method", "finetune")  # rows differ by less than that
