"""``python -m robust_tickets`` is the command ``tickets``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import robust_tickets

HERE = Path(robust_tickets.__file__).parents[1]
WITHOUT = "import sys, runpy; sys.modules['cyclopts'] = None; runpy.run_module('robust_tickets', run_name='__main__', alter_sys=True)"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=HERE, check=False)


def test_the_module_is_the_command() -> None:
    done = run("-m", "robust_tickets", "--version")
    assert (done.returncode, done.stdout) == (0, f"robust-tickets {robust_tickets.__version__}\n")
    slip = run("-m", "robust_tickets", "run")
    assert slip.returncode == 2
    assert "run: RECIPE is missing" in slip.stderr


def test_without_the_command_lines_packages_it_says_what_to_install() -> None:
    done = run("-c", WITHOUT)
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: the command line needs cyclopts, which is not installed\n  what to do: pip install cyclopts\n"
    )
