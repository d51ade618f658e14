"""Resources: the order they are looked for, what is said of them, and what a missing one says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.cache import cache_folder
from robust_tickets.errors import TicketsError
from robust_tickets.resources import kinds as module
from robust_tickets.resources.kinds import Found, resolve, resolve_all, status


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, an empty home, no NLTK data, no package and no network."""
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for kind in module.KINDS:
        monkeypatch.setitem(module.KINDS, kind, _changed(module.KINDS[kind], folders=list))
    monkeypatch.setitem(
        module.KINDS, "encoder", _changed(module.KINDS["encoder"], packages={"minilm": ("no_such_package_x", "model")})
    )
    monkeypatch.setattr("huggingface_hub.snapshot_download", _unreachable)


def _changed(kind: Any, **fields: Any) -> Any:
    import dataclasses

    return dataclasses.replace(kind, **fields)


def _unreachable(repository: str, **_: object) -> str:
    raise OSError(f"cannot reach the Hub for {repository}")


def make_vectors(folder: Path, note: dict[str, object] | None = None, scale: float = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "words.txt").write_text("a\nb\n")
    np.save(folder / "vectors.npy", scale * np.eye(2, dtype=np.float32))
    if note is not None:
        (folder / "resource.json").write_text(json.dumps(note))
    return folder


def make_encoder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def make_tagger(folder: Path) -> Path:
    name = "averaged_perceptron_tagger_eng"
    (folder / "taggers" / name).mkdir(parents=True)
    for part in ("weights", "tagdict", "classes"):
        (folder / "taggers" / name / f"{name}.{part}.json").write_text("{}")
    (folder / "taggers" / "universal_tagset").mkdir()
    (folder / "taggers" / "universal_tagset" / "en-ptb.map").write_text("NN\tNOUN\n")
    return folder


def test_a_given_path_comes_first(tmp_path: Path) -> None:
    make_vectors(cache_folder("resources", "vectors"), scale=2)
    found = resolve("vectors", make_vectors(tmp_path / "mine"))
    assert (found.name, found.origin, found.substitute) == ("mine", "given path", True)
    assert found.digest != resolve("vectors").digest
    assert resolve("vectors").origin == "cache"
    assert found.record() == {
        "kind": "vectors",
        "name": "mine",
        "origin": "given path",
        "digest": found.digest,
        "substitute": True,
    }


def test_a_given_path_never_falls_through(tmp_path: Path) -> None:
    make_vectors(cache_folder("resources", "vectors"))
    (tmp_path / "empty").mkdir()
    for given in (tmp_path / "empty", tmp_path / "absent", "./typo"):
        with refused("resource.missing"):
            resolve("vectors", given)


