"""The page and the terminal's table: structure, numbers, missing parts, attacks without a run."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from fake_run import add_plan, make_run, set_outcomes
from refusing import refused
from robust_tickets.files import read_json, sha256_file, write_json
from robust_tickets.report import format as numbers
from robust_tickets.report.figures import budget_curves, layers, query_histogram
from robust_tickets.report.html import ENVIRONMENT, MACROS, Case, Result, cards, read_folders, write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.tables import Cell, Column, Row, Table, arms_table, to_markdown
from robust_tickets.report.terminal import Summary, figures
from robust_tickets.report.text_diff import folded
from robust_tickets.report.verdict import contest, total_seconds, verdict
from robust_tickets.ticket.ticket import Ticket

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


def parse(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    return parser


def page_of(folders: object, path: Path) -> str:
    text = write_report(path / "page.html", folders).read_text("utf-8")  # type: ignore[arg-type]
    parse(text)
    return text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "demo-1a2b3c4d")


@pytest.fixture(scope="module")
def page(run):
    return write_report(run / "report.html", [run]).read_text("utf-8")


def test_the_page_is_whole_and_loads_nothing(page):
    tags = parse(page).tags
    assert page.startswith("<!doctype html>")
    for _, attrs in tags:
        assert not {"src", "srcset", "action", "style", "data", "poster"} & set(attrs)
        assert not any(name.startswith("on") for name in attrs)
        assert str(attrs.get("href") or "#").startswith("#")
    assert not re.search(r"https?://|@import|url\(|//\w+\.\w", page)
    assert [t for t, _ in tags if t in ("link", "iframe", "object", "embed", "img", "base")] == []
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    for element, rule in (("style", "style-src"), ("script", "script-src")):
        inner = re.search(rf"<{element}>(.*?)</{element}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_numbers_of_the_table_are_those_of_the_files(run, page):
    got: dict[str, list[float]] = {}
    for key, value in parse(page).cells:
        got.setdefault(key, []).append(value)
    results = [read_json(run / f"attack/{k:08x}/result.json") for k in range(3)]
    for key in ("aua", "suc", "queries", "perturbed"):
        assert got[key] == [r[key] for r in results]
    assert got["clean"] == [read_json(run / f"train/{k:08x}/evaluation.json")["accuracy"] for k in range(3)]
    assert got["parameters"] == [read_json(run / f"train/{k:08x}/cost.json")["parameters"] for k in range(3)]
    assert got["seconds"] == pytest.approx([118.4 + 95, 118.4, 118.4])
    assert len(got["p"]) == 2  # the baseline has none


def test_the_page_is_accessible(page):
    tags = parse(page).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    svgs = [attrs for tag, attrs in tags if tag == "svg"]
    assert svgs
    assert all(attrs.get("role") == "img" and len(attrs.get("aria-label") or "") > 20 for attrs in svgs)
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags)
    assert ("html", {"lang": "en"}) in tags


# --- files that are missing, damaged or of another version


@pytest.mark.parametrize("gone", ["search", "train", "attack", "config.json", "env.json", "manifest.json"])
def test_a_missing_part_costs_only_its_part(tmp_path, gone):
    folder = make_run(tmp_path / "r")
    (shutil.rmtree if (folder / gone).is_dir() else Path.unlink)(folder / gone)
    text = page_of(folder, tmp_path)
    if gone in ("search", "train", "attack"):
        assert f"{gone}/00000000 is missing" in text


@pytest.mark.parametrize("text", ["", '{"n": 3', "[]", '{"schema": 2, "n": "many"}'])
@pytest.mark.parametrize("name", ["attack/00000001/result.json", "train/00000000/evaluation.json", "config.json"])
def test_a_damaged_file_is_noted_on_the_page_and_in_the_log(tmp_path, caplog, name, text):
    folder = make_run(tmp_path / "r")
    (folder / name).write_text(text)
    page = page_of(folder, tmp_path)
    if not (name == "config.json" and "many" in text):
        assert Path(name).name + ": " in page
        assert Path(name).name + ": " in caplog.text
    run = read_run(folder)
    assert (len(run.arms[1].attacks), run.arms[0].evaluation is None) == (name[0] != "a", name[0] == "t")


def test_a_damaged_search_or_ticket_costs_its_figures(tmp_path):
    folder = make_run(tmp_path / "r")
    write_json(folder / "search/00000000/distances.json", {"points": [1, 2], "heads": [[0]], "neurons": []})
    (folder / "search/00000002/ticket.safetensors").write_bytes(b"broken")
    run = read_run(folder)
    assert run.arms[0].distances is None
    assert run.arms[2].ticket is None
    assert any("distances.json" in note for note in run.notes)
    page_of(folder, tmp_path)


@pytest.mark.parametrize("odd", [{"queries": "many"}, {"status": "lost"}, {"original": [1]}, {"id": 3}, None])
def test_texts_of_another_shape_are_left_out(tmp_path, odd):
    folder = make_run(tmp_path / "r")
    path = folder / "attack/00000000/examples.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | odd) if odd else first[:-9], *rest]))
    run = read_run(folder)
    assert (len(run.arms[0].attacks[0].texts), len(run.arms[1].attacks[0].texts)) == (0, 120)
    assert any("00000000/examples.jsonl" in note for note in run.notes)
    page_of(folder, tmp_path)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with refused("run.folder"):
        write_report(tmp_path / "r.html", [tmp_path])
    with refused("report.folders"):
        write_report(tmp_path / "r.html", [])
    write_json(tmp_path / "arms.json", {"schema": 99})
    with refused("run.schema"):
        read_run(tmp_path)
    with refused("attack.schema"):
        write_report(tmp_path / "r.html", lone(tmp_path, schema=99))


def test_several_runs_share_a_page(tmp_path):
    folders = [make_run(tmp_path / name, seed=k, title=f"Run {name}") for k, name in enumerate("ab")]
    text = page_of([*folders, folders[0]], tmp_path)
    assert {"r1", "r2"} <= set(parse(text).ids)
    assert [key for key, _ in parse(text).cells].count("aua") == 6 + 6  # the joint table and one a run
    assert text.count("Run it again") == 2


def test_equal_files_give_equal_pages_whatever_was_written_before(tmp_path):
    folder = make_run(tmp_path / "r")
    (folder / "manifest.json").unlink()
    first = write_report(folder / "report.html", folder).read_bytes()
    write_json(folder / "manifest.json", {"schema": 1, "files": {"arms.json": {"sha256": "cd" * 32}}})
    assert write_report(folder / "report.html", folder).read_bytes() == first
    examples = folder / "attack/00000000/examples.jsonl"
    examples.write_bytes(examples.read_bytes().replace(b'"queries": 1,', b'"queries": 2,'))
    assert write_report(folder / "report.html", folder).read_bytes() != first
    shown = read_run(folder, hashes=True).hashes
    for name in ("arms.json", "train/00000000/cost.json"):
        assert shown[name] == sha256_file(folder / name)
    assert not {"report.html", "manifest.json"} & shown.keys()


def test_reading_and_writing_a_report_needs_no_torch(run, tmp_path):
    code = (
        "import sys; from robust_tickets.report.html import write_report; from robust_tickets.report.terminal import Summary;"
        "from robust_tickets.report.run_data import read_run;"
        "write_report(sys.argv[2], [sys.argv[1]]); Summary(read_run(sys.argv[1])); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(tmp_path / "r.html")], check=True)


# --- the terminal, JSON and tables


@pytest.mark.parametrize("width", [160, 40])
def test_every_title_and_number_is_whole_in_a_terminal(run, width):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(Summary(read_run(run)))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in out.getvalue()
    for arm in (read := read_run(run)).arms:
        (attack,) = arm.attacks
        pair = contest(read, "pwws").get((arm.name, read.baseline))
        wanted = [arm.title, numbers.seconds(total_seconds(arm)), numbers.count(attack.queries, 1)]
        wanted += [numbers.percent(v) for v in (arm.clean, attack.clean, attack.aua, attack.suc, attack.perturbed)]
        wanted += [numbers.amount(arm.cost[key]) for key in ("parameters", "flops_per_example")]
        wanted += [
            numbers.brief(ends) for ends in (arm.evaluation.interval, *map(attack.interval, ("clean", "aua", "suc")))
        ]
        for words in [*wanted, numbers.p_value(pair.p) if pair else "baseline"]:
            assert any(words.replace("\u00a0", " ") in line for line in lines), words


def test_the_json_says_what_the_page_says(tmp_path):
    folder = make_run(tmp_path / "r")
    for arm, statuses in enumerate(("h" * 60 + "t" * 38 + "e" * 2, "h" * 20 + "t" * 80, "h" * 20 + "t" * 80)):
        set_outcomes(folder, arm, statuses)
    result = read_json(folder / "attack/00000000/result.json")
    write_json(folder / "attack/00000000/result.json", result | {"flags": ["one class"], "flag_codes": ["one-class"]})
    run = read_run(folder)
    arms = json.loads(json.dumps(figures(run), allow_nan=False))
    pair = contest(run, "pwws")["earlyrobust", run.baseline]
    first = arms[0]["attacks"]["pwws"]
    assert arms[0]["clean_interval"] == list(run.arms[0].evaluation.interval)
    assert [arm["baseline"] for arm in arms] == [False, True, False]
    assert (first["flags"], first["errors"], first["n"]) == (["one class"], 2, 98)
    assert (first["p"], first["p_adjusted"]) == (pair.p, pair.adjusted)
    assert first["p_adjusted"] > first["p"]
    assert first["difference_interval"] == list(pair.interval)
    assert first["headline"] == verdict(run, "pwws").headline.replace("\u00a0", " ")
    assert arms[1]["attacks"]["pwws"]["p"] is None
    assert arms_table(run, "pwws").rows[0].notes == (1,)
    assert 'id="r1-note-1"' in page_of(folder, tmp_path)


TABLE = Table(
    caption="Some numbers",
    label="numbers",
    first="arm",
    columns=(Column(title="under attack", key="aua"), Column(title="empty", key="none"), Column(title="kind", number=False)),
    rows=(
        Row(name="a|b", cells=(Cell(text="33.3 %", value=100 / 3, below="1–2"), Cell(text="–"), Cell(text="<i>")), notes=(2,)),
    ),
)  # fmt: skip


def test_one_table_is_written_as_markdown_and_as_html() -> None:
    head, rule, row = to_markdown(TABLE).splitlines()
    assert head == "| arm | under attack | empty | kind |"
    assert rule == "| --- | --: | --: | --- |"
    assert row == "| a\\|b | 33.3 % (1–2) | – | <i> |"
    text = str(MACROS.table(TABLE))
    assert f'<data value="{100 / 3!r}">33.3 %</data>' in text
    assert 'href="#-note-2"' in text
    assert "&lt;i&gt;" in text
    assert "<i>" not in text
    assert [column.key for column in TABLE.filled().columns] == ["aua"]


# --- tickets of single weights

PATHS = ("attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense")
NAMES = [*(f"encoder.layer.{i}.{path}.weight" for i in range(2) for path in PATHS), "pooler.dense.weight"]


def with_weights(folder: Path, family: str = "bert") -> Path:
    """Make the first arm's ticket one of single weights: layer 1 keeps 3/4 of its attention and 1/4 of the rest, layer 2 all."""
    shares = [12, 12, 4, 4, 16, 16, 16, 16, 0]
    masks = tuple(np.arange(16).reshape(4, 4) < kept for kept in shares)
    ticket = Ticket(
        kind="unstructured", family=family, names=tuple(NAMES), masks={"weights": masks}, unit_weights={"weights": 1}
    )
    ticket.save(folder / "search/00000000")
    path = folder / "train/00000000/cost.json"
    write_json(path, {**read_json(path), "nonzero_encoder_parameters": 5e6, "dense_encoder_parameters": 1e7})
    return folder


