"""Addresses of images whose src only holds their place."""

from __future__ import annotations

import pytest

from pipelines.extract.images import find_largest, find_source
from tests.support.pages import document

DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACw="


@pytest.mark.parametrize(
    ("srcset", "largest"),
    [
        ("a.jpg 320w, b.jpg 1280w, c.jpg 640w", "b.jpg"),
        ("a.jpg, b.jpg 2x", "b.jpg"),
        ("a.jpg 1.5x,b.jpg 3x", "b.jpg"),
        ("a,b.jpg", "a,b.jpg"),  # a comma alone does not end an address
        ("\n /w_1,h_2/a.jpg 100w 50h ,\n\t/w_3,h_4/b.jpg 200w 100h,\n", "/w_3,h_4/b.jpg"),
        (f"{DOT} 9999w, a.jpg 1w", "a.jpg"),
        ("a.jpg 1x, b.jpg 1x", "a.jpg"),
        (DOT, None),
        (" , ", None),
    ],
)
def test_the_largest_candidate_of_a_srcset(srcset: str, largest: str | None) -> None:
    assert find_largest(srcset) == largest


@pytest.mark.parametrize(
    ("html", "source"),
    [
        ("<img src=a.jpg srcset='b.jpg 2x'>", "a.jpg"),
        (f"<img src='{DOT}' srcset='a.jpg 1x, b.jpg 2x'>", "b.jpg"),
        ("<img srcset='a.jpg 1x, b.jpg 2x'>", "b.jpg"),
        ("<img src=t.gif width=1 height=1 srcset='a.jpg 1x, b.jpg 2x'>", "b.jpg"),
        ("<img src=/s/1x1.gif?v=2 srcset='a.jpg 1x, b.jpg 2x'>", "b.jpg"),
        ("<img src=/blank.png data-srcset='a.jpg 1x, b.jpg 2x'>", "b.jpg"),
        (f"<img src='{DOT}' data-src=b.jpg>", "b.jpg"),
        ("<img src=/img/grey.gif data-lazy=b.jpg>", "b.jpg"),
        ("<img src=/no-image.png data-src=b.jpg>", "b.jpg"),
        ("<img src=/grey-sofa.jpg data-src=b.jpg>", "grey-sofa.jpg"),
        (f"<picture><source srcset='a.webp 1w, b.webp 2w'><img src='{DOT}'></picture>", "b.webp"),
        ("<img src=t.gif width=1 height=1>", "t.gif"),
        ("<img src=/pixels/lamp.jpg srcset='b.jpg 2x'>", "pixels/lamp.jpg"),
        ("<script src=/lazy.js></script>", "lazy.js"),
        ("<img alt=none>", None),
    ],
)
def test_the_source_of_an_image_is_what_people_see(html: str, source: str | None) -> None:
    element = document(html, url="http://shop.test/").root.first("img, script")
    assert element is not None
    assert find_source(element) == (f"http://shop.test/{source}" if source else None)


def test_an_embedded_image_without_another_is_its_source() -> None:
    element = document(f"<img src='{DOT}'>").root.first("img")
    assert element is not None
    assert find_source(element) == DOT
