"""The page of a folder of results: the same bytes from the same outcomes, every number with its origin, nothing of a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import judging
from drawings import marks
from judging import confirmed
from outcomes import ARMS, ATTACKS, outcomes
from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import Scale, spark, swatch
from robust_tickets.report.format import merged
from robust_tickets.reproduce.aggregate import Against, standings
from robust_tickets.reproduce.answers import answer, reached
from robust_tickets.reproduce.arms import arms
from robust_tickets.reproduce.claims import family, judge
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.page import board, left_of, make, strip, write_page
from sweeping import run


class Page(HTMLParser):
    """What a page holds: elements with their attributes, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def all(self, name: str) -> Iterator[dict[str, str | None]]:
        return (attributes for tag, attributes in self.elements if tag == name)

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(attribute)) is not None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return outcomes(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def found(folder: Path) -> tuple[Outcome, ...]:
    return read_all(folder)


@pytest.fixture(scope="module")
def text(folder: Path, found: tuple[Outcome, ...]) -> str:
    return make(folder, found)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_same_outcomes_give_the_same_bytes(
    folder: Path, found: tuple[Outcome, ...], text: str, tmp_path: Path
) -> None:
    assert make(outcomes(tmp_path / "elsewhere"), tuple(reversed(found))) == text
    assert str(folder) not in text
    assert str(tmp_path) not in text
    assert len(text.encode()) < 5_000_000
    assert 'text-anchor="start"' not in text, "which every text has that says nothing"
    assert text.count('class="number"') < 0.2 * text.count("<td"), "what thousands of cells have, their tables say"


def test_it_asks_nothing_of_a_network(page: Page, text: str) -> None:
    links = [
        value
        for _, attributes in page.elements
        for key in ("src", "href", "srcset", "action")
        if (value := attributes.get(key))
    ]
    assert links
    assert all(link.startswith(("#", "units/")) for link in links)
    assert not re.search(r"url\(|@import|https?:", re.sub(r"<p.*?</p>|<li.*?</li>", "", text))
    assert not list(page.all("link"))
    assert len(list(page.all("script"))) == 1
    assert not any(
        key.startswith("on") or key == "style" for _, attributes in page.elements for key in attributes
    )  # the policy forbids them


def test_ids_are_unique_and_links_inside_lead_somewhere(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.values("href") if link.startswith("#")} <= set(ids)


def test_every_run_has_its_file_and_the_hash_of_its_config(
    page: Page, text: str, found: tuple[Outcome, ...], folder: Path
) -> None:
    linked = {link for link in page.values("href") if link.startswith("units/")}
    assert linked == {f"units/{one.unit.id}.json" for one in found}
    assert all((folder / link).is_file() for link in linked)
    assert all(one.config_hash in text for one in found)


def test_the_leaderboard_holds_means_over_runs_and_says_how_it_is_sorted(
    page: Page, text: str, found: tuple[Outcome, ...]
) -> None:
    shown = text[text.index('<table class="board ') :]
    shown = shown[: shown.index("</table>")]
    assert shown.count("<tr>") == 1 + len(ARMS)
    for arm in ARMS:
        values = [one.attacks[0].share("aua") or 0.0 for one in found if one.unit.arm == arm and one.unit.repeat == 0]
        assert f'<data value="{round(sum(values) / len(values), 6)!r}"' in shown
    row = re.findall(r'data-key="([^"]+)"', shown[: shown.index("</tr>", shown.index("<tbody>"))])
    assert row == [
        ATTACKS[0],
        "clean",
        "encoder",
        "flops",
        "seconds",
        ATTACKS[1],
    ]  # what an arm costs is not behind every attack
    assert shown.count("aria-sort") == 1
    assert 'aria-sort="descending"' in shown
    column = _keyed(shown)
    assert len(column) == len(ARMS)
    assert column == sorted(column, reverse=True)


def _keyed(shown: str) -> list[float]:
    cells = [cell for cell in re.findall(r"<td.*?</td>", shown) if f'data-key="{ATTACKS[0]}"' in cell]
    return [float(value) for cell in cells for value in re.findall(r'<data value="([\d.]+)"', cell)]


def test_texts_that_were_wrong_before_are_no_attacks(text: str, found: tuple[Outcome, ...]) -> None:
    letters = [letter for one in found for attack in one.attacks for letter in attack.statuses]
    tried = sum(letter in "fs" for letter in letters)
    assert 0 < tried < len(letters)
    assert f"<b>{tried:,}</b><span>attacks on texts</span>".replace(",", "\u202f") in text


def test_published_numbers_stand_beside_ours_and_the_rest_says_why(text: str) -> None:
    table = text[text.index('id="ER-T1"') :]
    assert (
        '<data value="28.8">28.8</data>' in table[: table.index("</article>")]
    )  # EarlyRobust on SST-2 under TextFooler, as printed
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)<', table[: table.index("</thead>")])
    assert heads[1:3] == ["clean", "TextFooler, under attack"], "what a phone shows without scrolling"
    assert heads[-2:] == ["× PGD", "M, encoder"]
    missing = text[text.index('id="missing"') : text.index('id="runs"')]
    assert "not run" in missing
    assert "not run; needs data of IMDB (25,000 training rows)" in missing
    assert "not run; needs weights of RoBERTa-base and data of QNLI (104,743 training rows)" in missing
    assert "not run; needs weights of RoBERTa-base</th><td>SST-2" in missing
    assert ">not run</th><td>SST-2" in missing


