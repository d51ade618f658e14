"""Words that would like to become markup, break a file, or reorder what a reader sees."""

from __future__ import annotations

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
