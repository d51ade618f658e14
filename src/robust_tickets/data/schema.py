"""The columns of text and label, and the class of each label value.

Columns are inferred where only one reading is possible, else asked for. The order of classes never depends on the order of rows.
Values 0..C-1 are ids. Other whole or decimal numbers (stars 1..5) are names in numeric order. Anything else is a name, in sorted order.
``labels=`` fixes the order: it lists the names themselves, or gives names to the ids 0..C-1. Where they are the classes of a model that
is only asked about these rows (``by_id=False``), ids mean them only if nobody named them (LABEL_0, LABEL_1, …) or a label map says so.

Equal numbers are one class however they are written: 1, 1.0 and 01 are the class ``1``. JSON's true and false are the classes ``true``
and ``false``, never 1 and 0. Names that differ in case only stay two classes; NA, nan, None and null are names too, because a class may
really be called so: an empty field is what marks a missing label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

from robust_tickets.classifier.base import unnamed
from robust_tickets.data.readers import CsvRows, Rows, TsvRows
from robust_tickets.errors import TicketsError

LABELS = frozenset(
    [
        "label",
        "labels",
        "class",
        "target",
        "sentiment",
        "category",
        "stars",
        "rating",
        "topic",
        "gold_label",
        "intent",
        "emotion",
        "y",
    ]
)
TEXTS = frozenset(
    [
        "text",
        "texts",
        "sentence",
        "review",
        "content",
        "comment",
        "body",
        "document",
        "tweet",
        "message",
        "utterance",
        "headline",
        "question",
    ]
)
PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("text1", "text2"),
    ("text_a", "text_b"),
)
IDS = frozenset(["", "id", "idx", "index", "guid", "unnamed: 0", "row"])
SAMPLE = 1000  # rows looked at where names do not tell
FEW = 50  # different values a label column may have in the sample
CUT, MOST_NAMES = 40, 12  # characters of a name and names in a message
BAR = "|"  # a separator that is not read: texts hold it as well
LONGEST_NAME = 80  # characters; a longer first field is a text, not a column's name
NAMES = "a pair of texts is FIRST,SECOND; the first row of a csv or tsv names its columns"
HINT = "name it: --set text=COLUMN, --set label=COLUMN (--text and --label of a verb that has them); " + NAMES


@dataclass(frozen=True, kw_only=True)
class Columns:
    texts: tuple[str, ...]
    label: str
    note: str = ""


def choose(rows: Rows, text: str | Sequence[str] | None, label: str | None) -> Columns:
    """The columns to read, with a note on what was inferred."""
    given = _given(rows, text)
    if label:
        _present(rows, label)
    if label in given:
        raise TicketsError(f"the column {label!r} cannot be both text and label", hint=HINT, code="data.columns")
    if given and label:
        return Columns(texts=given, label=label)
    free = [c for c in rows.columns if c not in given and c != label and c.lower() not in IDS]
    label = label or _label(rows, free, given)
    texts = given or _texts(rows, [c for c in free if c != label])
    rest = [c for c in rows.columns if c not in texts and c != label]
    unused = f"; not used: {_listed(rest)}" if rest else ""
    return Columns(
        texts=texts,
        label=label,
        note=f"{_name(rows)}: text from {' and '.join(map(repr, texts))}, label from {label!r} (inferred){unused}",
    )


def text_columns(rows: Rows, text: str | Sequence[str] | None, but: Container[str] = ()) -> tuple[str, ...]:
    """The text columns alone, of a file that needs no labels; columns named as in ``but`` are not looked at."""
    try:
        return _given(rows, text) or _texts(
            rows, [c for c in rows.columns if c.lower() not in IDS and c.lower() not in but]
        )
    except TicketsError as problem:  # there is no label to name
        raise TicketsError(
            problem.message, hint=f"name it: --text COLUMN; {NAMES}", code="data.unclear_column"
        ) from None


def _given(rows: Rows, text: str | Sequence[str] | None) -> tuple[str, ...]:
    given = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    if len(given) > 2:
        raise TicketsError(f"a text is one column or a pair, got {len(given)}", hint=HINT, code="data.columns")
    if len(set(given)) < len(given):
        raise TicketsError(f"the text is the column {given[0]!r} twice", hint=HINT, code="data.columns")
    for name in given:
        _present(rows, name)
    return given


def _present(rows: Rows, name: str) -> None:
    if (count := rows.columns.count(name)) != 1:
        raise TicketsError(
            f"{rows.name} has {count or 'no'} column{'s' * (count > 1)} {name!r}; it has {_listed(rows.columns)}",
            hint=HINT,
            code="data.no_column",
        )


def _label(rows: Rows, free: list[str], given: Sequence[str]) -> str:
    named = [c for c in free if c.lower() in LABELS]
    if _has_header(rows):
        if len(named) == 1:
            return named[0]
        if not named and len(free) == 1 and given:
            return free[0]
        if not named and len(free) == 2 and not given:
            texts = [c for c in free if c.lower() in TEXTS]
            others = [c for c in free if c not in texts]
            few = others if len(texts) == 1 else [c for c in free if _repeats(rows, c)]
            if len(few) == 1 and not _is_data(rows, few[0]):
                return few[0]
    raise _unclear(rows, "label")


def _texts(rows: Rows, free: list[str]) -> tuple[str, ...]:
    if _has_header(rows):
        if len(free) == 1:
            return (free[0],)
        lower = {c.lower(): c for c in free}
        pairs = [p for p in PAIRS if p[0] in lower and p[1] in lower]
        named = [c for c in free if c.lower() in TEXTS and not any(c.lower() in p for p in pairs)]
        if len(pairs) == 1 and not named:
            return (lower[pairs[0][0]], lower[pairs[0][1]])
        if len(named) == 1 and not pairs:
            return (named[0],)
    raise _unclear(rows, "text")


def _unclear(rows: Rows, what: str) -> TicketsError:
    return TicketsError(
        f"{rows.name}: which column holds the {what}? columns: {_listed(rows.columns)}",
        hint=HINT,
        code="data.unclear_column",
    )


def _has_header(rows: Rows) -> bool:
    """Whether the first row of a csv or tsv names its columns: no number, no text, no name twice, fields that were separated."""
    if not isinstance(rows, CsvRows | TsvRows):
        return True
    named = [c for c in rows.columns if c]
    odd = any(len(c) > LONGEST_NAME or "\n" in c or _numeric(c) for c in named)
    return (
        bool(named) and not odd and len(set(named)) == len(named) and not (len(rows.columns) == 1 and BAR in named[0])
    )


def _is_data(rows: Rows, label: str) -> bool:
    """A label column whose name is one of its own values is a row of data."""
    return isinstance(rows, CsvRows | TsvRows) and label in set(_values(rows, label))


def _values(rows: Rows, column: str) -> list[object]:
    return [
        r.values[0] for r in islice(rows.records((column,)), SAMPLE) if not r.problem and r.values[0] not in (None, "")
    ]


def _repeats(rows: Rows, column: str) -> bool:
    """Whether the column holds few values, each twice on average."""
    values = _values(rows, column)
    distinct = len(set(map(str, values)))
    return distinct <= FEW and len(values) >= 2 * distinct


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    """Names for a message, long ones and long lists cut."""
    shown = ", ".join(repr(n) if len(n) <= CUT else repr(n[: CUT - 1] + "…") for n in names[:MOST_NAMES])
    return f"{shown}, … ({len(names)} in all)" if len(names) > MOST_NAMES else shown


def _name(rows: Rows) -> str:
    return rows.name.replace("\\", "/").rpartition("/")[2]


NUMBER = re.compile(r"[+-]?(\d{1,40}\.?\d{0,40}|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)
SHOWN = 8  # names in a message


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which class each label value is; a value left out is unknown. ``note`` says what was not plainly equal."""

    ids: Mapping[str, int]
    note: str = ""
    guessed: bool = False  # ids were read as the classes in order
    idle: tuple[str, ...] = ()  # names of the label map that no value has


