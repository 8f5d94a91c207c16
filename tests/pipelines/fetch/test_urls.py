from __future__ import annotations

import random
import tracemalloc

import pytest

from pipelines.fetch import canonical_url
from pipelines.fetch.robots import get_robots_url
from pipelines.fetch.urls import absolute_url, origin
from tests.support.cases import each_case

BASE = "http://shop.test/a/b.html?x=1"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("c.html", "http://shop.test/a/c.html"),
        ("/c", "http://shop.test/c"),
        ("//other.test/c", "http://other.test/c"),
        ("?y=2", "http://shop.test/a/b.html?y=2"),
        ("", "http://shop.test/a/b.html?x=1"),
        ("#part", "http://shop.test/a/b.html?x=1"),
        ("c#part", "http://shop.test/a/c"),
        ("  c \n", "http://shop.test/a/c"),
        ("../../../c", "http://shop.test/c"),
        ("HTTP://SHOP.test:80/C", "http://shop.test/C"),
        ("https://shop.test:443", "https://shop.test/"),
        ("https://shop.test:80/", "https://shop.test:80/"),
        ("http:\\\\shop.test\\c", "http://shop.test/c"),
        ("/?b=2&a=1&a=", "http://shop.test/?b=2&a=1&a="),
        ("/a b", "http://shop.test/a%20b"),
        ("/ü?ü", "http://shop.test/%C3%BC?%C3%BC"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("/a\0b", "http://shop.test/a%00b"),
        ("/\ud800", None),
        ("mailto:a@b.test", None),
        ("javascript:void(0)", None),
        ("ftp://shop.test/", None),
        ("data:text/html,hi", None),
        ("file:///etc/passwd", None),
        ("http://", None),
        ("http://a b/", None),
        ("http://shop.test:99999/", None),
    ],
)
def test_a_link_becomes_the_address_a_browser_would_ask_for(url: str, expected: str | None) -> None:
    assert canonical_url(url, BASE) == expected


def test_without_a_base_a_relative_address_is_no_link() -> None:
    assert canonical_url("c.html") is None
    assert canonical_url("http://shop.test/c.html#x") == "http://shop.test/c.html"


def test_a_base_must_be_text() -> None:
    assert canonical_url("c.html", "http://shop.test/\ud800/") is None
    assert canonical_url("c.html", "no address") is None


def test_a_canonical_address_stays_as_it_is() -> None:
    url = canonical_url("http://shop.test/ä ö?q=ü&r=%20#f")
    assert url is not None
    assert canonical_url(url) == url


SITES = (
    *("shop.test", "SHOP.test", "shop.test:80", "shop.test:443", "shop.test:08", "shop.test:0", "shop.test:99999"),
    *("shop.test:8080", "shop.test:", "a:b@shop.test", "@shop.test", "bücher.test", "xn--bcher-kva.test", "xn--a"),
    *(
        "127.0.0.1",
        "127.1",
        "1.2.3",
        "0x7f.1",
        "[::1]",
        "[::1]:80",
        "a b",
        "a\\b",
        "a\tb",
        "a%41",
        "h?x",
        "h#x",
        "h|",
        "",
    ),
)
PIECES = (*map(chr, range(256)), *("/", ".", "..", "%2e", "%2E", "%", "%4", "?", "#", "a", "é") * 8, "\u2028", "\ud800")


@pytest.mark.parametrize("seed", range(8))
def test_a_url_recognized_as_canonical_equals_its_parsed_form(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(2000):
        url = _some_address(choose)
        assert canonical_url(url) == canonical_url(url, BASE) == _parsed(url), url


@pytest.mark.parametrize("seed", range(8))
def test_a_link_joined_to_its_base_equals_its_parsed_form(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(2000):
        base = choose.choice((_parsed(_some_address(choose)), _some_address(choose), BASE)) or BASE
        url = choose.choice(("", "/", "//", "a/", "?", "#")) + _some_path(choose)
        assert canonical_url(url, base) == _parsed(url, base), (url, base)


@each_case("path", ["/a//..", "/a/b/.", "/a/%2e%2E", "/a/.%2e", "/a/b/%2e?q", "/.a", "/%2f", "/a/..b/c"])
@each_case("url", ["c", "/c", "c/d?e", "?c", ""])
def test_a_base_that_ends_in_dots_equals_its_parsed_form(url: str, path: str) -> None:
    base = f"http://shop.test:8080{path}"
    assert canonical_url(url, base) == _parsed(url, base)


def _some_address(choose: random.Random) -> str:
    scheme, site, start = choose.choice(("http", "https", "HTTP")), choose.choice(SITES), choose.choice(("", "/", "/a"))
    return f"{scheme}://{site}{start}{_some_path(choose)}"


def _some_path(choose: random.Random) -> str:
    return "".join(choose.choices(PIECES, k=choose.randrange(8)))


def _parsed(url: str, base: str | None = None) -> str | None:
    """What `canonical_url` would be if it parsed whatever it is given."""
    absolute = absolute_url(url, base)
    return absolute.partition("#")[0] if absolute and absolute.startswith(("http://", "https://")) else None


def test_a_link_of_a_megabyte_is_taken_as_it_is() -> None:
    assert canonical_url("/" + "a" * 1_000_000, BASE) == "http://shop.test/" + "a" * 1_000_000


@pytest.mark.parametrize(("url", "base"), [("x", "http://shop.test/{}/"), ("http://{}/x", BASE)])
def test_long_urls_are_not_cached(url: str, base: str) -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            long = f"{number}" + "a" * 1_000_000
            assert canonical_url(url.format(long), base.format(long)) == _parsed(url.format(long), base.format(long))
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


@each_case("host", ["shop.test", "shop.test:8080", "[::1]:8080"])
@each_case("user", ["", "a@", "a:b@", ":b@", "a@b:c/d@"])
@each_case("path", ["/", "/@x/y@z", "?at=x@y"])
def test_whom_a_host_is_asked_as_makes_no_other_host_of_it(user: str, host: str, path: str) -> None:
    url = canonical_url(f"http://{user.replace('/', '%2F')}{host}{path}")
    assert url is not None
    assert origin(url) == f"http://{host}"
    assert get_robots_url(url) == f"http://{host}/robots.txt"
