"""Trials on the server: what they refuse and leave out, pages without anything that acts, and proposed selectors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import pytest

from core.errors import BadInput
from core.integrations.trials import service
from core.integrations.trials.markup import MAX_CHARACTERS, build_markup, number_elements
from core.integrations.trials.messages import ProposalRequest, TrialRequest
from core.integrations.trials.proposals import propose_selectors
from core.integrations.trials.worker import try_pipeline
from pipelines.extract import Document, HtmlElement
from pipelines.fetch import Page
from pipelines.pipeline import Pipeline
from tests.support.site import Site, serve_site

SHELF = """<h1 id="shelf">Shelf</h1><ul>
<li class="item"><b class="title">kettle</b> <span class="price">19.50</span></li>
<li class="item"><b class="title">mug</b> <span class="price">4</span></li></ul><a href="/other">more</a>"""
DRAFT = "fetch: {{url: '{url}'}}\npipeline:\n  - stage: extract\n    args:\n      - {{selector: h1, as: title}}\n"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.serve({"/": SHELF, "/other": "<h1>Other</h1>"})
        yield site


def make_request(pipeline: str | None, **changes: object) -> TrialRequest:
    known = {"url": None, "parameters": {}, "max_rows": 20, "max_pages": 5, "own_endpoints": (), "user_agent": "test"}
    allowed = {"allow_networks": ("127.0.0.1/32",)}
    return TrialRequest.model_validate({"pipeline": pipeline, **known, **allowed, **changes})


def show(html: str) -> str:
    page = Page("http://x.test/", "http://x.test/", 200, None, "text/html", "utf-8", html.encode(), datetime.now(UTC))
    root = Document(page).root
    assert isinstance(root, HtmlElement)
    return build_markup(root, number_elements(root))


def propose(html: str, element: int, pipeline: str, line: int | None = None):
    return propose_selectors(ProposalRequest(html=show(html), element=element, pipeline=pipeline, line=line)).proposals


def find_number(html: str, start: str) -> int:
    shown = show(html)
    before = shown[: shown.index(start)]
    return int(before[before.rindex(" n=") + 3 :].split(">")[0].split(" ")[0])


def test_rows_a_page_and_the_elements_of_its_selectors(site: Site):
    answer = try_pipeline(make_request(DRAFT.format(url=site.url)))
    assert (answer.problem, answer.columns, answer.rows) == (None, ["title"], [{"title": "Shelf"}])
    assert answer.shown
    assert answer.shown.html
    (found,) = answer.selectors
    assert (found.line, found.selector, len(found.elements)) == (5, "h1", 1)
    assert f'<h1 n={found.elements[0]} id="shelf">' in answer.shown.html


def test_another_page_than_that_of_the_rows_is_shown(site: Site):
    answer = try_pipeline(make_request(DRAFT.format(url=site.url), url=f"{site.url}/other"))
    assert answer.rows == [{"title": "Shelf"}]
    assert answer.shown
    assert "Other" in (answer.shown.html or "")


def test_a_url_alone_makes_a_pipeline(site: Site):
    answer = try_pipeline(make_request(None, url=site.url))
    assert site.url in answer.pipeline
    assert answer.shown
    assert Pipeline.from_yaml(answer.pipeline)


@pytest.mark.parametrize(
    "stage",
    [
        "{stage: load_csv, args: [/etc/passwd]}",
        "{stage: visitJoin, args: [a]}",
        "{stage: lookup, args: [{path: /etc/passwd, on: title}]}",
        "{stage: download, args: [http://127.0.0.1/]}",
    ],
)
def test_stages_that_need_files_or_a_browser_are_left_out(site: Site, stage: str):
    answer = try_pipeline(make_request(DRAFT.format(url=site.url) + f"  - {stage}\n"))
    assert "root:" not in answer.model_dump_json()
    assert answer.problem or any("left out of a trial" in note for note in answer.notes)


def test_private_addresses_are_refused(site: Site):
    answer = try_pipeline(make_request(DRAFT.format(url=site.url), allow_networks=()))
    assert answer.rows == []
    assert any("refused" in note for note in answer.notes)


def test_a_process_that_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "MAX_SECONDS", 0.01)
    with pytest.raises(BadInput, match="took too long"):
        service.ask_process(tmp_path, make_request(None, url="http://127.0.0.1:9/"), service.TriedPipeline)


@pytest.mark.parametrize(
    "html",
    [
        "<script>ran()</script>",
        "<p onclick=ran() style='x:url(ran())'>x</p>",
        "<a href='javascript:ran()'>x</a>",
        "<svg><script>ran()</script></svg><math><mtext><script>ran()</script></mtext></math>",
        "<iframe srcdoc='<script>ran()</script>'></iframe><object data=ran()></object>",
        "<noscript><script>ran()</script></noscript>",
        "<template><script>ran()</script></template><xmp><script>ran()</script></xmp>",
        "<meta http-equiv=refresh content='0;url=javascript:ran()'><base href=ran()>",
        "<plaintext><script>ran()</script>",
    ],
)
def test_nothing_that_acts_is_shown(html: str):
    assert "ran()" not in show(html)


@pytest.mark.parametrize("text", ["<script>1</script>", "</title><b>", '"><img src=x>', "&lt;b&gt;"])
def test_texts_and_attributes_stay_texts(text: str):
    shown = show(f"<p title='{escape(text)}'>{escape(text)}</p><textarea>{escape(text)}</textarea>")
    assert escape(text, quote=False) in shown
    assert "<script" not in shown
    assert "<img" not in shown


def test_deep_and_long_pages_are_cut():
    assert show("<div>" * 5_000 + "end").count("<div") >= 100
    assert len(show("<p>word</p>" * 200_000)) < 2 * MAX_CHARACTERS


def test_stable_selectors_come_first():
    found = propose(SHELF, find_number(SHELF, ">Shelf"), DRAFT.format(url="http://x.test/"))
    assert (found[0].selector, found[0].texts) == ("#shelf", ["Shelf"])
    assert [each.stability for each in found] == sorted((each.stability for each in found), reverse=True)


def test_the_text_of_another_cell_is_no_first_choice():
    found = propose(SHELF, find_number(SHELF, ' class="price"'), DRAFT.format(url="u"))
    assert found[0].selector == "span.price"
    assert "containsOwn" not in "".join(each.selector for each in found[:3])


def test_a_selector_shows_all_that_it_finds_and_enters_the_pipeline():
    number = find_number(SHELF, ' class="price"')
    by_class = next(each for each in propose(SHELF, number, DRAFT.format(url="u")) if each.selector == "span.price")
    assert (by_class.texts, len(by_class.elements)) == (["19.50", "4"], 2)
    assert by_class.pipeline.endswith("      - {selector: span.price, method: text, as: price}\n")
    assert Pipeline.from_yaml(by_class.pipeline.replace("'u'", "http://x.test/"))
    replaced = next(each for each in propose(SHELF, number, DRAFT.format(url="u"), 5) if each.selector == "span.price")
    assert "{selector: span.price, as: title}" in replaced.pipeline


SEGMENTS = DRAFT.replace(
    "pipeline:\n", "pipeline:\n  - {{stage: flatSelect, args: [li.item, [{{selector: b, as: b}}]]}}\n"
)


def find_rows(pipeline: str, selector: str, line: int | None = None) -> list[str | None]:
    number = find_number(SHELF, ' class="price"')
    return next(each.rows for each in propose(SHELF, number, pipeline, line) if each.selector == selector)


def test_proposals_have_the_values_of_the_rows_that_they_make():
    page, segments = DRAFT.format(url="u"), SEGMENTS.format(url="u")
    assert find_rows(page, "span.price") == ["19.50"]  # one row for the page
    assert find_rows(segments, "span.price") == ["19.50", "4"]
    assert find_rows(segments, "span.price", 3) == ["19.50", "4"]  # elements become rows
    assert find_rows(segments, "span.price", 6) == ["19.50", "4"]
    joined = segments.replace("  - stage: extract", "  - {stage: wgetJoin, args: [a]}\n  - stage: extract")
    assert find_rows(joined, "span.price") == ["19.50"]
    assert find_rows(segments.replace("li.item", "li.none"), "span.price") == []


def test_a_selector_that_finds_nothing_in_the_rows_is_no_first_choice():
    found = propose(SHELF, find_number(SHELF, ">Shelf"), SEGMENTS.format(url="u"))
    assert {value for each in found for value in each.rows} == {None}
    price = propose(SHELF, find_number(SHELF, ' class="price"'), SEGMENTS.format(url="u"))
    assert all(price[0].rows)
    assert [any(each.rows) for each in price] == sorted((any(each.rows) for each in price), reverse=True)


def test_an_unknown_element_is_a_problem():
    request = ProposalRequest(html=show(SHELF), element=9_999, pipeline=DRAFT.format(url="u"), line=None)
    assert propose_selectors(request).problem
