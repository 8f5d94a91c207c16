"""Frames of a page: of its own site and of another one, nested, in shadow trees, and gone."""

from __future__ import annotations

import pytest

from tests.pipelines.browser.test_visits import texts
from tests.support.browser import do, visited
from tests.support.scripted_site import ScriptedSite

BACK = {"action": "frame"}
SHOW = do("click", selector="button")


@pytest.mark.parametrize("is_foreign", [False, True])
def test_actions_and_document_are_those_of_the_frame_with_its_shadow_tree(
    scripted_site: ScriptedSite, is_foreign: bool
) -> None:
    if is_foreign:
        scripted_site.pages["/framed"] = scripted_site.pages["/framed"].replace(
            "/inner", f"{scripted_site.elsewhere}/inner"
        )
    snapshot = {"action": "snapshot"}
    page, whole = visited(f"{scripted_site.url}/framed", do("frame", name="prices"), SHOW, snapshot, BACK, snapshot)
    assert (page.error, texts(page, "h2, b")) == (None, ["Inner", "12 €"])
    base = scripted_site.elsewhere if is_foreign else scripted_site.url
    assert (page.requested_url, page.url) == (f"{scripted_site.url}/framed", f"{base}/inner")
    assert (whole.url, texts(whole)) == (f"{scripted_site.url}/framed", ["Outer"])


def test_a_frame_within_the_frame_of_a_shadow_tree_is_entered(scripted_site: ScriptedSite) -> None:
    [page] = visited(
        f"{scripted_site.url}/nested", do("frame", name="middle"), do("frame", selector="iframe[src='/inner']"), SHOW
    )
    assert (page.error, texts(page, "h2, b")) == (None, ["Inner", "12 €"])


def test_what_is_no_frame_or_has_gone_is_said(scripted_site: ScriptedSite) -> None:
    url = f"{scripted_site.url}/framed"
    [missing] = visited(url, do("frame", name="carts", timeout=0.3))
    assert missing.error == "action 1, frame carts: nothing to act on came within 0.3 s"
    [heading] = visited(url, do("frame", selector="h1"))
    assert heading.error == "the element that 'h1' finds is no frame"
    scripted_site.pages["/inner"] = "<button onclick=parent.document.body.replaceChildren()>away</button>"
    [gone] = visited(url, do("frame", name="prices"), SHOW)
    assert gone.error == "the frame has gone from the page"
