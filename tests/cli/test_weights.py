"""Tickets of single weights from the command line: search, draw by sparsity, train masked, export dense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.backbone.weight_masks import check_zeros, masks_of
from robust_tickets.classifier import Classifier
from robust_tickets.cli.main import main
from robust_tickets.ticket.ticket import Ticket


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--json"])
    out = capsys.readouterr()
    assert end.value.code == 0, out.err
    return dict(json.loads(out.out))


def test_search_draw_train_export(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    data = ["--task", str(three_classes), "--max-length", "32"]
    found = call(capsys, "search", "omp", "--model", str(model_folder), *data, "--out", str(tmp_path / "t"))
    assert found["kind"] == "unstructured"
    assert found["sparsity"] == pytest.approx(0.6, abs=1e-4)
    with pytest.raises(SystemExit):
        main(["draw", str(tmp_path / "t"), "--sparsity", "0.3", "--scope", "matrix", "--out", str(tmp_path / "t2")])
    assert "ticket without 30.0% of the weights" in (shown := capsys.readouterr().out)
    assert "a mask brings no speed" in shown
    drawn = Ticket.load(tmp_path / "t2")
    assert drawn.provenance["draw"] == {"sparsity": 0.3, "scope": "matrix"}
    trained = call(
        capsys, "train", str(model_folder), *data, "--ticket", str(tmp_path / "t2"), "--set", "epochs=1", "--out", str(tmp_path / "m")
    )  # fmt: skip
    model = Classifier.from_pretrained(trained["model"]).model
    assert len(masks_of(model)) == len(drawn.names)
    check_zeros(model)
    cost = json.loads((tmp_path / "m" / "cost.json").read_text())
    gone = sum(int((~mask).sum()) for mask in drawn.masks["weights"])
    assert cost["nonzero_parameters"] == cost["parameters"] - gone == cost["dense_parameters"] - gone
    assert cost["nonzero_encoder_parameters"] < cost["encoder_parameters"]
    assert cost["flops_per_example"] == cost["dense_flops_per_example"]
    call(capsys, "export", trained["model"], "--out", str(tmp_path / "dense"), "--format", "dense")
    assert (tmp_path / "dense" / "ticket" / "ticket.safetensors").is_file()