def label_text(value: Any) -> tuple[str, str]:
    """A label value as text, and what is wrong with it (or nothing)."""
    if isinstance(value, str):
        value = value.strip()
        if any("\ud800" <= c <= "\udfff" for c in value):
            return "", "broken UTF-8"
        return canonical(value), "" if value else "missing label"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "", "missing label"
    if isinstance(value, bool):
        return str(value).lower(), ""
    if isinstance(value, int | float):
        return canonical(str(value)), ""
    return "", f"the label is a {type(value).__name__}, not a name or a number"


def canonical(text: str) -> str:
    """One spelling for equal numbers, whole ones without a point; any other text as it is."""
    if not NUMBER.fullmatch(text):
        return text
    number = float(text)
    if not math.isfinite(number):
        return text
    if text.lstrip("+-").isdecimal():
        return str(int(text))
    return str(int(number)) if number.is_integer() else repr(number)


def order(values: Iterable[str]) -> tuple[str, ...]:
    """Class names in id order, from the values that occur."""
    distinct = sorted(set(values))
    numbers = [_number(v) for v in distinct]
    if distinct and all(n is not None for n in numbers):
        return tuple(v for _, v in sorted(zip(numbers, distinct, strict=True)))
    return tuple(distinct)


def match(
    values: Sequence[str],
    names: Sequence[str],
    where: str,
    declared: Sequence[str] = (),
    *,
    label_map: Mapping[str, int | str] | None = None,
    by_id: bool = True,
) -> Match:
    """Which of ``names`` each of ``values`` is: as ``label_map`` says, by name (case matters only where it must), else as an id 0..C-1.

    ``declared`` is what the source itself calls its classes in id order; ids then mean these, whatever the order of ``names``. With
    ``by_id=False`` ids stand only for classes that nobody named.
    """
    if label_map:
        return _mapped(values, names, where, declared, label_map)
    by_name = _by_name(values, names)
    if by_name or not values:
        other = [v for v, i in by_name.items() if v != canonical(names[i])]
        note = (
            f"label names differ in case or spaces: {few(other)} read as {few([names[by_name[v]] for v in other])}"
            if other
            else ""
        )
        return Match(ids=by_name, note=note)
    if declared:
        inner, across = match(values, declared, where), _across(declared, names, where)
        note = "" if _by_name(declared, names) else f"classes matched by position: {few(declared)} are {few(names)}"
        return Match(ids={v: across[i] for v, i in inner.ids.items()}, note=note)
    numbers = {v: int(v) for v in values if v.isdecimal() and v.isascii() and len(v) < 10 and int(v) < len(names)}
    if not by_id and not (numbers and unnamed(names)):
        raise TicketsError(
            f"{where} has the labels {few(order(values))}, the classifier knows {few(names)}",
            hint=f"labels are matched by name, never by order; if these are the pairs: {pasted(order(values), names)}",
            code="labels.other",
        )
    if numbers and "0" not in numbers and str(len(names)) in values:
        raise TicketsError(
            f"{where}: the labels are {few(order(values))}, which is neither the names {few(names)} nor their ids 0 to {len(names) - 1}",
            hint="ids count from 0: subtract one from every label, or write the names",
            code="labels.unknown",
        )
    if not numbers:
        raise TicketsError(
            f"{where}: no label is one of {few(names)}; it has {few(order(values))}",
            hint="write them so, name another column (--set label=COLUMN), or give a label map",
            code="labels.unknown",
        )
    return Match(
        ids=numbers,
        note=f"the ids {few(order(numbers))} read as {few([names[numbers[v]] for v in order(numbers)])}",
        guessed=True,
    )


