"""The browser through a proxy: its guard has checked each address that the proxy connects to."""

from __future__ import annotations

from dataclasses import replace

from tests.support.browser import OPTIONS, visited
from tests.support.browser_site import BrowserSite
from tests.support.proxy import serve_proxy


def test_visits_go_through_a_proxy_to_what_the_guard_allows(browser_site: BrowserSite) -> None:
    host = browser_site.url.removeprefix("http://")
    with serve_proxy() as proxy:
        options = replace(OPTIONS, proxies=(proxy.url,), allow_networks=("127.0.0.1/32",))
        (page,) = visited(f"{browser_site.url}/one", options=options)
        assert page.ok, page.error
        assert set(proxy.requests) == {host}
        (refused,) = visited(f"{browser_site.url.replace('127.0.0.1', '127.0.0.2')}/one", options=options)
        assert refused.error.startswith("refused")
        (socks,) = visited(f"{browser_site.url}/one", options=replace(options, proxies=("socks5://127.0.0.1:9",)))
        assert socks.error is not None
        assert set(proxy.requests) == {host}
