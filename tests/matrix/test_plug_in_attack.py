"""A user's own attack, as docs/guides/attacks/recipes.md tells: the page's file, installed with its entry point, from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugging import install

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "attacks" / "recipes.md"
# calls a text good by its letters a, and does not know them in capitals
VICTIM = """
def probabilities(texts):
    return [[1 - p, p] for p in (0.12 + 0.1 * text.count("a") for text in texts)]
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The page's module and its entry point, as pip would lay them down; a victim and texts beside them."""
    install(tmp_path, PAGE, "my_attacks")
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    rows = ["text,label", "a warm day at last,good", "many sad and bad men had a hat,good", "cold wind,bad"]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def tickets(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", "from robust_tickets.cli.main import main; main()", *given]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def attack(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    data = ("--data", "rows.csv", "--labels", "bad,good", "--n", "0", "--quiet", "--out", "out")
    return tickets(folder, "attack", "victim:probabilities", "--attack", "shouting", *data, *given)


def test_the_page_works_as_it_is_written(installed: Path) -> None:
    assert "shouting" in tickets(installed, "ls", "attacks").stdout
    done = attack(installed, "--set", "most_edits=8")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((installed / "out" / "result.json").read_text(encoding="utf-8"))
    lines = [
        json.loads(line) for line in (installed / "out" / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    found = {line["original"][0]: line for line in lines}
    assert "Shouting" in json.dumps(result)
    assert "candidates: the word in capitals" in json.dumps(result)
    assert found["a warm day at last"]["status"] == "success"
    assert (
        found["many sad and bad men had a hat"]["status"] == "failed"
    )  # four words would have to change, at least ten characters


def test_a_changed_file_is_another_attack(installed: Path) -> None:
    """Whoever writes one changes its code and not its settings; the result from before was taken for the new one's."""
    assert attack(installed).returncode == 0
    again = attack(installed)
    assert again.returncode == 0, again.stderr[-2000:]
    path = installed / "my_attacks.py"
    path.write_text(path.read_text(encoding="utf-8").replace("[word.upper()]", "[word.swapcase()]"), encoding="utf-8")
    changed = attack(installed)
    assert changed.returncode != 0
    assert "Traceback" not in changed.stderr
    assert "another" in changed.stderr


def test_no_profile_is_claimed_for_it(installed: Path) -> None:
    done = attack(installed, "--compat", "0.3.11")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert (
        "my_attacks.Shouting has no profile '0.3.11' that was checked against TextAttack's own results; it has: none"
        in said
    )


def test_a_plug_in_whose_file_is_called_like_one_of_ours_claims_no_profile_either(installed: Path) -> None:
    """The name of a module proves nothing."""
    (installed / "pwws.py").write_text((installed / "my_attacks.py").read_text(encoding="utf-8"), encoding="utf-8")
    points = installed / "my_attacks-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text(encoding="utf-8").replace("my_attacks:", "pwws:"), encoding="utf-8")
    done = attack(installed, "--compat", "0.3.11")
    assert done.returncode != 0
    assert "pwws.Shouting has no profile" in " ".join(done.stderr.split())
