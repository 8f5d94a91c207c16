"""Pages that no parser gets through."""

from __future__ import annotations

import time

import psutil
import pytest

from pipelines.html import parsing
from pipelines.html.parsing import SlowPage
from tests.pipelines.html.pages import document

SLOW = b"<table><table></table>" + b"<div>" * 400 + b"</table>"


def test_a_page_that_would_take_minutes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_SECONDS", 1)
    before = psutil.Process().children()
    with pytest.raises(SlowPage, match="no parser gets through its HTML in 1 s"):
        document(SLOW * 1000)
    assert psutil.Process().children() == before


def test_what_is_done_to_it_before_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(html: bytes) -> bytes:
        end = time.process_time() + 4
        while time.process_time() < end:
            pass
        return html

    monkeypatch.setattr(parsing, "_SECONDS", 1)
    monkeypatch.setattr(parsing, "bounded", slow)
    with pytest.raises(SlowPage):
        document(b"<p>" * 20_000)


def test_what_cannot_even_be_gone_through_is_told_and_given_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(html: bytes) -> bytes:
        raise MemoryError("too large")

    monkeypatch.setattr(parsing, "bounded", failing)
    with pytest.raises(SlowPage):
        document(b"<p>" * 20_000)
    assert "MemoryError: too large" in capfd.readouterr().err


def test_what_only_looks_slow_is_parsed() -> None:
    before = psutil.Process().children()
    page = document(b"<ul>" + b"<li><b>x</b> y" * 100_000)
    assert len(page.root.select("li")) == 100_000
    assert psutil.Process().children() == before
