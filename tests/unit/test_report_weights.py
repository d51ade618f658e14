"""The page of a run with a ticket of single weights: what survives in each layer, and that it brings no speed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fake_run import make_run
from robust_tickets.files import read_json, write_json
from robust_tickets.report.html import write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.verdict import costs
from robust_tickets.ticket.ticket import Ticket

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
def run(tmp_path: Path) -> Path:
    return with_weights(make_run(tmp_path / "run"))


def test_weights_are_counted_by_layer_and_part(run: Path) -> None:
    shape = read_run(run).arms[0].shape
    assert shape is not None
    assert shape.weights == (
        {"attention": (24, 32), "feedforward": (8, 32)},
        {"attention": (32, 32), "feedforward": (32, 32)},
    )
    assert not shape.heads


def test_the_page_says_what_survives_and_that_it_brings_no_speed(run: Path, tmp_path: Path) -> None:
    html = write_report(tmp_path / "report.html", run).read_text()
    assert "layer 1: 24 of 32 weights in attention, 8 of 32 weights in feed-forward" in html
    assert "96 of 128 weights of the layers (75.0 %)" in html
    assert "brings no speed" in html
    assert "Filled squares are heads" in html  # the random arm's ticket is structured


def test_its_cost_names_the_weights_kept_and_no_saving_of_flops(run: Path) -> None:
    said = costs(read_run(run))[0]
    assert "keeps 5.00 M of 10.0 M encoder parameters (50 %)" in said.replace("\u00a0", " ")
    assert "brings no speed" in said
    assert "FLOPs" not in said


def test_a_ticket_of_an_unknown_backbone_costs_only_its_figure(tmp_path: Path) -> None:
    read = read_run(with_weights(make_run(tmp_path / "run"), family="unheard-of"))
    assert read.arms[0].shape is None
    assert any("unheard-of" in note for note in read.notes)


def test_no_torch_is_needed(run: Path, tmp_path: Path) -> None:
    code = "import sys; from robust_tickets.report.html import write_report; write_report(sys.argv[1], sys.argv[2])"
    check = "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code + check, str(tmp_path / "page.html"), str(run)], check=True)
