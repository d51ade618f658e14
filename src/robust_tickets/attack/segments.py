"""Chinese text cut into words by jieba, as TextAttack has done since 0.3.5. Only profiles of those versions want it."""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from functools import cache
from typing import Any

from robust_tickets.errors import TicketsError

_CHINESE = re.compile("[\u4e00-\u9fff]")


def chinese(text: str) -> bool:
    """Whether ``text`` holds a character that makes TextAttack call jieba."""
    return _CHINESE.search(text) is not None


def cut(text: str) -> list[str]:
    """``text`` in pieces, which joined give it again; English words in it are cut too ("don't" in three)."""
    return [str(piece) for piece in _tokenizer().cut(text)]


@cache
def _tokenizer() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # it imports setuptools' pkg_resources, where there is one, which warns of its end
            import jieba
    except ImportError as error:
        raise TicketsError(
            "the text holds Chinese characters, and this profile's TextAttack cuts such texts by jieba, which is not installed",
            hint='pip install "robust-tickets[chinese]"; or leave compat out: a run of Chinese characters is then one word',
        ) from error
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # it would read a cache of its own making from the shared folder for temporary files
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return tokenizer
