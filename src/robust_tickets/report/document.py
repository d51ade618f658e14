"""An HTML file that stands alone, with its style and its script inside.

The content-security policy names the style and the script by their hashes and forbids everything else, so that no text, however
hostile, can load or run anything even if an escape were missed.
"""

from __future__ import annotations

import base64
import hashlib

from robust_tickets._version import __version__
from robust_tickets.report.markup import Html, tag


def document(title: str, style: str, script: str, *body: Html | None) -> str:
    """The whole file."""
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"robust-tickets {__version__}"),
        tag("title", f"{title} · robust tickets"),
        tag("style", Html(style)),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", *body, tag("script", Html(script))), lang="en") + "\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
