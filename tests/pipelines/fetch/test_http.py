from __future__ import annotations

import resource
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from tests.pipelines.fetch.bad_server import PAGE, BadServer

LOOPBACK = ("127.0.0.0/8",)


def options(**changes: object) -> FetchOptions:
    return FetchOptions(**{"allow_networks": LOOPBACK, "backoff": 0.01, "retries": 0, **changes})


def fetch(url: str, **changes: object) -> Page:
    return fetch_all([url], **changes)[0]


def fetch_all(urls: list[str], **changes: object) -> list[Page]:
    """Pages in the order of `urls`."""
    with HttpFetcher(options(**changes)) as fetcher:
        found = {tag: page for page, tag in fetcher.fetch((url, at) for at, url in enumerate(urls))}
    return [found[at] for at in range(len(urls))]


def test_a_page_says_what_it_is_and_where_it_came_from(bad_server: BadServer) -> None:
    before = datetime.now(UTC)
    page = fetch(bad_server.url("/good"))
    assert page.ok
    assert (page.requested_url, page.url, page.redirects) == (bad_server.url("/good"), bad_server.url("/good"), ())
    assert (page.status, page.error, page.content_type, page.charset) == (200, None, "text/html", None)
    assert page.body == PAGE
    assert before <= page.fetched_at <= datetime.now(UTC)


def test_the_user_agent_is_sent_and_nothing_that_names_the_machine(bad_server: BadServer) -> None:
    fetch(bad_server.url("/good"), user_agent="Shopper/2.0 (shop@example.test)")
    headers = bad_server.headers["/good"]
    assert headers["user-agent"] == "Shopper/2.0 (shop@example.test)"
    assert {"gzip", "br"} <= {each.strip() for each in headers["accept-encoding"].split(",")}
    assert set(headers) == {"host", "user-agent", "accept", "accept-encoding"}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500, 501])
def test_an_error_status_is_no_page_but_no_error_of_fetching_either(status: int, bad_server: BadServer) -> None:
    page = fetch(bad_server.url(f"/status?code={status}"), retries=3)
    assert (page.status, page.error, page.ok) == (status, None, False)
    assert bad_server.requests["/status"] == 1


def test_connections_are_kept_between_requests_and_calls(bad_server: BadServer) -> None:
    with HttpFetcher(options(concurrency=2)) as fetcher:
        for _ in range(3):
            pages = list(fetcher.fetch((bad_server.url(f"/good?{each}"), each) for each in range(20)))
            assert all(page.ok for page, _ in pages)
    assert bad_server.requests["/good"] == 60
    assert bad_server.connections <= 2


def test_pages_come_in_the_order_in_which_they_finish_with_their_tags(bad_server: BadServer) -> None:
    urls = [(bad_server.url("/silent?seconds=2"), "slow"), (bad_server.url("/good"), "quick")]
    with HttpFetcher(options()) as fetcher:
        assert [tag for _, tag in fetcher.fetch(urls)] == ["quick", "slow"]


def test_no_more_requests_are_pulled_than_can_start(bad_server: BadServer) -> None:
    pulled = 0

    def endless() -> Iterator[tuple[str, None]]:
        nonlocal pulled
        while True:
            pulled += 1
            yield bad_server.url("/good"), None

    with HttpFetcher(options(concurrency=4)) as fetcher:
        pages = fetcher.fetch(endless())
        for _ in range(10):
            next(pages)
        pages.close()
    assert pulled <= 18


def test_concurrency_is_used_and_not_exceeded(bad_server: BadServer) -> None:
    pages = fetch_all([bad_server.url(f"/slow?{each}") for each in range(40)], concurrency=8)
    assert all(page.ok for page in pages)
    assert 4 <= bad_server.most_running <= 8


