"""A card parses as the Hub reads it, claims only what was measured, and shows hostile names as text."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from robust_tickets.classifier import ModelClassifier
from robust_tickets.deploy.card import Evidence, card, markdown, one_line
from robust_tickets.prune.compact import compact, expand
from robust_tickets.ticket.ticket import Ticket
from tiny import tiny_classifier

WHOLE = tiny_classifier(labels=("bad", "good"), max_length=64)
SMALL = compact(WHOLE, Ticket.from_kept(WHOLE, heads=[[0, 1], [0, 1, 2, 3], [0]], neurons=[[*range(24)], [1], [2, 3]]))
DENSE = expand(SMALL)
ATTACK = {
    "attack": {"name": "pwws"},
    "n": 200,
    "seed": 7,
    "clean": 90.0,
    "aua": 31.5,
    "suc": 65.0,
    "queries": 120.25,
    "intervals": {"clean": [85.0, 93.4], "aua": [25.5, 38.2]},
    "resources": {"tagger": {"name": "small tagger", "substitute": True}},
    "flags": ["few examples", "errors: 2 example(s) failed and are left out of n"],
}
EVALUATION = {"split": "test", "n": 872, "accuracy": 91.234, "macro_f1": 90.0, "interval": [89.1, 93.0]}
HOSTILE = [
    "---\nlicense: evil\n---",
    "<script>alert(1)</script>",
    "a | b | c",
    "](javascript:alert(1))",
    "``` \n# heading",
    "\u202egnp.exe",
    "\ud800",
    "\x00\x1b[31m",
    "&lt;b&gt;",
    "www.evil.example",
    "https://evil.example",
    "![x](http://evil.example/t.png)",
    "'\"\\: {}[]%@`",
    "x" * 10_000,
    "",
]


def head_of(text: str) -> dict[str, Any]:
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert found
    told = yaml.safe_load(found[1])
    assert isinstance(told, dict)
    return told


def card_of(evidence: Evidence, form: str = "compact", model: ModelClassifier = SMALL) -> str:
    return card(model, DENSE, form, evidence)


def test_card_tells_what_was_measured_and_how() -> None:
    names = {"name": "My ticket", "base": "org/model", "method": "earlyrobust", "task": "reviews"}
    text = card_of(Evidence(**names, evaluation=EVALUATION, attacks=(ATTACK,)))
    size, whole = (sum(p.numel() for p in clf.model.parameters()) for clf in (SMALL, WHOLE))
    for part in (
        f"| parameters | {size:,} of {whole:,} ({100 * (1 - size / whole):.1f} % removed) |",
        "| heads kept per layer | 2, 4, 1 of 4 (41.7 % removed) |",
        "| accuracy on test | 91.2 % | 89.1 to 93.0 | 872 |",
        "| accuracy under pwws | 31.5 % | 25.5 to 38.2 | 200 | 7 |",
        "| success of pwws | 65.0 % |  | 180 | 7 |",
        "| queries of pwws an example | 120.2 |  | 180 | 7 |",
        "tagger: small tagger (a substitute",
        "- pwws, few examples.",
        "2 example\\(s\\) failed",
        "check both before",
        "import robust_tickets",
    ):
        assert part in text
    head = head_of(text)
    assert (head["library_name"], head["pipeline_tag"], head["base_model"]) == (
        "transformers",
        "text-classification",
        "org/model",
    )
    values = {metric["type"]: metric["value"] for metric in head["model-index"][0]["results"][0]["metrics"]}
    assert values == {"accuracy": 91.23, "f1": 90.0, "accuracy_under_attack": 31.5}


def test_hub_reads_the_card(tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    evidence = Evidence(name="t", task="reviews", evaluation=EVALUATION, attacks=(ATTACK,))
    (tmp_path / "README.md").write_text(card_of(evidence))
    read = ModelCard.load(tmp_path / "README.md")
    assert {result.metric_type for result in read.data.eval_results} == {"accuracy", "f1", "accuracy_under_attack"}


@pytest.mark.parametrize("form", ["compact", "dense", "onnx"])
def test_each_format_says_how_it_loads(form: str) -> None:
    text = card_of(Evidence(), form)
    code = text.split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")
    assert ("robust_tickets" in code) == (form == "compact")


def test_a_folder_on_somebodys_disk_is_not_told(tmp_path: Path) -> None:
    text = card_of(Evidence(base=str(tmp_path / "secret-project" / "model-3")))
    assert "secret-project" not in text
    assert "model-3" in text
    assert "base_model" not in head_of(text)
    assert "base_model" not in head_of(card_of(Evidence(base="minilm")))  # an embedded name is no Hub id


def test_numbers_that_are_none_are_not_invented() -> None:
    text = card_of(Evidence(attacks=({**ATTACK, "suc": None, "aua": float("nan")},)))
    assert "not defined" in text
    assert "nan" not in text
    assert "model-index" not in head_of(text)


def check_hostile(name: str) -> None:
    attack = {**ATTACK, "attack": name, "resources": {name: {"name": name}}, "flags": [name], "seed": name, "n": name}
    model = copy.copy(SMALL)
    model.labels = (name, "good")
    names = {"name": name, "base": name, "method": name, "task": name}
    text = card_of(Evidence(**names, evaluation={**EVALUATION, "split": name}, attacks=(attack,)), model=model)
    text.encode("utf-8")
    head = head_of(text)
    assert set(head) <= {"library_name", "pipeline_tag", "tags", "base_model", "model-index"}
    body = text.split("\n---\n", 1)[1]
    assert "<" not in body
    tokens = MarkdownIt("commonmark", {"linkify": False}).enable("table").parse(body)
    kinds = {child.type for token in tokens for child in [token, *(token.children or [])]}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "hr", "em_open", "strong_open"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2", "h2"]
    cells: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            cells.append(0)
        elif token.type in ("td_open", "th_open"):
            cells[-1] += 1
    assert set(cells) == {2, 5}
    assert not re.search(r"(?<!\\)www\.|https?:", body)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str) -> None:
    check_hostile(name)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=40) | st.text(alphabet="-|<>&`*_[]()!#\n\\:'\" ax1.~", max_size=30))
def test_any_name_stays_text(name: str) -> None:
    check_hostile(name)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="-|<>&`*_[]()!#\\:'\"ax1.~$^=+{}@", min_size=1, max_size=30))
def test_escaped_markdown_shows_the_very_characters(name: str) -> None:
    inline = MarkdownIt("commonmark").enable("strikethrough").parse("x " + markdown(name))[1]
    shown = "".join(
        child.content if child.type in ("text", "text_special") else f"<{child.type}>"
        for child in inline.children or []
    )
    assert shown == "x " + one_line(name)


def test_names_become_one_line() -> None:
    assert one_line("a\n\n \tb\u202e \u2028c ") == "a b c"
    assert one_line("می\u200cخواهم") == "می\u200cخواهم"  # a joiner that Persian needs
    assert one_line("x" * 100) == "x" * 79 + "…"
