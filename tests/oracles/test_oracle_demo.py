"""The accuracies of the demo, in fp32 on one thread: ten minutes of a core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from record import recorded

# in points, for another CPU's rounding: of the 917 test sentences nine, of the 60 attacked ones two
CLOSE = {"accuracy": 1.0, "clean": 3.4, "aua": 3.4}


def values(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "robust_tickets", "demo", "--out", str(folder / "demo"), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    return accuracies(json.loads(done.stdout))


def accuracies(document: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By arm: of the whole test split; on the attacked sentences, before and under the attack."""
    found = {}
    for arm in document["arms"]:
        (attack,) = arm["attacks"].values()
        found[arm["name"]] = {"accuracy": arm["clean"], "clean": attack["clean"], "aua": attack["aua"]}
    return found


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        return values(tmp_path_factory.mktemp("demo"))


@pytest.mark.slow
@pytest.mark.parametrize("arm", recorded("demo"))
def test_accuracies_are_as_recorded(got: dict[str, Any], arm: str) -> None:
    wanted = recorded("demo")[arm]
    assert got[arm] == {name: pytest.approx(wanted[name], abs=points) for name, points in CLOSE.items()}
