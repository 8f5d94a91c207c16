"""What pages are read as: by their type, by their beginning, and XHTML, JSON and JSON-LD in their spellings."""

from __future__ import annotations

import pytest

from pipelines.extract.kinds import Kind, find_kind
from tests.support.cases import each_case
from tests.support.pages import document


@each_case(
    ("media_type", "body", "kind"),
    [
        (None, b" \n<!DOCTYPE html><p>", "html"),
        (None, b"\xef\xbb\xbf<HTML>", "html"),
        (None, "\ufeff<table >".encode("utf-16"), "html"),
        (None, b"<!-- x --><x>", "html"),
        (None, b"<article>", "text"),
        (None, b"<?xml version='1.0'?><html>", "xml"),
        (None, b'{"a": 1}', "text"),
        ("text/html", b'{"a": 1}', "html"),
        ("text/plain", b"<html>", "text"),
        ("application/xhtml+xml", b"", "xhtml"),
        ("application/vnd.api+json", b"", "json"),
        ("application/atom+xml", b"", "xml"),
        ("application/x-ndjson", b"", "json-lines"),
    ],
)
def test_the_type_decides_and_without_one_the_beginning(media_type: str | None, body: bytes, kind: Kind) -> None:
    assert find_kind(media_type, body, None) == kind


XHTML = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="de"><head><title>Caf&eacute; &amp; Co</title>
<script src="a.js"/><script type="application/ld+json">{"@type": "Thing", "name": "a &lt; b"}</script><base href="/b/"/>
<style/></head><body><p class="Lead">One<br/>two &lt;b&gt;</p><div/><a href="c d?q=é&amp;x=1">link</a>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0"><title>drawn</title></svg><pre>
 x</pre><!-- no --><textarea/><p>end</p></body></html>"""


@pytest.mark.parametrize("content_type", ["application/xhtml+xml", "text/xml", None])
def test_xhtml_is_parsed_as_xml_and_selected_as_html(content_type: str | None) -> None:
    page = document(XHTML, content_type=content_type)
    root = page.root
    assert (page.repaired, page.fault, page.is_html) == (None, None, True)
    assert [each.text() for each in root.select("P.Lead:matches(^One), p:last-child, head > title, pre")] == [
        "Café & Co",
        "One two <b>",
        "x",
        "end",
    ]
    assert [each.link() for each in root.select("a")] == ["http://shop.test/b/c%20d?q=%C3%A9&x=1"]
    assert [each.attr("href") for each in root.select("a")] == ["c d?q=é&x=1"]
    assert [*page.linked_data.find(None, None)] == [{"@type": "Thing", "name": "a < b"}]
    assert [each.attr("viewBox") for each in root.select_xpath("//svg")] == ["0"]
    assert root.html() == XHTML


def test_xhtml_that_is_hardly_xml_is_html() -> None:
    page = document("<html><body><p>One<p>Two &amp; three", content_type="application/xhtml+xml")
    assert [each.text() for each in page.root.select("p")] == ["One", "Two & three"]
    assert page.repaired == "its XML ends within <p>; it was read as HTML"
    page = document("<html><body><script src='a'/><p>a & b</p></body></html>", content_type="application/xhtml+xml")
    assert [each.text() for each in page.root.select("p")] == ["a & b"]
    assert str(page.repaired).startswith("its XML is not well-formed")


@each_case(
    ("type_", "found"),
    [
        ("application/ld+json", True),
        (" Application/LD+JSON ; charset=utf-8", True),
        ("application/ld+json;profile=x", True),
        ("application/ld+jsonx", False),
        ("text/ld+json", False),
    ],
)
def test_json_ld_has_parameters(type_: str, found: bool) -> None:
    page = document(f'<script type="{type_}">{{"name": "x"}}</script>')
    assert [*page.linked_data.find(None, None)] == ([{"name": "x"}] if found else [])


@each_case(
    ("body", "content_type", "names", "fault"),
    [
        ('{"n": 1}\n\n{"n": 2}\r\n', "application/x-ndjson", ["1", "2"], None),
        ('{"n": 1}', "application/jsonl", ["1"], None),
        ('{"n": 1}\n{"n": 2}', "application/json", ["1", "2"], None),
        ('{"n": 1}\n{"n": 2}', "text/plain", ["1", "2"], None),
        ('[{"n": 1}]', "application/json", ["1"], None),
        ('{"n": 1}\n{"n": ', "application/x-ndjson", [], "its JSON cannot be read: line 2, Expecting value"),
        ('{"n": 1}\n{"n": ', "application/json", [], "its JSON cannot be read: Extra data"),
        ('[{"n": 1}', "application/json", [], "its JSON cannot be read: "),
        ("<html>no</html>", "application/ld+json", [], "its JSON cannot be read: "),
        ("[" * 100_000, "application/json", [], "its JSON is nested too deep"),
        ("", "application/json", [], None),
        ("null", "application/json", [], None),
        ('{"n": ', "text/plain", [], None),
    ],
)
def test_json_in_lines_is_a_list_and_broken_json_a_fault(
    body: str, content_type: str, names: list[str], fault: str | None
) -> None:
    page = document(body, content_type=content_type)
    assert [each.text() for each in page.root.select("$[*].n")] == names
    assert str(page.fault).startswith(str(fault))
