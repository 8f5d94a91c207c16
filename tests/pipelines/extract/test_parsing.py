"""Pages that no parser gets through."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from resource import RLIMIT_CPU, getrlimit, setrlimit
from signal import SIGKILL
from time import process_time

import psutil
import pytest
from selectolax.lexbor import LexborHTMLParser

from pipelines.extract import parsing
from pipelines.extract.parsing import SlowPage
from tests.support.pages import document

SLOW = b"<table><table></table>" + b"<div>" * 400 + b"</table>"
LOOKS_SLOW = b"<p>" * 20_000


def test_a_page_that_would_take_minutes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_SECONDS", 1)
    before = psutil.Process().children()
    with pytest.raises(SlowPage, match="its HTML takes more than 1 s to parse"):
        document(SLOW * 1000)
    assert psutil.Process().children() == before


def test_what_is_done_to_it_before_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(html: bytes) -> bytes:
        end = process_time() + 4
        while process_time() < end:
            pass
        return html

    monkeypatch.setattr(parsing, "_SECONDS", 1)
    monkeypatch.setattr(parsing, "bounded", slow)
    with pytest.raises(SlowPage):
        document(LOOKS_SLOW)


def test_what_fails_otherwise_is_not_told_as_slow(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(html: bytes) -> bytes:
        raise MemoryError("too large")

    monkeypatch.setattr(parsing, "bounded", failing)
    with pytest.raises(ChildProcessError, match="the process that tries out its HTML ended with status 1"):
        document(LOOKS_SLOW)
    assert "MemoryError: too large" in capfd.readouterr().err


def test_what_is_killed_otherwise_is_not_told_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(html: bytes) -> None:
        os.kill(os.getpid(), SIGKILL)

    monkeypatch.setattr(parsing, "bounded", killed)
    with pytest.raises(ChildProcessError, match="ended with signal 9"):
        document(LOOKS_SLOW)


def test_the_time_to_bound_a_page_grows_with_its_size_and_that_to_parse_it_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def noted(function: Callable[..., object]) -> Callable[..., object]:
        def noting(*args: object, **options: object) -> object:
            with (tmp_path / "limits").open("a") as limits:
                print(getrlimit(RLIMIT_CPU)[0], file=limits)
            return function(*args, **options)

        return noting

    monkeypatch.setattr(parsing, "process_time", lambda: 0.0)
    monkeypatch.setattr(parsing, "bounded", noted(parsing.bounded))
    monkeypatch.setattr(parsing, "LexborHTMLParser", noted(LexborHTMLParser))
    document(LOOKS_SLOW + b"x" * (16 << 20))
    bounding, trying, _ = (tmp_path / "limits").read_text().split()
    assert (bounding, trying) == ("37", "5")


def test_a_process_that_may_not_use_the_processor_for_so_long_parses_as_well() -> None:
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)  # who may not raise the limit
            setrlimit(RLIMIT_CPU, (4, 4))
            document(LOOKS_SLOW)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_only_looks_slow_is_parsed() -> None:
    before = psutil.Process().children()
    page = document(b"<ul>" + b"<li><b>x</b> y" * 100_000)
    assert len(page.root.select("li")) == 100_000
    assert psutil.Process().children() == before
