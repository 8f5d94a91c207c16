"""What can go wrong on the way to a page, and what its row says then."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import quote

import pycurl
import pytest

from pipelines.fetch import FetchOptions, failures
from pipelines.fetch.blocks import describe_block
from pipelines.fetch.failures import FailureReason
from pipelines.fetch.robots import make_unreached
from pipelines.http_client.failures import describe_curl_error
from pipelines.http_client.guard import GuardRefused
from tests.support.bad_server import PAGE, BadServer
from tests.support.cases import each_case
from tests.support.certificates import create_certificate, serve_https
from tests.support.fetching import fetch, fetch_all

OPTIONS = FetchOptions()


def _describe(code: int, detail: str = "") -> str:
    return describe_curl_error(code, detail, "shop.test:80", OPTIONS.time_limits)


CLOSED = "SERVER closed the connection"
SENTENCES = {
    "http://127.0.0.1:1/": "could not connect to 127.0.0.1:1",
    "http://nowhere.invalid/": "could not find the host nowhere.invalid",
    "/reset": "the connection to SERVER broke",
    "/empty": f"{CLOSED} without an answer",
    "/too-short": f"{CLOSED} before the end of the page",
    "/bad-length": "SERVER does not speak HTTP",
    "/not-http": "SERVER does not speak HTTP",
    "/said?header=" + quote('Transfer-Encoding: "é"'): "the page cannot be decompressed",
    "/headers?count=20000": "the header of the answer of SERVER is too large",
}


class TestFailures:
    @pytest.mark.parametrize(("address", "sentence"), SENTENCES.items())
    def test_each_failure_has_its_sentence_and_no_body(
        self, address: str, sentence: str, bad_server: BadServer
    ) -> None:
        page = fetch(address if "://" in address else bad_server.url(address))
        assert (page.error, page.body) == (sentence.replace("SERVER", f"127.0.0.1:{bad_server.port}"), b"")

    def test_a_reset_in_the_middle_of_the_body(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/reset-midway"))
        assert page.error in {
            f"the connection to 127.0.0.1:{bad_server.port} broke",
            f"127.0.0.1:{bad_server.port} closed the connection before the end of the page",
        }
        assert page.body == b""

    def test_more_than_was_announced_is_cut_off(self, bad_server: BadServer) -> None:
        pages = fetch_all([bad_server.url("/too-long")] * 3, concurrency=1)
        assert [page.body for page in pages] == [PAGE] * 3

    def test_not_modified_without_having_been_asked(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/status?code=304"))
        assert (page.status, page.ok) == (304, False)
        assert "304" in (page.error or "")

    def test_a_server_that_says_nothing(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/silent"), first_byte_timeout=0.3)
        waits = "'spindle: {timeout: SECONDS}' waits longer"
        assert page.error == f"127.0.0.1:{bad_server.port} did not answer within 0.3 s; {waits}"
        assert bad_server.running["/silent"] == 1, "it has not answered"

    def test_a_server_that_stops_in_the_middle(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/stall"), first_byte_timeout=1, total_timeout=20)
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

    def test_a_failure_does_not_affect_other_pages(self, bad_server: BadServer) -> None:
        paths = ["/good", "/reset", "/empty", "/too-short", "/not-http", "/bad-gzip", "/loop", "/good"] * 5
        pages = fetch_all([bad_server.url(path) for path in paths], concurrency=4)
        assert [page.ok for page in pages] == [path == "/good" for path in paths]


def test_a_certificate_that_is_not_trusted_is_an_error(tmp_path: Path) -> None:
    with serve_https(*create_certificate(tmp_path, "IP:127.0.0.1")) as url:
        assert fetch(f"{url}/").error == "the certificate of 127.0.0.1 is not trusted"


def test_a_certificate_for_another_name_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = create_certificate(tmp_path, "DNS:other.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    with serve_https(*files) as url:
        assert fetch(f"{url}/").error == "the certificate of 127.0.0.1 is for another name"


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


@each_case(
    ("sentence", "reason"),
    [
        (describe_block("Cloudflare"), FailureReason.BLOCKED),
        ("the server answered 404", FailureReason.STATUS),
        ("http://shop.test/robots.txt forbids this address to Spindle", FailureReason.ROBOTS),
        ("robots.txt could not be read (status 500), so nothing may be fetched from the site", FailureReason.ROBOTS),
        (
            "redirects to http://shop.test/a: http://shop.test/robots.txt forbids this address to x",
            FailureReason.ROBOTS,
        ),
        (make_unreached("x", "could not connect to shop.test:80").refusal, FailureReason.CONNECTION),
        (make_unreached("x", "could not find the host shop.test").refusal, FailureReason.HOST),
        (f"refused: {GuardRefused('10.0.0.1', 'a private address')}", FailureReason.REFUSED),
        ("redirects to http://shop.test/a: refused: shop.test has a private address", FailureReason.REFUSED),
        ("'ftp://x' is not an http or https address", FailureReason.ADDRESS),
        (failures.describe_too_many_redirects(OPTIONS), FailureReason.REDIRECT),
        (failures.describe_bad_redirect(None, "shop.test:80"), FailureReason.REDIRECT),
        (failures.describe_foreign_redirect("shop.test:80", "http://x.test/"), FailureReason.REDIRECT),
        (failures.describe_missing_answer("shop.test:80", OPTIONS), FailureReason.TIMEOUT),
        (_describe(pycurl.E_OPERATION_TIMEDOUT), FailureReason.TIMEOUT),
        (_describe(pycurl.E_OPERATION_TIMEDOUT, "Connection timed out"), FailureReason.TIMEOUT),
        (_describe(pycurl.E_OPERATION_TIMEDOUT, "Operation too slow"), FailureReason.TIMEOUT),
        (_describe(pycurl.E_COULDNT_RESOLVE_HOST), FailureReason.HOST),
        (_describe(pycurl.E_PEER_FAILED_VERIFICATION), FailureReason.CERTIFICATE),
        (_describe(pycurl.E_SSL_CONNECT_ERROR), FailureReason.CERTIFICATE),
        (failures.describe_too_large(OPTIONS), FailureReason.TOO_LARGE),
        (_describe(100), FailureReason.TOO_LARGE),
        (failures.UNDECODABLE, FailureReason.UNREADABLE),
        (_describe(pycurl.E_COULDNT_CONNECT), FailureReason.CONNECTION),
        (_describe(pycurl.E_PARTIAL_FILE), FailureReason.CONNECTION),
        (_describe(pycurl.E_RECV_ERROR), FailureReason.CONNECTION),
        (_describe(pycurl.E_UNSUPPORTED_PROTOCOL), FailureReason.CONNECTION),
        (_describe(77), FailureReason.CONNECTION),
        ("action 2, click #more: nothing to act on came within 5 s", FailureReason.ACTION),
        ("the file cannot be stored: No space left on device", FailureReason.FILE),
        ("something else", FailureReason.OTHER),
    ],
)
def test_each_sentence_has_a_reason(sentence: str, reason: FailureReason) -> None:
    assert failures.find_reason(None, sentence) is reason


def test_an_unknown_sentence_about_an_error_status_is_of_the_status() -> None:
    assert failures.find_reason(502, "something else") is FailureReason.STATUS
