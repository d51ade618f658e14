"""Chinese text cut by jieba, as profiles want it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robust_tickets.attack import textattack_compat


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "jieba"]:
        monkeypatch.delitem(sys.modules, name)
    textattack_compat._tokenizer.cache_clear()
    yield
    textattack_compat._tokenizer.cache_clear()


def test_pieces_joined_are_the_text() -> None:
    text = "我喜欢这个城市 and don't you?"
    assert textattack_compat.cut(text)[:4] == ["我", "喜欢", "这个", "城市"]
    assert "".join(textattack_compat.cut(text)) == text


def test_what_jieba_warns_of_while_it_is_imported_is_not_the_users_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jieba.py").write_text(
        "import warnings\nwarnings.warn('pkg_resources is deprecated')\nsetLogLevel = print\n"
        "class Tokenizer:\n    def initialize(self): pass\n    def cut(self, text): return list(text)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert textattack_compat.cut("城市") == ["城", "市"]
