"""CSS that browsers know and jsoup refuses or reads otherwise, and selectors on pages that are made to be slow."""

from __future__ import annotations

import subprocess
import sys
from types import FrameType

import pytest

from pipelines.extract import Element, SelectorError, compile_selector, filters
from pipelines.extract.grammar import parse_selector
from pipelines.extract.matching import Query
from pipelines.extract.text import get_text, normalize_text
from tests.support.pages import document

PAGE = """
<ul id=list><li id=l1 class="one x" title=foo>1 <li id=l2 class=two data-k=Alpha-12>2 <li id=l3 class="one x">3
<li id=l4 class=x title="foo i">4 <li id=l5 title="s">"5"</ul>
<ol id=other><li id=m1><b id=b>1</b><li id=m2 class=x>2</ol>
<a id=a1 href="x.PDF">A</a><a id=a2>B</a><link id=k href=y>
<input id=i1 type=checkbox checked required><input id=i2 type=text checked>
<select id=s><option id=o1>1<option id=o2 selected>2</select>
"""


def ids(elements: list[Element]) -> str:
    return " ".join(element.attrs().get("id", "?") for element in elements)


def found(selector: str) -> str:
    return ids(document(PAGE).root.select(selector))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ('[class~="one"]', "l1 l3"),
        ("[class~='one']", "l1 l3"),
        ("[class~=one]", "l1 l3"),
        ("[class~=ONE]", ""),
        ('[class~="ONE" i]', "l1 l3"),
        ("[class~='^two|one$']", "l2"),
        ("""[class~="one|'"]""", "l1 l3"),
        ("[class~='one'|'two']", ""),
        ('[href$=".pdf" i]', "a1"),
        ('[href$=".pdf"i]', "a1"),
        ("[href$=.pdf i]", "a1"),
        ('[href$=".pdf" s]', ""),
        ('[href$=".PDF" S]', "a1"),
        ("[data-k=alpha-12 i]", "l2"),
        ("[data-k=alpha-12 I]", "l2"),
        ("[data-k=alpha-12 s]", ""),
        ("li[data-k!=Alpha-12 s]", "l1 l3 l4 l5 m1 m2"),
        ("li[data-k!=alpha-12 i]", "l1 l3 l4 l5 m1 m2"),
        ("li:not([data-k='alpha-12' s])", "l1 l2 l3 l4 l5 m1 m2"),
        ("[title='foo i']", "l4"),
        ("[title=s]", "l5"),
        ('[abs:href$=".pdf" i]', "a1"),
        ('[abs:href$=".pdf" s]', ""),
        ('[abs:href$=".PDF" s]', "a1"),
        ("[title=' foo']", ""),
        ("[data-k|=alpha]", "l2"),
        ("[data-k|=alpha s]", ""),
        ("[data-k |= 'Alpha' s]", "l2"),
        ("[data-k|=Alp]", ""),
        ("[data-k|=alpha-12]", "l2"),
        # pseudo-classes of CSS that jsoup does not have
        ("li:where(.one, .two)", "l1 l2 l3"),
        ("ul > :where(.one) + :where(.two)", "l2"),
        (":checked", "i1 o2"),
        ("input:not(:checked)", "i2"),
        (":required", "i1"),
        ("input:optional, select:optional", "i2 s"),
        (":any-link", "a1"),
        (":link", "a1"),
        ("li:nth-child(2 of .x)", "l3"),
        ("li:nth-child(2 of .x) + li", "l4"),
        (":nth-child(odd of li.x)", "l1 l4 m2"),
        ("li:nth-last-child(1 of :not(.x))", "l5 m1"),
        ("ul li:nth-last-child(2 of [title^='FOO' i]):not(.y) ~ li", "l2 l3 l4 l5"),
        # names of pseudo-classes in any case
        ("li:NTH-CHILD(2)", "l2 m2"),
        ("li:nth-child(2 OF .x)", "l3"),
        ("ul > LI:Not(.x)", "l2 l5"),
        ("li:Has(b)", "m1"),
        ("li:EQ(0)", "l1 m1"),
        ("li:GT(3)", "l5"),
        ("b:Contains(1)", "b"),
        ("li:CONTAINSOWN(2)", "l2 m2"),
        ("li:MatchesOwn(^2)", "l2 m2"),
        (":ROOT li:First-Child", "l1 m1"),
        ("a:Empty", ""),
    ],
)
def test_attributes_and_pseudo_classes_are_those_of_css(selector: str, expected: str) -> None:
    assert found(selector) == expected


