from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.fetch.robots import MAX_ROBOTS, Robots, get_robots_url, read_robots
from pipelines.fetch.throttle import Refusal
from tests.support.bad_server import BadServer

SITE = "http://shop.test"


def robots(text: str | bytes, status: int | None = 200, error: str | None = None, agent: str = "Spindle/0.1") -> Robots:
    body = text.encode() if isinstance(text, str) else text
    url = SITE + "/robots.txt"
    return read_robots(Page(url, url, status, error, "text/plain", None, body, datetime.now(UTC)), agent)


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/x", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /a", "/a/b", False),
        ("User-agent: *\nDisallow: /a", "/b", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/c", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?1", True),
        ("User-agent: *\nDisallow: /x?id=", "/x?id=1", False),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /café", "/caf%C3%A9", False),
        ("User-agent: Other\nDisallow: /", "/x", True),
        ("User-agent: spindle\nDisallow: /", "/x", False),
        ("User-agent: SPINDLE\nAllow: /\n\nUser-agent: *\nDisallow: /", "/x", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Spindle\nDisallow: /a", "/x", True),
        ("User-agent: Other\nUser-agent: Spindle\nDisallow: /a", "/a", False),
        ("User-agent: *\rDisallow: /a\r", "/a", False),
        ("\ufeffUser-agent: *\nDisallow: /a", "/a", False),
        ("\ufeffUser-agent: *\nDisallow: /a".encode("utf-16-le"), "/a", False),
        ("# comment\nuser-AGENT : * # all\nDISALLOW : /a # this", "/a", False),
        ("Disallow: /a", "/a", True),
        # Protego 0.7.0, tests/test_protego.py: lines without a colon, and prose with one
        ("User-agent *\nDisallow /a:b", "/a:b", False),
        ("User-agent: *\nDisallow: /a\nUser-agent must match exactly: see the docs\nAllow: /a/b", "/a/b", True),
        ("User-agent: spindle\nDisallow: /x\nuser agent\nDisallow: /y", "/y", True),
        ("User-agent: spindle\nDisallow: /x\nuser agent\nDisallow: /y", "/x", False),
        ("<html><body>User-agent: none</body></html>", "/x", True),
    ],
)
def test_rules_are_read_as_the_standard_says(text: str | bytes, path: str, allowed: bool) -> None:
    assert (robots(text).find_refusal(SITE + path) is None) is allowed


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("Spindle/0.1", "Spindle"),
        ("Spindle/0.1 (+mail@shop.test)", "Spindle"),
        ("Mozilla/5.0 (compatible; acmebot/1.0; +https://acme.test/bot)", "acmebot"),
        ("Mozilla/5.0 (compatible; Acme-Bot_x; +https://acme.test/)", "Acme-Bot_x"),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; acmebot/1.2) Chrome/1.0 Safari/537.36",
            "acmebot",
        ),
        ("Mozilla/5.0 (X11; Linux x86_64) acmebot/1.0", "acmebot"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1.0 Safari/537.36", "Mozilla"),
        ("Mozilla/4.0 (compatible; MSIE 9.0; Windows NT 6.1)", "Mozilla"),
        ("acmebot", "acmebot"),
        ("Mozilla/5.0 (compatible; Львів-bot/1.1)", "Львів-bot"),
        ("UnicödeBöt", "UnicödeBöt"),
        ("", ""),
    ],
)
def test_a_crawler_is_what_its_header_names(user_agent: str, token: str) -> None:
    rules = robots(f"User-agent: {token}\nDisallow: /a\n\nUser-agent: *\nDisallow: /b", agent=user_agent)
    assert rules.agent == token
    assert (rules.find_refusal(SITE + "/b") is None) is bool(token)


@pytest.mark.parametrize(
    ("name", "is_meant"),
    [
        ("spindle", True), ("Spindle/1.0", True), ("SPINDLE # us", True), ("Spindle*", True), ("Spindle bot", True),
        ("spin", False), ("spindlebot", False), ("my-spindle", False), ("Spindle-x", False), ("**", False), ("", False),
    ],
)  # fmt: skip
def test_a_name_is_meant_as_a_whole(name: str, is_meant: bool) -> None:
    assert bool(robots(f"User-agent: {name}\nDisallow: /a").find_refusal(SITE + "/a")) is is_meant


@pytest.mark.parametrize("line", ["Crawl-delay: 2", "Sitemap: /s.xml", "Host: x", "Clean-param: x", "", "# c", "x"])
def test_no_line_but_a_rule_ends_a_group(line: str) -> None:
    for names in (("spindle", "other"), ("other", "spindle")):
        rules = robots(
            f"User-agent: {names[0]}\n{line}\nUser-agent: {names[1]}\n{line}\nDisallow: /a\n{line}\nAllow: /a/b"
        )
        assert rules.find_refusal(SITE + "/a")
        assert rules.find_refusal(SITE + "/a/b") is None
    assert robots(f"User-agent: other\n{line}\nDisallow: /\nUser-agent: spindle\n{line}").find_refusal(SITE) is None