def pasted(values: Sequence[str], names: Sequence[str]) -> str:
    """A flag to paste, with the two sides in their orders; a class whose name would not fit into it goes by its number.

    Labels beyond the last class are named too, without one: left out, their rows would be bad ones.
    """
    classes = [str(i) if set(",= ") & set(name) else name for i, name in enumerate(names)]
    pairs = zip_longest(values, classes[: len(values)], fillvalue="CLASS")
    return f"--label-map {','.join(f'{value}={name}' for value, name in pairs)}"


def _mapped(
    values: Sequence[str], names: Sequence[str], where: str, declared: Sequence[str], label_map: Mapping[str, int | str]
) -> Match:
    """By the map, then by name; ids of a source that names its classes are read as these names first.

    Where classes are called by numbers (stars 1 to 5), a number of the map is such a name: as a position it would mean the class beside it.
    """
    classes, called = {}, any(canonical(name).lstrip("-").isdecimal() for name in names)
    for key, wanted in label_map.items():
        at = wanted if isinstance(wanted, int) and not called else _by_name([str(wanted)], names).get(str(wanted), -1)
        if not 0 <= at < len(names):
            ways = (
                "by its name, which may be a number here"
                if called
                else f"by name or by number from 0 to {len(names) - 1}"
            )
            raise TicketsError(
                f"the label map sends {key!r} to {wanted!r}; the classifier's classes are {few(names)}",
                hint=f"NAME_IN_THE_DATA=CLASS_OF_THE_MODEL, {ways}",
                code="labels.map",
            )
        classes[key] = at
    keys = list(classes)
    found = {v: classes[keys[i]] for v, i in _by_name(values, keys).items()}
    if not found and declared:
        inner, across = match(values, declared, where).ids, _mapped(declared, names, where, (), label_map).ids
        return Match(ids={v: across[declared[i]] for v, i in inner.items() if declared[i] in across})
    idle = tuple(key for i, key in enumerate(keys) if i not in _by_name(values, keys).values())
    found |= _by_name([v for v in values if v not in found], names)
    if not found and values:
        raise TicketsError(
            f"{where}: the label map names {few(keys)}, the labels there are {few(order(values))}, the model's {few(names)}",
            hint=pasted(order(values), names),
            code="labels.map",
        )
    return Match(ids=found, idle=idle)


