"""An encoder or a tagger given as module:function: named in the result, resumed, refused where it is no such function."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from attacking import VARIES
from refusing import refused
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.result import AttackResult
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.locate import digest_of
from robust_tickets.resources.kinds import resolve
from robust_tickets.resources.tagger import FunctionTagger

CODE = """
import numpy as np

NUMBER = 3
asked = []

def encode(texts):
    asked.append(len(texts))
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
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "words.txt").write_text("good\nfine\nawful\nfilm\n")
    near = np.array([[1, 0.1], [1, 0.2], [1, 0.12], [1, 0.15]], dtype=np.float32)
    np.save(tmp_path / "vectors" / "vectors.npy", near)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_words", None)


def judge(texts: list[str]) -> np.ndarray:
    p = np.array([0.8 if "good" in text else 0.2 for text in texts])
    return np.stack([1 - p, p], axis=1)


def attack(out: Path | None = None) -> AttackResult:
    recipe = TextFooler(vectors="vectors", encoder="my_words:encode", tagger="my_words:tag")
    split = Split.of([f"a good thing {i}{REST}" for i in range(6)], [1] * 6)
    return recipe(Classifier.wrap(judge, labels=["neg", "pos"]), split, n=0, folder=out)


def test_a_function_is_known_by_its_name_and_its_file(folder: Path) -> None:
    found = resolve("encoder", "my_words:encode")
    assert found.record() == {
        "kind": "encoder",
        "name": "my_words:encode",
        "origin": "given function",
        "digest": digest_of([folder / "my_words.py"]),
        "substitute": True,
    }
    code = hashlib.sha256((folder / "my_words.py").read_bytes()).hexdigest()
    assert found.digest == hashlib.sha256(f"my_words.py {code}".encode()).hexdigest()
    assert resolve("encoder", "my_words:model.encode").digest == found.digest


def test_an_attack_uses_both_and_names_them(folder: Path) -> None:
    result = attack()
    assert [example.perturbed for example in result.examples()] == [(f"a fine thing {i}{REST}",) for i in range(6)]
    assert {kind: about["name"] for kind, about in result.resources.items()} == {
        "vectors": "vectors",
        "encoder": "my_words:encode",
        "tagger": "my_words:tag",
    }
    assert sum(flag.startswith(("substitute encoder", "substitute tagger")) for flag in result.flags) == 2


def test_an_attack_resumes_and_notices_another_file(folder: Path) -> None:
    whole = json.loads((attack(folder / "a"), folder / "a" / "result.json")[1].read_text())
    (folder / "a" / "result.json").unlink()
    lines = (folder / "a" / "examples.jsonl").read_bytes().splitlines(keepends=True)
    assert attack(folder / "a").digest == whole["digest"]
    again = json.loads((folder / "a" / "result.json").read_text())
    assert {k: v for k, v in again.items() if k not in VARIES} == {k: v for k, v in whole.items() if k not in VARIES}
    assert (folder / "a" / "examples.jsonl").read_bytes().splitlines(keepends=True) == lines
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
        FunctionTagger(short, name="my_words:short").tags(["a", "film"])


def test_a_path_of_that_name_comes_first(folder: Path) -> None:
    (folder / "my_words:encode").mkdir()
    with refused("resource.missing"):
        resolve("encoder", "my_words:encode")