def test_weights_are_counted_by_layer_and_part(tmp_path: Path) -> None:
    folder = with_weights(make_run(tmp_path / "run"))
    drawn = layers(read_run(folder).arms[0], 0)
    assert "layer 1: 24 of 32 attention, 8 of 32 feed-forward" in drawn
    assert "layer 2: 32 of 32 attention, 32 of 32 feed-forward" in drawn
    assert "brings no speed" in page_of(folder, tmp_path)
    read = read_run(with_weights(folder, family="unheard-of"))
    assert read.arms[0].ticket is None
    assert any("unheard-of" in note for note in read.notes)


# --- attack folders without a run


def lone(
    tmp_path: Path, *, title: str = "minilm", folder: str = "one", arm: int = 0, outcomes: str = "", start: int = 0, **more: object
) -> Path:  # fmt: skip
    """An attack folder by itself, with these ``outcomes`` (as ``set_outcomes`` takes them)."""
    run = make_run(tmp_path / f"run-{folder}")
    if outcomes:
        set_outcomes(run, arm, outcomes, start=start)
    shutil.copytree(run / f"attack/{arm:08x}", tmp_path / folder)
    result = read_json(tmp_path / folder / "result.json")
    result["model"] |= {"identity": f"models/{title}", "digest": title}
    write_json(tmp_path / folder / "result.json", result | more)
    return tmp_path / folder


