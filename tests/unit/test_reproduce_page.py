"""The page of a folder of results: the same bytes from the same outcomes, every number with its origin, nothing of a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import judging
from calling import tickets
from outcomes import ARMS, ATTACKS, outcomes
from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import Scale
from robust_tickets.report.format import GLUE, merged
from robust_tickets.reproduce.aggregate import Against, standings
from robust_tickets.reproduce.attacked_texts import texts
from robust_tickets.reproduce.claims import judge, sentence
from robust_tickets.reproduce.outcome import Outcome, ids_of, read_all
from robust_tickets.reproduce.page import PARTS, answer, board, left_of, make, strips, write_page


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
    # what an arm costs is not behind every attack
    assert row == [ATTACKS[0], "clean", "encoder", "flops", "seconds", ATTACKS[1]]
    assert shown.count("aria-sort") == 1
    assert 'aria-sort="descending"' in shown
    cells = [cell for cell in re.findall(r"<td.*?</td>", shown) if f'data-key="{ATTACKS[0]}"' in cell]
    column = [float(value) for cell in cells for value in re.findall(r'<data value="([\d.]+)"', cell)]
    assert len(column) == len(ARMS)
    assert column == sorted(column, reverse=True)


def test_repeats_count_in_no_mean(found: tuple[Outcome, ...]) -> None:
    one = next(one for one in standings(found) if one.arm == "finetune")
    value = one.read("aua", Against(name=ATTACKS[0]))
    assert (len(value.units), len(value.runs), one.units) == (5, 7, 5)
    few = standings([outcome for outcome in found if outcome.unit.seed < 2])[0].read("clean")
    assert not few.summary.enough


def test_an_attack_on_another_split_is_another_column(found: tuple[Outcome, ...], folder: Path) -> None:
    first = found[0]
    other = replace(first.attacks[0], split="test", statuses="f" * len(first.attacks[0].statuses))
    both = replace(first, attacks=(*first.attacks, other))
    one = standings([both])[0]
    named = Against(name=first.attacks[0].name)
    assert (one.attacks[0], one.attacks[-1]) == (named, replace(named, split="test"))
    values = [one.read("aua", attack).mean for attack in (one.attacks[0], one.attacks[-1])]
    assert values == pytest.approx([first.attacks[0].share("aua"), 100.0])
    assert "on test" in make(folder, [both])


def test_an_attacked_text_has_its_queries_where_it_was_attacked(found: tuple[Outcome, ...], folder: Path) -> None:
    shown = str(texts(standings(found), folder))
    results = re.findall(r'data-outcome="(\w+)">(.*?)</p>', shown)
    assert {"success", "failed", "skipped"} <= {status for status, _ in results}
    assert all((" queries" in words) == (status in ("success", "failed")) for status, words in results)
    # models of two backbones are on cards of their own
    others = [replace(one, unit=replace(one.unit, backbone="roberta-base")) for one in found]
    shown = str(texts(standings([*found, *others]), folder))
    assert all(f"SST-2{where} ·" in shown for where in ("", ", RoBERTa-base"))


def test_a_unit_that_was_only_searched_is_no_run(found: tuple[Outcome, ...], folder: Path) -> None:
    rest, others = ([one for one in found if one.unit.arm == arm] for arm in ("finetune", "earlyrobust"))
    searched = [replace(one, clean={}, attacks=(), cost={"search_seconds": 9.0}) for one in others]
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


def test_what_is_no_number_is_refused(folder: Path, found: tuple[Outcome, ...]) -> None:
    for name, value in (("train_seconds", "long"), ("flops_per_example", float("nan"))):
        odd = replace(found[0], cost={**found[0].cost, name: value})
        with pytest.raises(TicketsError) as problem:
            make(folder, [odd, *found[1:]])
        assert problem.value.code == "result.number"


def test_last_bits_of_a_quantile_do_not_show(
    found: tuple[Outcome, ...], folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release of scipy, or another processor."""
    import scipy.special

    for name in ("stdtr", "stdtrit", "chdtri"):
        exactly = getattr(scipy.special, name)
        monkeypatch.setattr(scipy.special, name, lambda *given, of=exactly: of(*given) * (1 + 4e-15))
    assert make(folder, found) == text
    # 318.75, which one digit rounds up or down
    assert len({Scale(low=0, high=high, start=0, end=2550)(1) for high in (8.0, 8.0 + 2e-14)}) == 1


