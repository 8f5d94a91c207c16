"""Consent notices: refused, walls that block scrolling, unknown ones, and those that cannot be refused."""

from __future__ import annotations

import pytest

from tests.pipelines.browser.test_visits import texts
from tests.support.browser import do, visited
from tests.support.scripted_site import ScriptedSite

REFUSE = do("dismiss_consent", seconds=3)
SCROLL = do("scroll_to_bottom", pauseMs=100)
# the page forgets to let itself be scrolled again
WALL = """<style>body {{ position: fixed; overflow: hidden; }}</style>{banner}<script>
const answer = kind => {{ fetch('/answered-' + kind); document.querySelector('{root}').remove(); }};
</script>"""
ONETRUST = """<div id=onetrust-consent-sdk><div id=onetrust-banner-sdk style="position:fixed;bottom:0;height:100px">
<p>We value your privacy</p><button id=onetrust-accept-btn-handler onclick="answer('yes')">Accept all</button>
REFUSAL</div></div>"""
REFUSAL = """<button id=onetrust-reject-all-handler onclick="answer('no')">Reject all</button>"""
OWN = """<div id=own role=dialog style="position:fixed;top:100px;left:100px;width:400px;height:200px;z-index:99">
<p>We and our partners use cookies to personalise content and ads. You can accept or reject all cookies.</p>
<button onclick="answer('yes')">Accept all</button><button onclick="answer('no')">Reject all</button></div>"""


def add_wall(site: ScriptedSite, banner: str, root: str) -> None:
    site.pages["/listing"] = site.pages["/listing"].replace("<h1>", f"{WALL.format(banner=banner, root=root)}<h1>")


@pytest.mark.long
@pytest.mark.parametrize(
    ("banner", "root"), [(ONETRUST.replace("REFUSAL", REFUSAL), "#onetrust-consent-sdk"), (OWN, "#own")]
)
def test_a_wall_is_refused_and_the_list_behind_it_scrolls(scripted_site: ScriptedSite, banner: str, root: str) -> None:
    add_wall(scripted_site, banner, root)
    [page] = visited(f"{scripted_site.url}/listing", REFUSE, SCROLL)
    assert page.error is None
    assert (len(texts(page, "li")), texts(page, root)) == (30, [])
    assert (scripted_site.requests["/answered-no"], scripted_site.requests["/answered-yes"]) == (1, 0)


@pytest.mark.long
def test_a_notice_that_cannot_be_refused_is_a_failure_and_never_accepted(scripted_site: ScriptedSite) -> None:
    add_wall(scripted_site, ONETRUST.replace("REFUSAL", ""), "#onetrust-consent-sdk")
    [page] = visited(f"{scripted_site.url}/listing", REFUSE)
    assert page.error == ("the consent notice (Onetrust) could not be refused; a click of the trace may answer it")
    assert scripted_site.requests["/answered-yes"] == 0


def test_a_page_without_a_notice_is_read_as_it_is(scripted_site: ScriptedSite) -> None:
    [page] = visited(f"{scripted_site.url}/framed", do("dismiss_consent", seconds=1))
    assert (page.error, texts(page)) == (None, ["Outer"])
