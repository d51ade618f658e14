"""HTML that is escaped by construction: ``tag`` escapes every child and attribute that is not already ``Html``.

Texts come from data sets and attackers. ``clean`` makes what cannot be shown visible instead of passing it on: lone surrogates would
break the file's UTF-8, control characters its parsing, and direction overrides would reorder what the reader sees.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from robust_tickets.progress import clean

_VOID = {"meta", "br", "hr", "link", "input", "rect", "line", "circle", "path", "polygon", "use", "wbr"}


class Html(str):
    """A piece of finished markup; templates know it by ``__html__``."""

    __slots__ = ()

    def __html__(self) -> Html:
        return self


def escape(value: object) -> Html:
    """``value`` as HTML: finished markup stays, anything else is cleaned and escaped."""
    return Html(value if hasattr(value, "__html__") else html.escape(clean(value), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    return Html(between.join(escape(part) for part in parts if part is not None))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. ``class_`` is class, other underscores are hyphens; None and False leave an attribute out, True writes it bare."""
    written = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {key}")
        elif value is not None and value is not False:
            written.append(f' {key}="{escape(short(value))}"')
    head = f"<{name}{''.join(written)}"
    if name in _VOID and not children:
        return Html(head + ("/>" if name not in ("meta", "br", "hr", "link", "input", "wbr") else ">"))
    return Html(f"{head}>{join(children)}</{name}>")


def scroll(label: str, body: Html) -> Html:
    """A box that scrolls sideways by itself where ``body`` is too wide; reached by keyboard, so it says what it is."""
    return tag("div", body, class_="scroll", tabindex="0", role="region", aria_label=label)


def short(value: object) -> object:
    """Coordinates need no more than two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