def test_a_host_gets_no_more_than_its_share_while_others_go_on(bad_server: BadServer) -> None:
    slow = [bad_server.url(f"/slow?{each}") for each in range(12)]
    other = [f"http://127.0.0.2:{bad_server.port}/good" for _ in range(3)]
    with HttpFetcher(options(concurrency=8, per_host=2)) as fetcher:
        order = [tag for _, tag in fetcher.fetch([(url, url) for url in slow + other])]
    assert bad_server.most_running <= 2
    assert sorted(order) == sorted(slow + other)


def test_iterators_of_one_fetcher_may_be_interleaved(bad_server: BadServer) -> None:
    with HttpFetcher(options(concurrency=4)) as fetcher:
        first = fetcher.fetch((bad_server.url(f"/good?a{each}"), each) for each in range(20))

        def follow() -> Iterator[tuple[str, int]]:
            for page, tag in first:
                assert page.ok
                yield bad_server.url(f"/slow?b{tag}"), tag

        assert sorted(tag for page, tag in fetcher.fetch(follow()) if page.ok) == list(range(20))


def test_an_iterator_that_is_left_frees_its_requests(bad_server: BadServer) -> None:
    with HttpFetcher(options(concurrency=2)) as fetcher:
        left = fetcher.fetch((bad_server.url("/silent?seconds=1"), None) for _ in range(4))
        quick = fetcher.fetch([(bad_server.url("/good"), None)])
        assert next(quick)[0].ok
        left.close()
        assert [page.ok for page, _ in fetcher.fetch([(bad_server.url("/good"), None)])] == [True]


@pytest.mark.parametrize(
    "url", ["mailto:a@b.test", "", "no address", "http://", "ftp://127.0.0.1/", "http://a b/", "\x00"]
)
def test_what_is_no_web_address_is_an_error_of_its_row(url: str, bad_server: BadServer) -> None:
    bad, good = fetch_all([url, bad_server.url("/good")])
    assert bad.error == f"'{url}' is not an http or https address"
    assert (bad.status, bad.ok, bad.url) == (None, False, url)
    assert good.ok


def test_an_address_is_asked_for_as_a_browser_would(bad_server: BadServer) -> None:
    page = fetch(bad_server.url("/good?q=a b ü#part"))
    assert page.ok


