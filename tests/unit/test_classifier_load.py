"""Loading a classifier: seeded heads, labels by name, precision, caches, and every way a folder can be wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file

import robust_tickets as rt
from refusing import refused
from robust_tickets.classifier import ModelClassifier, OnnxClassifier
from robust_tickets.cli.options import Opening
from tiny import save_encoder, tiny_classifier

TEXTS = [
    "good film",
    "a very long story was not bad at all",
    ("the plot", "an awful movie"),
    "",
    ("one",),
    "zebra 42 !",
]


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_a_new_head_comes_from_the_seed_alone(
    family: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    folder = save_encoder(tmp_path, family)
    capfd.readouterr()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = rt.load_classifier(folder, labels=["x", "y", "z"], seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert (
        rt.load_classifier(str(folder), SimpleNamespace(labels=("x", "y", "z"), columns=("text",)), seed=5).digest
        == first.digest
    )
    other = rt.load_classifier(folder, labels=["x", "y", "z"], seed=6)
    assert other.digest != first.digest
    head = [n for n, p in first.model.named_parameters() if not n.startswith(first.model.base_model_prefix)]
    assert all((first.model.get_parameter(n) == 0).all() for n in head if n.endswith("bias"))
    spread = torch.cat([first.model.get_parameter(n).flatten() for n in head if n.endswith("weight")]).std().item()
    assert 0.1 < spread < 0.3  # initializer_range of the tiny configs is 0.2
    assert capfd.readouterr().err == ""
    assert not caplog.records
    with refused("classifier.no_head"):
        rt.load_classifier(folder)
    with refused("task.type"):
        rt.load_classifier(folder, "reviews.csv")


def test_a_missing_pooler_is_drawn_and_a_missing_layer_is_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "a", drop=("pooler.",))
    one, two = (rt.load_classifier(folder, labels=["x", "y"], seed=3) for _ in range(2))
    assert one.digest == two.digest
    assert (one.model.bert.pooler.dense.bias == 0).all()
    with refused("model.incomplete"):
        rt.load_classifier(save_encoder(tmp_path / "b", drop=("encoder.layer.1.",)), labels=["x", "y"])


def test_a_head_without_its_pooler_is_told_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was said to have no head."""
    clf = tiny_classifier("bert", labels=("neg", "pos"))
    folder = clf.save_pretrained(tmp_path / "model")
    weights = folder / "model.safetensors"
    whole = load(weights.read_bytes())  # not mapped: the file is written over
    save_file(
        {name: tensor for name, tensor in whole.items() if ".pooler." not in name}, weights, metadata={"format": "pt"}
    )
    with refused("classifier.no_head") as caught:
        rt.load_classifier(folder)
    assert "pooler.dense.bias" in caught.value.message
    assert not torch.equal(
        rt.load_classifier(folder, labels=["neg", "pos"]).model.classifier.weight, clf.model.classifier.weight
    )
    assert "a new one is made for neg, pos" in capsys.readouterr().err
    save_file(
        {name: tensor for name, tensor in whole.items() if name != "classifier.bias"},
        weights,
        metadata={"format": "pt"},
    )
    with refused("classifier.no_head"):
        rt.load_classifier(folder)


def test_half_precision_checkpoints_load_as_float32(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path, dtype=torch.float16)
    assert {p.dtype for p in rt.load_classifier(folder, labels=["x", "y"]).model.parameters()} == {torch.float32}
    assert {p.dtype for p in rt.load_classifier(folder, labels=["x", "y"], dtype="bfloat16").model.parameters()} == {
        torch.bfloat16
    }
    with refused("classifier.dtype"):
        rt.load_classifier(folder, labels=["x", "y"], dtype="int8")


