"""The columns of text and label, and the class of each label value.

Values 0..C-1 are ids. Other whole or decimal numbers (stars 1..5) are names in numeric order. Anything else is a name, in sorted order,
whatever the order of rows. ``labels=`` fixes the order: it lists the names themselves, or gives names to the ids 0..C-1.

Equal numbers are one class however they are written: 1, 1.0 and 01 are the class ``1``. JSON's true and false are the classes ``true``
and ``false``. NA, nan, None and null are names, because a class may really be called so: an empty field is what marks a missing label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from robust_tickets.classifier.base import unnamed
from robust_tickets.data.readers import BROKEN_UTF8, Rows
from robust_tickets.errors import TicketsError

LABELS = {
    "label", "labels", "class", "target", "sentiment", "category", "stars", "rating", "topic", "gold_label", "intent", "emotion", "y",
}  # fmt: skip
TEXTS = {
    "text", "texts", "sentence", "review", "content", "comment", "body", "document", "tweet", "message", "utterance", "headline",
    "question",
}  # fmt: skip
PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2"), ("question", "sentence"), ("question", "answer"),
    ("text1", "text2"), ("text_a", "text_b"),
)  # fmt: skip
IDS = frozenset(["", "id", "idx", "index", "guid", "unnamed: 0", "row"])
LONGEST_NAME = 80  # characters; a longer first field is a text, not a column's name
SHOWN, CUT = 8, 40  # names in a message, and characters of a name there
NUMBER = re.compile(r"[+-]?(\d{1,40}\.?\d{0,40}|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)
HINT = (
    "name it: --text COLUMN, --label COLUMN (in a recipe --set text=COLUMN, --set label=COLUMN); "
    "a pair of texts is FIRST,SECOND; the first row of a csv or tsv names its columns"
)


def choose(rows: Rows, text: str | Sequence[str] | None, label: str | None) -> tuple[tuple[str, ...], str, str]:
    """The columns of text and label, inferred from their names where they are not given, and what was inferred."""
    texts = _given(rows, text, label)
    if texts and label:
        return texts, label, ""
    free = [c for c in rows.columns if c not in texts and c != label and c.lower() not in IDS]
    if not label:
        named = [c for c in free if c.lower() in LABELS]
        # without such a name: the one column beside the text
        named = named or ([c for c in free if texts or c.lower() not in TEXTS] if len(free) == 2 - bool(texts) else [])
        if len(named) != 1 or not _has_names(rows):
            raise _unclear(rows, "label")
        label = named[0]
    texts = texts or _texts(rows, [c for c in free if c != label])
    rest = [c for c in rows.columns if c not in texts and c != label]
    unused = f"; not used: {few(rest)}" if rest else ""
    found = f"text from {' and '.join(map(repr, texts))}, label from {label!r} (inferred){unused}"
    return texts, label, f"{Path(rows.name).name}: {found}"


def text_columns(rows: Rows, text: str | Sequence[str] | None, but: Collection[str] = ()) -> tuple[str, ...]:
    """The text columns alone, of a file that needs no labels; columns named as in ``but`` are not looked at."""
    return _given(rows, text) or _texts(rows, [c for c in rows.columns if c.lower() not in {*IDS, *but}])


def _given(rows: Rows, text: str | Sequence[str] | None, label: str | None = None) -> tuple[str, ...]:
    """The text columns that were named, if they and the label's are there."""
    texts = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    named = [*texts, *([label] if label else [])]
    if len(texts) > 2 or len(set(named)) < len(named):
        message = f"a text is one column or two, and the label is another one; got {few(named)}"
        raise TicketsError(message, hint=HINT, code="data.columns")
    for name in named:
        if rows.columns.count(name) != 1:
            message = f"{rows.name} has not one column {name!r}; it has {few(rows.columns)}"
            raise TicketsError(message, hint=HINT, code="data.no_column")
    return texts


def _texts(rows: Rows, free: list[str]) -> tuple[str, ...]:
    lower = {c.lower(): c for c in free}
    pairs = [p for p in PAIRS if p[0] in lower and p[1] in lower]
    named = [c for c in free if c.lower() in TEXTS and not any(c.lower() in p for p in pairs)]
    readings = [(c,) for c in named] + [(lower[first], lower[second]) for first, second in pairs]
    if len(free) == 1:
        readings = [(free[0],)]
    if len(readings) != 1 or not _has_names(rows):
        raise _unclear(rows, "text")
    return readings[0]


def _unclear(rows: Rows, what: str) -> TicketsError:
    message = f"{rows.name}: which column holds the {what}? columns: {few(rows.columns)}"
    return TicketsError(message, hint=HINT, code="data.unclear_column")


def _has_names(rows: Rows) -> bool:
    """Whether the first row names the columns: no number, no text, no name twice, and no separator that was not read."""
    named = [c for c in rows.columns if c]
    odd = any(len(c) > LONGEST_NAME or "\n" in c or "|" in c or _number(c) is not None for c in named)
    return not rows.header or (bool(named) and not odd and len(set(named)) == len(named))


def few(values: Sequence[str]) -> str:
    """Some of these names, for a message."""
    shown = ", ".join(v if len(v) <= CUT else f"{v[: CUT - 1]}…" for v in values[:SHOWN])
    return f"{shown}, … ({len(values)} in all)" if len(values) > SHOWN else shown