def test_cache_before_package_before_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = make_encoder(tmp_path / "from-hub")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(hub))
    assert resolve("encoder").origin == "Hub sentence-transformers/all-MiniLM-L6-v2"
    package = tmp_path / "site" / "some_minilm_package"
    make_encoder(package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(
        module.KINDS,
        "encoder",
        _changed(module.KINDS["encoder"], packages={"minilm": ("some_minilm_package", "model")}),
    )
    for explicit in (None, "minilm"):
        found = resolve("encoder", explicit)
        assert (found.name, found.origin, found.path) == ("minilm", "package some_minilm_package", package / "model")
    make_encoder(cache_folder("resources", "encoder") / "another")
    assert (resolve("encoder").origin, resolve("encoder").name) == ("cache", "another")


def test_a_hub_id_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(repository: str, **_: object) -> str:
        asked.append(repository)
        return str(in_hub_cache(tmp_path, repository))

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert not status("encoder")[0].found  # doctor asks the cache only
    assert asked == []
    for _ in range(2):
        assert resolve("encoder", "someone/encoder").name == "someone/encoder"
        assert asked == ["someone/encoder"]  # the network, then its cache
    assert resolve("encoder").origin == "Hub sentence-transformers/all-MiniLM-L6-v2"
    assert status("encoder")[0].found


def in_hub_cache(root: Path, repository: str) -> Path:
    """A repository as the Hub's library leaves it in its cache."""
    place = root / "hub" / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0123abc")
    return make_encoder(place / "snapshots" / "0123abc")


def test_the_papers_masked_model_is_known_by_its_hub_id_or_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_hub_cache(tmp_path, "google-bert/bert-base-uncased")
    in_hub_cache(tmp_path, "bert-base-uncased")
    in_hub_cache(tmp_path, "someone/other")
    for explicit in (None, "google-bert/bert-base-uncased", "bert-base-uncased"):
        assert not resolve("masked", explicit).substitute
    assert resolve("masked", "someone/other").substitute
    mine = make_encoder(tmp_path / "bert-base-uncased")
    assert resolve("masked", mine).substitute
    monkeypatch.setattr("robust_tickets.resources.kinds.BERT", (2, hashlib.sha256(b"{}").hexdigest()))
    assert not resolve("masked", mine).substitute
    (mine / "model.safetensors").write_text("[]")
    assert resolve("masked", mine).substitute
    (mine / "resource.json").write_text('{"substitute": false}')
    assert not resolve("masked", mine).substitute


def test_resource_json_says_what_it_is(tmp_path: Path) -> None:
    found = resolve("vectors", make_vectors(tmp_path / "x", {"name": "counter-fitted", "substitute": False}))
    assert (found.name, found.substitute) == ("counter-fitted", False)
    make_vectors(cache_folder("resources", "vectors") / "a-substitute")
    make_vectors(cache_folder("resources", "vectors") / "the-real-ones", {"substitute": False})
    assert resolve("vectors").name == "the-real-ones"
    for bad in ([], {"substitute": "no"}):
        with refused("resource.note"):
            resolve("vectors", make_vectors(tmp_path / "bad", bad))  # type: ignore[arg-type]


def test_tagger_in_any_of_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tagger(tmp_path / "nltk_data")
    digests = {
        resolve("tagger", root / part).digest for part in ("", "taggers", "taggers/averaged_perceptron_tagger_eng")
    }
    assert len(digests) == 1
    monkeypatch.setitem(module.KINDS, "tagger", _changed(module.KINDS["tagger"], folders=lambda: [Found(path=root)]))
    found = resolve("tagger")
    assert (found.name, found.origin, found.substitute) == ("averaged_perceptron_tagger_eng", "installed folder", False)
    (root / "taggers" / "universal_tagset" / "en-ptb.map").unlink()
    with refused("resource.missing"):
        resolve("tagger")


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    folder = make_vectors(tmp_path / "x")
    first = resolve("vectors", folder).digest
    (folder / "README.md").write_text("a note")  # not part of the resource
    assert resolve("vectors", folder).digest == first
    make_vectors(folder, scale=3)
    assert resolve("vectors", folder).digest != first
    assert resolve("vectors", make_vectors(tmp_path / "y")).digest == first


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json", "config.json"])
def test_all_that_moves_an_encoders_vectors_is_in_its_digest(tmp_path: Path, name: str) -> None:
    folder = make_encoder(tmp_path / "x")
    first = resolve("encoder", folder).digest
    (folder / name).write_text('{"do_lower_case": false}')
    assert resolve("encoder", folder).digest != first


def test_status_lists_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    make_vectors(cache_folder("resources", "vectors") / "mine")
    lines = {line.kind: line for line in status()}
    assert list(lines) == ["vectors", "tagger", "encoder", "masked"]
    assert [line.found for line in lines.values()] == [True, False, False, False]
    assert lines["vectors"].substitute
    assert "mine" in lines["vectors"].where
    assert all(
        part in lines["tagger"].get
        for part in ("averaged_perceptron_tagger_eng", "universal_tagset", "nltk_data/gh-pages")
    )
    make_tagger(cache_folder("resources", "tagger") / "nltk_data")
    assert status("tagger")[0].found
    monkeypatch.setitem(
        module.KINDS,
        "tagger",
        _changed(module.KINDS["tagger"], needs=lambda _: [("no_such_package_x", "pip install x")]),
    )
    (told,) = status("tagger")
    assert (told.found, told.get) == (False, "pip install x")
    assert "no_such_package_x is not installed" in told.where
    with refused("resource.package"):
        resolve("tagger")


def test_all_of_an_attack_at_once(tmp_path: Path) -> None:
    mine = make_vectors(tmp_path / "mine")
    assert list(resolve_all({"vectors": str(mine), "tagger": "none"})) == ["vectors"]
    with pytest.raises(TicketsError):
        resolve_all({"vectors": str(mine), "tagger": None, "encoder": "./typo"})


def test_looking_makes_no_folder(tmp_path: Path) -> None:
    status()
    with pytest.raises(TicketsError):
        resolve("vectors")
    assert not (tmp_path / "cache").exists()