def test_quotes_in_contains_are_text() -> None:
    assert (found('li:contains("5")'), found('li:contains("1")'), found("li:contains(5)")) == ("l5", "", "l5")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (":scope", ""),
        (":scope > li", "l1 l2 l3 l4 l5"),
        (":Scope .one", "l1 l3"),
        ("ul:scope > .two", "l2"),
        ("ol:scope > li", ""),
        (":scope > .one ~ li, .one", "l1 l2 l3 l4 l5"),
        ("li:not(:scope > .x)", "l2 l5"),
        ("li:is(:scope > .x) + .two", "l2"),
        ("body :scope li", ""),
        (":scope + ol", ""),
    ],
)
def test_scope_is_the_element_that_is_searched(selector: str, expected: str) -> None:
    (element,) = document(PAGE).root.select("#list")
    assert ids(element.select(selector)) == expected
    first = element.first(selector)
    assert ids([first] if first else []) == expected[:2]


def test_the_scope_of_a_page_is_its_root() -> None:
    assert (found(":scope > body > ul"), found(":scope > ul")) == ("list", "")
    assert document(PAGE).root.first(":scope") is not None


TEMPLATES = """
<div id=host>dark<template id=t1 shadowrootmode=open><p class=a id=a>in <b id=b>shadow</b></p></template> light</div>
<Template id=t2><tr id=tr><td id=td>cell</td></tr><template id=t3><i id=deep>deep</i></template></Template>
<p id=p>last</p>
"""


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("p, td", "a td p"),
        ("template", "t1 t2 t3"),
        ("#host > template[shadowrootmode] > p.a > b", "b"),
        ("template template > i", "deep"),
        ("template > tr + template", "t3"),
        ("p:first-child", "a"),
        ("b:contains(shadow)", "b"),
        ("div:contains(in shadow)", "host"),
        ("div:contains(cell), body > *:contains(cell)", "t2"),
        ("div:has(b)", "host"),
    ],
)
def test_the_content_of_templates_is_selected(selector: str, expected: str) -> None:
    root = document(TEMPLATES).root
    assert ids(root.select(selector)) == expected
    assert [ids([each]) for each in (root.first(selector),) if each] == [expected.split()[0]]


def test_a_shadow_tree_is_seen_and_other_templates_are_not() -> None:
    root = document(TEMPLATES).root
    assert root.text() == "dark in shadow light last"
    assert [each.text() for each in root.select("template, td")] == ["in shadow", "cell", "cell", "deep"]
    host = root.first("#host")
    assert host is not None
    assert host.html() == TEMPLATES.strip().splitlines()[0].replace("=host>", '="host">').replace(
        "id=t1 shadowrootmode=open", 'id="t1" shadowrootmode="open"'
    ).replace("class=a id=a", 'class="a" id="a"').replace("id=b>", 'id="b">')


def test_many_nested_templates_are_read_at_once() -> None:
    assert len(document("<template>" * 4000 + "<b>x").root.select("template > b")) == 1


@pytest.mark.parametrize(
    ("selector", "sentence"),
    [
        ("p || b", "'|' at character 3 is not expected there"),
        ("p||b", "'|' at character 2 is not expected there"),
        ("|p", "'|' at character 1 is not expected there"),
        ("ul:has(:scope > li)", "inside ':has()', ':scope' is another element in CSS than in jsoup"),
        ("ul:has(:is(:scope))", "inside ':has()', ':scope' is another element in CSS than in jsoup"),
        ("p::text", "there is no name of a pseudo-class after ':'"),
        ("p:nth-child(1 of :contains(x))", "(… of :contains(x))' counts by one name, id, class"),
        ("p:nth-child(1 of .x, .y)", "(… of .x, .y)' counts by one name"),
        ("p:nth-child(1 of a > b)", "counts by one name"),
        ("p:nth-child(1 of )", "the selector is empty"),
        ("p:nth-of-type(1 of .x)", "'1 of .x' is not a position"),
        (":enabled", "':enabled' is not a pseudo-class that is known"),
        (":disabled", "':disabled' is not a pseudo-class that is known"),
        (":read-only", "':read-only' is not a pseudo-class that is known"),
        (":placeholder-shown", "':placeholder-shown' is not a pseudo-class that is known"),
        ("a:hover", "':hover' is not a pseudo-class that is known"),
    ],
)
def test_unknown_syntax_is_refused(selector: str, sentence: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(selector)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("li:contains(2) ~ li", "l3 l4 l5"),
        ("li:contains(2) ~ .x", "l3 l4"),
        ("li:has(~ .two)", "l1"),
        ("li:has(~ .x)", "l1 l2 l3 m1"),
        ("ul:has(~ ol), ol:has(~ ul)", "list"),
        ("#list:has(~ link, > .y)", "list"),
        ("*:has(> b, li)", "? ? list other m1"),
        ("*:has(> #b, #b)", "? ? other m1"),
    ],
)
def test_siblings_before_and_after(selector: str, expected: str) -> None:
    assert found(selector) == expected


