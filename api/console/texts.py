"""The texts of the console: `texts.yaml` has all that people read, by page or script and name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import yaml
from markupsafe import Markup

FILE = Path(__file__).with_name("texts.yaml")

Texts = Mapping[str, Mapping[str, str]]


def load_texts() -> tuple[Texts, Texts]:
    """Return the texts of pages, by page and name, and those of scripts, by script and name."""
    found = yaml.load(FILE.read_text("utf-8"), Loader=yaml.CSafeLoader)
    return found["pages"], found["scripts"]


_of_pages, OF_SCRIPTS = load_texts()
TEXT = SimpleNamespace(
    **{
        page: SimpleNamespace(**{name: Markup(value) for name, value in texts.items()})  # noqa: S704 - our own file
        for page, texts in _of_pages.items()
    }
)
"""`TEXT.PAGE.NAME`, whose `format` escapes what it is given."""
