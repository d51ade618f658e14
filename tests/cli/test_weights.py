"""Tickets of single weights from the command line: search, draw by sparsity, train masked, export dense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from calling import Capture, sets, tickets
from robust_tickets.backbone.weight_masks import check_zeros, masks_of
from robust_tickets.classifier import Classifier
from robust_tickets.cli.main import main
from robust_tickets.ticket.ticket import Ticket
from tiny import tiny_model, tiny_tokenizer


def test_search_draw_train_export(capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path) -> None:
    data = ["--task", str(three_classes), "--max-length", "32"]
    found = tickets(capsys, "search", "omp", "--model", str(model_folder), *data, "--out", str(tmp_path / "t"))
    assert found["kind"] == "unstructured"
    assert found["sparsity"] == pytest.approx(0.6, abs=1e-4)
    with pytest.raises(SystemExit):
        main(["draw", str(tmp_path / "t"), "--sparsity", "0.3", "--scope", "matrix", "--out", str(tmp_path / "t2")])
    assert "no speed" in capsys.readouterr().out
    drawn = Ticket.load(tmp_path / "t2")
    assert drawn.provenance["draw"] == {"sparsity": 0.3, "scope": "matrix"}
    trained = tickets(
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
    tickets(capsys, "export", trained["model"], "--out", str(tmp_path / "dense"), "--format", "dense")
    assert (tmp_path / "dense" / "ticket" / "ticket.safetensors").is_file()


WEIGHTS = """
title = "Single weights"
[search]
name = "random"
sparsity = 0.3
[train]
epochs = 1
[arms.found]
search = true
[arms.drawn]
ticket = "found"
draw = {sparsity = 0.6}
[arms.redrawn]
ticket = "drawn"
without = "initialisation"
[arms.whole]
ticket = "drawn"
without = "structure"
[arms.matched]
search = {name = "random", match = "matrix", seed = 5}
like = "drawn"
"""


def test_a_recipe_of_unstructured_branches_ends_with_exact_zeros(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "weights.toml"
    recipe.write_text(WEIGHTS)
    said = tickets(
        capsys, "run", str(recipe), "--set", f"task={three_classes}", "--set", f"model={model_folder}", "--set", "max_rows=64",
        "--set", "max_length=32", "--set", "attack=none", "--out", str(tmp_path / "r"),
    )  # fmt: skip
    run = Path(said["run"])
    arms = {arm["name"]: arm for arm in json.loads((run / "arms.json").read_text())["arms"]}
    drawn, matched = (Ticket.load(run / arms[name]["ticket"]) for name in ("drawn", "matched"))
    assert drawn.sparsity == pytest.approx(0.6, abs=1e-4)
    assert drawn != matched
    assert [int(m.sum()) for m in drawn.masks["weights"]] == [int(m.sum()) for m in matched.masks["weights"]]
    assert not (run / arms["drawn"]["ticket"] / "scores.safetensors").exists(), "the search's are enough"
    for name, ticket in (("drawn", drawn), ("redrawn", drawn), ("matched", matched), ("whole", None)):
        weights = load_file(Path(said["models"][name]) / "model.safetensors")
        for matrix, mask in zip(drawn.names, (ticket or drawn).masks["weights"], strict=True):
            trained = weights[f"bert.{matrix}"]
            assert (trained[~mask] == 0).all() if ticket is not None else (trained[~mask] != 0).all(), (
                f"{name}: {matrix}"
            )


def test_a_search_matches_another_and_a_training_leaves_the_structure_out(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    data = ["--task", str(three_classes), "--max-length", "32", "--max-rows", "32"]
    search, omp = ["search", "--model", str(model_folder), *data, "--out"], tmp_path / "omp"
    found = tickets(capsys, *search, str(omp), "omp", "--set", "sparsity=0.5")
    like = tickets(capsys, *search, str(tmp_path / "r"), "random", "--set", "match=matrix", "--like", str(omp))
    assert like["sparsity"] == pytest.approx(found["sparsity"])
    train = ["train", str(model_folder), *data, *sets("epochs=1"), "--max-test-rows", "10", "--without", "structure"]
    whole = tickets(capsys, *train, "--ticket", str(omp), "--out", str(tmp_path / "w"))
    assert whole["evaluation"]["n"] == 10
    weights = load_file(Path(whole["model"]) / "model.safetensors")
    assert (weights["bert.encoder.layer.0.output.dense.weight"] != 0).all()
    tickets(capsys, *train, "--out", str(tmp_path / "x"), code=2)


def test_a_search_of_several_phases_is_timed_as_a_whole_and_leaves_no_models_behind(
    capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    data = ["--task", str(three_classes), "--max-length", "32", "--max-rows", "24", "--model", str(model_folder)]
    for method, phases, given in (
        ("imp", 2, ("sparsity=0.2", "epochs=1", "evaluation_rows=5")),
        ("robustt", 2, ("epochs=1", "evaluate=never", "tuning.epochs=1", "tuning.evaluate=never", "adversary.steps=1")),
    ):
        out = tmp_path / method
        tickets(capsys, "search", method, *data, *sets(*given), "--out", str(out))
        metrics = sorted(out.rglob("metrics.jsonl"))
        last = [json.loads(file.read_text().splitlines()[-1])["seconds"] for file in metrics]
        assert len(metrics) == phases
        assert json.loads((out / "cost.json").read_text())["search_seconds"] == pytest.approx(sum(last))
        assert not list(out.rglob("checkpoint"))
        assert not list(out.rglob("model"))
        assert "cost.json" in json.loads((out / "stage.json").read_text())["files"]


def test_a_search_on_masked_words_needs_no_labelled_task(capsys: Capture, tmp_path: Path) -> None:
    masked = tiny_model("bert", "AutoModelForMaskedLM")
    masked.save_pretrained(tmp_path / "model")
    tiny_tokenizer(masked.config).save_pretrained(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("the film was very good and the plot is not bad\n" * 60)
    search = [
        "search", "orticket", "--model", str(tmp_path / "model"), "--max-length", "32", "--set", f"corpus={tmp_path / 'corpus.txt'}",
        "--set", "block=16", "--set", "adversary.steps=2", "--out", str(tmp_path / "t"),
    ]  # fmt: skip
    first = tickets(capsys, *search, "--task", "no/such/task")
    (tmp_path / "corpus.txt").rename(tmp_path / "moved.txt")
    again = [part.replace("corpus.txt", "moved.txt") for part in search]
    before = (tmp_path / "t" / "stage.json").stat().st_mtime_ns
    assert tickets(capsys, *again)["digest"] == first["digest"]
    assert (tmp_path / "t" / "stage.json").stat().st_mtime_ns == before, "the corpus counts by what it holds"
