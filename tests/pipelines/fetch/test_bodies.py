"""What a page brings: unpacked within limits, and else as it came."""

from __future__ import annotations

import resource
from urllib.parse import quote

import pytest

from pipelines.fetch.page import parse_content_type
from tests.support.bad_server import PAGE, BadServer
from tests.support.fetching import fetch, fetch_all


class TestBodies:
    def test_a_bomb_is_stopped_while_it_unfolds(self, bad_server: BadServer) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        page = fetch(bad_server.url(f"/bomb?size={200 * 2**20}"), max_body=2**20)
        assert page.error == "the page is larger than 1,048,576 bytes"
        assert page.body == bytes(2**20)
        # the server in this process holds the bomb's 200 MiB while it packs them, the fetcher no further ones
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024

    def test_a_bomb_of_which_nothing_comes_out_is_given_up(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/unyielding"), retries=3, max_body=2**20, total_timeout=600)
        assert (page.status, page.error, page.body) == (200, "the page is larger than 1,048,576 bytes", b"")
        assert (2**20 < page.received < 2 * 2**20, bad_server.requests["/unyielding"]) == (True, 1)

    def test_a_large_page_is_stopped_while_it_streams(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url(f"/large?size={100 * 2**20}"), max_body=2**20)
        assert page.error == "the page is larger than 1,048,576 bytes"
        assert page.body == b"x" * 2**20

    def test_a_page_of_just_the_allowed_size_is_whole(self, bad_server: BadServer) -> None:
        pages = fetch_all([bad_server.url("/good")] * 2, max_body=len(PAGE))
        assert [page.body for page in pages] == [PAGE, PAGE]
        assert fetch(bad_server.url("/good"), max_body=len(PAGE) - 1).error is not None

    def test_any_bytes_come_as_they_are(self, bad_server: BadServer) -> None:
        body = bytes(range(256))
        page = fetch(bad_server.url(f"/typed?type={quote('image/PNG')}&hex={body.hex()}"))
        assert (page.ok, page.body, page.content_type) == (True, body, "image/png")

    def test_a_body_of_nothing_is_a_page(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/typed?hex="))
        assert (page.ok, page.body, page.content_type) == (True, b"", None)

    @pytest.mark.parametrize(
        ("header", "charset"),
        [
            ("text/html", None),
            ("text/html; charset=UTF-8", "utf-8"),
            ('text/html;charset="Windows-1251"', "windows-1251"),
            ("text/html; boundary=x; CHARSET = koi8-r ; a=b", "koi8-r"),
            ("text/html; charset=", None),
            (f"text/html; charset={' ' * 2000}utf-8", None),
        ],
    )
    def test_the_header_says_type_and_charset(self, header: str, charset: str | None, bad_server: BadServer) -> None:
        page = fetch(bad_server.url(f"/typed?hex=41&type={quote(header)}"))
        assert (page.content_type, page.charset) == ("text/html", charset)

    @pytest.mark.parametrize(
        ("header", "media_type", "charset"),
        [
            ("text/html, text/html; charset=utf-8", "text/html", "utf-8"),
            ("text/html; charset=utf-8, text/html", "text/html", "utf-8"),
            ("text/html; charset=utf-8, text/plain", "text/plain", None),
            ('text/html; a="b, text/xml", */*', "text/html", None),
            ("text/html charset=utf-8", None, "utf-8"),
            ("html", None, None),
            ("*/*", None, None),
            ("unknown/unknown; charset=koi8-r", None, "koi8-r"),
            ("Application/LD+JSON; charset=utf-8", "application/ld+json", "utf-8"),
            ("text/html;", "text/html", None),
            (";", None, None),
            ("", None, None),
        ],
    )
    def test_a_type_that_is_malformed_or_unknown_is_none(
        self, header: str, media_type: str | None, charset: str | None
    ) -> None:
        assert parse_content_type(header.encode()) == (media_type, charset)

    def test_a_type_of_which_only_the_beginning_is_read(self, bad_server: BadServer) -> None:
        assert len(fetch(bad_server.url(f"/typed?hex=41&type={'a' * 50_000}")).content_type or "") <= 1024

    def test_a_type_that_would_be_read_again_from_each_of_its_spaces(self) -> None:
        """For hours, that is, in which nothing else goes on."""
        assert parse_content_type(b"text/html; charset=" + b" " * 2_000_000 + b";") == ("text/html", None)

    def test_ten_thousand_cookies_are_an_answer_or_an_error_of_the_row(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/headers?count=10000"))
        assert page.ok or page.error