def test_an_arm_has_one_mark_on_the_whole_page(found: tuple[Outcome, ...]) -> None:
    """Eight colours and shapes are not enough for the arms there are."""
    names = list(arms())[:20]
    base = [one for one in found if one.unit.arm == "finetune"]
    members = standings([replace(one, unit=replace(one.unit, arm=name)) for name in names for one in base])
    assert len(members) > 16
    attack, own = Against(name=ATTACKS[0]), {}
    for one in members:
        measured = one.measured("aua", attack)
        assert measured is not None
        drawings = (
            strip([one], attack),
            spark(measured.values, 0, 100, index=one.place, interval=measured.reach),
            swatch(one.place),
        )
        assert str(drawings[1]).count("arm") == 1 + bool(measured.reach), "how marks look is said once for all runs"
        (own[one.arm],) = {mark for drawn in drawings for mark in marks(str(drawn))}
    assert len(set(own.values())) == len(members)
    assert str(swatch(members[3].place)) in board(members[3].key, members)


def test_a_printed_number_with_several_attacks_of_ours_is_counted_once(
    found: tuple[Outcome, ...], folder: Path, text: str
) -> None:
    said = re.search(
        r"(\d+) of \d+ printed numbers have runs of ours beside them; of (\d+) with five runs or more, under an attack by",
        text,
    )
    assert said is not None
    attacked = [replace(one.attacks[0], name=f"{ATTACKS[0]}-encoder50") for one in found]
    more = make(
        folder, [replace(one, attacks=(*one.attacks, further)) for one, further in zip(found, attacked, strict=True)]
    )
    assert "1 constrained" in more
    assert said[0] in more
    tile = re.compile(r"<b>(\d+)</b><span>published numbers</span>")
    assert tile.findall(more) == tile.findall(text)
    assert "<small>of 1\u202f066, with ours beside them</small>" in text


def test_repeats_count_in_no_mean(found: tuple[Outcome, ...]) -> None:
    one = next(one for one in standings(found) if one.arm == "finetune")
    value = one.measured("aua", Against(name=ATTACKS[0]))
    assert value is not None
    assert (value.n, len(value.runs), one.units) == (5, 7, 5)
    few = standings([outcome for outcome in found if outcome.unit.seed < 2])[0].measured("clean")
    assert few is not None
    assert few.few


def test_an_attack_on_another_split_is_another_column(found: tuple[Outcome, ...], folder: Path) -> None:
    first = found[0]
    both = replace(
        first,
        attacks=(
            *first.attacks,
            replace(first.attacks[0], split="test", statuses="f" * len(first.attacks[0].statuses)),
        ),
    )
    one = standings([both])[0]
    named = Against(name=first.attacks[0].name)
    assert one.attacks[0] == named
    assert one.attacks[-1] == replace(named, split="test")
    values = [one.measured("aua", attack) for attack in (one.attacks[0], one.attacks[-1])]
    assert [round(value.mean, 1) for value in values if value] == [round(first.attacks[0].share("aua") or 0, 1), 100.0]
    assert "on test" in make(folder, [both])


