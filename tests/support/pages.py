"""Documents for tests, from text."""

from __future__ import annotations

from datetime import UTC, datetime

from pipelines.extract import Document
from pipelines.fetch import Page

URL = "http://shop.test/a/b.html"


def document(
    body: str | bytes, url: str = URL, content_type: str | None = "text/html", charset: str | None = None
) -> Document:
    data = body.encode() if isinstance(body, str) else body
    return Document(Page(url, url, 200, None, content_type, charset, data, datetime.now(UTC)))
