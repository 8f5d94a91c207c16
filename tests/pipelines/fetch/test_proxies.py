"""Requests through proxies: rotation, failures, and the guard, which no proxy gets around."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.errors import PipelineError
from pipelines.pipeline import check_yaml
from tests.support.fetching import fetch, fetch_all
from tests.support.proxy import Proxy, serve_proxy
from tests.support.site import Site, serve_site

PAGES = {f"/{number}": f"<h1>{number}</h1>" for number in range(6)}
DEAD = "http://127.0.0.1:9"


@pytest.fixture
def one() -> Iterator[Proxy]:
    with serve_proxy() as proxy:
        yield proxy


@pytest.fixture
def two() -> Iterator[Proxy]:
    with serve_proxy() as proxy:
        yield proxy


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.serve(PAGES)
        yield site


def test_requests_take_turns(site: Site, one: Proxy, two: Proxy) -> None:
    proxies = (one.url.replace("//", "//me:se%63ret@"), two.url)
    urls = [f"{site.url}{path}" for path in PAGES]
    assert [page.body.decode() for page in fetch_all(urls, proxies=proxies)] == [*PAGES.values()]
    assert (len(one.requests), len(two.requests)) == (3, 3)
    assert sorted((*one.requests, *two.requests)) == urls
    assert (set(one.logins), set(two.logins)) == ({"Basic bWU6c2VjcmV0"}, {None})


def test_a_session_keeps_to_one_proxy_for_a_host(site: Site, one: Proxy, two: Proxy) -> None:
    urls = [f"{site.url}{path}" for path in PAGES]
    assert all(page.ok for page in fetch_all(urls, proxies=(one.url, two.url), session=True))
    assert sorted([len(one.requests), len(two.requests)]) == [0, 6]


@pytest.mark.parametrize("session", [True, False])
def test_the_next_proxy_is_tried_after_one_that_is_down(session: bool, site: Site, one: Proxy) -> None:
    urls = [f"{site.url}{path}" for path in PAGES]
    assert all(page.ok for page in fetch_all(urls, proxies=(DEAD, one.url), session=session, retries=5))
    page = fetch(f"{site.url}/0", proxies=(DEAD,))
    assert page.error is not None
    assert "proxy" in page.error


def test_the_guard_refuses_targets_and_proxies(site: Site, one: Proxy) -> None:
    only = ("127.0.0.1/32",)
    target = fetch(site.url.replace("127.0.0.1", "127.0.0.2") + "/0", proxies=(one.url,), allow_networks=only)
    assert target.error.startswith("refused: 127.0.0.2")
    own = (("127.0.0.1", int(site.url.rpartition(":")[2])),)
    page = fetch(f"{site.url}/0", proxies=(one.url,), own_endpoints=own)
    assert page.error.startswith("refused")
    assert one.requests == []
    proxy = fetch(f"{site.url}/0", proxies=(one.url.replace("127.0.0.1", "127.0.0.2"),), allow_networks=only)
    assert proxy.error.startswith("refused: the proxy")


def test_the_address_of_a_proxy_is_checked_and_not_repeated() -> None:
    text = "fetch: {url: 'http://a/'}\npipeline: []\nspindle: {keepColumns: [_url], proxies: [%s]}"
    check_yaml(text % "'http://me:secret@proxy.test:8080', 'socks5://p.test', '${PROXY}'")
    for wrong in ("proxy.test:8080:secret", "ftp://secret@p.test", "http://", "http://secret@p.test:99999"):
        with pytest.raises(PipelineError) as error:
            check_yaml(text % f"'{wrong}'")
        assert "secret" not in str(error.value)
