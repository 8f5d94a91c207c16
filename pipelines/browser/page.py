"""A page as the browser had it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.fetch import Page


@dataclass(slots=True)
class BrowserPage(Page):
    """`body` is the document as scripts and actions have left it, in UTF-8.

    `position` counts the snapshots of a trace that takes several; `values` are columns that its actions add.
    """

    position: int | None = None
    values: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
