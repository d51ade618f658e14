"""Resources: the order they are looked for, what is said of them, what a missing one says, and a user's function as one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacking import VARIES, victim_of
from refusing import refused
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.result import AttackResult
from robust_tickets.cache import cache_folder
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.locate import digest_of
from robust_tickets.resources import kinds as module
from robust_tickets.resources.kinds import resolve, resolve_all, status
from robust_tickets.resources.tagger import FunctionTagger


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, an empty home, no NLTK data, no package and no network."""
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for kind in module.KINDS:
        change(monkeypatch, kind, folders=list)
    change(monkeypatch, "encoder", packages={"minilm": ("no_such_package_x", "model")})
    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)


def change(monkeypatch: pytest.MonkeyPatch, kind: str, **fields: Any) -> None:
    monkeypatch.setitem(module.KINDS, kind, dataclasses.replace(module.KINDS[kind], **fields))


def unreachable(repository: str, **_: object) -> str:
    raise OSError(f"cannot reach the Hub for {repository}")


def make_vectors(folder: Path, note: Any = None, scale: float = 1) -> Path:
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


def test_a_given_path_comes_first_and_never_falls_through(tmp_path: Path) -> None:
    make_vectors(cache_folder("resources", "vectors"), scale=2)
    found = resolve("vectors", make_vectors(tmp_path / "mine"))
    assert found.record() == {
        "kind": "vectors",
        "name": "mine",
        "origin": "given path",
        "digest": found.digest,
        "substitute": True,
    }
    assert found.digest != resolve("vectors").digest
    assert resolve("vectors").origin == "cache"
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
    change(monkeypatch, "encoder", packages={"minilm": ("some_minilm_package", "model")})
    for explicit in (None, "minilm"):
        found = resolve("encoder", explicit)
        assert (found.name, found.origin, found.path) == ("minilm", "package some_minilm_package", package / "model")
    make_encoder(cache_folder("resources", "encoder") / "another")
    assert (resolve("encoder").origin, resolve("encoder").name) == ("cache", "another")


def in_hub_cache(root: Path, repository: str) -> Path:
    """A repository as the Hub's library leaves it in its cache."""
    place = root / "hub" / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0123abc")
    return make_encoder(place / "snapshots" / "0123abc")


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


def test_the_papers_masked_model_is_known_by_its_hub_id_or_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for repository in ("google-bert/bert-base-uncased", "bert-base-uncased", "someone/other"):
        in_hub_cache(tmp_path, repository)
    for explicit in (None, "google-bert/bert-base-uncased", "bert-base-uncased"):
        assert not resolve("masked", explicit).substitute
    assert resolve("masked", "someone/other").substitute
    mine = make_encoder(tmp_path / "bert-base-uncased")
    assert resolve("masked", mine).substitute
    monkeypatch.setattr(module, "BERT", (2, hashlib.sha256(b"{}").hexdigest()))
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
            resolve("vectors", make_vectors(tmp_path / "bad", bad))


def test_only_the_users_word_or_a_note_makes_an_encoder_the_papers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())  # as if all were installed
    plain = tmp_path / "plain"
    (plain / "variables").mkdir(parents=True)
    (plain / "saved_model.pb").write_bytes(b"graph")
    found = resolve("encoder", f"use:{plain}")
    assert (found.name, found.substitute, found.path) == ("universal-sentence-encoder", False, plain)
    assert resolve("encoder", str(plain)).substitute
    for wrong in (f"use:{tmp_path / 'absent'}", f"use:{tmp_path}", f"use-lite:{plain}"):
        with refused("resource.missing"):
            resolve("encoder", wrong)
    (plain / "resource.json").write_text('{"name": "use/4", "substitute": false}')
    assert (resolve("encoder", str(plain)).name, resolve("encoder", str(plain)).substitute) == ("use/4", False)
    (plain / "variables" / "variables.index").write_bytes(b"w")
    assert resolve("encoder", str(plain)).digest != found.digest


def test_tf_hubs_cache_names_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "063d866c06683311b44b4992fd46003be952409c"  # the SHA-1 of version 4's address
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"graph")
    change(monkeypatch, "encoder", folders=module._tfhub_folders, needs=lambda _: ("no_such_package_x", "get it"))
    with refused("resource.package"):  # of no use without TensorFlow, but nothing else is there
        resolve("encoder")
    (told,) = status("encoder")
    assert (told.found, told.get) == (False, "get it")
    make_encoder(cache_folder("resources", "encoder") / "another")
    change(monkeypatch, "encoder", needs=lambda _: ("", ""))
    assert resolve("encoder").name == "another"
    (cache_folder("resources", "encoder") / "another" / "config.json").unlink()
    found = resolve("encoder")
    assert (found.name, found.substitute, found.origin) == ("universal-sentence-encoder/4", False, "installed folder")