def test_a_unit_that_was_only_searched_is_no_run(found: tuple[Outcome, ...], folder: Path) -> None:
    searched = [
        replace(one, clean={}, attacks=(), cost={"search_seconds": 9.0})
        for one in found
        if one.unit.arm == "earlyrobust"
    ]
    rest = [one for one in found if one.unit.arm == "finetune"]
    assert [one.units for one in standings([*rest, *searched])] == [5, 0]
    shown = make(folder, [*rest, *searched])
    board = shown[shown.index('id="board"') : shown.index('id="runs"')]
    assert board[: board.index("</table>")].count("<tr>") == 2  # the heading and fine-tuning
    assert searched[0].config_hash in shown


def test_one_run_alone_makes_a_page_without_claims(found: tuple[Outcome, ...], folder: Path) -> None:
    alone = make(folder, [replace(found[0], attacks=(), ticket=None, traces={})])
    assert 'id="answers"' not in alone
    assert 'id="texts"' not in alone
    assert 'id="board"' in alone


def test_a_rehearsal_says_at_the_top_that_it_is_one(found: tuple[Outcome, ...], folder: Path, text: str) -> None:
    small = replace(found[0], notes=("sst2: 48 of the 67,349 rows of train",))
    assert f"1 of {len(found)} results is of a part of the data" in make(folder, [small, *found[1:]])
    assert "of a part of the data" not in text


def test_what_is_no_number_is_told_not_shown(folder: Path, found: tuple[Outcome, ...]) -> None:
    for name, value in (("train_seconds", "long"), ("flops_per_example", float("nan"))):
        odd = replace(found[0], cost={**found[0].cost, name: value})
        with pytest.raises(TicketsError, match="for a number"):
            make(folder, [odd, *found[1:]])


def test_an_answer_says_which_claims_are_to_come() -> None:
    base, far = (80, 84, 88, 90, 98), (110, 114, 118, 120, 128)
    runs = [*judging.arm("finetune", {"textfooler-real": base}), *judging.arm("earlyrobust", {"textfooler-real": far})]
    assert "Holm for the 4 claims here (3 of them still to be run); elsewhere" in str(
        answer(family("A"), judge("A", runs))
    )
    few = [one for one in runs if one.unit.seed < 4]
    assert "No claim has the five runs that it takes." in str(answer(family("A"), judge("A", few)))


def test_a_table_s_answer_says_which_claims_count_on_each_task() -> None:
    counts = {"textfooler-real": (80, 84, 88, 90, 98), "textfooler-substitute": (80, 84, 88, 90, 98)}
    here = [run for name in ("finetune", "earlyrobust_first") for run in judging.arm(name, counts)]
    there = [replace(one, unit=replace(one.unit, task="imdb")) for one in here]
    said = "Holm for the 12 claims of this table on SST-2 (10 of them without five runs a side so far)"
    assert f"{said}; elsewhere" in str(answer(family("ER-T1"), judge("ER-T1", here)))
    assert "<small>SST-2, TextFooler, real lists</small>" in str(answer(family("ER-T1"), judge("ER-T1", here)))
    both = str(answer(family("ER-T1"), judge("ER-T1", [*here, *there])))
    assert (
        f"the 12 claims of this table on IMDB (10 of them without five runs a side so far) and {said.removeprefix('Holm for ')};"
        in both
    )


def test_answers_say_what_the_verdicts_say(text: str) -> None:
    answers = re.sub(r"<[^>]*>", "", text[text.index('id="answers"') : text.index('id="board"')])
    assert (
        "FreeLB-3 against Fine-tuning: 8.3 points more robust under TextFooler (real lists) and 9.2 points more robust under"
        in answers
    )
    assert "3 of 4 claims are undecided." in answers
    assert "Runs of one seed lie up to 11.2 points apart." in answers
    assert "adjusted by Holm for the 4 claims here" in answers
    assert "no sentence encoder" in answers