def steps(selector: str, size: int) -> int:
    """How many functions are called to find `selector` among `size` siblings, lexbor's among them."""
    page = document("<h2>X</h2>" + "<p>a</p>" * size).root
    query, count = compile_selector(selector), 0
    assert isinstance(query, Query)

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        page.select(query)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("selector", ["h2:contains(X) ~ p", "h2:has(~ p)", "p:has(~ p)", "p:contains(a) ~ p"])
def test_twice_as_many_siblings_take_twice_the_steps(selector: str) -> None:
    assert steps(selector, 800) < 2.2 * steps(selector, 400)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<b>fir</b>st <i>word</i>", "FIRST WORD"),
        ("<p>first</p>word", "first word"),
        ("first&nbsp; \n<br>word", "first word"),
        ("fir\u200bst wo\xadrd", "first word"),
        ("<pre>first\n word</pre>", "first\n word"),
        ("<svg><style><g>first</g></style></svg>", "first"),
        ("<textarea>first</textarea>", "first"),
        ("<b>ΟΔΟΣ</b>", "οδος"),
        ("<b>İstanbul</b> straße", "İSTANBUL straße"),
    ],
)
def test_contains_matches_the_text(html: str, text: str) -> None:
    page = document(f"<meta charset=utf-8><div id=d>{html}</div>").root
    element = page.first("#d")
    expected = normalize_text(text).lower() in element.text().lower()
    assert len(page.select(f"#d:contains({text})")) == expected


def test_contains_reads_no_text_without_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(filters, "get_visible_text", lambda node: read.append(node) or get_text(node))  # pyright: ignore
    page = document("<div>" * 100 + "<i>a</i> " * 100).root
    assert (page.select("div:contains(zz)"), read) == ([], [])
    assert len(page.select("div:contains(a a)")) == len(read) == 100


@pytest.mark.parametrize(
    "selector", ["ж" * 1_000_000, "\\41" * 300_000, f"[a{' ' * 1_000_000}b]", f":nth-child(2n{' ' * 1_000_000}of b)"]
)
def test_however_long_a_name_or_a_gap_it_is_read_once(selector: str) -> None:
    assert parse_selector(selector).selectors


def test_a_selector_has_a_greatest_length() -> None:
    assert compile_selector("a" * 10_000)
    for selector in ("a" * 10_001, "$." + "a" * 9_999):
        with pytest.raises(SelectorError, match="it has 10,001 characters, and may have 10,000"):
            compile_selector(selector)


def test_a_position_out_of_range_is_an_error() -> None:
    with pytest.raises(SelectorError, match="needs a number, counted from 0"):
        compile_selector(f":gt({'9' * 5000})")


SEARCH_IN_THREADS = """
import gc, threading, time
from tests.support.pages import document

gc.callbacks.append(lambda phase, info: time.sleep(1e-5))  # as a finalizer in Python: other threads run
gc.set_threshold(20)
counts = []

def search():
    root = document("<p class=a>x</p>" * 50).root
    counts.extend(len(root.select("p.a")) + (root.first("p") is not None) for _ in range(200))

threads = [threading.Thread(target=search) for _ in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(counts), {*counts})
"""


def test_threads_search_at_once_while_garbage_is_collected() -> None:
    run = subprocess.run([sys.executable, "-c", SEARCH_IN_THREADS], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "1200 {51}\n")
