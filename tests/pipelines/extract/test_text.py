"""The text of an element as people see it."""

from __future__ import annotations

import pytest

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
