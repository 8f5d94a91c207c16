"""Regular expressions in selectors have a time limit."""

from __future__ import annotations

import time

import pytest

from pipelines.html import SelectorError, SlowPattern, compile_selector
from pipelines.html.patterns import Pattern
from pipelines.rows import Fetched, Row
from pipelines.stages.links import WgetJoin
from tests.pipelines.html.test_jsonpath import page

CATASTROPHIC = "p:matches((a|aa)+$)"


def test_a_catastrophic_pattern_ends_after_a_second() -> None:
    document = page(f"<p>{'a' * 60}!</p>", "text/html")
    began = time.process_time()
    with pytest.raises(SlowPattern, match=r"the pattern .* takes more than 1 s on a text of 61 characters"):
        document.root.select(CATASTROPHIC)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("selector", [CATASTROPHIC, "a[href~=^(x|x)*y]", "p:matchesOwn((?i)PRICE: \\d+)"])
def test_ordinary_texts_pass(selector: str) -> None:
    body = "<p>aaa</p><a href=xxy>l</a><p>price: 12</p>"
    assert len(page(body, "text/html").root.select(selector)) == 1


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"(?<y>\d{4})-\k<y>", "2026-2026", True),
        (r"(?<=€ )\d+(?!\d|x)", "€ 12", True),
        (r"^\w+$", "é", False),
        (r"a++b", "aab", True),
        (r"end\z", "the end", True),
    ],
)
def test_what_java_writes(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).search(text) is found


@pytest.mark.parametrize("selector", ["p:matches(()", "a[href~=*]", f"p:matches({'(' * 5000}a{')' * 5000})"])
def test_one_that_does_not_parse_is_told(selector: str) -> None:
    with pytest.raises(SelectorError):
        compile_selector(selector)


def test_a_slow_pattern_gives_a_link_that_says_so() -> None:
    document = page(f"<p>{'a' * 60}!</p>", "text/html")
    row = Row({}, (0,), Fetched.of(document.page), document.root)
    (link,) = WgetJoin.model_validate({"selector": CATASTROPHIC}).worker()(row)
    assert link.url is None
    assert "takes more than 1 s" in (link.error or "")