def check(names: Sequence[str], where: str) -> None:
    if len(set(map(canonical, names))) != len(names):
        raise TicketsError(
            f"the labels name a class twice: {few(names)}", hint="name each class once", code="labels.twice"
        )
    if len(names) < 2:
        found = f"only one class ({names[0]!r})" if names else "no labelled row, so no class"
        raise TicketsError(
            f"{where} has {found}; a classifier needs at least two",
            hint="check the file and its label column",
            code="labels.too_few",
        )


def few(values: Sequence[str]) -> str:
    """At most some of these names, for a message."""
    shown = ", ".join(v if len(v) <= 40 else f"{v[:39]}…" for v in values[:SHOWN])
    return f"{shown}, … ({len(values)} in all)" if len(values) > SHOWN else shown


def _by_name(values: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    exact = {canonical(name): i for i, name in enumerate(names)}
    folded: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        folded.setdefault(_fold(name), []).append(i)
    found = {}
    for value in values:
        close = folded.get(_fold(value), [])
        at = exact.get(canonical(value), close[0] if len(close) == 1 else None)
        if at is not None:
            found[value] = at
    return found


def _across(declared: Sequence[str], names: Sequence[str], where: str) -> list[int]:
    """The id among ``names`` of each declared class."""
    known = _by_name(declared, names)
    if unnamed(names) and len(declared) == len(names):
        return list(range(len(names)))
    if len(known) < len(declared):
        raise TicketsError(
            f"{where} has the classes {few(declared)}, but the labels to match are {few(names)}",
            hint=f"use data of the same task, or say which is which: {pasted(declared, names)}",
            code="labels.other",
        )
    return [known[name] for name in declared]


def _fold(name: str) -> str:
    return " ".join(name.casefold().split())


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
