"""How TextAttack finds a word in its text: not by its place but by searching, from left to right. Only compat profiles want this.

Mostly the search ends where the word is. Where it does not, TextAttack's result is another, and a profile must give the same:

- columns are joined by the mark ``<SPLIT>`` while a word is swapped, and "I" at the beginning of a second column is found inside the
  mark. Swapping it breaks the mark, and the columns with it (until 0.3.10; 0.3.11 mends this for two columns);
- windows are searched in the lower-cased text, which for a few characters is longer than the text ("İ"), or has another letter ("Σ");
- until 0.3.3 the search for a window did not move past a word, so "an" after "banana" was found inside it;
- a text with a Chinese character is cut anew after each swap, and may come out differently.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from robust_tickets.attack import segments
from robust_tickets.attack.rules import Rules
from robust_tickets.errors import TicketsError
from robust_tickets.resources.words import words as words_of

BETWEEN_COLUMNS = "\n"  # how two columns read as one text
MARK = "<SPLIT>"  # how TextAttack joins them while it swaps a word

Span = tuple[int, int, int]  # column, start, end


def pieces(text: str, rules: Rules) -> list[tuple[int, int]]:
    """The (start, end) of every word of a text alone."""
    if not (rules.segments and segments.chinese(text)) or len(text) == 1:
        return words_of(text, rules.keeps_endings)
    found, at = [], 0
    for piece in segments.cut(text):
        found += [(at + start, at + end) for start, end in words_of(piece, rules.keeps_endings)]
        at += len(piece)
    return found


def one_word(text: str, rules: Rules) -> bool:
    """Whether ``text`` holds exactly one word (it may carry punctuation besides)."""
    return len(pieces(text, rules)) == 1


def spans(columns: Sequence[str], rules: Rules) -> tuple[Span, ...]:
    """The (column, start, end) of every word; one Chinese character lets the words of all columns be cut by jieba."""
    if not (rules.segments and any(map(segments.chinese, columns))):
        return tuple(
            (c, start, end) for c, part in enumerate(columns) for start, end in words_of(part, rules.keeps_endings)
        )
    found: list[Span] = []
    column = begin = 0
    for start, end in pieces(BETWEEN_COLUMNS.join(columns), rules):
        while start > begin + len(columns[column]):
            begin += len(columns[column]) + len(BETWEEN_COLUMNS)
            column += 1
        found.append((column, start - begin, end - begin))
    return tuple(found)


def astray(columns: Sequence[str], found: Sequence[Span], rules: Rules) -> bool:
    """Whether a search may end elsewhere than at the word, so that a swap in this text must be searched for."""
    if not rules.searches:
        return False
    if any(MARK in column for column in columns) or (rules.segments and any(map(segments.chinese, columns))):
        return True
    last = 0
    for column, start, end in found if len(columns) > 1 else ():
        if column != last and columns[column][start:end] in MARK:
            return True
        last = column
    return False


def strange(new: str, rules: Rules) -> bool:
    """Whether what is put in may move the words around it."""
    if not rules.searches:
        return False
    if "SPLIT" in new or (rules.segments and segments.chinese(new)):
        return True
    return rules.keeps_endings and new != "" and not pieces(new, rules)  # "a b" with "-" for b is "a-"


def swap(
    columns: Sequence[str], words: Sequence[str], modified: Collection[int], index: int, new: str, rules: Rules
) -> tuple[tuple[str, ...], set[int], list[int]]:
    """The columns with word ``index`` replaced, the indices that count as modified then, and those that just became so."""
    text = MARK.join(columns)
    done: list[str] = []
    newly: list[int] = []
    marked, at, place = set(modified), 0, 0  # place: up to where the text is done
    for i, word in enumerate(words):
        put = new if i == index else word
        start = _find(word, text, place, rules)
        before, place = text[place:start], start + len(word)
        count = len(pieces(put, rules))
        grown = 0 if i != index else count - len(pieces(word, rules))
        if grown:
            marked = {m if m < i else m + grown for m in marked if m != i}
        if put != word:
            newly += range(at, at + count)
            marked |= set(newly)
        at += count
        if count == 0 and place < len(text):  # a deletion takes one space with it
            if i == 0:
                place += text.startswith(" ", place)
            else:
                before = before.removesuffix(" ")
        done += (before, put)
    return tuple("".join((*done, text[place:])).split(MARK)[: len(columns)]), marked, newly


def _find(word: str, text: str, place: int, rules: Rules) -> int:
    start = text.find(word, place)
    mark = text.find(MARK, place) if word in MARK and not rules.splits_blindly else -1
    if mark >= 0 and mark <= start < mark + len(MARK):
        past = text[place:].replace(MARK, "").find(word)
        start = place + past + len(MARK) if past >= 0 else -1
    if start < 0:
        raise TicketsError(
            f"{rules.name} itself fails on this text: it joins columns by {MARK} and then does not find the word {word!r}",
            hint="leave compat out for this package's own rules",
        )
    return start


def starts(text: str, words: Sequence[str], rules: Rules) -> list[int]:
    """Where every word begins, by searching the lower-cased text."""
    lower, found, after = text.lower(), [], 0
    for word in words:
        at = lower.find(word.lower(), after)
        after = at if rules.stuck else at + len(word)
        found.append(at)
    return found
