"""The flags that every verb has, and the keys of the document that its ``--json`` prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import world
from record import differences, recorded

MACHINE = ("env", "packages", "found", "parts")  # below these keys stands what a machine has
LISTS = ("arms", "methods", "adversaries", "attacks", "backbones", "tasks", "recipes")


def values(folder: Path) -> dict[str, Any]:
    code, out = world.tickets("--help")
    verbs = sorted(set(re.findall(r"^│ ([a-z]+) ", out, re.MULTILINE)))
    assert code == 0
    assert len(verbs) > 10
    return {"flags": {verb: flags(verb) for verb in verbs}, "json": documents(folder)}


def flags(verb: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")  # no flag is broken at the end of a line
        code, out = world.tickets(verb, "--help")
    assert code == 0
    return sorted(set(re.findall(r"--[a-z][a-z-]*", out)))


def documents(folder: Path) -> dict[str, list[str]]:
    """Every verb called as a user would, one after the other; the demo prints what ``run`` prints."""
    model, data = world.model_folder(folder / "model"), world.data_folder(folder / "data")
    at = {name: str(folder / name) for name in ("run", "ticket", "drawn", "trained", "attack", "replay")}
    small = ["--set", "batch_size=16", "--set", "lr=1e-3"]
    run = [part for s in ("train.epochs=1", "search.adversary.steps=1", "attack.n=6") for part in ("--set", s)]
    source = ["--data", str(data / "test.csv")]
    commands: dict[str, list[str]] = {
        "run": ["earlyrobust", "--set", f"task={data}", "--set", f"model={model}", *run, "--out", at["run"]],
        "search": ["earlybert", "--model", str(model), "--task", str(data), *small, "--out", at["ticket"]],
        "draw": [at["ticket"], "--heads", "0.25", "--out", at["drawn"]],
        "train": [
            str(model), "--task", str(data), "--ticket", at["drawn"], *small, "--set", "epochs=1", "--out", at["trained"]
        ],
        "attack": [f"{at['trained']}/model", *source, "--attack", "pwws", "--n", "6", "--out", at["attack"]],
        "replay": [at["attack"], str(model), "--out", at["replay"]],
        "predict": [str(model), *source, "--out", str(folder / "labels.csv")],
        "report": [at["run"], "--out", str(folder / "page.html")],
        "check": [at["run"], "--min", "clean=0"],
        "export": [f"{at['trained']}/model", "--format", "dense", "--out", str(folder / "dense")],
        "doctor": [],
        "ls runs": ["--folder", str(folder)],
        **{f"ls {kind}": [] for kind in LISTS},
        "reproduce --list": [],
        "reproduce --dry-run": ["ER-T1", "--seeds", "1"],
    }  # fmt: skip
    found = {}
    with world.one_thread():
        for verb, arguments in commands.items():
            code, out = world.tickets(*verb.split(), *arguments, "--json")
            assert code == 0, (verb, out)
            found[verb] = sorted(keys(json.loads(out)))
    found["an error"] = sorted(keys(json.loads(world.tickets("predict", "nowhere", "--json")[1])))
    return found


def keys(document: Any, where: str = "") -> set[str]:
    """The paths of a document's keys; members of a list share theirs, and so do keys that are names of things."""
    if isinstance(document, list):
        return set().union(*(keys(inner, f"{where}[]") for inner in document))
    if isinstance(document, dict):
        named = [(k if re.fullmatch(r"[a-z_]+", k) else "NAME", v) for k, v in document.items()]
        places = [(f"{where}.{k}".strip("."), v) for k, v in named]
        return set().union(*({k} | (set() if k.split(".")[-1] in MACHINE else keys(v, k)) for k, v in places))
    return set()


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        return values(tmp_path_factory.mktemp("verbs"))


@pytest.mark.parametrize("kind", ["flags", "json"])
def test_a_verb_is_as_recorded(got: dict[str, Any], kind: str) -> None:
    assert differences(got[kind], recorded("verbs")[kind]) == []