def test_a_tagger_in_any_of_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tagger(tmp_path / "nltk_data")
    parts = ("", "taggers", "taggers/averaged_perceptron_tagger_eng")
    assert len({resolve("tagger", root / part).digest for part in parts}) == 1
    change(monkeypatch, "tagger", folders=lambda: [(root, "", None)])
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
    encoder = make_encoder(tmp_path / "encoder")
    for name in ("tokenizer_config.json", "special_tokens_map.json", "config.json"):  # all that moves its vectors
        before = resolve("encoder", encoder).digest
        (encoder / name).write_text('{"do_lower_case": false}')
        assert resolve("encoder", encoder).digest != before


def test_status_lists_every_kind(tmp_path: Path) -> None:
    make_vectors(cache_folder("resources", "vectors") / "mine")
    lines = {line.kind: line for line in status()}
    assert list(lines) == ["vectors", "tagger", "encoder", "masked"]
    assert [line.found for line in lines.values()] == [True, False, False, False]
    assert lines["vectors"].substitute
    assert "mine" in lines["vectors"].where
    assert "nltk_data/gh-pages" in lines["tagger"].get
    make_tagger(cache_folder("resources", "tagger") / "nltk_data")
    assert status("tagger")[0].found


def test_all_of_an_attack_at_once(tmp_path: Path) -> None:
    mine = make_vectors(tmp_path / "mine")
    assert list(resolve_all({"vectors": str(mine), "tagger": "none"})) == ["vectors"]
    with pytest.raises(TicketsError):
        resolve_all({"vectors": str(mine), "tagger": None, "encoder": "./typo"})


# --- an encoder or a tagger given as module:function

CODE = """
NUMBER = 3

def encode(texts):
    return [[3.0, 4.0 * text.count("awful")] for text in texts]

def tag(words):
    return ["NOUN" if word == "film" else "ADJ" for word in words]

def short(words):
    return ["NOUN"]

class Model:
    def encode(self, texts):
        return encode(texts)

model = Model()
"""
REST = " of" * 20  # the encoder is asked about texts of more words than its window


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a module and word vectors."""
    (tmp_path / "my_words.py").write_text(CODE)
    make_vectors(tmp_path / "vectors")
    (tmp_path / "vectors" / "words.txt").write_text("good\nfine\nawful\nfilm\n")
    near = np.array([[1, 0.1], [1, 0.2], [1, 0.12], [1, 0.15]], dtype=np.float32)
    np.save(tmp_path / "vectors" / "vectors.npy", near)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_words", None)


def attack(out: Path | None = None) -> AttackResult:
    recipe = TextFooler(vectors="vectors", encoder="my_words:encode", tagger="my_words:tag")
    split = Split.of([f"a good thing {i}{REST}" for i in range(6)], [1] * 6)
    return recipe(victim_of("good"), split, n=0, folder=out)


def test_a_function_is_known_by_its_name_and_its_file(folder: Path) -> None:
    found = resolve("encoder", "my_words:encode")
    assert found.record() == {
        "kind": "encoder",
        "name": "my_words:encode",
        "origin": "given function",
        "digest": digest_of([folder / "my_words.py"]),
        "substitute": True,
    }
    assert resolve("encoder", "my_words:model.encode").digest == found.digest
    (folder / "my_words:encode").mkdir()  # a path of that name comes first
    with refused("resource.missing"):
        resolve("encoder", "my_words:encode")


def test_an_attack_uses_both_resumes_and_notices_another_file(folder: Path) -> None:
    result = attack(folder / "a")
    assert [example.perturbed for example in result.examples()] == [(f"a fine thing {i}{REST}",) for i in range(6)]
    names = {"vectors": "vectors", "encoder": "my_words:encode", "tagger": "my_words:tag"}
    assert {kind: about["name"] for kind, about in result.resources.items()} == names
    assert sum(flag.startswith(("substitute encoder", "substitute tagger")) for flag in result.flags) == 2
    whole = json.loads((folder / "a" / "result.json").read_text())
    (folder / "a" / "result.json").unlink()
    lines = (folder / "a" / "examples.jsonl").read_bytes()
    assert attack(folder / "a").digest == whole["digest"]
    again = json.loads((folder / "a" / "result.json").read_text())
    assert {k: v for k, v in again.items() if k not in VARIES} == {k: v for k, v in whole.items() if k not in VARIES}
    assert (folder / "a" / "examples.jsonl").read_bytes() == lines
    (folder / "my_words.py").write_text(CODE + "\n# changed\n")
    sys.modules.pop("my_words")
    assert attack().digest != whole["digest"]


@pytest.mark.parametrize(
    ("kind", "given", "code"),
    [
        ("encoder", "no_such_module_x:encode", "import.failed"),
        ("encoder", "my_words:absent", "import.no_such_name"),
        ("tagger", "my_words:NUMBER", "resource.function"),
        ("tagger", "builtins:len", "resource.function"),
        ("vectors", "my_words:encode", "resource.missing"),
    ],
)
def test_what_is_no_function_is_refused(folder: Path, kind: str, given: str, code: str) -> None:
    with refused(code):
        resolve(kind, given)


def test_a_tagger_gives_one_tag_a_word(folder: Path) -> None:
    short = resolve("tagger", "my_words:short").function
    assert short is not None
    with refused("tagger.answer"):
        FunctionTagger(short, name="my_words:short")(["a", "film"])
