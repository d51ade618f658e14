"""The page and the terminal's table: structure, numbers, verdicts, missing parts."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from fake_run import ARMS, make_run
from robust_tickets.cli.main import main
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_json
from robust_tickets.report.charts import Scale
from robust_tickets.report.html import MACROS, write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.terminal import Summary
from robust_tickets.report.text_diff import marked
from robust_tickets.report.verdict import compare, costs, holm, verdicts, warnings

VOID = {"meta", "br", "hr", "link", "input", "wbr"}


class Balanced(HTMLParser):
    """Refuses unbalanced tags and repeated ids; gathers text, links, cells and the figures' descriptions."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[str, float]] = []
        self.key = ""
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert len(given) == len(attrs), f"repeated attribute in {tag}"
        self.tags.append((tag, given))
        if given.get("id"):
            self.ids.append(given["id"])
        if tag == "td":
            self.key = given.get("data-key") or ""
        if tag == "data":
            self.cells.append((self.key, float(given["value"])))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)


def parse(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    return parser


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "demo-1a2b3c4d")


@pytest.fixture(scope="module")
def html(run):
    return write_report(run / "report.html", [run]).read_text("utf-8")


def test_the_page_is_whole_and_loads_nothing(html):
    page = parse(html)
    assert html.startswith("<!doctype html>")
    for _, attrs in page.tags:
        assert not {"src", "srcset", "action", "style", "data", "poster"} & set(attrs)
        assert not any(name.startswith("on") for name in attrs)
        assert str(attrs.get("href") or "#").startswith("#")
    assert not re.search(r"https?://|@import|url\(|//\w+\.\w", html)
    assert [t for t, _ in page.tags if t in ("link", "iframe", "object", "embed", "img", "base")] == []


def test_the_policy_allows_its_own_style_and_script_alone(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'")
    for element, rule in (("style", "style-src"), ("script", "script-src")):
        inner = re.search(rf"<{element}>(.*?)</{element}>", html, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_numbers_of_the_table_are_those_of_the_files(run, html):
    cells = parse(html).cells
    got: dict[str, list[float]] = {}
    for key, value in cells:
        got.setdefault(key, []).append(value)
    results = [read_json(run / f"attack/{k:08x}/result.json") for k in range(3)]
    for key in ("aua", "suc", "queries", "perturbed"):
        assert got[key] == [r[key] for r in results]
    assert got["clean"] == [read_json(run / f"train/{k:08x}/evaluation.json")["accuracy"] for k in range(3)]
    assert got["parameters"] == [read_json(run / f"train/{k:08x}/cost.json")["parameters"] for k in range(3)]
    assert got["seconds"] == pytest.approx([118.4 + 95, 118.4, 118.4])  # the search's time comes from its metrics
    assert len(got["p"]) == 2  # the baseline has none


def test_the_verdict_comes_first_and_the_parts_in_order(html):
    order = [
        "hardest to fool",
        "The numbers",
        "Clean against robust",
        "What survives",
        "How early",
        "The attacked texts",
        "Run it again",
    ]
    body = html[html.index("<body>") :]
    places = [body.index(words) for words in order]
    assert places == sorted(places)


def test_the_page_is_accessible(html):
    page = parse(html)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    svgs = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert svgs
    assert all(attrs.get("role") == "img" and len(attrs.get("aria-label") or "") > 20 for attrs in svgs)
    tables = sum(tag == "table" for tag, _ in page.tags)
    assert tables == sum(tag == "caption" for tag, _ in page.tags)
    assert ("html", {"lang": "en"}) in page.tags
    assert "prefers-color-scheme: dark" in html


def test_a_clear_lead_is_said_with_its_proof(run):
    (verdict,) = verdicts(read_run(run))
    assert verdict.sure
    assert verdict.headline.startswith("EarlyRobust ticket is the hardest to fool")
    assert "McNemar" in verdict.sentences[1]
    assert "n\u00a0=\u00a0120" in verdict.sentences[1]


def test_noise_is_called_noise(tmp_path):
    arms = tuple((name, title, 0.3, clean, ticket) for name, title, _, clean, ticket in ARMS)
    (verdict,) = verdicts(read_run(make_run(tmp_path / "r", n=60, arms=arms)))
    assert not verdict.sure
    assert verdict.headline.startswith("No difference beyond noise at n\u00a0=\u00a060")
    assert any("within noise" in words or "no difference at all" in words for words in verdict.sentences[1:])


def test_ahead_of_one_arm_but_not_of_another(tmp_path):
    arms = (("a", "First", 0.5, 82.0, True), ("b", "Base", 0.15, 82.0, False), ("c", "Third", 0.5, 82.0, True))
    (verdict,) = verdicts(read_run(make_run(tmp_path / "r", n=200, arms=arms)))
    assert "is harder to fool than Base; against" in verdict.headline
    assert "no difference beyond noise" in verdict.headline


def test_a_single_arm_is_compared_with_nobody(tmp_path):
    run = read_run(make_run(tmp_path / "r", arms=ARMS[:1]))
    (verdict,) = verdicts(run)
    assert "no other arm" in verdict.sentences[0]
    assert costs(run) == []  # the only arm is the baseline


def test_costs_name_what_is_given_up_and_saved(run):
    said = " ".join(costs(read_run(run)))
    assert "−1.2 points" in said
    assert "1.33 times fewer FLOPs" in said
    assert "Plain fine-tuning" in said


def test_comparisons_join_by_id_and_leave_errors_out(tmp_path):
    folder = make_run(tmp_path / "r", n=40)
    path = folder / "attack/00000000/examples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["status"], lines[0]["error"] = "error", "out of memory"
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)) + "not json\n")
    run = read_run(folder)
    pair = compare(run.arms[0], run.arms[1], "pwws")
    assert pair.n == 39
    assert any("1 lines could not be read" in words for words in warnings(run))
    held = [line["status"] == "failed" for line in lines[1:]]
    other = [
        json.loads(line)["status"] == "failed"
        for line in (folder / "attack/00000001/examples.jsonl").read_text().splitlines()
    ][1:]
    assert pair.difference == pytest.approx(100 * (sum(held) - sum(other)) / 39)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_flags_are_said_once_and_name_their_arm(tmp_path):
    folder = make_run(tmp_path / "r")
    for k in range(3):
        result = read_json(folder / f"attack/{k:08x}/result.json")
        result["flags"] = ["substitute vectors: GloVe"] + (["one class"] if k == 1 else [])
        write_json(folder / f"attack/{k:08x}/result.json", result)
    said = warnings(read_run(folder))
    assert said == ["PWWS: substitute vectors: GloVe.", "PWWS on Plain fine-tuning: one class."]
    text = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    assert text.index("Read this before") < text.index("The numbers")


