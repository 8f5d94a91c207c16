"""Regular expressions in selectors have a time limit."""

from __future__ import annotations

import time

import pytest

from pipelines.extract import SelectorError, SlowPattern, compile_selector
from pipelines.extract.patterns import Pattern, Searched
from pipelines.extract.rows import Fetched, Row
from pipelines.stages.links import WgetJoin
from tests.pipelines.extract.test_jsonpath import page
from tests.support.tools import TOOLS

CATASTROPHIC = "p:matches((a|aa)+$)"


@pytest.mark.long
def test_a_catastrophic_pattern_ends_after_a_second() -> None:
    document = page(f"<p>{'a' * 60}!</p>", "text/html")
    began = time.process_time()
    with pytest.raises(SlowPattern, match=r"the pattern .* takes more than 1 s on the page"):
        document.root.select(CATASTROPHIC)
    assert time.process_time() - began < 5


class Clock:
    """A quarter of a second goes by between two looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


@pytest.mark.parametrize(
    "selector",
    ["p:matches(.)", "p:matchesWholeOwnText(.)", "p[title~=.]", "body:has(p:matches(x), i)", "p:not(p:matches(x))"],
)
def test_the_second_is_for_all_elements_of_a_page(selector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.extract.patterns.time.process_time", Clock())
    few, many = (page("<p title=a>a</p>" * number, "text/html").root for number in (3, 5))
    few.select(selector)
    with pytest.raises(SlowPattern):
        many.select(selector)


def test_segments_of_a_page_share_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.extract.patterns.time.process_time", Clock())
    segments = page("<p><b>a</b></p>" * 5, "text/html").root.select("p")
    for segment in segments[:4]:
        assert segment.first("b:matches(.)")
    with pytest.raises(SlowPattern):
        segments[4].first("b:matches(.)")


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
def test_patterns_in_javas_syntax(pattern: str, text: str, found: bool) -> None:
    searched: Searched = {}
    assert bool(Pattern(pattern).limit_to_page(searched)(text)) is found


@pytest.mark.parametrize("selector", ["p:matches(()", "a[href~=*]", f"p:matches({'(' * 4000}a{')' * 4000})"])
def test_an_invalid_pattern_is_an_error(selector: str) -> None:
    with pytest.raises(SelectorError):
        compile_selector(selector)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:(?:(?:a{999}){999}){999}){999}",
        "(?:(?:a{2000,}) *){0002000}",
        "(?:a{1000}(?#)){1000}",
        "(?:" + "(?:(?:a{2}){2})" * 500 + "){900}",
        "(?ix)(?:a{1 0 0 0}) #\n {10 00}",
        "(a{1000}){1000}",
        "(?:a{1000}(?i)){1000}",
        "((a{1000})(?i)){1000}",
        "(a{1000})(?#[){1000}",
        "(?:[[:alpha:](]a{1000}[)]){1000}",
        "(?:[](]a{1000}[^])]){1000}",
        "(?:\\(a{1000}){1000}",
        "(?:a{1000}){e<=0}{1000}",
        "(?x)(?-x:#(?:a{1000}){1000})",
        "(?V1)(?:[[(]x]a{1000}[)]){1000}",
    ],
)
def test_an_expression_of_endless_output_is_an_error(pattern: str) -> None:
    with pytest.raises(SelectorError, match=r"does not parse: .*count"):
        compile_selector(f"p:matches({pattern})")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^" + "(?:.{3}){4}" * 7 + "$", "a" * 84),
        ("(a{2}){3}(b{2}){3}(c){5}(d){7}(e){9}", "aaaaaabbbbbbcccccdddddddeeeeeeeee"),
        ("|".join(["(?:a{4}){4}"] * 20), "a" * 16),
        (r"\({500}\){500}" * 2, ("(" * 500 + ")" * 500) * 2),
        ("[({500}]{500}[)]{500}" * 2, ("(" * 500 + ")" * 500) * 2),
        (r"[[:digit:](]{500}\p{L}{500}" * 2, ("1" * 500 + "a" * 500) * 2),
        ("a(?#({900}b{900}){900}", "a" * 900),
        (r"(?x) \d{4} [ ] (?: [a-z] {2} ) { 3 }  # ({900})", "2026 abcdef"),
    ],
)
def test_counts_are_multiplied_only_where_one_is_within_another(pattern: str, text: str) -> None:
    found = Pattern(pattern).limit_to_page({})
    assert found(text)
    assert not found(text[1:])


@pytest.mark.long
def test_a_slow_pattern_gives_a_link_that_says_so() -> None:
    document = page(f"<p>{'a' * 60}!</p>", "text/html")
    row = Row({}, (0,), Fetched.from_page(document.page), document.root)
    (link,) = WgetJoin.model_validate({"selector": CATASTROPHIC}).work(TOOLS)(row)
    assert link.url is None
    assert "takes more than 1 s" in (link.error or "")
