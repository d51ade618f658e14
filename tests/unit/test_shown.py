"""What a notebook prints of a value: one or two lines with the numbers that are looked for."""

from __future__ import annotations

from typing import Any

import pytest

import robust_tickets as rt
from robust_tickets.data.task import Split
from robust_tickets.search.base import Found
from tiny import tiny_classifier
from toy import toy_task


@pytest.fixture(scope="module")
def clf() -> Any:
    return tiny_classifier()


def test_a_compact_classifier_does_not_look_like_the_whole_one(clf: Any) -> None:
    found = rt.RandomTicket()(clf)
    small = rt.compact(clf, found.ticket)
    count = sum(p.numel() for p in small.model.parameters())
    assert repr(small) == (
        f"Classifier('tiny-bert', bert, {count:,} parameters, kept: heads=10/12, neurons=51/72, labels=['a', 'b'], max_length=32)"
    )
    assert "kept" not in repr(clf)
    assert "kept" not in repr(rt.expand(small))
    assert "kept: weights=7168/17920" in repr(rt.apply(clf, rt.OMP(sparsity=0.6)(clf).ticket))
    assert (
        repr(rt.Classifier.wrap(len, labels=["a", "b"]))
        == "Classifier('callable:builtins.len', labels=['a', 'b'], max_length=None)"
    )


def test_what_a_search_found_is_one_line(clf: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = rt.EarlyRobust(epochs=1, mini=0.1, batch_size=8)(clf, toy_task())
    shown = repr(found)
    assert shown.startswith(
        f"Found({found.ticket!r}, {found.ticket.sparsity:.1%} of the prunable weights removed, drawn at epoch "
    )
    assert f"drawn at epoch {found.ticket.provenance['epoch']}" in shown
    assert ("not settled" in shown) == ("did not settle" in capsys.readouterr().err)
    assert len(shown) < 250
    assert "0.0% of the prunable" in repr(Found(ticket=rt.RandomTicket(heads=0, neurons=0)(clf).ticket))


def test_an_attack_in_two_lines(clf: Any) -> None:
    split = Split.of(["a fine film", "a dull film", "a good plot", "a bad plot"], [0, 1, 0, 1])
    result = rt.PWWS()(clf, split, n=4)
    first, second = repr(result).splitlines()
    low, high = result.interval("aua")
    assert first.startswith(f"AttackResult({result.attack} on 'tiny-bert', n=4, clean={result.clean:.1f} [")
    assert f"aua={result.aua:.1f} [{low:.1f}, {high:.1f}]" in first
    assert second == f"  flags: {', '.join(dict.fromkeys(result.flag_codes))})"