def test_few_examples_are_warned_of(tmp_path):
    assert any("only 30 examples" in words for words in warnings(read_run(make_run(tmp_path / "r", n=30))))


@pytest.mark.parametrize("gone", ["search", "train", "attack", "config.json", "env.json", "manifest.json"])
def test_a_missing_part_costs_only_its_part(tmp_path, gone):
    folder = make_run(tmp_path / "r")
    (shutil.rmtree if (folder / gone).is_dir() else Path.unlink)(folder / gone)
    text = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    parse(text)
    assert "Plain fine-tuning" in text
    if gone in ("search", "train", "attack"):
        assert f"{gone}/00000000 is missing" in text
    if gone == "attack":
        assert "No attack was made" in text


@pytest.mark.parametrize("text", ["", '{"n": 3', "[]", "{}", "7"])
def test_a_damaged_result_is_told_on_the_page_and_in_the_terminal(tmp_path, capsys, text):
    """The page is made, so that the exit code is 0; who sees nothing but the terminal learns that a model's numbers are not on it."""
    folder = make_run(tmp_path / "r")
    (folder / "attack/00000001/result.json").write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["report", str(folder)])
    told = capsys.readouterr()
    assert end.value.code == 0
    assert told.out == f"report: {folder / 'report.html'}\n"
    assert "warning: report: r: 00000001/result.json: " in told.err
    assert "00000001/result.json: " in (folder / "report.html").read_text("utf-8")