class TestRedirects:
    def test_are_followed_and_recorded(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/chain?left=3"))
        assert page.ok
        assert page.requested_url == bad_server.url("/chain?left=3")
        assert page.url == bad_server.url("/good")
        assert page.redirects == (bad_server.url("/chain?left=2"), bad_server.url("/chain?left=1"))

    def test_to_a_part_of_a_page_lead_to_the_page(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url(f"/redirect?to={quote('/good#part')}")).url == bad_server.url("/good")

    @pytest.mark.parametrize(("name", "asked"), [("café", "caf%E9"), ("caf\u00c3\u00a9", "caf%C3%A9")])
    def test_in_the_encoding_of_the_server_lead_where_it_means(
        self, name: str, asked: str, bad_server: BadServer
    ) -> None:
        page = fetch(bad_server.url(f"/redirect?to={quote(f'/good?{name}')}"))
        assert (page.ok, page.url) == (True, bad_server.url(f"/good?{asked}"))

    def test_that_lead_nowhere_are_answers(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/redirect?to="))
        assert (page.status, page.error, bad_server.requests["/redirect"]) == (302, None, 1)

    def test_in_a_loop_end(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/loop"), max_redirects=5)
        assert page.error == "redirects more than 5 times"
        assert not page.ok
        assert bad_server.requests["/loop"] == 6

    def test_that_lead_on_for_ever_end(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/slow-redirects"), max_redirects=20).error == "redirects more than 20 times"

    def test_to_nowhere_are_an_error(self, bad_server: BadServer) -> None:
        where = f"127.0.0.1:{bad_server.port}"
        page = fetch(bad_server.url("/redirect?to=http://[bad/"))
        assert page.error == f"{where} redirects to something that is not an address"

    def test_have_the_time_of_one_page_together(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/slow-redirects"), max_redirects=10_000, total_timeout=1)
        assert page.error == "timed out after 1 s"


class TestFailures:
    def test_nobody_listens(self) -> None:
        assert fetch("http://127.0.0.1:1/").error == "could not connect to 127.0.0.1:1"

    def test_no_such_host(self) -> None:
        assert fetch("http://nowhere.invalid/").error == "could not find the host nowhere.invalid"

    def test_a_reset_connection(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/reset")).error == f"the connection to 127.0.0.1:{bad_server.port} broke"

    def test_a_reset_in_the_middle_of_the_body(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/reset-midway"))
        assert page.error in {
            f"the connection to 127.0.0.1:{bad_server.port} broke",
            f"127.0.0.1:{bad_server.port} closed the connection before the whole page came",
        }
        assert page.body == b""

    def test_no_answer_at_all(self, bad_server: BadServer) -> None:
        error = fetch(bad_server.url("/empty")).error
        assert error == f"127.0.0.1:{bad_server.port} closed the connection without an answer"

    def test_less_than_was_announced(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/too-short"))
        assert page.error == f"127.0.0.1:{bad_server.port} closed the connection before the whole page came"
        assert page.body == b""

    def test_more_than_was_announced_is_cut_off(self, bad_server: BadServer) -> None:
        pages = fetch_all([bad_server.url("/too-long")] * 3, concurrency=1)
        assert [page.body for page in pages] == [PAGE] * 3

    def test_a_length_that_is_no_number(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/bad-length")).error == f"127.0.0.1:{bad_server.port} does not speak HTTP"

    def test_something_that_is_not_http(self, bad_server: BadServer) -> None:
        assert "does not speak HTTP" in (fetch(bad_server.url("/not-http")).error or "")

    def test_a_server_that_says_nothing(self, bad_server: BadServer) -> None:
        began = time.monotonic()
        page = fetch(bad_server.url("/silent"), first_byte_timeout=0.3)
        assert page.error == f"127.0.0.1:{bad_server.port} did not answer within 0.3 s"
        assert time.monotonic() - began < 10

    def test_a_server_that_stops_in_the_middle(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/stall?seconds=5"), first_byte_timeout=1, total_timeout=20)
        assert page.error == f"127.0.0.1:{bad_server.port} stopped sending for 1 s"

    def test_a_byte_at_a_time_runs_out_of_time(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/drip"), total_timeout=2)
        assert page.error == "timed out after 2 s"
        assert page.status == 200
        assert page.body == b""

    def test_a_host_that_drops_packets(self) -> None:
        # a listening socket whose queue is full answers no further connection
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            waiting = [socket.socket() for _ in range(4)]
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            page = fetch(f"http://127.0.0.1:{port}/", connect_timeout=0.4)
            for each in waiting:
                each.close()
        assert page.error == f"could not connect to 127.0.0.1:{port} within 0.4 s"

    def test_a_failure_leaves_the_others_alone(self, bad_server: BadServer) -> None:
        paths = ["/good", "/reset", "/empty", "/too-short", "/not-http", "/bad-gzip", "/loop", "/good"] * 5
        pages = fetch_all([bad_server.url(path) for path in paths], concurrency=4)
        assert [page.ok for page in pages] == [path == "/good" for path in paths]


class TestBodies:
    def test_gzip_is_undone(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/gzip")).body == PAGE

    def test_what_was_received_is_counted_as_it_was_transferred(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url(f"/bomb?size={2**20}"))
        assert (len(page.body), 1000 < page.received < 2000) == (2**20, True)
        assert fetch(bad_server.url("/good")).received == len(PAGE)

    def test_what_cannot_be_decompressed_is_an_error(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/bad-gzip")).error == "the page cannot be decompressed"

    def test_a_bomb_is_stopped_while_it_unfolds(self, bad_server: BadServer) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        page = fetch(bad_server.url(f"/bomb?size={200 * 2**20}"), max_body=2**20)
        assert page.error == "the page is larger than 1,048,576 bytes"
        assert page.body == bytes(2**20)
        # the server in this process holds the bomb's 200 MiB while it packs them, the fetcher no further ones
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024

    def test_so_is_one_by_brotli(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/bomb-br"), max_body=2**20)
        assert (page.error, page.body) == ("the page is larger than 1,048,576 bytes", bytes(2**20))

    def test_zstd_is_undone_where_a_server_insists_on_it(self, bad_server: BadServer) -> None:
        urls = [bad_server.url(path) for path in ("/zstd", "/good", "/zstd", "/gzip")]
        assert [page.body for page in fetch_all(urls, concurrency=1)] == [PAGE] * 4

    def test_a_bomb_by_zstd_is_stopped_too(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url(f"/zstd?size={64 * 2**20}"), max_body=2**20)
        assert (page.error, page.body) == ("the page is larger than 1,048,576 bytes", bytes(2**20))

    def test_what_is_no_zstd_is_an_error(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/bad-zstd"), retries=3)
        assert page.error == "the page cannot be decompressed"
        assert bad_server.requests["/bad-zstd"] == 2

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
        ],
    )
    def test_the_header_says_type_and_charset(self, header: str, charset: str | None, bad_server: BadServer) -> None:
        page = fetch(bad_server.url(f"/typed?hex=41&type={quote(header)}"))
        assert (page.content_type, page.charset) == ("text/html", charset)

    def test_cookies_are_neither_kept_nor_sent(self, bad_server: BadServer) -> None:
        pages = fetch_all([bad_server.url("/headers?count=100"), bad_server.url("/headers?count=1")], concurrency=1)
        assert all(page.ok for page in pages)
        assert "cookie" not in bad_server.headers["/headers"]

    def test_ten_thousand_cookies_are_an_answer_or_an_error_of_the_row(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/headers?count=10000"))
        assert page.ok or page.error


class TestRetries:
    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_an_overloaded_server_is_asked_again(self, status: int, bad_server: BadServer) -> None:
        page = fetch(bad_server.url(f"/flaky?times=2&code={status}"), retries=2)
        assert page.ok
        assert bad_server.requests["/flaky"] == 3

    def test_but_not_for_ever(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/flaky?times=9&code=503"), retries=2)
        assert (page.status, page.error, page.ok) == (503, None, False)
        assert bad_server.requests["/flaky"] == 3

    def test_a_broken_connection_is_made_again(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/reset-once"), retries=1).ok

    @pytest.mark.parametrize("path", ["/status?code=404", "/status?code=500", "/bad-gzip", "/not-http", "/loop"])
    def test_what_would_fail_again_is_not_asked_again(self, path: str, bad_server: BadServer) -> None:
        fetch(bad_server.url(path), retries=3, max_redirects=0)
        assert sum(bad_server.requests.values()) == 1

    def test_a_time_out_is_final(self, bad_server: BadServer) -> None:
        fetch(bad_server.url("/silent"), retries=3, first_byte_timeout=0.2)
        assert bad_server.requests["/silent"] == 1

    def test_a_refused_address_is_final(self) -> None:
        began = time.monotonic()
        assert "refused: 10.0.0.1" in (fetch("http://10.0.0.1/", retries=5, backoff=20).error or "")
        assert time.monotonic() - began < 10

    def test_the_pause_grows_and_others_go_on_meanwhile(self, bad_server: BadServer) -> None:
        urls = [bad_server.url("/flaky?times=2&code=503"), *(bad_server.url(f"/good?{each}") for each in range(5))]
        began = time.monotonic()
        with HttpFetcher(options(retries=2, backoff=0.2, concurrency=1)) as fetcher:
            order = [page.url for page, _ in fetcher.fetch((url, None) for url in urls)]
        assert order[-1] == urls[0]
        assert time.monotonic() - began >= 0.2 * 0.5 + 0.4 * 0.5

    def test_the_server_says_when(self, bad_server: BadServer) -> None:
        began = time.monotonic()
        assert fetch(bad_server.url("/flaky?times=1&code=429&after=1"), retries=1).ok
        assert time.monotonic() - began >= 1

    def test_or_by_the_clock(self, bad_server: BadServer) -> None:
        began = time.monotonic()
        soon = quote(format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True))
        assert fetch(bad_server.url(f"/flaky?times=1&code=503&after={soon}"), retries=1).ok
        assert time.monotonic() - began >= 0.8

    @pytest.mark.parametrize("after", ["-1", "soon", "1e9", "\u0661"])
    def test_nonsense_is_passed_over(self, after: str, bad_server: BadServer) -> None:
        assert fetch(bad_server.url(f"/flaky?times=1&code=503&after={quote(after, encoding='utf-8')}"), retries=1).ok

    def test_a_server_that_wants_a_day_of_rest_gets_it(self, bad_server: BadServer) -> None:
        began = time.monotonic()
        page = fetch(bad_server.url("/flaky?times=1&code=429&after=86400"), retries=3)
        assert (page.status, bad_server.requests["/flaky"]) == (429, 1)
        assert time.monotonic() - began < 60

    def test_all_of_the_host_is_left_alone_meanwhile(self, bad_server: BadServer) -> None:
        urls = [bad_server.url("/flaky?times=1&code=503&after=1"), *(bad_server.url(f"/slow?{n}") for n in range(12))]
        assert all(page.ok for page in fetch_all(urls, concurrency=2, retries=1))
        asked = sorted(bad_server.times)
        assert max(later - earlier for earlier, later in pairwise(asked)) >= 0.9

    def test_a_pause_of_the_caller_is_not_held_against_the_server(self, bad_server: BadServer) -> None:
        urls = [bad_server.url("/good"), bad_server.url("/silent?seconds=0.5")]
        with HttpFetcher(options(total_timeout=2.5, first_byte_timeout=2.5, retries=1)) as fetcher:
            pages = fetcher.fetch((url, None) for url in urls)
            assert next(pages)[0].ok
            time.sleep(3)
            assert next(pages)[0].ok


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for `name` that nobody signed, and its key."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.test"]
    command += ["-addext", f"subjectAltName={name}", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@contextmanager
def https(certificate: Path, key: Path) -> Iterator[int]:
    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None: ...

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Server(("127.0.0.1", 0), Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_certificate_that_is_not_trusted_is_an_error(tmp_path: Path) -> None:
    with https(*certificate(tmp_path, "IP:127.0.0.1")) as port:
        assert fetch(f"https://127.0.0.1:{port}/").error == "the certificate of 127.0.0.1 is not trusted"


def test_a_certificate_for_another_name_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = certificate(tmp_path, "DNS:other.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    with https(*files) as port:
        assert fetch(f"https://127.0.0.1:{port}/").error == "the certificate of 127.0.0.1 is for another name"


def test_encryption_with_a_server_that_has_none_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        error = fetch(f"https://127.0.0.1:{port}/").error
        thread.join()
    assert error == f"could not agree on encryption with 127.0.0.1:{port}"


def test_thousands_of_pages_leak_neither_files_nor_memory(bad_server: BadServer) -> None:
    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = files()
    with HttpFetcher(options(concurrency=8)) as fetcher:
        paths = ["/good"] * 9 + ["/reset"]
        pages = fetcher.fetch((bad_server.url(paths[each % 10]), None) for each in range(2000))
        assert sum(page.ok for page, _ in pages) == 1800
    deadline = time.monotonic() + 30
    while files() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert files() <= before + 2


def test_what_is_in_flight_goes_on_while_each_of_several_pages_takes_the_caller_long(
    bad_server: BadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpFetcher(options()) as fetcher:
        performed = 0
        perform = fetcher._perform

        def counted() -> None:
            nonlocal performed
            performed += 1
            perform()

        monkeypatch.setattr(fetcher, "_perform", counted)
        page = fetch(bad_server.url("/good"))
        for at, (_, tag) in enumerate(fetcher._looked_after((page, n) for n in range(5))):
            assert (tag, performed) == (at, at)
            fetcher._worked_at -= 1
        assert performed == 5
