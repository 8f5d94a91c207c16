"""Names, texts and addresses as Trino's statements have them."""

from __future__ import annotations

LOCAL = "local://"


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def to_trino_url(url: str) -> str:
    """Return the address of a file or folder; Trino has a scheme of its own for those of its machine."""
    return url if "://" in url else LOCAL + url
