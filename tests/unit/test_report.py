"""The page and the terminal's table: structure, numbers, verdicts, missing parts."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fake_run import make_run, set_outcomes
from robust_tickets.cli.main import main
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_json
from robust_tickets.report import format as numbers
from robust_tickets.report.figures import layers
from robust_tickets.report.html import ENVIRONMENT, MACROS, write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.tables import Cell, Column, Row, Table, arms_table, to_markdown
from robust_tickets.report.terminal import Summary, figures
from robust_tickets.report.text_diff import marked
from robust_tickets.report.verdict import contest, total_seconds, verdict, warnings
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


def test_a_clear_lead_is_said_with_its_proof(run):
    found = verdict(read_run(run), "pwws")
    assert found.sure
    assert "McNemar" in found.sentences[1]
    assert "n\u00a0=\u00a0120" in found.sentences[1]


def test_comparisons_join_by_id_and_leave_errors_out(tmp_path):
    folder = make_run(tmp_path / "r", n=40)
    path = folder / "attack/00000000/examples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["status"], lines[0]["error"] = "error", "out of memory"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[-2::-1]) + "not json\n")
    run = read_run(folder)
    pair = contest(run, "pwws")["earlyrobust", "finetune"]
    assert pair.n == 38
    assert any("damaged" in words for words in warnings(run))
    held = [line["status"] == "failed" for line in lines[1:-1]]
    other = [
        json.loads(line)["status"] == "failed"
        for line in (folder / "attack/00000001/examples.jsonl").read_text().splitlines()
    ][1:-1]
    assert pair.difference == pytest.approx(100 * (sum(held) - sum(other)) / 38)


@pytest.mark.parametrize("gone", ["search", "train", "attack", "config.json", "env.json", "manifest.json"])
def test_a_missing_part_costs_only_its_part(tmp_path, gone):
    folder = make_run(tmp_path / "r")
    (shutil.rmtree if (folder / gone).is_dir() else Path.unlink)(folder / gone)
    text = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    parse(text)
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
    assert "00000001/result.json: " in told.err
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
    assert run.arms[0].attacks[0].queries is None
    assert run.arms[0].distances is None
    assert run.arms[2].ticket is None
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


def test_reading_and_writing_a_report_needs_no_torch(run, tmp_path):
    code = (
        "import sys; from robust_tickets.report.html import write_report; from robust_tickets.report.terminal import Summary;"
        "from robust_tickets.report.run_data import read_run;"
        "write_report(sys.argv[2], [sys.argv[1]]); Summary(read_run(sys.argv[1])); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(tmp_path / "r.html")], check=True)


def printed(what, width):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(what)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in out.getvalue()
    return lines


@pytest.mark.parametrize("width", [160, 40])
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
        pair = contest(run, "pwws").get((arm.name, run.baseline))
        wanted.append(numbers.p_value(pair.p) if pair else "baseline")
        for words in wanted:
            assert any(words.replace("\u00a0", " ") in line for line in lines), words


def test_the_json_says_what_the_page_says(tmp_path):
    folder = make_run(tmp_path / "r")
    set_outcomes(folder, 0, "h" * 60 + "t" * 38 + "e" * 2)
    set_outcomes(folder, 1, "h" * 20 + "t" * 80)
    set_outcomes(folder, 2, "h" * 20 + "t" * 80)
    result = read_json(folder / "attack/00000000/result.json")
    write_json(folder / "attack/00000000/result.json", result | {"flags": ["one class"]})
    arms = json.loads(json.dumps(figures(read_run(folder)), allow_nan=False))
    run = read_run(folder)
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


TABLE = Table(
    caption="Some numbers",
    label="numbers",
    first="arm",
    columns=(Column(title="under attack", key="aua"), Column(title="empty", key="none"), Column(title="kind", number=False)),
    rows=(
        Row(name="a|b", cells=(Cell(text="33.3 %", value=100 / 3, below="1–2", notes=(2,)), Cell(text="–"), Cell(text="<i>"))),
    ),
)  # fmt: skip


def test_markdown_keeps_every_cell_in_its_column() -> None:
    head, rule, row = to_markdown(TABLE).splitlines()
    assert head == "| arm | under attack | empty | kind |"
    assert rule == "| --- | --: | --: | --- |"
    assert row == "| a\\|b | 33.3 % (1–2) | – | <i> |"


def test_html_escapes_and_holds_the_values() -> None:
    text = str(MACROS.table(TABLE))
    assert f'<data value="{100 / 3!r}">33.3 %</data>' in text
    assert 'href="#-note-2"' in text
    assert "&lt;i&gt;" in text
    assert "<i>" not in text


def test_columns_without_a_value_are_left_out(tmp_path: Path) -> None:
    assert [column.key for column in TABLE.filled().columns] == ["aua"]
    run = read_run(make_run(tmp_path / "r"))
    table = arms_table(run, "pwws").filled()
    place = [column.key for column in table.columns].index("aua")
    for row, arm in zip(table.rows, run.arms, strict=True):
        assert (row.name, row.cells[place].value) == (arm.title, arm.attacks[0].aua)


@pytest.mark.parametrize("words", ["<b>", "\u202e", "\ud800", "\x1b[0m", '"'])
def test_no_text_passes_a_template_as_it_is(words: str) -> None:
    shown = ENVIRONMENT.from_string("<p title=\"{{ w }}\">{{ [w, w]|join(', ') }}{{ w ~ w }}</p>").render(w=words)
    assert not re.search(r"<b>|[\u202e\ud800\x1b]", shown)
    assert shown.count('"') == 2


PATHS = ("attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense")
NAMES = [*(f"encoder.layer.{i}.{path}.weight" for i in range(2) for path in PATHS), "pooler.dense.weight"]


def with_weights(folder: Path, family: str = "bert") -> Path:
    """Make the first arm's ticket one of single weights: layer 1 keeps 3/4 of its attention and 1/4 of the rest, layer 2 all."""
    shares = [12, 12, 4, 4, 16, 16, 16, 16, 0]
    masks = tuple(np.arange(16).reshape(4, 4) < kept for kept in shares)
    ticket = Ticket(
        kind="unstructured", family=family, names=tuple(NAMES), masks={"weights": masks}, unit_weights={"weights": 1}
    )
    entry = read_json(folder / "arms.json")["arms"][0]
    ticket.save(folder / entry["search"])
    path = folder / entry["train"] / "cost.json"
    kept = {
        "nonzero_parameters": 21_000_000.0,
        "nonzero_encoder_parameters": 5_000_000.0,
        "dense_encoder_parameters": 10_000_000.0,
    }
    write_json(path, {**read_json(path), **kept})
    return folder


@pytest.fixture
def weights_run(tmp_path: Path) -> Path:
    return with_weights(make_run(tmp_path / "run"))


def test_weights_are_counted_by_layer_and_part(weights_run: Path) -> None:
    drawn = layers(read_run(weights_run).arms[0], 0)
    assert "layer 1: 24 of 32 weights in attention, 8 of 32 weights in feed-forward" in drawn
    assert "layer 2: 32 of 32 weights in attention, 32 of 32 weights in feed-forward" in drawn


def test_a_ticket_of_an_unknown_backbone_costs_only_its_figure(tmp_path: Path) -> None:
    read = read_run(with_weights(make_run(tmp_path / "run"), family="unheard-of"))
    assert read.arms[0].ticket is None
    assert any("unheard-of" in note for note in read.notes)