def test_a_verdict_stands_with_its_own_p_and_leads_to_its_runs(found: tuple[Outcome, ...], folder: Path) -> None:
    twin = [replace(one, unit=replace(one.unit, arm="earlyrobust")) for one in found if one.unit.arm == "finetune"]
    same = [one for one in found if one.unit.arm in ("finetune", "random")] + twin
    text = make(folder, same)
    row = re.search(r'<li><p class="name"><b><a href="#(runs-[^"]+-earlyrobust-corrected)".*?</li>', text)
    assert row is not None
    assert f'id="{row[1]}"' in text
    assert "equivalent" in row[0]
    p = re.search(r"p of ±5 or more (&lt;\u00a0)?(0\.\d+)", row[0])
    assert p is not None
    assert float(p[2]) < 0.05
    assert "other texts: " in row[0]
    assert '<dl class="short"><dt>At equal length' in text


def test_what_one_arm_says_against_itself_stands_under_its_name(found: tuple[Outcome, ...], folder: Path) -> None:
    own = [replace(one, notes=("a search of 3 epochs",)) if one.unit.arm == "earlyrobust" else one for one in found]
    text = make(folder, own)
    answers = text[text.index('id="answers"') : text.index('id="board"')]
    assert "<li>EarlyRobust (drawn at the last point): a search of 3 epochs</li>" in answers
    assert "<li>no sentence encoder</li>" in answers


def test_last_bits_of_a_quantile_do_not_show(
    found: tuple[Outcome, ...], folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release of scipy, or another processor."""
    import scipy.special

    for name in ("stdtr", "stdtrit", "chdtri"):
        exactly = getattr(scipy.special, name)
        monkeypatch.setattr(scipy.special, name, lambda *given, of=exactly: of(*given) * (1 + 4e-15))
    assert make(folder, found) == text
    ends = (8.0, 8.0 + 2e-14)
    assert (
        len({Scale(low=0, high=high, start=0, end=2550)(1) for high in ends}) == 1
    )  # 318.75, which one digit rounds up or down


def test_a_figure_leads_to_its_runs(text: str) -> None:
    shown = text[text.index('id="ER-F5"') :]
    link = re.search(r'From (\d+) runs of \d+ arms?: <a href="#([^"]+)"', shown)
    assert link is not None
    assert f'id="{link[2]}"' in text


def test_lengths_are_shown_where_an_arm_has_several(found: tuple[Outcome, ...], folder: Path, text: str) -> None:
    assert 'id="length"' not in text
    shown = make(folder, [*found, run("finetune_epochs_25", base="finetune")])
    section = shown.partition('<section id="length">')[2].partition("</section>")[0]
    assert "<svg" in section
    assert 'href="#length"' in shown


def test_notes_that_differ_in_numbers_alone_are_one() -> None:
    told = [
        "precision: 3 of 872 differ",
        "no encoder",
        "precision: 11 of 872 differ",
        "no encoder",
        "lambda 0.5",
        "lambda 0.25",
    ]
    assert merged(told) == ("precision: 3 to 11 of 872 differ", "no encoder", "lambda 0.25 to 0.5")
    assert merged([]) == ()


def test_the_goals_of_the_chosen_recipe_are_shown(tmp_path: Path) -> None:
    met = reached(confirmed(), tmp_path, judge("B", confirmed()))
    assert met is not None
    assert "5 of 5 goals are reached" in met
    assert reached([], tmp_path, judge("B", [])) is None


def test_what_is_left_shrinks_with_what_was_run(found: tuple[Outcome, ...]) -> None:
    found = [
        replace(one, unit=replace(one.unit, arm="earlyrobust_first")) for one in found if one.unit.arm == "earlyrobust"
    ]
    nothing, all_runs = left_of("ER-T7", []), left_of("ER-T7", found)
    assert set(nothing) == {"sst2"}
    assert 0 < all_runs["sst2"] < nothing["sst2"]
    one_seed = left_of("ER-T7", [one for one in found if one.unit.seed == 0])
    assert nothing["sst2"] - one_seed["sst2"] == pytest.approx((nothing["sst2"] - all_runs["sst2"]) / 5)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TicketsError, match="no results"):
        write_page(tmp_path / "page.html", tmp_path)


def test_the_page_is_written_where_asked(tmp_path: Path) -> None:
    few = outcomes(tmp_path / "few", arms=("finetune",), seeds=1, repeats=1)
    assert write_page(tmp_path / "page.html", few).read_text("utf-8") == make(few, read_all(few))