@pytest.mark.parametrize(
    ("rule", "path", "allowed"),
    [
        (b"/caf%E9", "/caf%E9", False),
        (b"/caf%e9", "/caf%E9/x", False),
        (b"/caf\xe9", "/caf%E9", False),
        (b"/caf%E9", "/caf%E8", True),
        (b"/caf\xe9", "/caf%E8", True),
        (b"/%FF%C3%A9*z", "/%FF%C3%A9yz", False),
        (b"/%FF%C3%A9*z", "/%FE%C3%A9yz", True),
        (b"/a%2Fb", "/a%2Fb", False),
        (b"/a%2Fb", "/a/b", True),
        (b"/\xc3\xa9", "/%C3%A9", False),
    ],
)
def test_bytes_that_are_not_utf_8_are_compared(rule: bytes, path: str, allowed: bool) -> None:
    assert (robots(b"User-agent: *\nDisallow: " + rule).find_refusal(SITE + path) is None) is allowed


def test_of_a_file_for_thousands_of_crawlers_the_own_rules_are_kept() -> None:
    text = "".join(f"User-agent: a{number}\n" for number in range(5_000)) + "Disallow: /a\n" * 5_000
    rules = robots(f"{text}\nUser-agent: *\nDisallow: /b")
    assert rules.text == "User-agent: *\nDisallow: /b"
    assert rules.find_refusal(SITE + "/b")
    assert rules.find_refusal(SITE + "/a") is None


def test_nothing_is_fetched_if_robots_txt_has_too_many_patterns() -> None:
    text = "User-agent: *\n" + "".join(f"Allow: /*{number}$\n" for number in range(5_001))
    refusal = robots(text).find_refusal(SITE + "/x")
    assert refusal
    assert "more than 5,000 patterns" in refusal.reason
    plain = "User-agent: *\n" + "".join(f"Disallow: /{number}\n" for number in range(20_000))
    assert robots(plain).find_refusal(SITE + "/x") is None


def test_patterns_for_others_are_none_of_ours() -> None:
    rules = "".join(f"Disallow: /*{number}$\n" for number in range(3_000))
    others = f"User-agent: a\nUser-agent: b # c\n\n{rules}"
    assert robots(f"{others}User-agent: *\nDisallow: /x\n{others}").find_refusal(SITE + "/y") is None
    assert robots(f"User-agent: a\nUser-agent: spindle\n{rules}User-agent: spindle\n{rules}").find_refusal(SITE + "/y")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429])
def test_a_site_without_rules_allows_everything(status: int) -> None:
    assert robots("User-agent: *\nDisallow: /", status).find_refusal(SITE + "/x") is None


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_site_that_cannot_say_allows_nothing(status: int) -> None:
    rules = robots("", status)
    assert rules.refusal == (f"robots.txt could not be read (status {status}), so nothing may be fetched from the site")
    assert rules.find_refusal(SITE + "/x") == Refusal(rules.refusal)


def test_a_site_that_does_not_answer_allows_nothing() -> None:
    rules = robots("", None, "could not connect to shop.test:80")
    assert rules.find_refusal(SITE + "/x") == Refusal(rules.refusal or "", forbidden=False)
    assert rules.refusal == (
        "could not connect to shop.test:80, so its robots.txt is not known, and nothing may be fetched from the site"
    )


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 2", 2.0),
        ("User-agent: *\nCrawl-delay: 86400", 60.0),
        ("User-agent: *\nCrawl-delay: 0.5\nUser-agent: Spindle\nCrawl-delay: 3", 3.0),
        ("User-agent: *\nCrawl-delay: 0", 0),
        ("User-agent: *\nCrawl-delay: -1", 0),
        ("User-agent: *\nCrawl-delay: soon", 0),
        ("User-agent: Other\nCrawl-delay: 9", 0),
    ],
)
def test_the_delay_is_the_one_for_this_crawler(text: str, delay: float) -> None:
    assert robots(text).crawl_delay == delay


@pytest.mark.parametrize(
    "body", [b"\x00" * 1000, bytes(range(256)) * 100, b"User-agent: *\nDisallow: /" + b"*a" * 100_000, b"\xff\xfeU\x00"]
)
def test_nonsense_does_no_harm(body: bytes) -> None:
    assert robots(body).find_refusal(SITE + "/" + "a" * 5000 + "b") is None


def test_robots_txt_is_read_from_the_root_of_the_site() -> None:
    assert get_robots_url("http://shop.test:8080/a/b?c") == "http://shop.test:8080/robots.txt"
    assert get_robots_url("https://shop.test/") == "https://shop.test/robots.txt"


def test_of_a_file_without_end_the_beginning_counts(bad_server: BadServer) -> None:
    rules = b"User-agent: *\nDisallow: /a\n"
    url = bad_server.url(f"/padded?size={50 * 2**20}&text={quote(rules)}")
    options = FetchOptions(max_body=MAX_ROBOTS, allow_networks=("127.0.0.1/32",))
    with HttpFetcher(options) as fetcher:
        ((page, _),) = fetcher.fetch([(url, None)])
    assert len(page.body) == MAX_ROBOTS
    read = read_robots(page, "Spindle/0.1")
    assert read.find_refusal(bad_server.url("/a"))
    assert read.find_refusal(bad_server.url("/b")) is None