def label_text(value: Any) -> tuple[str, str]:
    """A label value as text, and what is wrong with it (or nothing)."""
    if isinstance(value, str):
        value = value.strip()
        if any("\ud800" <= c <= "\udfff" for c in value):
            return "", BROKEN_UTF8
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
    if not NUMBER.fullmatch(text) or not math.isfinite(number := float(text)):
        return text
    if text.lstrip("+-").isdecimal():
        return str(int(text))
    return str(int(number)) if number.is_integer() else repr(number)


def order(values: Iterable[str]) -> tuple[str, ...]:
    """Class names in id order, from the values that occur: by number where all are numbers, else sorted."""
    distinct = sorted(set(values))
    numbers = [_number(value) for value in distinct]
    return tuple(distinct) if None in numbers else tuple(v for _, v in sorted(zip(numbers, distinct, strict=True)))


def check(names: Sequence[str], where: str) -> None:
    """Refuse class names that are too few or name a class twice."""
    if len(set(map(canonical, names))) != len(names):
        message = f"the labels name a class twice: {few(names)}"
        raise TicketsError(message, hint="name each class once", code="labels.twice")
    if len(names) < 2:
        message = f"{where} has {len(names)} class(es) {few(names)}; a classifier needs at least two"
        raise TicketsError(message, hint="check the file and its label column", code="labels.too_few")


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which class each label value is; a value left out is unknown. ``note`` says what was not plainly equal."""

    ids: Mapping[str, int]
    note: str = ""
    guessed: bool = False  # ids were read as the classes in order


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
    mapped = _mapped(label_map or {}, names)
    called, note = {value: value for value in values}, ""
    first = mapped or _numbered(names)  # a map goes before classes that are called 0 and 1
    if declared and values and not _by_name(values, first):
        called = {value: declared[i] for value, i in match(values, declared, where).ids.items()}
        if not mapped and len(_by_name(declared, _numbered(names))) < len(declared):
            if not unnamed(names) or len(declared) != len(names):
                raise TicketsError(
                    f"{where} has the classes {few(declared)}, but the labels to match are {few(names)}",
                    hint=f"use data of the same task, or say which is which: {pasted(declared, names)}",
                    code="labels.other",
                )
            note = f"classes matched by position: {few(declared)} are {few(names)}"
            names = declared
    known = {**_by_name(called.values(), _numbered(names)), **_by_name(called.values(), mapped)}
    if known or not values:
        return Match(ids={value: known[name] for value, name in called.items() if name in known}, note=note)
    if mapped:
        raise TicketsError(
            f"{where}: the label map names {few(list(mapped))}, the labels there are {few(order(values))}",
            hint=pasted(order(values), names),
            code="labels.map",
        )
    numbers = {v: int(v) for v in values if v.isdecimal() and v.isascii() and len(v) < 10 and int(v) < len(names)}
    if not by_id and not (numbers and unnamed(names)):
        raise TicketsError(
            f"{where} has the labels {few(order(values))}, the classifier knows {few(names)}",
            hint=f"labels are matched by name, never by order; if these are the pairs: {pasted(order(values), names)}",
            code="labels.other",
        )
    if not numbers or ("0" not in numbers and str(len(names)) in values):
        raise TicketsError(
            f"{where}: the labels are {few(order(values))}, neither the names {few(names)} nor their numbers from 0",
            hint="write them so, name another column (--set label=COLUMN), or give a label map",
            code="labels.unknown",
        )
    read = order(numbers)
    return Match(
        ids=numbers, note=f"the ids {few(read)} read as {few([names[numbers[v]] for v in read])}", guessed=True
    )


def pasted(values: Sequence[str], names: Sequence[str]) -> str:
    """A flag to paste, with the two sides in their orders; a class whose name would not fit into it goes by its number.

    Labels beyond the last class are named too, without one: left out, their rows would be bad ones.
    """
    classes = [str(i) if set(",= ") & set(name) else name for i, name in enumerate(names)]
    pairs = zip_longest(values, classes[: len(values)], fillvalue="CLASS")
    return f"--label-map {','.join(f'{value}={name}' for value, name in pairs)}"


def _mapped(label_map: Mapping[str, int | str], names: Sequence[str]) -> dict[str, int]:
    """The class that each label of the map is.

    Where classes are called by numbers (stars 1 to 5), a number of the map is such a name: as a position it would mean the class beside it.
    """
    classes, by_position = {}, not any(canonical(name).lstrip("-").isdecimal() for name in names)
    for key, wanted in label_map.items():
        at = (
            wanted
            if isinstance(wanted, int) and by_position
            else _by_name([str(wanted)], _numbered(names)).get(str(wanted))
        )
        if at is None or not 0 <= at < len(names):
            raise TicketsError(
                f"the label map sends {key!r} to {wanted!r}; the classifier's classes are {few(names)}",
                hint="NAME_IN_THE_DATA=CLASS_OF_THE_MODEL, by its name, or by its number from 0 where no name is a number",
                code="labels.map",
            )
        classes[key] = at
    return classes


def _numbered(names: Sequence[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(names)}


def _by_name(values: Iterable[str], classes: Mapping[str, int]) -> dict[str, int]:
    """The class of each value that names one: exactly, or but for case and spaces where that is unambiguous."""
    exact = {canonical(name): i for name, i in classes.items()}
    folded: dict[str, list[int]] = {}
    for name, i in classes.items():
        folded.setdefault(_fold(name), []).append(i)
    found = {}
    for value in values:
        close = folded.get(_fold(value), [])
        at = exact.get(canonical(value), close[0] if len(close) == 1 else None)
        if at is not None:
            found[value] = at
    return found


def _fold(name: str) -> str:
    return " ".join(name.casefold().split())


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
