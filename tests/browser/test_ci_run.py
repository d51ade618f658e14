"""CI's script installs the browser where it is absent, as root or through sudo, and goes on where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
FOUND = "#!/bin/sh\necho make $1 with ${ROBUST_TICKETS_BROWSER:-nothing}\n"
APT = """#!/bin/sh
echo apt $DEBIAN_FRONTEND "$@"
case "$*" in *install*) [ -z "$FAILS" ] || exit 100; printf '#!/bin/sh\\n' > "$BIN/chromium"; chmod +x "$BIN/chromium" ;; esac
"""


def run(folder: Path, *, user: int = 0, fails: str = "", **programs: str) -> tuple[list[str], str]:
    """The script's output where the only programs are a shell's own, a made-up ``make`` and those given."""
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci" / "run")
    programs_at = folder / "bin"
    programs_at.mkdir()
    for name in ("bash", "sh", "env", "dirname", "chmod"):
        (programs_at / name).symlink_to(shutil.which(name) or name)
    for name, text in {"make": FOUND, "id": f"#!/bin/sh\necho {user}\n", **programs}.items():
        path = programs_at / name.replace("_", "-")
        path.write_text(text, "utf-8")
        path.chmod(0o755)
    environment = {
        "PATH": str(programs_at),
        "BIN": str(programs_at),
        "FAILS": fails,
        "HOME": os.environ.get("HOME", "/"),
    }
    done = subprocess.run(
        [folder / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines(), done.stderr


def test_a_browser_that_is_there_is_named(tmp_path: Path) -> None:
    assert run(tmp_path, chromium="#!/bin/sh\n", apt_get=APT) == (
        ["make test with chromium", "make test-versions with chromium"],
        "",
    )


@pytest.mark.parametrize("user", [0, 1000])
def test_an_absent_browser_is_installed(tmp_path: Path, user: int) -> None:
    told, _ = run(tmp_path, user=user, apt_get=APT, sudo='#!/bin/sh\necho sudo "$1"; shift; exec "$@"\n')
    options = "apt noninteractive -qq -o Acquire::Retries=3"
    before = ["sudo -n"] if user else []
    assert told == [
        *before, f"{options} update", *before, f"{options} install -y --no-install-recommends chromium", "make test with chromium",
        "make test-versions with chromium",
    ]  # fmt: skip


@pytest.mark.parametrize(("user", "programs"), [(0, {"apt_get": APT}), (1000, {"apt_get": APT}), (0, {})])
def test_without_a_way_to_install_it_the_tests_run_all_the_same(
    tmp_path: Path, user: int, programs: dict[str, str]
) -> None:
    told, complaint = run(tmp_path, user=user, fails="yes", **programs)
    assert told[-2:] == ["make test with nothing", "make test-versions with nothing"]
    assert ("no page will be opened in a browser" in complaint) == bool(programs)