def test_heads_are_kept_by_name_reordered_or_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for family in ("bert", "roberta"):
        clf = tiny_classifier(family, labels=("Neg", "Neutral", "Pos"))
        folder = clf.save_pretrained(tmp_path / family)
        turned = rt.load_classifier(folder, labels=["pos", "neg", "neutral"])
        np.testing.assert_allclose(turned.logits(TEXTS), clf.logits(TEXTS)[:, [2, 0, 1]], atol=1e-6)
        assert turned.labels == ("pos", "neg", "neutral")
        assert capsys.readouterr().err == ""
        new = rt.load_classifier(folder, labels=["yes", "no"])
        assert new.logits(TEXTS).shape == (6, 2)
        assert new.model.config.id2label == {0: "yes", 1: "no"}
        assert "Neg, Neutral, Pos; a new one is made for yes, no" in capsys.readouterr().err
        encoder = {k: v for k, v in clf.model.state_dict().items() if k.startswith(family)}
        assert all(torch.equal(v, new.model.state_dict()[k]) for k, v in encoder.items())


def test_names_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any, **__: Any) -> None:
        raise OSError("no route to the Hub")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with refused("model.not_found") as problem:
        rt.load_classifier("some/model", labels=["a", "b"])
    assert problem.value.exit_code == 3
    with refused("model.name"):
        rt.load_classifier(tmp_path / "absent", labels=["a", "b"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused("model.package") as problem:
        rt.load_classifier("minilm", labels=["a", "b"])


def test_a_cached_model_is_used_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_encoder(tmp_path)
    asked = []

    def cached(name: str, *, local_files_only: bool, **_: Any) -> str:
        asked.append(local_files_only)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", cached)
    assert rt.load_classifier("some/model", labels=["a", "b"]).identity == "some/model"
    assert asked == [True]
    (folder / "model.safetensors").unlink()  # an incomplete cache is asked from the network
    with refused("model.weights"):
        rt.load_classifier("some/model", labels=["a", "b"])
    assert asked == [True, True, False]


def test_damaged_folders(tmp_path: Path) -> None:
    good = save_encoder(tmp_path / "good")

    def broken(name: str, file: str, text: str | None) -> Path:
        folder = tmp_path / name
        shutil.copytree(good, folder)
        (folder / file).write_text(text) if text is not None else (folder / file).unlink()
        return folder

    config = json.loads((good / "config.json").read_text())
    cases = [
        ("model.config", broken("a", "config.json", None)),
        ("model.config", broken("b", "config.json", "{")),
        ("model.config", broken("c", "config.json", "{}")),
        ("backbone.unknown", broken("d", "config.json", json.dumps({"model_type": "gpt2"}))),
        ("model.damaged", broken("e", "model.safetensors", "not safetensors")),
        ("model.weights", broken("f", "model.safetensors", None)),
        ("model.config", broken("h", "config.json", json.dumps({**config, "hidden_size": "wide"}))),
        ("model.incomplete", broken("i", "config.json", json.dumps({**config, "num_hidden_layers": 4}))),
    ]
    for code, folder in cases:
        with refused(code):
            rt.load_classifier(folder, labels=["a", "b"])
    indexed = broken("g", "model.safetensors.index.json", json.dumps({"weight_map": {"a": "b.safetensors"}}))
    (indexed / "model.safetensors").unlink()
    with refused("model.incomplete"):
        rt.load_classifier(indexed, labels=["a", "b"])
    misfit = broken("j", "config.json", json.dumps({**config, "intermediate_size": 20}))
    with refused("model.shape"):
        rt.load_classifier(misfit, labels=["a", "b"])
    with refused("model.tokenizer"):
        rt.load_classifier(broken("k", "tokenizer.json", "{"), labels=["a", "b"])


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_a_folder_without_a_tokenizer_is_refused(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers would make one with an empty vocabulary, and the model would answer all the same."""
    clf = tiny_classifier(family)
    clf.model.save_pretrained(tmp_path)
    with refused("model.tokenizer"):
        rt.load_classifier(tmp_path)

    def cached(name: str, *, local_files_only: bool, **_: Any) -> str:
        if not local_files_only:
            raise OSError("offline")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", cached)
    with refused("model.not_found"):
        rt.load_classifier("some/model")


def test_tokenizers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    clf = tiny_classifier()
    folder = clf.save_pretrained(tmp_path / "larger")
    clf.tokenizer.add_tokens([f"word{i}" for i in range(3)])
    clf.tokenizer.save_pretrained(folder)
    size = clf.model.config.vocab_size
    with pytest.raises(rt.TicketsError, match=f"gives ids up to {size + 2}, the model has {size}"):
        rt.load_classifier(folder)
    rules = json.loads((folder / "tokenizer.json").read_text())
    rules["model"]["vocab"] = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    rules["added_tokens"] = [token for token in rules["added_tokens"] if token["special"]]
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    with refused("model.tokenizer"):
        rt.load_classifier(folder)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "file.schema"),
        ('{"schema": 99, "max_length": 8, "columns": ["text"]}', "file.schema"),
        ('{"schema": 1, "max_length": "x", "columns": ["text"]}', "file.damaged"),
        ('{"schema": 1, "max_length": 8, "columns": 5}', "file.damaged"),
        ('{"schema": 1, "max_length": -1, "columns": ["a"]}', "classifier.max_length"),
    ],
)
def test_a_damaged_tickets_json_is_refused(text: str, code: str, tmp_path: Path) -> None:
    folder = tiny_classifier().save_pretrained(tmp_path)
    (folder / "tickets.json").write_text(text)
    with pytest.raises(rt.TicketsError) as caught:
        rt.Classifier.from_pretrained(folder)
    assert caught.value.code == code


def test_slow_tokenizers_have_a_digest(tmp_path: Path) -> None:
    from transformers import BertweetTokenizer

    def digest(folder: str, words: str) -> str:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "vocab.txt").write_text(words)
        (tmp_path / folder / "bpe.codes").write_text("#version: 0.2\ng o 1\n")
        clf = tiny_classifier("roberta")
        clf.tokenizer = BertweetTokenizer(str(tmp_path / folder / "vocab.txt"), str(tmp_path / folder / "bpe.codes"))
        return clf.digest

    assert digest("a", "good 5\nfilm 4\n") == digest("b", "good 5\nfilm 4\n") != digest("c", "good 5\nfilms 4\n")


def test_saved_files_are_as_readable_as_any(tmp_path: Path) -> None:
    folder = tiny_classifier().save_pretrained(tmp_path / "model")
    (tmp_path / "any").touch()
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {(tmp_path / "any").stat().st_mode & 0o777}


def test_a_compact_model_is_pushed_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = tiny_classifier()
    small = rt.compact(clf, rt.RandomTicket(heads=0.5, neurons=0.5)(clf).ticket)
    sent: list[dict[str, bytes]] = []

    class Api:
        def __init__(self, **_: Any) -> None: ...

        def create_repo(self, name: str, **_: Any) -> Any:
            return SimpleNamespace(repo_id=f"me/{name}")

        def upload_folder(self, *, repo_id: str, folder_path: str, **_: Any) -> str:
            sent.append({path.name: path.read_bytes() for path in Path(folder_path).iterdir()})
            return repo_id

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    assert small.push_to_hub("small", private=True) == "me/small"
    (files,) = sent
    assert {"config.json", "model.safetensors", "tokenizer.json", "tickets.json"} <= files.keys()
    assert json.loads(files["config.json"])["model_type"] == "ticket-bert"


def changed_config(folder: Path, **keys: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


def test_a_head_for_tokens_is_not_taken_for_one_of_texts(tmp_path: Path) -> None:
    from transformers import BertForTokenClassification

    clf = tiny_classifier("bert", labels=("neg", "pos"))
    folder = clf.save_pretrained(tmp_path / "tokens")
    BertForTokenClassification(clf.model.config).save_pretrained(
        folder
    )  # its head has the names and shapes of ours, and no pooler
    with refused("classifier.no_head"):
        rt.Classifier.from_pretrained(folder)
    assert rt.load_classifier(folder, labels=["neg", "pos"]).labels == (
        "neg",
        "pos",
    )  # its encoder may be trained on, with a new head
    whole = changed_config(clf.save_pretrained(tmp_path / "whole"), architectures=["ModernBertForTokenClassification"])
    with refused("classifier.no_head"):  # a family whose two heads are alike throughout
        rt.Classifier.from_pretrained(whole)


def test_a_head_for_texts_that_is_named_beside_another_is_taken(tmp_path: Path) -> None:
    saved = tiny_classifier("bert", labels=("neg", "pos")).save_pretrained(tmp_path)
    changed_config(saved, architectures=["BertForTokenClassification", "BertForSequenceClassification"])
    assert rt.Classifier.from_pretrained(saved).labels == ("neg", "pos")


def test_class_names_that_do_not_fit_the_weights_are_told(tmp_path: Path) -> None:
    saved = tiny_classifier("bert", labels=("neg", "pos")).save_pretrained(tmp_path)
    changed_config(saved, id2label={"0": "neg", "5": "pos"}, label2id={"neg": 0, "pos": 5})
    with refused("model.config"):
        rt.Classifier.from_pretrained(saved)
    changed_config(saved, id2label={"0": "neg", "1": "pos", "2": "meh"}, label2id={"neg": 0, "pos": 1, "meh": 2})
    with refused("model.shape"):
        rt.Classifier.from_pretrained(saved)


# -- by the names that commands take

SHORT_TEXTS = ["a good film", "an awful movie", "the plot was fine"]


def a_run(folder: Path, *arms: str) -> Path:
    rows = [{"name": arm, "train": f"train-{arm}"} for arm in arms]
    for seed, row in enumerate(rows):
        tiny_classifier(seed=seed).save_pretrained(folder / row["train"] / "model")
    (folder / "arms.json").write_text(json.dumps({"arms": rows}))
    return folder


@pytest.mark.parametrize("opened", [rt.load_classifier, rt.Classifier.from_pretrained])
def test_a_run_stands_for_its_model(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path / "r", "plain", "robust")
    wanted = [rt.load_classifier(run / f"train-{arm}" / "model").digest for arm in ("plain", "robust")]
    assert [opened(f"{run}:{arm}").digest for arm in ("plain", "robust")] == wanted
    assert opened(a_run(tmp_path / "one", "plain")).digest == wanted[0]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert opened("~/r:robust").digest == wanted[1]
    with refused("model.arm"):
        opened(run)
    with refused("model.arm"):
        opened(f"{run}:other")
    with refused("model.run"):
        opened(f"{tmp_path}/nowhere:arm")
    with refused("model.name"):
        opened("https://example.org/owner/model")
    monkeypatch.chdir(tmp_path)
    assert opened("r/train-plain/model").identity == "r/train-plain/model"  # what it is called in results


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier as a graph."""
    pytest.importorskip("onnxruntime")
    return rt.export(tiny_classifier(labels=("bad", "good")), tmp_path_factory.mktemp("served") / "out", format="onnx")


def test_what_is_exported_is_opened_again(served: Path, tmp_path: Path) -> None:
    clf = tiny_classifier(labels=("bad", "good"))
    for name in (served, str(served), served / "model.onnx"):
        graph = rt.load_classifier(name)
        assert (graph.labels, graph.max_length, type(graph)) == (clf.labels, clf.max_length, OnnxClassifier)
        np.testing.assert_allclose(graph.logits(SHORT_TEXTS), clf.logits(SHORT_TEXTS), atol=1e-4)
    assert rt.Classifier.from_pretrained(served, max_length=8).max_length == 8
    with refused("onnx.fixed"):
        rt.load_classifier(served, SimpleNamespace(labels=("bad", "good"), columns=("text",)))
    for options in ({"dtype": "bfloat16"}, {"device": "meta"}):
        with refused("onnx.fixed"):
            rt.load_classifier(served, **options)  # type: ignore[arg-type]
    with refused("classifier.no_model"):
        rt.export(rt.load_classifier(served), tmp_path / "again")


def test_weights_beside_a_graph_are_the_model_everywhere(served: Path, tmp_path: Path) -> None:
    """The commands opened the graph, Python the weights: one name, two victims."""
    other, folder = tiny_classifier(seed=1, labels=("bad", "good")), shutil.copytree(served, tmp_path / "both")
    other.save_pretrained(folder)
    for opened in (rt.load_classifier, rt.Classifier.from_pretrained, Opening().open):
        clf = opened(str(folder))
        assert (type(clf), clf.digest) == (ModelClassifier, other.digest)
        assert isinstance(opened(str(folder / "model.onnx")), OnnxClassifier)
    with refused("usage.flag"):
        Opening(tokenizer=str(folder)).open(str(folder))
    (folder / "model.safetensors").unlink()
    for opened in (rt.load_classifier, Opening().open):
        assert isinstance(opened(str(folder)), OnnxClassifier)
