"""Texts of elements, as people see them."""

from __future__ import annotations

import pytest

from pipelines.extract.clean_text import html_to_markdown
from tests.support.pages import document

TEXTS = [
    ("<details><summary>More</summary>Here</details>", "More Here"),
    ("<fieldset><legend>Size</legend>S</fieldset>", "Size S"),
    ("<select><option>S<option>M<optgroup label=x><option>L</select>now", "S M L now"),
    ("a<dialog open>b</dialog>c", "a b c"),
    ("a<search>b</search>c", "a b c"),
    ("19<ins>99</ins>", "1999"),
    ("<p>2<del>1</del>3</p>", "213"),
    ("10<sup>2</sup> H<sub>2</sub>O", "102 H2O"),
    ("12<script>x</script>34<style>y</style>56<link rel=x>78", "12345678"),
    ("<b>12</b><span hidden>old <i>13</i></span>", "12"),
    ("1<span hidden>old</span>2 <i>x</i>", "12 x"),
    ("a<div style='color: red; DISPLAY : None !important'>b</div>c", "ac"),
    ("a<i STYLE='DISPLAY:NONE'>b</i><i\nhidden>c</i>", "a"),
    ("a<i style='display:none;display:block'>b</i>", "ab"),
    ("a<i hidden=until-found>b</i>", "ab"),
    ("a<datalist><option>b</datalist>c", "ac"),
    ("<pre>a\n  b<i hidden>c</i></pre>", "a\n  b"),
    ("<p>a</p><p hidden>b</p><p>c</p>", "a c"),
]


@pytest.mark.parametrize(("html", "text"), TEXTS)
def test_text_is_what_people_see(html: str, text: str) -> None:
    element = document(f"<main>{html}</main>").root.first("main")
    assert element is not None
    assert element.text() == text


@pytest.mark.parametrize(("html", "text"), [each for each in TEXTS if "<pre>" not in each[0]])
def test_text_of_an_xpath_is_the_same(html: str, text: str) -> None:
    (element,) = document(f"<main>{html}</main>").root.select_xpath("//main")
    assert element.text() == text


def test_what_is_hidden_has_a_text_of_its_own() -> None:
    root = document("<div hidden>a<b>b</b><i style='display:none'>c</i></div>").root
    assert [each.text() for each in root.select("div, i")] == ["ab", "c"]
    assert root.text() == ""


def test_selectors_find_what_is_hidden() -> None:
    assert len(document("<div>a<b hidden>b</b></div>").root.select("div:contains(ab)")) == 1


TEXT = "<h1>Title</h1>" + "".join(f"<p>Sentence {n} of a text about lamps, which goes on.</p>" for n in range(9))
OTHER = "<h2>Other</h2>" + "".join(f"<p>Another text about other rooms, number {n}, goes on.</p>" for n in range(10))
MENU = "<ul>" + "".join(f"<li><a href=/{n}>An entry of the menu, number {n}</a></li>" for n in range(40)) + "</ul>"


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