def test_a_lone_attack_has_a_page(tmp_path: Path) -> None:
    fit = {"calibration": {"fitted": True, "n": 400, "split": "train"}, "query_budget": 200, "temperature": 2.5}
    text = html.unescape(page_of(lone(tmp_path, scoring="log-odds", **fit), tmp_path)).replace("\u00a0", " ")
    for words in (
        "<h1>PWWS on minilm</h1>", "written from textattack-0.3.11", "scored by log-odds", "temperature 2.5",
        "calibrated on 400 rows of train", "as even over the classes as the rows allow, seed 0 (negative 60, positive 60)",
        "at most 200 queries a text", "Accuracy against query budget", "How many queries it took", "The attacked texts",
        "true label <b>positive", "one/examples.jsonl",
    ):  # fmt: skip
        assert words in text, words
    assert "FLOPs" not in text  # no column without a number


def test_victims_attacked_alike_are_compared(tmp_path: Path) -> None:
    folders = [lone(tmp_path, title=name, folder=name, arm=k) for k, name in enumerate(("first", "second"))]
    (run,) = read_folders(folders)
    assert [arm.title for arm in run.arms] == ["first", "second"]
    assert list(run.attack_titles) == ["pwws"]
    assert "McNemar p" in html.unescape(page_of(folders, tmp_path)).replace("\u00a0", " ")
    # the same victim under another budget is another attack on the same arm
    (run,) = read_folders([*folders, lone(tmp_path, title="first", folder="budget", query_budget=50)])
    assert len(run.arms) == 2
    assert list(run.attack_titles.values()) == ["PWWS (no query budget)", "PWWS (at most 50 queries)"]
    # and so is a copy of it in fewer bits
    (run,) = read_folders([folders[0], lone(tmp_path, title="first", folder="bits", precision="bfloat16")])
    assert (len(run.arms), list(run.attack_titles.values())) == (1, ["PWWS", "PWWS (in bfloat16)"])
    # the same way twice: two victims that only share a name
    (run,) = read_folders([folders[0], lone(tmp_path, title="first", folder="again", arm=2)])
    assert [arm.title for arm in run.arms] == ["first (first)", "first (again)"]
    # of one name, in folders of one name: neither is compared with itself
    held, turned = (
        lone(tmp_path, title="first", folder=f"{k}/out", arm=k, outcomes=c * 30) for k, c in enumerate("ht")
    )
    (run,) = read_folders([held, turned])
    assert len({arm.name for arm in run.arms}) == 2
    assert contest(run, "pwws")[run.arms[0].name, run.arms[1].name].difference == 100


