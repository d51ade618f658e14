"""Words that would like to become markup, break a file, or reorder what a reader sees."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "</style><script>alert(1)</script>",
    '"><svg onload=alert(1)> \' onmouseover=alert(1) x="',
    "<!-- --><![CDATA[ ]]> &lt;b&gt; &#60;i&#62;",
    "lone \ud800 surrogate \udfff",
    "nul \x00 bell \x07 escape \x1b[31m delete \x7f next \x85",
    "override \u202egnirts\u202c isolate \u2066x\u2069 mark \u200f \u061c",
    "javascript:alert(1) [bold red]markup[/] {braces} %s",
)
# control characters, lone surrogates, and what turns the direction of a line
ORDER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200f\u061c\u202a-\u202e\u2066-\u2069]")


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes; ``odd`` counts comments and other declarations."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.odd = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(sorted(name for name, _ in attrs))))

    handle_startendtag = handle_starttag

    def handle_comment(self, data: str) -> None:
        self.odd += 1

    unknown_decl = handle_pi = handle_comment
