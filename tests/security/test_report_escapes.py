"""Nothing that a data set, an attacker or a config says becomes markup, breaks the file, or reorders what a reader sees."""

from __future__ import annotations

import html
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup
from rich.console import Console

from fake_run import make_run
from hostile import HOSTILE, ORDER, Elements
from robust_tickets.files import read_json, write_json
from robust_tickets.progress import clean
from robust_tickets.report.charts import tag, visible
from robust_tickets.report.html import MACROS, write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.terminal import Summary
from robust_tickets.report.text_diff import folded, opening


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    """Every free text of a run folder replaced by hostile ones."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    texts = tuple((f"{words} good {words}", k % 2, "good", f"b{words}d") for k, words in enumerate(HOSTILE))
    arms = tuple((f"arm{k}", words, 0.3, 80.0, k == 0) for k, words in enumerate(HOSTILE))
    make_run(folder, n=40, texts=texts, arms=arms, title=HOSTILE[0])
    about = read_json(folder / "arms.json")
    about["task"] |= {"name": HOSTILE[1], "labels": [HOSTILE[0], HOSTILE[6]]}
    about |= {"command": HOSTILE[0], "about": HOSTILE[2]}
    write_json(folder / "arms.json", about)
    for name in ("config.json", "env.json"):
        odd = {HOSTILE[0]: HOSTILE, "device": HOSTILE[1], "packages": {HOSTILE[2]: HOSTILE[0]}}
        write_json(folder / name, read_json(folder / name) | odd)
    write_json(folder / "manifest.json", {"files": {HOSTILE[0]: {"sha256": HOSTILE[2]}}})
    write_json(
        folder / "train/00000000/model" / '"><svg onload=alert(1)>\u202e.json', {}
    )  # file names are listed with their hashes
    result = read_json(folder / "attack/00000000/result.json")
    write_json(
        folder / "attack/00000000/result.json",
        result | {"flags": list(HOSTILE), "attack": HOSTILE[2], "constraints": list(HOSTILE)},
    )
    distances = read_json(folder / "search/00000000/distances.json")
    write_json(folder / "search/00000000/distances.json", distances | {"rule": HOSTILE[0]})
    return write_report(folder / "report.html", folder)


def test_the_terminal_gets_no_escape_and_no_markup(hostile_page):
    out = io.StringIO()
    Console(file=out, width=4000, force_terminal=False).print(Summary(read_run(hostile_page.parent)))
    assert "\x1b" not in out.getvalue()
    assert "[bold red]markup[/]" in out.getvalue()


def test_a_path_out_of_the_run_folder_is_not_followed(tmp_path):
    make_run(tmp_path / "other")
    folder = make_run(tmp_path / "run")
    about = read_json(folder / "arms.json")
    about["arms"][0] |= {"train": "../other/train/00000000", "attacks": [str(tmp_path / "other/attack/00000000")]}
    write_json(folder / "arms.json", about)
    run = read_run(folder)
    assert run.arms[0].evaluation is None
    assert run.arms[0].attacks == ()
    assert sum("outside the run folder" in note for note in run.notes) == 2


@settings(max_examples=150)
@given(st.text(st.characters(), max_size=60))
def test_any_text_survives_as_text(words):
    written = tag("p", words, title=words)
    written.encode("utf-8")
    assert [name for name, _ in Elements(written).found] == ["p"]
    inner = written[written.index(">") + 1 : -4] if "<" not in words else None
    if inner is not None:
        assert html.unescape(inner) == clean(words)
    assert clean(clean(words)) == clean(words)
    assert {name for name, _ in Elements(MACROS.quote(folded(words, words[::-1]))).found} <= {
        "blockquote",
        "bdi",
        "ins",
        "del",
    }


def test_only_finished_markup_is_left_alone():
    assert visible(Markup("<b>")) == "<b>"
    assert visible("<b>") == "&lt;b&gt;"
    assert tag("a", "x", href='"><') == '<a href="&#34;&gt;&lt;">x</a>'
    assert tag("path", d="M0 0", id=None) == '<path d="M0 0"/>'


@pytest.fixture(scope="module")
def hostile_attack(tmp_path_factory):
    """An attack folder that nobody here made: every text of result.json and examples.jsonl is hostile, and long ones are folded."""
    root = tmp_path_factory.mktemp("hostile")
    long = " ".join(f"Sentence {i} of a long text." for i in range(40))
    texts = tuple((f"{words} {long} good {words}", k % 2, "good", f"b{words}d") for k, words in enumerate(HOSTILE))
    run = make_run(root / "run", n=40, texts=texts)
    folders = []
    for k, words in enumerate(HOSTILE[:3]):
        folder = run / f"attack/{k:08x}"
        path = folder / "examples.jsonl"
        odd = {"error": words, "predicted_after": words}
        rows = [json.loads(line) | odd for line in path.read_text().splitlines()]
        for i, row in enumerate(rows):
            row["id"], row["label"] = f"{words}{i}", HOSTILE[i % len(HOSTILE)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = read_json(folder / "result.json") | {
            "attack": words, "model": {"identity": f"{words}{k}", "digest": words, "labels": list(HOSTILE)},
            "task": {"split": words, "digest": words, "columns": list(HOSTILE), "labels": list(HOSTILE)},
            "flags": list(HOSTILE), "flag_codes": [*HOSTILE[1:], "substitute"], "compat": words, "semantics": words, "scoring": words,
            "subset": words, "digest": words, "precision": words, "seen": {words: words},
            "calibration": {"fitted": True, "n": words, "split": words},
            "resources": {words: {"name": words, "substitute": True}}, "constraints": list(HOSTILE), "spread": {words: 1},
            "curve": [{words: words}], "ids": [row["id"] for row in rows],
            "env": {"device": words, "command": words, "date": words, "data": [{"name": words, "sha256": words}, words]},
        }  # fmt: skip
        write_json(folder / "result.json", result)
        folders.append(folder)
    return write_report(root / "page.html", folders)


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("hostile_page", "&lt;svg onload=alert(1)&gt;⟨U+202E⟩.json"),  # a file's name
        ("hostile_page", "⟨U+D800⟩"),
        ("hostile_attack", 'class="fold"'),
    ],
)
def test_hostile_texts_stay_texts_without_control_or_direction(page, shown, request):
    text = request.getfixturevalue(page).read_bytes().decode("utf-8")  # strict: a lone surrogate would fail here
    parsed = Elements(text)
    names = [name for name, _ in parsed.found]
    assert (names.count("script"), names.count("style"), names.count("img"), parsed.odd) == (1, 1, 0, 0)
    assert not [attrs for _, attrs in parsed.found if any(a.startswith("on") or a in ("src", "style") for a in attrs)]
    assert not ORDER.search(text)
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert shown in text


@settings(max_examples=100)
@given(st.text(st.characters(), max_size=400), st.text(st.characters(), max_size=400))
def test_any_two_texts_become_marks_and_folds_alone(before, after):
    written = MACROS.quote(folded(before, after)) + MACROS.quote(opening(before))
    written.encode("utf-8")
    assert {name for name, _ in Elements(written).found} <= {"blockquote", "bdi", "details", "summary", "ins", "del"}