def test_attacks_on_other_named_texts_are_not_compared(tmp_path: Path) -> None:
    folders = [lone(tmp_path, title=f"{k}", folder=f"{k}", outcomes="hht", start=5 * k, subset="ids") for k in (0, 1)]
    (run,) = read_folders(folders)
    assert len(run.attack_titles) == 2


@pytest.mark.parametrize(
    ("change", "titles"),
    [
        ({"query_budget": 50}, ("PWWS (no query budget)", "PWWS (at most 50 queries)")),
        ({"task": {"split": "validation"}}, ("PWWS (split test)", "PWWS (split validation)")),
        (
            {"resources": {"synonyms": {"name": "others", "digest": "78"}}},
            ("PWWS (synonyms WordNet 3.0)", "PWWS (synonyms others)"),
        ),
        ({}, ("PWWS (number 1)", "PWWS (number 2)")),
    ],
)
def test_two_plans_of_one_attack_are_matched_by_what_they_asked_for(tmp_path, change, titles):
    folder = make_run(tmp_path / "r")
    add_plan(folder, **change)
    if change:  # nothing but their order tells equal plans apart
        about = read_json(folder / "arms.json")
        about["arms"][1]["attacks"].reverse()
        write_json(folder / "arms.json", about)
    run = read_run(folder)
    assert tuple(run.attack_titles.items()) == (("pwws", titles[0]), ("pwws-2", titles[1]))
    assert [arm.attack("pwws-2").queries for arm in run.arms] == [50.0] * 3
    text = page_of(folder, tmp_path)
    assert all(f"The numbers: {title}" in text for title in titles)
    assert text.count('data-key="queries"><data value="50.0">') == 3


