"""Joined pieces of words: what the Cartesian product gives, in its order, without walking through all of it."""

from __future__ import annotations

from itertools import islice, product

from hypothesis import example, given
from hypothesis import strategies as st

from robust_tickets.attack.textattack_compat import OWN, PROFILES
from robust_tickets.attack.transforms.unmasked_words import joined

TOKENS = [
    "a",
    "##b",
    "cd",
    ",",
    ".",
    "'",
    "-",
    "#",
    "##",
    "##-",
    "[UNK]",
    "x-",
    "é",
    "×",
    " ",
    "_",
    "1",
    "a,b",
    "##,",
    "#a",
]
ROWS = st.lists(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4), min_size=2, max_size=5)


@given(ROWS, st.sampled_from([OWN, *PROFILES.values()]))
@example([["a"], ["#"], ["#"], ["cd"]], OWN)
@example([[","], [",", "."], [","]], OWN)
def test_it_is_the_product_without_what_is_not_one_word(rows: list[list[str]], rules: object) -> None:
    spelt = ("".join(parts).replace("##", "") for parts in product(*rows))
    assert list(joined(rows, rules)) == [(place, word) for place, word in enumerate(spelt) if rules.one_word(word)]  # type: ignore[arg-type]


def test_what_textattack_would_need_years_for_takes_no_time() -> None:
    words = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
    never = [["a"], [","], *[words] * 12]  # 24^12 combinations, all of two words
    assert list(joined(never, OWN)) == []
    late = [["a"], [",", "b"], *[words] * 12]
    assert [word[:2] for _, word in islice(joined(late, OWN), 48)] == ["ab"] * 48
    ends = [["a", "b"], *[words] * 12, [","], ["c"]]  # only the last token makes it two words
    assert list(joined(ends, OWN)) == []
    long = [["a"], *[words] * 500]
    assert len(list(islice(joined(long, OWN), 48))) == 48
