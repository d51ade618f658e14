"""The environment of the pages of results: templates, style and script."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, PackageLoader

from robust_tickets.report.html import ENVIRONMENT, SCRIPT, STYLE, document

_LOADER = ChoiceLoader([PackageLoader("robust_tickets.reproduce"), PackageLoader("robust_tickets.report")])
PAGES = ENVIRONMENT.overlay(loader=_LOADER)
PARTS: Any = PAGES.get_template("parts.html.j2").module


def page(template: str, title: str, **context: Any) -> str:
    """A page of these results with their style and script."""
    own = "robust_tickets.reproduce"
    files = {"styles": (STYLE, (own, "page.css")), "scripts": (SCRIPT, (own, "page.js"))}
    return document(template, title, environment=PAGES, **files, **context)  # type: ignore[arg-type]
