"""The main part of a page as Markdown: what is around it goes, and the text stays, however it is wrapped."""

from __future__ import annotations

import pytest

from pipelines.extract.clean_text import html_to_markdown
from pipelines.extract.patterns import SelectorFailed

HEADLINE = "<h1>Title</h1>"
PARAGRAPHS = "".join(f"<p>Sentence {n} of a text about lamps, which goes on.</p>" for n in range(9))
LINES = PARAGRAPHS.replace("<p>", "").replace("</p>", "<br>")
TEXT = HEADLINE + PARAGRAPHS
MENU = "<ul>" + "".join(f"<li><a href=/{n}>An entry of the menu, number {n}</a></li>" for n in range(40)) + "</ul>"
DECLARED = '<head><meta property="og:type" content="article"></head>'
OTHER = "<h2>Other</h2>" + "".join(f"<p>Another text about other rooms, number {n}, goes on.</p>" for n in range(10))


@pytest.mark.parametrize(
    "page",
    [
        f"<form id=aspnet>{MENU}<div>{TEXT}</div></form>",
        f"<div id=container>{MENU}<div>{TEXT}</div>{MENU}{MENU}</div>",
        f"<div>{MENU}</div><div class='entry-content read-more'>{TEXT}</div><div><span>{'word ' * 700}</span></div>",
        f"<div><div>{TEXT}</div><div><span>Shown in other rooms.</span></div></div>",
        f"<article>{TEXT}</article><article>{OTHER}</article>",
        f"<main>{TEXT.replace('</h1>', '</h1><div itemprop=articleBody>')}</div>{OTHER}{OTHER}</main>",
        f"<main>{TEXT}<a href='/share?title=other rooms'><i></i></a><div class='author-bio'>{OTHER[:60]}</div></main>",
        f"<div><div>{TEXT}</div><div class=more>{OTHER[:200]}</div></div>",
        f"<div><h1>Shop</h1><p>{OTHER[:70]}</p></div><div>{TEXT}</div><div class=end>{OTHER[:70]}</div>",
        f"<div>{HEADLINE}<div class=pictures>{OTHER[:120]}</div><div>{PARAGRAPHS}</div></div>",
        f"<article>{TEXT}</article><article><article>{OTHER}</article><article>{OTHER}</article></article>",
        f"<div>{TEXT}<div class='PromoBox'>{OTHER[:60]}</div></div>",
        f"<div>{HEADLINE}<div>{LINES}</div><div>{OTHER[:200]}</div></div>",
    ],
    ids=[
        "in a form",
        "beside large menus",
        "in a block with the name of a button",
        "beside a block without prose",
        "before another article",
        "in the declared body before others",
        "before icons and the author",
        "before a block with little prose",
        "with a headline of its own",
        "behind captions",
        "before an article of other articles",
        "beside a block named in camel case",
        "with line breaks for paragraphs",
    ],
)
def test_the_text_of_a_page_stays(page: str) -> None:
    found = html_to_markdown(f"<html>{DECLARED}<body>{page}</body></html>", "", is_whole=True) or ""
    assert found.startswith("# Title")
    assert all(f"Sentence {n} of" in found for n in range(9))
    assert "entry of the menu" not in found
    assert "other rooms" not in found


def test_text_in_blocks_stays_beside_the_one_paragraph() -> None:
    blocks = "".join(f"<div>Sentence {n} of a text about lamps.</div>" for n in range(9))
    found = html_to_markdown(f"<body><div>{blocks}<div><p>One paragraph.</p></div></div></body>", "", is_whole=True)
    assert found
    assert "Sentence 8" in found


def test_cells_code_and_items_stay_beside_the_prose() -> None:
    parts = (
        "<ul><li>Steel arm</li></ul>",
        "<table><tr><td>Weight</td><td>1.2 kg</td></tr></table>",
        "<pre>lamp.on()</pre>",
        "<dl><dt>Bulb</dt><dd>LED</dd></dl>",
    )
    blocks = "".join(f"<div id=part{n}>{part}</div>" for n, part in enumerate(parts))
    page = (
        f"<body><div class=info>{HEADLINE}</div><div class=price>49.00 EUR</div><div>{PARAGRAPHS}</div>{blocks}</body>"
    )
    found = html_to_markdown(page, "", is_whole=True) or ""
    assert all(
        part in found for part in ("Title", "49.00 EUR", "Sentence 8", "Steel arm", "1.2 kg", "lamp.on()", "LED")
    )


