"""Labels of data and model: by name whatever the order, by map whatever the names, never by position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.attack.examples import classes_of
from robust_tickets.errors import TicketsError

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=2, max_size=6, unique=True)


@given(names=NAMES, data=st.data())
def test_any_order_and_case_gives_the_class_of_that_name(names: list[str], data: st.DataObject) -> None:
    task = data.draw(st.permutations(names))
    said = [name.upper() if data.draw(st.booleans()) else name for name in task]
    found = classes_of(said, tuple(names))
    assert [names[i] for i in found] == list(task)


@given(names=NAMES, data=st.data())
def test_a_map_says_it_by_number_or_by_name(names: list[str], data: st.DataObject) -> None:
    targets = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=2, max_size=6))
    task = [f"label {i}" for i in range(len(targets))]
    mapping: dict[str, int | str] = {
        label: data.draw(st.sampled_from([t, names[t]])) for label, t in zip(task, targets, strict=True)
    }
    assert classes_of(task, tuple(names), mapping) == tuple(targets)


@given(names=NAMES)
def test_numbers_are_classes_only_where_nobody_named_them(names: list[str]) -> None:
    numbers = [str(i) for i in range(len(names))]
    assert classes_of(numbers, tuple(f"LABEL_{i}" for i in numbers)) == tuple(range(len(names)))
    with pytest.raises(TicketsError) as caught:
        classes_of(numbers, tuple(names))
    assert f"--label-map {','.join(f'{i}={name}' for i, name in enumerate(names))}" in caught.value.hint
    turned = tuple(f"LABEL_{i}" for i in reversed(range(len(names))))
    with pytest.raises(TicketsError):
        classes_of(numbers, turned)  # somebody did name these