def test_unknown_keys_and_odd_values_do_no_harm(tmp_path):
    folder = make_run(tmp_path / "r")
    result = read_json(folder / "attack/00000000/result.json")
    result |= {
        "attack": {"name": "pwws"},
        "suc": None,
        "queries": "many",
        "intervals": None,
        "flags": [{"name": "odd", "why": "x"}],
        "new": [1],
    }
    write_json(folder / "attack/00000000/result.json", result)
    write_json(folder / "search/00000000/distances.json", {"points": [1, 2], "heads": [[0]], "neurons": []})
    (folder / "search/00000002/ticket.safetensors").write_bytes(b"broken")
    run = read_run(folder)
    assert run.arms[0].attacks[0].suc is None
    assert run.arms[0].attacks[0].intervals["aua"][0] < run.arms[0].attacks[0].aua  # made where the file gives none
    assert run.arms[0].distances is None
    assert run.arms[2].shape is None
    assert any("distances.json" in note for note in run.notes)
    parse(write_report(tmp_path / "r.html", folder).read_text("utf-8"))


def test_several_runs_share_a_page(tmp_path):
    folders = [make_run(tmp_path / name, seed=k, title=f"Run {name}") for k, name in enumerate("ab")]
    text = write_report(tmp_path / "r.html", folders).read_text("utf-8")
    page = parse(text)
    assert {"r1", "r2"} <= set(page.ids)
    assert [key for key, _ in page.cells].count("aua") == 6 + 6  # the joint table and one a run
    assert text.count("Run it again") == 2


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(TicketsError, match=r"arms\.json is missing"):
        write_report(tmp_path / "r.html", [tmp_path])
    with pytest.raises(TicketsError, match="at least one"):
        write_report(tmp_path / "r.html", [])
    write_json(tmp_path / "arms.json", {"schema": 99})
    with pytest.raises(TicketsError, match="schema 99"):
        read_run(tmp_path)


def test_the_terminal_shows_the_same_numbers(run):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(Summary(read_run(run)))
    text = console.export_text().replace("\u00a0", " ")
    for k in range(3):
        assert f"{read_json(run / f'attack/{k:08x}/result.json')['aua']:.1f} %" in text
    assert "hardest to fool" in text
    assert "baseline" in text
    console.file.close()


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ("a good film", "a bad film", "a <del>good</del> <ins>bad</ins> film"),
        ("a good film", "a good film", "a good film"),
        ("so good", "so very good", "so <ins>very </ins>good"),
        ("a < b", "a > b", "a <del>&lt;</del> <ins>&gt;</ins> b"),
        ("film good", "film", "film<del> good</del>"),
    ],
)
def test_changed_words_are_marked(before, after, want):
    shown = MACROS.quote(marked(before, after))
    assert shown == f'<blockquote dir="auto"><bdi dir="auto">{want}</bdi></blockquote>'


def test_ticks_are_round_and_inside():
    assert Scale(low=0, high=100, start=0, end=1).ticks(5) == [0, 20, 40, 60, 80, 100]
    assert Scale(low=73.7, high=87.1, start=0, end=1).ticks(5) == [75, 80, 85]
    assert Scale(low=5, high=5, start=3, end=9)(5) == 3


def test_reading_and_writing_a_report_needs_no_torch(run, tmp_path):
    code = (
        "import sys; from robust_tickets.report.html import write_report; from robust_tickets.report.terminal import Summary;"
        "from robust_tickets.report.run_data import read_run;"
        "write_report(sys.argv[2], [sys.argv[1]]); Summary(read_run(sys.argv[1])); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(tmp_path / "r.html")], check=True)


def test_arms_that_share_a_search_share_its_map(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    about = read_json(run / "arms.json")
    about["arms"][2]["search"] = about["arms"][0]["search"]
    write_json(run / "arms.json", about)
    page = write_report(tmp_path / "page.html", run).read_text()
    assert page.count("share of units on which") == 1
    assert "EarlyRobust ticket, Random ticket: share of units on which" in page


@pytest.mark.parametrize(("key", "odd"), [("arms", 5), ("arms", [5]), ("attacks", 5), ("labels", 5)])
def test_an_odd_list_of_arms_costs_what_it_named(key: str, odd: object, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    about = read_json(run / "arms.json")
    {"arms": about, "attacks": about["arms"][0], "labels": about["task"]}[key][key] = odd
    write_json(run / "arms.json", about)
    assert "</html>" in write_report(tmp_path / "page.html", run).read_text()
    told = " ".join(read_run(run).notes)
    assert ("no JSON objects: left out" in told, "5 is missing" in told) == (key == "arms", key == "attacks")
