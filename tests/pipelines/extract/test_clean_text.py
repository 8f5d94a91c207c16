"""The main part of a page as Markdown: what is around it goes, and the text stays, however it is wrapped."""

from __future__ import annotations

import pytest

from pipelines.extract.clean_text import html_to_markdown

TEXT = "<h1>Title</h1>" + "".join(f"<p>Sentence {n} of a text about lamps, which goes on.</p>" for n in range(9))
MENU = "<ul>" + "".join(f"<li><a href=/{n}>An entry of the menu, number {n}</a></li>" for n in range(40)) + "</ul>"

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
    ],
    ids=[
        "in a form",
        "beside large menus",
        "in a block with the name of a button",
        "beside a block without prose",
        "before another article",
        "in the declared body before others",
        "before icons and the author",
    ],
)
def test_the_text_of_a_page_stays(page: str) -> None:
    found = html_to_markdown(f"<html><body>{page}</body></html>", "", is_whole=True) or ""
    assert found.startswith("# Title")
    assert all(f"Sentence {n} of" in found for n in range(9))
    assert "entry of the menu" not in found
    assert "other rooms" not in found


def test_text_in_blocks_stays_beside_the_one_paragraph() -> None:
    blocks = "".join(f"<div>Sentence {n} of a text about lamps.</div>" for n in range(9))
    found = html_to_markdown(f"<body><div>{blocks}<div><p>One paragraph.</p></div></div></body>", "", is_whole=True)
    assert found
    assert "Sentence 8" in found