@pytest.mark.parametrize("head", ["", DECLARED])
def test_blocks_of_a_system_that_names_all_of_them_alike_stay(head: str) -> None:
    parts = (HEADLINE, *(f"<h2>Part {n}</h2><p>Sentence {n} of a text about lamps.</p>" for n in range(9)))
    blocks = "".join(f"<div class='block widget'>{part}</div>" for part in parts)
    page = f"{head}<body><div>{blocks}<div class=share>Tell the other rooms</div></div></body>"
    found = html_to_markdown(page, "", is_whole=True) or ""
    assert found.startswith("# Title")
    assert all(f"## Part {n}\n\nSentence {n} of" in found for n in range(9))
    assert "other rooms" not in found


@pytest.mark.parametrize(
    "part",
    [
        "<section id=comments><h2>A Part</h2>{}</section>",
        "<div><h2 id=print>A Part</h2>{}</div>",
        "<dl><dt id=os.search>A Part</dt><dd>{}</dd></dl>",
        "<aside>A Part: {}</aside>",
        "<div class=print:block>A Part: {}</div>",
        "<table class=widget><tr><td>A Part</td><td>{}</td></tr></table>",
    ],
)
def test_a_part_of_the_text_stays_whatever_it_is_about(part: str) -> None:
    page = (
        f"<body><div role=main>{TEXT}{part.format('A remark.')}<aside><a href=/>In other rooms</a></aside></div></body>"
    )
    found = html_to_markdown(page, "", is_whole=True) or ""
    assert "A Part" in found
    assert "A remark." in found
    assert "other rooms" not in found


def test_comments_of_an_article_go_however_many_they_are() -> None:
    comments = "".join(f"<div class=comment><p>A remark of {n}, from other rooms.</p></div>" for n in range(30))
    assert "other rooms" not in (html_to_markdown(f"{DECLARED}<body>{TEXT}{comments}</body>", "", is_whole=True) or "")


def test_sections_made_alike_are_one_text() -> None:
    page = f"<body><main>{HEADLINE}<section>{PARAGRAPHS}</section><section>{OTHER[:120]}</section></main></body>"
    assert "Another text" in (html_to_markdown(page, "", is_whole=True) or "")


def test_a_short_line_between_headline_and_text_stays_unless_the_page_says_that_it_is_an_article() -> None:
    page = f"<body><div>{HEADLINE}<div>49.00 EUR</div><div>{PARAGRAPHS}</div></div></body>"
    assert "49.00 EUR" in (html_to_markdown(page, "", is_whole=True) or "")
    assert "49.00 EUR" not in (html_to_markdown(DECLARED + page, "", is_whole=True) or "")


def test_a_page_of_links_keeps_them() -> None:
    assert "number 39" in (html_to_markdown(f"<body>{MENU}</body>", "", is_whole=True) or "")


def test_a_caption_is_not_repeated_as_the_text_of_its_picture() -> None:
    caption = "A lamp of steel on a table"
    figure = f"<figure><img src=/a.jpg alt='{caption}'><figcaption>{caption}, 2019</figcaption></figure>"
    found = html_to_markdown(f"<body><main>{TEXT}{figure}</main></body>", "https://s.example/", is_whole=True)
    assert found
    assert "![](https://s.example/a.jpg)" in found
    assert found.count("A lamp of steel") == 1


@pytest.mark.parametrize("levels", [500, 9000])
def test_a_text_too_deep_to_be_read_is_no_empty_success(levels: int) -> None:
    page = "<body>" + "<div>" * levels + "<p>Some text.</p>"
    with pytest.raises(SelectorFailed, match="below 400 levels of elements"):
        html_to_markdown(page, "https://shop.example/", is_whole=True)
