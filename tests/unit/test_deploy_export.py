"""Exports load where they say they load, give the model's answers, appear whole or not at all, and overwrite nothing of the user's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calling import Capture, tickets
from refusing import refused
from robust_tickets.classifier import Classifier
from robust_tickets.deploy import onnx
from robust_tickets.deploy.card import evidence_of
from robust_tickets.deploy.export import export
from robust_tickets.errors import TicketsError
from robust_tickets.files import part_of
from robust_tickets.prune.compact import compact
from robust_tickets.registry import BACKBONES
from robust_tickets.ticket.ticket import Ticket
from tiny import tiny_classifier

FAMILIES = BACKBONES.names()
TEXTS = [
    "a great film",
    "the story was not very good",
    "plot",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9",
]
LABELS = ("bad", "good", "so so")

# runs in a process that never imports robust_tickets; the last line proves it
PLAIN = """
import json, sys
import torch, transformers
texts, told = json.loads(sys.argv[1]), []
for folder in sys.argv[2:]:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(**tokenizer(texts, padding=True, truncation=True, max_length=32, return_tensors="pt")).logits
    told.append({"logits": logits.tolist(), "class": type(model).__name__, "labels": model.config.id2label})
print(json.dumps(told))
assert not any(name.split(".")[0] == "robust_tickets" for name in sys.modules)
"""


def ticket_for(model: Any) -> Ticket:
    """Uneven: one layer down to one head and one neuron, one whole."""
    return Ticket.from_kept(
        model, heads=[[2], [0, 1, 3], [0, 1, 2, 3]], neurons=[[5], list(range(0, 24, 3)), list(range(24))]
    )


@pytest.fixture(scope="module", params=FAMILIES)
def small(request: pytest.FixtureRequest) -> Classifier:
    whole = tiny_classifier(request.param, labels=LABELS)
    return compact(whole, ticket_for(whole))


@pytest.fixture(scope="module")
def bert() -> Classifier:
    whole = tiny_classifier("bert", labels=LABELS)
    return compact(whole, ticket_for(whole))


def test_compact_export_loads_with_its_class_and_answers(small: Classifier, tmp_path: Path) -> None:
    folder = export(small, tmp_path / "out")
    again = Classifier.from_pretrained(folder)
    assert type(again.model) is type(small.model)
    assert type(again.model).__name__.startswith("Ticket")
    assert again.labels == LABELS
    np.testing.assert_allclose(again.logits(TEXTS), small.logits(TEXTS), atol=1e-6)


def test_dense_export_loads_in_plain_transformers(tmp_path: Path) -> None:
    wholes = [tiny_classifier(family, labels=LABELS) for family in FAMILIES]
    cuts = [compact(whole, ticket_for(whole)) for whole in wholes]
    folders = [export(cut, tmp_path / family, "dense") for cut, family in zip(cuts, FAMILIES, strict=True)]
    command = [sys.executable, "-c", PLAIN, json.dumps(TEXTS), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for told, whole, cut in zip(json.loads(done.stdout.splitlines()[-1]), wholes, cuts, strict=True):
        assert told["class"] == type(whole.model).__name__
        assert list(told["labels"].values()) == list(LABELS)
        np.testing.assert_allclose(np.array(told["logits"]), cut.logits(TEXTS), atol=1e-5)


def test_onnx_export_of_a_compact_model_answers_like_torch(small: Classifier, tmp_path: Path) -> None:
    digest, state = small.digest, torch.random.get_rng_state()
    folder = export(small, tmp_path / "out", "onnx")
    assert small.digest == digest
    assert torch.equal(torch.random.get_rng_state(), state)
    served = onnx.open_onnx(folder)
    assert served.labels == LABELS
    np.testing.assert_allclose(served.predict(TEXTS)[1], small.predict(TEXTS)[1], atol=1e-5)
    about = json.loads((folder / "labels.json").read_text())
    assert (about["labels"], about["max_length"]) == (list(LABELS), small.max_length)
    assert ("token_type_ids" in about["inputs"]) == small.token_types
    blob = (folder / "model.onnx").read_bytes()
    assert (
        len(blob) < sum(p.numel() * 4 for p in small.model.parameters()) + 60_000
    )  # the weights and a graph, nothing else
    assert b"site-packages" not in blob  # no paths of whoever exported it
    assert b".py" not in blob
    assert json.loads((folder / "config.json").read_text())["model_type"].replace("-", "_") in FAMILIES


def test_onnx_export_of_a_whole_model_and_of_pairs(tmp_path: Path) -> None:
    whole = tiny_classifier("bert", labels=LABELS)
    whole.columns = ("premise", "hypothesis")
    pairs = [("a film", "the film was good"), ("plot", "story")]
    served = onnx.open_onnx(export(whole, tmp_path / "out", "onnx") / "model.onnx")
    np.testing.assert_allclose(served.predict(pairs)[1], whole.predict(pairs)[1], atol=1e-5)
    assert served.columns == whole.columns


# what a card says, run in its folder without robust_tickets
CARD = """
import os, re, sys
os.chdir(sys.argv[1])
exec(re.search("```python\\n(.*?)```", open("README.md").read(), re.DOTALL)[1].replace("FOLDER_OR_HUB_ID", "."))
assert not any(name.split(".")[0] == "robust_tickets" for name in sys.modules)
"""


@pytest.mark.parametrize("columns", [("text",), ("premise", "hypothesis")])
@pytest.mark.parametrize("form", ["dense", "onnx"])
def test_what_the_card_says_gives_the_models_answer(form: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    """A pair's card showed how to ask about one text, and an ONNX card ended before any answer."""
    whole = tiny_classifier("bert", labels=LABELS)
    whole.columns = columns
    folder = export(whole, tmp_path / "out", form)
    done = subprocess.run([sys.executable, "-c", CARD, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    labels, _ = whole.predict(["a text" if len(columns) == 1 else ("a text", "its second text")])
    assert f"'{labels[0]}'" in done.stdout


def test_an_onnx_export_can_be_quantised(bert: Classifier, exported: Path, tmp_path: Path) -> None:
    """ONNX Runtime refused it: shapes of weights stood in the graph a second time, and contradicted those that it turns round."""
    from onnxruntime.quantization import quantize_dynamic

    folder = shutil.copytree(exported, tmp_path / "small", ignore=shutil.ignore_patterns("export.json", "model.onnx"))
    quantize_dynamic(exported / "model.onnx", folder / "model.onnx")
    np.testing.assert_allclose(onnx.open_onnx(folder).predict(TEXTS)[1], bert.predict(TEXTS)[1], atol=0.05)


def test_an_onnx_models_digest_sees_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "INLINE", 0)  # weights in a file of their own
    one, other = (export(tiny_classifier(labels=LABELS, seed=seed), tmp_path / str(seed), "onnx") for seed in (0, 1))
    assert (one / "model.onnx.data").is_file()
    seen = {onnx.open_onnx(folder).digest for folder in (one, other)}
    assert len(seen) == 2
    for name, edit in (("labels.json", ("max_length", 9)), ("tokenizer.json", ("normalizer", None))):
        about = json.loads((one / name).read_text())
        (one / name).write_text(json.dumps(about | dict([edit])))
        seen.add(onnx.open_onnx(one).digest)
    assert len(seen) == 4


@pytest.fixture(scope="module")
def exported(bert: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(bert, tmp_path_factory.mktemp("onnx") / "out", "onnx")


def test_onnx_check_refuses_a_graph_with_other_weights(bert: Classifier, exported: Path) -> None:
    folder = exported
    other = bert.copy()
    with torch.no_grad():
        other.model.classifier.bias += 1e-2
    assert onnx.check(bert, folder / "model.onnx") < 1e-5
    with refused("export.disagrees") as caught:
        onnx.check(other, folder / "model.onnx")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("form", ["compact", "dense", "onnx"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_written(form: str, value: float, tmp_path: Path, capsys: Capture) -> None:
    clf = tiny_classifier()
    with torch.no_grad():
        clf.model.bert.encoder.layer[1].output.dense.weight[0, 0] = value
    broken = str(clf.save_pretrained(tmp_path / "m"))
    tickets(capsys, "export", broken, "--format", form, "--out", str(tmp_path / "e"), code=3)
    assert not (tmp_path / "e").exists()


def test_failed_export_leaves_the_earlier_one_and_nothing_else(
    bert: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export(bert, tmp_path / "out")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    def disk_full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robust_tickets.deploy.export.write_card", disk_full)
    with pytest.raises(TicketsError, match="No space left") as caught:
        export(bert, folder, "dense")
    assert caught.value.exit_code == 3
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_an_export_that_is_interrupted_leaves_the_earlier_one(bert: Classifier, tmp_path: Path) -> None:
    out = export(bert, tmp_path / "out")
    before = (out / "export.json").stat().st_ino

    def killed(path: Path, target: Path) -> Path:
        if target == out:
            raise KeyboardInterrupt
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch:  # Ctrl-C between the two renames
        rename = Path.rename
        patch.setattr(
            Path,
            "rename",
            lambda path, target: killed(path, Path(target)) if path.suffix == ".part" else rename(path, target),
        )
        with pytest.raises(KeyboardInterrupt):
            export(bert, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "export.json").stat().st_ino == before
    export(bert, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_overwrites_only_an_untouched_earlier_export(bert: Classifier, tmp_path: Path) -> None:
    folder = export(bert, tmp_path / "out")
    assert export(bert, folder, "dense") == folder
    assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"
    (folder / "notes.txt").write_text("mine")
    with refused("export.foreign_folder"):
        export(bert, folder)
    (folder / "notes.txt").unlink()
    (folder / "README.md").unlink()
    export(bert, folder)
    (folder / "README.md").write_text("my own card")
    with refused("export.foreign_folder"):
        export(bert, folder)
    assert (folder / "README.md").read_text() == "my own card"


def test_refuses_what_is_not_an_export(bert: Classifier, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with refused("export.foreign_folder"):
        export(bert, tmp_path / "full")
    (tmp_path / "file").write_text("x")
    with refused("export.foreign_folder"):
        export(bert, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert (export(bert, tmp_path / "empty") / "model.safetensors").is_file()
    with refused("export.format"):
        export(bert, tmp_path / "new", "dens")  # type: ignore[arg-type]
    with refused("classifier.no_model"):
        export(Classifier.wrap(lambda texts: [[0.5, 0.5]] * len(texts), labels=["a", "b"]), tmp_path / "new")


def test_damaged_onnx_folders_are_errors(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "out"))
    about = (folder / "labels.json").read_text()
    for broken in ("{", "[]", '{"schema": 1}', about.replace('"schema": 1', '"schema": 9')):
        (folder / "labels.json").write_text(broken)
        with pytest.raises(TicketsError):
            onnx.open_onnx(folder)
    (folder / "labels.json").write_text(about)
    (folder / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(TicketsError, match="cannot open"):
        onnx.open_onnx(folder)
    with pytest.raises(TicketsError, match="no ONNX file"):
        onnx.open_onnx(tmp_path)


def test_evidence_is_found_around_a_model_of_a_run(tmp_path: Path) -> None:
    stage = tmp_path / "train" / "ab12cd34"
    (stage / "model").mkdir(parents=True)
    for name, value in {
        stage / "stage.json": {},
        stage / "evaluation.json": {"split": "test", "n": 10, "accuracy": 80.0},
        tmp_path / "search/11112222/ticket.json": {"provenance": {"method": "earlyrobust"}},
        tmp_path / "attack/99998888/result.json": {"attack": "pwws", "aua": 30.0},
        tmp_path / "arms.json": {
            "model": "minilm",
            "task": {"name": "reviews"},
            "arms": [
                {"name": "plain", "train": "train/other", "attacks": []},
                {
                    "title": "EarlyRobust",
                    "train": "train/ab12cd34",
                    "search": "search/11112222",
                    "attacks": ["attack/99998888"],
                },
            ],
        },
    }.items():
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(json.dumps(value))
    found = evidence_of(stage / "model")
    assert (found.name, found.method, found.base, found.task) == ("EarlyRobust", "earlyrobust", "minilm", "reviews")
    assert found.evaluation == {"split": "test", "n": 10, "accuracy": 80.0}
    assert [result["aua"] for result in found.attacks] == [30.0]
    assert evidence_of(tmp_path).evaluation is None


def test_what_killed_exports_left_is_swept(bert: Classifier, tmp_path: Path) -> None:
    killed = "import os, pathlib, robust_tickets.files as f\nwith f.part_of(pathlib.Path({!r}), folder=True) as part: os._exit(9)"
    for name in ("out", "mine"):
        subprocess.run([sys.executable, "-c", killed.format(str(tmp_path / name))], check=False)
    mine = next(tmp_path.glob(".mine.*.part"))
    with part_of(tmp_path / "out", folder=True) as alive:
        export(bert, tmp_path / "out")
        assert set(tmp_path.iterdir()) == {tmp_path / "out", alive, mine}
