"""How many threads a container's share of the processors is good for.

OpenMP counts the processors that a process may run on. A limit on processor time (``docker run --cpus 2``, a pod's limits) leaves all of
them allowed and stops the process for the rest of every 100 ms once its threads together have used the share up.
"""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def allowed(root: Path = CGROUP) -> int | None:
    """Threads that the limit of this container gives work to; None where there is no limit, or none below the processors allowed."""
    share = _share(root)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if share is None:
        return None
    most = max(1, round(share))
    return most if most < processors else None


def _share(root: Path) -> float | None:
    """Processors' worth of time, from the files of cgroup v2 or v1."""
    try:
        if (root / "cpu.max").is_file():
            quota, period = (root / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (root / "cpu" / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period")
            )
        used, of = int(quota), int(period)  # v2 says "max" where there is no limit, v1 -1
    except (OSError, ValueError):
        return None
    return used / of if used > 0 and of > 0 else None
