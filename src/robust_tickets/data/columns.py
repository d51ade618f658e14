"""Which column is the text and which the label: inferred where only one reading is possible, else asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice

from robust_tickets.data.rows import CsvRows, Rows, TsvRows
from robust_tickets.errors import TicketsError, did_you_mean

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
CUT, MOST_NAMES, LONGEST_HINT = 40, 12, 300  # characters of a name, names, and characters of a hint in a message
BAR = "|"  # a separator that is not read: texts hold it as well
LONGEST_NAME = 80  # characters; a longer first field is a text, not a column's name
SAY_BOTH = (
    'say it: text="…", label="…" (pairs: text=("…", "…")) in Python; '
    "--text/--label or --set text=… --set label=… on the command line (pairs: first,second)"
)
SAY_TEXT = "say it: --text COLUMN (a pair: --text FIRST,SECOND)"


@dataclass(frozen=True, kw_only=True)
class Columns:
    texts: tuple[str, ...]
    label: str
    note: str = ""


def choose(rows: Rows, text: str | Sequence[str] | None, label: str | None) -> Columns:
    """The columns to read, with a note on what was inferred."""
    given = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    if len(given) > 2:
        raise TicketsError(
            f"a text is one column or a pair, got {len(given)}",
            hint='for example premise,hypothesis; in Python ("premise", "hypothesis")',
        )
    if len(set(given)) < len(given):
        raise TicketsError(f"the text is the column {given[0]!r} twice", hint=SAY_BOTH)
    for name in (*given, *([label] if label else [])):
        _present(rows, name, SAY_BOTH)
    if label in given:
        raise TicketsError(f"the column {label!r} cannot be both text and label", hint=SAY_BOTH)
    if given and label:
        return Columns(texts=given, label=label)
    _header(rows)
    free = [c for c in rows.columns if c not in given and c != label and c.lower() not in IDS]
    label = label or _label(rows, free, given)
    texts = given or _texts(rows, [c for c in free if c != label], SAY_BOTH)
    rest = [c for c in rows.columns if c not in texts and c != label]
    unused = f"; not used: {_listed(rest)}" if rest else ""
    return Columns(
        texts=texts,
        label=label,
        note=f"{_name(rows)}: text from {' and '.join(map(repr, texts))}, label from {label!r} (inferred){unused}",
    )


def text_columns(rows: Rows, text: str | Sequence[str] | None, but: Container[str] = ()) -> tuple[str, ...]:
    """The text columns alone, of a file that needs no labels; columns named as in ``but`` are not looked at."""
    given = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    if len(set(given)) < len(given):
        raise TicketsError(f"the text is the column {given[0]!r} twice", hint=SAY_TEXT)
    for name in given:
        _present(rows, name, SAY_TEXT)
    if given:
        return given
    _header(rows)
    return _texts(rows, [c for c in rows.columns if c.lower() not in IDS and c.lower() not in but], SAY_TEXT)


def _label(rows: Rows, free: list[str], given: Sequence[str]) -> str:
    named = [c for c in free if c.lower() in LABELS]
    if len(named) == 1:
        return named[0]
    if not named and len(free) == 1 and given:
        return free[0]
    if not named and len(free) == 2 and not given:
        texts = [c for c in free if c.lower() in TEXTS]
        if len(texts) == 1:
            return _checked(rows, next(c for c in free if c != texts[0]))
        few = [c for c in free if _distinct(rows, c) <= FEW and _repeats(rows, c)]
        if len(few) == 1:
            return _checked(rows, few[0])
    raise TicketsError(f"{rows.name}: which column holds the label? columns: {_listed(rows.columns)}", hint=SAY_BOTH)


def _texts(rows: Rows, free: list[str], how: str) -> tuple[str, ...]:
    if len(free) == 1:
        return (free[0],)
    lower = {c.lower(): c for c in free}
    pairs = [p for p in PAIRS if p[0] in lower and p[1] in lower]
    named = [c for c in free if c.lower() in TEXTS and not any(c.lower() in p for p in pairs)]
    if len(pairs) == 1 and not named:
        return (lower[pairs[0][0]], lower[pairs[0][1]])
    if len(named) == 1 and not pairs:
        return (named[0],)
    raise TicketsError(f"{rows.name}: which column holds the text? columns: {_listed(rows.columns)}", hint=how)


def _separated(rows: Rows) -> None:
    """Refuse a file whose fields a bar separates, which is read as one column; who names that column means it."""
    if isinstance(rows, CsvRows | TsvRows) and len(rows.columns) == 1 and BAR in rows.columns[0]:
        raise TicketsError(
            f"{rows.name} has one column, {_listed(rows.columns)}: its fields seem to be separated by {BAR!r}",
            hint="write it with commas, semicolons or tabs between the fields, and quotes around those that hold one",
        )


def _present(rows: Rows, name: str, how: str) -> None:
    if name not in rows.columns:
        _separated(rows)
        hint = did_you_mean(name, rows.columns)
        raise TicketsError(
            f"{rows.name} has no column {name!r}; it has {_listed(rows.columns)}",
            hint=hint if len(hint) < LONGEST_HINT else how,
        )
    if rows.columns.count(name) > 1:
        raise TicketsError(f"{rows.name} has {rows.columns.count(name)} columns called {name!r}", hint="rename them")


def _header(rows: Rows) -> None:
    """Refuse a csv whose first row is data, or one column that was meant to be several."""
    _separated(rows)
    if not isinstance(rows, CsvRows | TsvRows):
        return
    named = [c for c in rows.columns if c]
    odd = next((c for c in named if len(c) > LONGEST_NAME or "\n" in c or _numeric(c)), None)
    if odd is not None or not named:
        raise _no_header(rows)
    twice = next((c for c, times in Counter(named).items() if times > 1), None)
    if twice is not None:
        raise TicketsError(
            f"{rows.name}: the header names two columns {twice!r}: {_listed(rows.columns)}",
            hint="rename or remove one; if the first row is data, add a header row above it, for example text,label",
        )


def _checked(rows: Rows, label: str) -> str:
    """A label column whose name is one of its own values is a row of data."""
    if isinstance(rows, CsvRows | TsvRows) and label in set(_values(rows, label)):
        raise _no_header(rows)
    return label


def _no_header(rows: Rows) -> TicketsError:
    return TicketsError(
        f"{rows.name}:1: the first row must name the columns, but looks like data: {_listed(rows.columns)}",
        hint="add a header row, for example text,label",
    )


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
