"""Who is asked again, when, and who is not."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import pycurl
import pytest

from pipelines.engine.options import make_fetch_options
from pipelines.errors import PipelineError
from pipelines.fetch import HttpFetcher, http, queue, throttle
from pipelines.fetch.fetcher import CrawlOptions
from pipelines.fetch.transfer import Transfer
from pipelines.pipeline import Pipeline
from tests.support.bad_server import BadServer
from tests.support.clock import Clock
from tests.support.fetching import LOOPBACK, fetch, fetch_all, options


def read_fetch_options(written: str) -> CrawlOptions:
    """The options of a pipeline with this under `spindle`."""
    text = "fetch: {url: 'https://shop.test/'}\npipeline: [{stage: extract, args: [{selector: h1}]}]\n"
    plan = Pipeline.from_yaml(f"{text}spindle: {{{written}}}\n").plan()
    return make_fetch_options(plan.options, LOOPBACK)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of pauses: they are over at once where nothing else can be done meanwhile."""
    clock = Clock()
    for module in (queue, throttle):
        monkeypatch.setattr(module, "time", clock)
    return clock


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

    def test_an_internal_error_is_asked_again_once(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/flaky?times=1&code=500"), retries=2).ok
        assert fetch(bad_server.url("/flaky?times=9&code=500"), retries=2).status == 500
        assert bad_server.requests["/flaky"] == 4

    @pytest.mark.parametrize(
        ("written", "status", "asked"),
        [
            ("retries: 3", 500, 4),
            ("retries: 3", 503, 4),
            ("retries: 3", 404, 1),
            ("retries: 0", 500, 1),
            ("retries: 0", 503, 1),
            ("retryStatuses: [403]", 403, 3),
            ("retryStatuses: [403]", 500, 1),
            ("retryStatuses: []", 503, 1),
            ("retries: 1, retryStatuses: [404]", 404, 2),
        ],
    )
    def test_a_pipeline_says_what_is_asked_again(
        self, written: str, status: int, asked: int, bad_server: BadServer
    ) -> None:
        made = read_fetch_options(f"{written}, backoff: 0.001")
        with HttpFetcher(made) as fetcher:
            [(page, _)] = fetcher.fetch([(bad_server.url(f"/flaky?times=9&code={status}"), None)])
        assert page.status == status
        assert bad_server.requests["/flaky"] == asked

    @pytest.mark.parametrize("written", ["retries: -1", "retries: 21", "retryStatuses: [200]", "backoff: 0"])
    def test_impossible_retries_are_refused(self, written: str) -> None:
        with pytest.raises(PipelineError, match=written.partition(":")[0]):
            read_fetch_options(written)

    def test_a_broken_connection_is_made_again(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url("/reset-once"), retries=1).ok

    @pytest.mark.parametrize("path", ["/status?code=404", "/status?code=501", "/bad-gzip", "/not-http", "/loop"])
    def test_permanent_failures_are_not_retried(self, path: str, bad_server: BadServer) -> None:
        fetch(bad_server.url(path), retries=3, max_redirects=0)
        assert sum(bad_server.requests.values()) == 1

    def test_a_time_out_is_final(self, bad_server: BadServer) -> None:
        fetch(bad_server.url("/silent"), retries=3, first_byte_timeout=0.2)
        assert bad_server.requests["/silent"] == 1

    @pytest.mark.parametrize(("seconds", "waits"), [(5, 30), (90, 90)])
    def test_the_timeout_of_a_pipeline_covers_the_wait_for_an_answer(self, seconds: int, waits: int) -> None:
        made = read_fetch_options(f"timeout: {seconds}")
        assert (made.total_timeout, made.first_byte_timeout) == (seconds, waits)

    def test_a_refused_address_is_final(self, clock: Clock) -> None:
        began = clock.now
        assert "refused: 10.0.0.1" in (fetch("http://10.0.0.1/", retries=5, backoff=20).error or "")
        assert clock.now == began

    def test_the_pause_grows_and_others_go_on_meanwhile(self, bad_server: BadServer, clock: Clock) -> None:
        urls = [bad_server.url("/flaky?times=2&code=503"), *(bad_server.url(f"/good?{each}") for each in range(5))]
        bad_server.clock = clock
        with HttpFetcher(options(retries=2, backoff=100, concurrency=1)) as fetcher:
            order = [page.url for page, _ in fetcher.fetch((url, None) for url in urls)]
        assert order[-1] == urls[0]
        began, first, second = sorted({*bad_server.times})
        assert 50 <= first - began <= 150
        assert 100 <= second - first <= 300

    def test_the_server_says_when(self, bad_server: BadServer, clock: Clock) -> None:
        began = clock.now
        assert fetch(bad_server.url("/flaky?times=1&code=429&after=50"), retries=1).ok
        assert clock.now - began == pytest.approx(50)

    def test_or_by_the_clock(self, bad_server: BadServer, clock: Clock) -> None:
        began = clock.now
        later = quote(format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True))
        url = bad_server.url(f"/flaky?times=1&code=503&after={later}")
        assert fetch(url, retries=1, max_retry_after=10_000).ok
        assert 7000 < clock.now - began <= 7200

    @pytest.mark.parametrize(
        "after",
        [
            "-1",
            "soon",
            "1e9",
            "\u0661",
            "Mon, 01 Jan 99999999999 00:00:00 GMT",
            "Mon, 99999999999999999999 Jan 2020 00:00:00 GMT",
            "Mon, 01 Jan 2020 00:00:00 +99999999999999999999",
            "Mon, 01 Jan 0001 00:00:00 +0100",
            f"Mon, 01 Jan {'9' * 5000} 00:00:00 GMT",
        ],
    )
    def test_nonsense_is_passed_over(self, after: str, bad_server: BadServer) -> None:
        assert fetch(bad_server.url(f"/flaky?times=1&code=503&after={quote(after, encoding='utf-8')}"), retries=1).ok

    def test_a_server_that_wants_a_day_of_rest_gets_it(self, bad_server: BadServer, clock: Clock) -> None:
        began = clock.now
        page = fetch(bad_server.url("/flaky?times=1&code=429&after=86400"), retries=3)
        assert (page.status, bad_server.requests["/flaky"]) == (429, 1)
        assert clock.now == began

    def test_the_whole_host_waits_meanwhile(self, bad_server: BadServer, clock: Clock) -> None:
        urls = [bad_server.url("/flaky?times=1&code=503&after=50"), *(bad_server.url(f"/slow?{n}") for n in range(12))]
        bad_server.clock = clock
        began = clock.now
        assert all(page.ok for page in fetch_all(urls, concurrency=2, retries=1))
        assert bad_server.times.count(began) <= 3
        assert min(at for at in bad_server.times if at > began) - began == pytest.approx(50)

    def test_a_pause_of_the_caller_is_not_held_against_the_server(self, bad_server: BadServer) -> None:
        urls = [bad_server.url("/good"), bad_server.url("/silent?seconds=0.5")]
        with HttpFetcher(options(total_timeout=2.5, first_byte_timeout=2.5, retries=1)) as fetcher:
            pages = fetcher.fetch((url, None) for url in urls)
            assert next(pages)[0].ok
            time.sleep(3)
            assert next(pages)[0].ok

    def test_nor_is_the_time_for_which_libcurl_is_held_up(
        self, bad_server: BadServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "time", clock)
        told: list[float] = []
        monkeypatch.setattr(Transfer, "excuse_pause", lambda _, seconds: told.append(seconds))
        with HttpFetcher(options()) as fetcher:
            monkeypatch.setattr(fetcher, "_multi", _SlowOnce(fetcher._multi, clock))
            [(page, _)] = fetcher.fetch([(bad_server.url("/good"), None)])
        assert page.ok
        assert told == [1.5]


class _SlowOnce:
    """libcurl on a machine that is held up once."""

    def __init__(self, multi: pycurl.CurlMulti, clock: Clock) -> None:
        self._multi = multi
        self._clock = clock
        self._slow = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._multi, name)

    def perform(self) -> Any:
        if self._slow:
            self._slow = False
            self._clock.sleep(1.5)
        return self._multi.perform()