def test_notes_that_differ_in_numbers_alone_are_one() -> None:
    differ = [f"precision: {n} of 872 differ" for n in (3, 11)]
    assert merged([differ[0], "no encoder", differ[1], "no encoder", "lambda 0.5", "lambda 0.25"]) == (
        "precision: 3 to 11 of 872 differ",
        "no encoder",
        "lambda 0.25 to 0.5",
    )
    assert merged([]) == ()


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TicketsError) as problem:
        write_page(tmp_path / "page.html", tmp_path)
    assert problem.value.code == "page.empty"


def test_the_page_is_written_where_asked(tmp_path: Path) -> None:
    few = outcomes(tmp_path / "few", arms=("finetune",), seeds=1, repeats=1)
    assert write_page(tmp_path / "page.html", few).read_text("utf-8") == make(few, read_all(few))


def test_what_is_left_shrinks_with_what_was_run(found: tuple[Outcome, ...]) -> None:
    found = [
        replace(one, unit=replace(one.unit, arm="earlyrobust_first")) for one in found if one.unit.arm == "earlyrobust"
    ]
    nothing, all_runs = left_of("ER-T7", []), left_of("ER-T7", found)
    assert 0 < all_runs < nothing
    one_seed = left_of("ER-T7", [one for one in found if one.unit.seed == 0])
    assert nothing - one_seed == pytest.approx((nothing - all_runs) / 5)


SPAN = f"{GLUE}to{GLUE}+"  # of an interval above 0


def test_no_accuracy_is_below_zero() -> None:
    """Three runs far apart have an interval that begins there."""
    rows = standings(judging.arm("finetune", {"textfooler-real": (2, 20, 60)}))
    drawn = strips(rows)[0]
    shown = str(PARTS.board(board(rows[0].key, rows)))
    assert "0.0–50.5" in shown
    assert not [part for part in (str(drawn), shown) if "−" in part]


def test_intervals_of_two_runs_are_not_shown(tmp_path: Path) -> None:
    base, far = (80, 84, 88), (110, 114, 118)
    runs = [*judging.arm("finetune", {"textfooler-real": base}), *judging.arm("earlyrobust", {"textfooler-real": far})]
    folder = judging.keep(tmp_path, runs)
    for seeds, shown in ((3, True), (2, False)):
        judged = judge("A", [one for one in runs if one.unit.seed < seeds], folder)
        first = next(one for one in judged if one.comparison)
        assert first.comparison.interval is not None
        assert first.comparison.over_examples is not None
        row, words = str(PARTS.answer(answer("A", judged))), sentence(first)
        assert [part in row for part in ("other texts: ", 'class="bar', SPAN)] == [shown] * 3
        assert [part in words for part in ("on further texts", SPAN)] == [shown] * 2


RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def kept() -> tuple[Outcome, ...]:
    if not (RESULTS / "units").is_dir():
        pytest.skip("the repository has no results yet")
    return read_all(RESULTS)


def test_the_page_is_the_same_whatever_the_order_of_the_results(kept: tuple[Outcome, ...]) -> None:
    assert make(RESULTS, kept) == make(RESULTS, kept[::-1])


def test_every_number_has_its_examples_and_its_origin(kept: tuple[Outcome, ...]) -> None:
    for outcome in kept:
        assert outcome.config["recipe"]["seed"] == outcome.unit.seed
        assert outcome.inputs["theta0"]
        assert outcome.env["packages"]["torch"]
        for attack in outcome.attacks:
            assert len(ids_of(RESULTS, attack.examples)) == len(attack.statuses), (outcome.unit.id, attack.name)


def test_what_was_run_is_taken_for_its_arm(
    kept: tuple[Outcome, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its settings are those of now, where the ticket is drawn included: nothing is searched again, and nothing refused."""
    first = {(one.unit.task, one.unit.arm): one.unit.id for one in reversed(kept)}
    for folder in ("data/wiki_en", "models", "resources/counterfit-substitute"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (
        "counterfitted_neighbors.json",
        "counterfit-substitute/words.txt",
        "counterfit-substitute/vectors.npy",
    ):
        (tmp_path / "resources" / name).touch()
    places = [word for name in ("data", "models", "resources", "out") for word in (f"--{name}", str(tmp_path / name))]
    jobs = [word for id in first.values() for word in ("--job", id)]
    done = tickets(capsys, "reproduce", *jobs, "--search-only", "--results", str(RESULTS), *places)
    assert done["work"]["found"] == list(first.values())
    assert not (tmp_path / "out").exists()
