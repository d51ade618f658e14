"""The source holds no pickle, eval, exec, torch.load or remote code, loads models in one place, and starts no process but its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import robust_tickets

SOURCE = sorted(Path(robust_tickets.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {
    ("torch", "load"),
    ("hub", "load"),
    ("jit", "load"),
    ("np", "load"),
    ("numpy", "load"),
    ("os", "system"),
    ("subprocess", "run"),
    ("subprocess", "Popen"),
}
LOADERS = {
    "load_dataset",
    "from_pretrained",
    "from_config",
    "pipeline",
    "load_state_dict_from_url",
    "get_class_from_dynamic_module",
}
OURS = ("Classifier.from_pretrained", "ModelClassifier.from_pretrained")
LOADER = "classifier/pretrained.py"  # the one file that may call transformers' loaders


def problems(text: str, *, loads: bool = False) -> list[str]:
    found = []
    tree = ast.parse(text)
    fixed = _fixed_commands(tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        found += [] if id(node) in called else _named(node)
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.ImportFrom):
            found += [alias.name for alias in node.names if (node.module, alias.name) in METHODS]
            found += [alias.name for alias in node.names if alias.name in LOADERS and alias.asname]
        elif isinstance(node, ast.Call):
            found += [] if _runs_a_fixed_command(node, fixed) else _call(node)
            found += _loading(node, loads)
    return found


def _named(node: ast.AST) -> list[str]:
    """A loader that is not called where it is named: under another name it would be called unseen."""
    if isinstance(node, ast.Constant):  # getattr(AutoModel, "from_pretrained")
        return [node.value] if node.value in LOADERS - {"pipeline"} else []
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return [name] if name in LOADERS and isinstance(getattr(node, "ctx", None), ast.Load) else []


def _loading(node: ast.Call, loads: bool) -> list[str]:
    """A call of a loader elsewhere, or in its place without saying that no code is trusted and nothing is fetched."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in LOADERS or ast.unparse(node.func) in OURS:  # our own, which comes here
        return []
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    trusts, fetches = given.get("trust_remote_code") != "False", given.get("local_files_only") != "True"
    if name == "load_dataset":  # fetches what it is told to
        return [name] if trusts else []
    return [] if loads and not trusts and not fetches else [name]


def _fixed_commands(tree: ast.Module) -> set[str]:
    """Constants of a module that list this interpreter and words written there: a process of our own, nothing from outside."""

    def own(node: ast.expr) -> bool:
        return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or ast.unparse(node) == "sys.executable"

    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.List)
        and node.value.elts
        and all(map(own, node.value.elts))
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value.elts[0]) == "sys.executable"
    }


def _runs_a_fixed_command(node: ast.Call, fixed: set[str]) -> bool:
    first = node.args[0] if len(node.args) == 1 else None
    started = ast.unparse(node.func) == "subprocess.Popen" and isinstance(first, ast.Name) and first.id in fixed
    return started and not any(keyword.arg in (None, "shell", "executable") for keyword in node.keywords)


def _call(node: ast.Call) -> list[str]:
    found = []
    if isinstance(node.func, ast.Name) and node.func.id in CALLS:
        found.append(node.func.id)
    if isinstance(node.func, ast.Attribute):
        name = (ast.unparse(node.func.value).rpartition(".")[2], node.func.attr)
        safe = name[1] == "load" and any(
            k.arg == "allow_pickle" and getattr(k.value, "value", True) is False for k in node.keywords
        )
        if name in METHODS and not safe:
            found.append(".".join(name))
    for keyword in node.keywords:
        if keyword.arg == "trust_remote_code" and getattr(keyword.value, "value", True) is not False:
            found.append("trust_remote_code")
    return found


@pytest.mark.parametrize("path", SOURCE, ids=lambda p: p.relative_to(SOURCE[0].parent).as_posix())
def test_a_file_holds_nothing_that_runs_data(path: Path) -> None:
    assert problems(path.read_text(encoding="utf-8"), loads=path.as_posix().endswith(f"robust_tickets/{LOADER}")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from dill import load",
        "eval('1')",
        "torch.load('x')",
        "np.load('x')",
        "f(trust_remote_code=True)",
        "AutoModel.from_pretrained(x, trust_remote_code=False, local_files_only=True)",
        "transformers.pipeline('fill-mask')",
        "AutoModel.from_config(config)",
        "datasets.load_dataset(x)",
        "load = AutoModel.from_pretrained\nload(x)",
        "getattr(AutoModel, 'from_pretrained')(x)",
        "from transformers import pipeline as p\np('fill-mask')",
        "from torch import load\nload('x')",
        "torch.hub.load('x', 'y')",
        "torch.jit.load('x')",
        "exec(x)",
        "subprocess.Popen(given)",
        "A = ['sh', '-c', 'x']\nsubprocess.Popen(A)",
        "A = [sys.executable, given]\nsubprocess.Popen(A)",
        "A = [sys.executable, '-m', 'x']\nsubprocess.Popen(A, shell=True)",
        "A = [sys.executable, '-m', 'x']\nsubprocess.Popen(A + given)",
    ],
)
def test_the_test_can_fail(text: str) -> None:
    assert problems(text)


def test_the_loader_trusts_no_code_and_fetches_nothing() -> None:
    assert problems("AutoModel.from_pretrained(x, trust_remote_code=False, local_files_only=True)", loads=True) == []
    assert problems("AutoModel.from_pretrained(x, trust_remote_code=False)", loads=True)
    assert problems("AutoModel.from_pretrained(x, local_files_only=True)", loads=True)
