"""A search and an adversary from outside, as docs/guides/extending.md has them, installed with their entry points and run by a recipe."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugging import block, install
from refusing import refused
from robust_tickets import FineTune, load_task
from tiny import tiny_classifier

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "extending.md"
SMALL = ("model=tiny", "task=rows.csv", "train.epochs=1", "attack.n=4", "max_length=32")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    install(tmp_path, PAGE, "my_parts")
    (tmp_path / "mine.toml").write_text(block(PAGE, 'toml title="mine.toml"'), encoding="utf-8")
    tiny_classifier().save_pretrained(tmp_path / "tiny")
    rows = [f"a {'good' if i % 2 else 'bad'} film of number {i},{'ab'[i % 2]}" for i in range(80)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return tmp_path


def tickets(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", "from robust_tickets.cli.main import main; main()", *given]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_the_page_works_as_it_is_written(installed: Path) -> None:
    """Listed, run, found done when asked again, and run again after a change of the file."""
    assert (
        "large_outputs  Keeps the heads and neurons whose output weights are largest.\n"
        in tickets(installed, "ls", "methods").stdout
    )
    assert " Adds normal noise to the word embeddings.\n" in tickets(installed, "ls", "adversaries").stdout
    ask = ("run", "mine.toml", *(word for one in SMALL for word in ("--set", one)))
    done = tickets(installed, *ask)
    assert done.returncode == 0, done.stderr[-2000:]
    (run,) = (installed / "runs").iterdir()
    (ticket,) = (run / "search").glob("*/ticket.json")
    assert json.loads(ticket.read_text())["provenance"]["method"] == {
        "name": "large_outputs",
        "heads": 0.25,
        "neurons": 0.3,
        "seed": 0,
    }
    assert json.loads((run / "env.json").read_text())["packages"]["my-parts"] == "1.0"
    assert (run / "report.html").is_file()
    for result in run.glob("attack/*/result.json"):
        rules = json.loads(result.read_text())["constraints"]
        assert rules[-1] == "A substitute begins and ends as the word it replaces. (letters=2)"
    again = tickets(installed, *ask)
    assert "search: found done" in again.stdout + again.stderr
    path = installed / "my_parts.py"
    path.write_text(path.read_text(encoding="utf-8").replace("down.norm(dim=0)", "-down.norm(dim=0)"), encoding="utf-8")
    changed = tickets(installed, *ask)
    assert changed.returncode == 0, changed.stderr[-2000:]
    assert "search: found done" not in changed.stdout + changed.stderr
    assert len(list((run / "search").glob("*/ticket.json"))) == 2


def test_the_view_of_the_page_is_read_and_one_of_other_shape_is_refused(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    parts = importlib.import_module("my_parts")
    clf, task = tiny_classifier(), load_task(installed / "rows.csv")
    training = FineTune(adversary=parts.Neighbours(), max_steps=2, evaluate="never")
    weights = [training(clf.copy(), task).model.state_dict() for _ in range(2)]
    plain = FineTune(max_steps=2, evaluate="never")(clf.copy(), task).model.state_dict()
    assert all(weights[0][name].equal(weights[1][name]) for name in plain)
    assert not all(weights[0][name].equal(plain[name]) for name in plain)
    monkeypatch.setattr(parts.Swapped, "make", lambda self, example, draws: example.texts[0])
    with refused("view.texts"):
        training(clf.copy(), task)
    for names in (("",), ("one", "one")):
        monkeypatch.setattr(parts.Neighbours, "views", lambda self, ground, n=names: [parts.Swapped(one) for one in n])
        with refused("adversary.views"):
            training(clf.copy(), task)


def test_a_plug_in_is_listed_by_what_it_says_and_one_that_cannot_be_imported_by_its_name(tmp_path: Path) -> None:
    """Of the class, else of its file; a file that raises or is not there and one that is no Python are listed all the same."""
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    (tmp_path / "pack" / "raises.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "pack" / "inner" / "one.py").write_text(
        '"""A file that tells."""\n\n\nclass Told:\n    """Its class\n    tells more.\n\n    At length.\n    """\n\n\nclass Silent:\n    pass\n'
    )
    (tmp_path / "pack" / "broken.py").write_text("class :\n")
    info = tmp_path / "pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pack\nVersion: 1.0\n")
    values = {
        "aa": "pack.inner.one:Told",
        "ab": "pack.inner.one:Silent",
        "ac": "pack.broken:X",
        "ad": "pack.gone:X",
        "ae": "nowhere:X",
        "af": "pack.raises:X",
    }
    (info / "entry_points.txt").write_text(
        "[robust_tickets.attacks]\n" + "".join(f"{k} = {v}\n" for k, v in values.items())
    )
    done = tickets(tmp_path, "ls", "attacks")
    assert done.returncode == 0, done.stderr
    told = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert {"aa Its class tells more.", "ab A file that tells.", "ac", "ad", "ae", "af"} <= set(told)