# --- figures and texts


def test_the_curve_is_that_of_the_result(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r")
    run = read_run(folder)
    (drawn,) = budget_curves(run)
    for k in range(3):
        curve = read_json(folder / f"attack/{k:08x}/result.json")["curve"]
        fallen = [point for point in curve if point["broken"]]
        assert all(f"{numbers.percent(point['accuracy'])} after {point['budget']}" in drawn for point in fallen)
    assert "median" in query_histogram(run)
    result = read_json(folder / "attack/00000000/result.json")
    write_json(folder / "attack/00000000/result.json", result | {"curve": [{"budget": "x"}]})
    (drawn,) = budget_curves(read_run(folder))
    assert "EarlyRobust" not in drawn


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
def test_changed_words_are_folded(before, after, want):
    shown = MACROS.quote(folded(before, after))
    assert shown == f'<blockquote dir="auto"><bdi dir="auto">{want}</bdi></blockquote>'


@settings(max_examples=150)
@given(st.text("ab .!?\n。é", max_size=900), st.text("ab .!?\n。é", max_size=900))
def test_a_marked_text_holds_both(before: str, after: str) -> None:
    parts = [part for piece in folded(before, after) for part in piece.parts]
    for gone, text in (("ins", before), ("del", after)):
        assert "".join("".join(words for kind, words in parts if kind != gone).split()) == "".join(text.split())
    assert all(kind == "" for piece in folded(before, after) if piece.fold for kind, _ in piece.parts)


def test_what_is_unchanged_in_a_long_text_is_folded() -> None:
    words = " ".join(f"w{i}" for i in range(400))
    first, fold, change, rest, end = folded(words, words.replace("w200 ", "other "))
    assert [bool(piece.fold) for piece in (first, fold, change, rest, end)] == [False, True, False, True, False]
    assert ("del", "w200") in change.parts


def test_huge_texts_stay_small_and_quick() -> None:
    words = " ".join(f"w{i % 97}" for i in range(10_000))
    start = time.monotonic()
    shown = MACROS.quote(folded(words, words.replace("w5 ", "two words ", 40)))
    assert time.monotonic() - start < 10
    assert len(shown) < 200_000
    assert len(MACROS.quote(folded("x" * 2_000_000, "y" * 2_000_000))) < 20_000


def test_texts_on_which_the_arms_differ_come_first() -> None:
    won, held = (
        Result(i, f"arm {i}", status, "", texts)
        for i, (status, texts) in enumerate([("success", ["bad"]), ("failed", [])])
    )
    cases = [
        Case(id, "1", ["good"], results)
        for id, results in (("held", [held, held]), ("won", [won]), ("differ", [won, held]))
    ]
    shown, number = cards({"PWWS": cases}, 2, 10**6, 1)
    assert (number, re.findall(r'class="id">(\w+)', shown)) == (2, ["differ", "won"])
    assert re.findall(r'data-arm="(\d)" data-outcome="(\w+)"', shown)[:2] == [("0", "success"), ("1", "failed")]
    assert shown.count("<del>good</del> <ins>bad</ins>") == 2


def test_the_page_is_capped_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robust_tickets.report.html.MOST", 40)
    text = page_of(make_run(tmp_path / "r"), tmp_path)
    assert text.count('<article class="case"') == 40
    monkeypatch.setattr("robust_tickets.report.html.SIZE", 10_000)
    assert page_of(tmp_path / "r", tmp_path).count('<article class="case"') < 20


@pytest.mark.parametrize("words", ["<b>", "\u202e", "\ud800", "\x1b[0m", '"'])
def test_no_text_passes_a_template_as_it_is(words: str) -> None:
    shown = ENVIRONMENT.from_string("<p title=\"{{ w }}\">{{ [w, w]|join(', ') }}{{ w ~ w }}</p>").render(w=words)
    assert not re.search(r"<b>|[\u202e\ud800\x1b]", shown)
    assert shown.count('"') == 2
