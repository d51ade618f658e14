"""Which column is the text and which the label: inferred where only one reading is possible, else asked for."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice

from robust_tickets.data.rows import CsvRows, Rows, TsvRows
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
HINT = (
    "name it: --set text=COLUMN, --set label=COLUMN (--text and --label of a verb that has them; in Python text=, label=); "
    "a pair of texts is FIRST,SECOND; the first row of a csv or tsv names its columns"
)


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
        raise TicketsError(f"the column {label!r} cannot be both text and label", hint=HINT)
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
    return _given(rows, text) or _texts(
        rows, [c for c in rows.columns if c.lower() not in IDS and c.lower() not in but]
    )


def _given(rows: Rows, text: str | Sequence[str] | None) -> tuple[str, ...]:
    given = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    if len(given) > 2:
        raise TicketsError(f"a text is one column or a pair, got {len(given)}", hint=HINT)
    if len(set(given)) < len(given):
        raise TicketsError(f"the text is the column {given[0]!r} twice", hint=HINT)
    for name in given:
        _present(rows, name)
    return given


def _present(rows: Rows, name: str) -> None:
    if (count := rows.columns.count(name)) != 1:
        raise TicketsError(
            f"{rows.name} has {count or 'no'} column{'s' * (count > 1)} {name!r}; it has {_listed(rows.columns)}",
            hint=HINT,
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
            few = others if len(texts) == 1 else [c for c in free if _distinct(rows, c) <= FEW and _repeats(rows, c)]
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
    return TicketsError(f"{rows.name}: which column holds the {what}? columns: {_listed(rows.columns)}", hint=HINT)


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


def _distinct(rows: Rows, column: str) -> int:
    return len(set(map(str, _values(rows, column))))


def _repeats(rows: Rows, column: str) -> bool:
    values = _values(rows, column)
    return len(values) >= 2 * len(set(map(str, values)))


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
