"""``python -m robust_tickets``: the command ``tickets``, for an interpreter whose scripts are not on the PATH."""

from __future__ import annotations

import sys

from robust_tickets.errors import BAD_INPUT

# what the command line reads and prints with; nothing else of the package needs them to be imported
SHOWN_BY = ("cyclopts", "rich")

try:
    from robust_tickets.cli.main import main
except ModuleNotFoundError as problem:
    if (missing := (problem.name or "").partition(".")[0]) not in SHOWN_BY:
        raise
    print(
        f"error: the command line needs {missing}, which is not installed\n  what to do: pip install {missing}",
        file=sys.stderr,
    )
    sys.exit(BAD_INPUT)

if __name__ == "__main__":
    main()
