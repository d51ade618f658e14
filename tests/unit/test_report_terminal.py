"""The run on a terminal and as JSON: everything whole at any width, warnings included."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from fake_run import ARMS, add_plan, make_run, set_outcomes
from robust_tickets.files import read_json, write_json
from robust_tickets.report import format as numbers
from robust_tickets.report.run_data import read_run
from robust_tickets.report.terminal import Summary, attack_table, figures
from robust_tickets.report.verdict import contest, total_seconds, verdicts, warnings


def printed(what, width):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(what)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in out.getvalue()
    return lines


@pytest.mark.parametrize("width", [160, 80, 60, 40])
def test_every_title_and_number_is_whole(tmp_path, width):
    folder = make_run(tmp_path / "r")
    run, lines = read_run(folder), printed(Summary(read_run(folder)), width)
    for arm in run.arms:
        (attack,) = arm.attacks
        wanted = [arm.title, numbers.seconds(total_seconds(arm)), numbers.count(attack.queries, 1)]
        wanted += [numbers.percent(v) for v in (arm.clean, attack.clean, attack.aua, attack.suc, attack.perturbed)]
        wanted += [numbers.amount(arm.cost[key]) for key in ("parameters", "flops_per_example")]
        wanted += [
            numbers.brief(ends)
            for ends in (arm.evaluation.interval, attack.intervals["clean"], attack.intervals["aua"])
        ]
        pair = contest(run, "pwws").between(arm, run.base)
        wanted.append(numbers.p_value(pair.p) if pair else "baseline")
        for words in wanted:
            assert any(words.replace("\u00a0", " ") in line for line in lines), words


def test_at_80_columns_the_arms_stand_in_a_table(tmp_path):
    lines = printed(Summary(read_run(make_run(tmp_path / "r"))), 80)
    assert sum(line.startswith("EarlyRobust ticket  ") for line in lines) == 2
    assert any(line.split()[:2] == ["arm", "attack"] for line in lines)


def test_a_title_may_take_the_two_lines_of_its_row(tmp_path):
    folder = make_run(tmp_path / "r", arms=(("a", "A ticket found by early search", 0.5, 82.0, True), *ARMS[1:]))
    lines = printed(Summary(read_run(folder)), 80)
    first = next(i for i, line in enumerate(lines) if line.startswith("A ticket found by   "))
    assert lines[first + 1].startswith("early search  ")
    assert not any(line.startswith("  before attack:") for line in lines)


@pytest.mark.parametrize("width", [80, 60])
def test_long_titles_and_headlines_break_between_words_only(tmp_path, width):
    long = "A ticket with a title that is far too long for any table on a narrow terminal, and then some"
    folder = make_run(tmp_path / "r", arms=(("a", long, 0.5, 82.0, True), *ARMS[1:]))
    text = " ".join(line.strip() for line in printed(Summary(read_run(folder)), width))
    assert long in text
    (verdict,) = verdicts(read_run(folder))
    assert verdict.headline.replace("\u00a0", " ") in text


def test_numbers_in_sentences_keep_their_unit_on_the_line(tmp_path):
    arms = tuple((name, title, 0.3, clean, ticket) for name, title, _, clean, ticket in ARMS)
    folder = make_run(tmp_path / "r", n=60, arms=arms)
    for width in range(30, 60):
        assert any("n = 60" in line for line in printed(Summary(read_run(folder)), width))


def test_flags_and_warnings_are_printed(tmp_path):
    folder = make_run(tmp_path / "r", n=30)
    result = read_json(folder / "attack/00000001/result.json")
    write_json(folder / "attack/00000001/result.json", result | {"flags": ["substitute vectors: GloVe"], "errors": 2})
    text = " ".join(line.strip() for line in printed(Summary(read_run(folder)), 80))
    said = warnings(read_run(folder))
    assert len(said) >= 4
    for words in said:
        assert f"note: {words}".replace("\u00a0", " ") in text


def test_each_plan_has_its_table(tmp_path):
    folder = make_run(tmp_path / "r")
    add_plan(folder, query_budget=50)
    text = "\n".join(printed(Summary(read_run(folder)), 80))
    assert "PWWS (no query budget): 120 texts of test" in text
    assert "PWWS (at most 50 queries): 120 texts of test" in text
    assert text.count("50.0") >= 3


def test_the_json_says_what_the_page_says(tmp_path):
    folder = make_run(tmp_path / "r")
    set_outcomes(folder, 0, "h" * 60 + "t" * 38 + "e" * 2)
    set_outcomes(folder, 1, "h" * 20 + "t" * 80)
    set_outcomes(folder, 2, "h" * 20 + "t" * 80)
    result = read_json(folder / "attack/00000000/result.json")
    write_json(folder / "attack/00000000/result.json", result | {"flags": ["one class"]})
    arms = json.loads(json.dumps(figures(read_run(folder)), allow_nan=False))
    run = read_run(folder)
    pair = contest(run, "pwws").between(run.arms[0], run.base)
    first = arms[0]["attacks"]["pwws"]
    assert arms[0]["clean_interval"] == list(run.arms[0].evaluation.interval)
    assert [arm["baseline"] for arm in arms] == [False, True, False]
    assert (first["flags"], first["errors"], first["n"]) == (["one class"], 2, 98)
    assert (first["p"], first["p_adjusted"]) == (pair.p, pair.adjusted)
    assert first["p_adjusted"] > first["p"]
    assert first["difference_interval"] == [pair.low, pair.high]
    assert first["headline"] == verdicts(run)[0].headline.replace("\u00a0", " ")
    assert arms[1]["attacks"]["pwws"]["p"] is None


def test_a_single_attack_prints_at_80_columns(tmp_path):
    folder = make_run(tmp_path / "r")
    long = {"attack": "BERT-Attack of the papers (not BERT-Attack)", "similarity": 0.921}  # a recipe's own title
    result = read_json(folder / "attack/00000000/result.json") | {"flags": ["few examples"]} | long
    text = "\n".join(printed(attack_table(result), 80))
    for name in ("clean", "aua", "suc"):
        assert numbers.percent(result[name]).replace("\u00a0", " ") in text
    assert "few examples" in text
    assert "similarity" in text
    assert "…" not in text


def test_amounts_have_three_digits():
    shown = [numbers.amount(v).replace("\u00a0", " ") for v in (19_997_494, 999_600, 7_930_292, 465_202_176, 950, None)]
    assert shown == ["20.0 M", "1000 k", "7.93 M", "465 M", "950", "–"]
