"""Characters that look like others: TextAttack's table of 38, for digits, lower-case letters, hyphen and apostrophe (see its notice)."""

from __future__ import annotations

from importlib.resources import files


def _read() -> dict[str, str]:
    lines = (files("robust_tickets.lexicon") / "homoglyphs.txt").read_text(encoding="utf-8").splitlines()
    return {line[0]: line[2] for line in lines}


LOOKALIKE = _read()
