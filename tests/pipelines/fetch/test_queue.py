"""The order in which requests start, their permits, and pages that several requests share."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.fetch.documents import detach_document
from pipelines.fetch.fetcher import TEMPORARY_STATUSES
from pipelines.fetch.queue import Request, RequestQueue
from pipelines.fetch.throttle import LocalHostThrottle, Refusal
from tests.support.bad_server import BadServer
from tests.support.fetching import LOOPBACK

ONE, TWO, THREE = (f"http://{name}.test" for name in ("one", "two", "three"))
URLS = [(f"{host}/{number}", None) for number in range(2) for host in (ONE, TWO, THREE)]
HOME = f"{ONE}/home"


class RecordingThrottle:
    """Grants `permits` by origin; `polled` is returned by the next poll."""

    def __init__(self) -> None:
        self.permits = Counter[str]()
        self.polled = list[str]()
        self.calls: list[tuple[str, str]] = []

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        if not self.permits[origin]:
            return False
        self.permits[origin] -= 1
        self.calls.append(("acquire", origin))
        return True

    def release(self, origin: str) -> None:
        self.calls.append(("release", origin))

    def cancel(self, origin: str) -> None:
        self.calls.append(("cancel", origin))

    def pause(self, origin: str, seconds: float) -> None: ...

    def poll(self) -> set[str]:
        polled, self.polled = set(self.polled), []
        return polled

    def wait(self, timeout: float, block: bool) -> float:
        return timeout


class DictCache:
    """A page cache in memory, without expiry."""

    def __init__(self) -> None:
        self.pages: dict[tuple[str, str], Page] = {}

    def get(self, url: str, variant: str = "") -> Page | None:
        return self.pages.get((url, variant))

    def refuse(self, url: str) -> str | None:
        return None

    def is_fresh(self, page: Page) -> bool:
        return True

    def put(self, page: Page, variant: str = "") -> None:
        if page.error is None and page.status not in TEMPORARY_STATUSES:
            self.pages[page.requested_url, variant] = page

    def tick(self) -> None: ...


def page(url: str, status: int = 200, body: bytes = b"<h1>home</h1>") -> Page:
    return Page(url, url, status, None, "text/html", "utf-8", body, datetime.now(UTC))


def queue_of(urls: list[str], options: FetchOptions | None = None) -> RequestQueue[str]:
    options = options or FetchOptions()
    return RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), DictCache())


def complete(queue: RequestQueue[str], request: Request[str], answer: Page) -> Page:
    [completed] = queue.complete(request, [request.prepend_redirects(answer)])
    return completed


def test_a_permit_is_for_a_request_that_starts_at_once() -> None:
    throttle = RecordingThrottle()
    queue = RequestQueue(URLS, FetchOptions(concurrency=2), throttle)
    assert list(queue.start(2)) == []
    throttle.permits.update((ONE, TWO, THREE))
    throttle.polled = [ONE, TWO, THREE]
    first, second = queue.start(2)
    assert throttle.calls == [("acquire", first.origin), ("acquire", second.origin)]
    [third] = queue.start(1)
    assert {first.origin, second.origin, third.origin} == {ONE, TWO, THREE}


def test_cancel_releases_running_requests_and_cancels_waiting_ones() -> None:
    throttle = RecordingThrottle()
    queue = RequestQueue(URLS, FetchOptions(concurrency=2), throttle)
    assert list(queue.start(2)) == []
    throttle.permits[ONE], throttle.polled = 2, [ONE]
    running = list(queue.start(1))
    throttle.calls.clear()
    queue.cancel(running)
    assert sorted(throttle.calls) == [("cancel", THREE), ("cancel", TWO), ("release", ONE), ("release", ONE)]


@pytest.mark.parametrize("status", [200, 404, 503])
def test_redirects_to_one_address_share_its_page(status: int) -> None:
    urls = [f"{ONE}/old/{number}" for number in range(3)]
    queue = queue_of(urls)
    for request in list(queue.start(16)):
        queue.redirect(request, HOME, 0.1)
    [first] = queue.start(16)
    assert (first.address, list(queue.start(16)), queue.empty) == (HOME, [], False)
    pages = [complete(queue, first, page(HOME, status))]
    assert list(queue.start(16)) == []
    pages += [found for found, _ in queue.take_finished()]
    assert queue.empty
    assert sorted(each.requested_url for each in pages) == urls
    assert {(each.url, each.status, each.redirects) for each in pages} == {(HOME, status, ())}


@pytest.mark.parametrize("direct_first", [True, False])
def test_a_link_and_a_redirect_to_one_address_share_its_page(direct_first: bool) -> None:
    urls = [f"{ONE}/old", HOME]
    queue = queue_of(urls)
    if direct_first:
        old, home = queue.start(2)
        queue.redirect(old, HOME, 0.1)
    else:
        [old] = queue.start(1)
        queue.redirect(old, HOME, 0.1)
        [home] = queue.start(1)
    assert list(queue.start(16)) == []
    pages = [complete(queue, home, page(HOME))]
    assert list(queue.start(16)) == []
    pages += [found for found, _ in queue.take_finished()]
    assert queue.empty
    assert {each.requested_url: each.url for each in pages} == dict.fromkeys(urls, HOME)


def test_two_addresses_that_redirect_to_each_other_end() -> None:
    queue = queue_of([f"{ONE}/a", f"{ONE}/b"], FetchOptions(max_redirects=20))
    sent = 0
    while not queue.empty:
        for request in list(queue.start(16)):
            sent += 1
            if len(request.redirects) < 20:
                queue.redirect(request, f"{ONE}/{'b' if request.address.endswith('a') else 'a'}", 0.1)
            else:
                complete(queue, request, page(request.address, 302))
        queue.take_finished()
    assert sent <= 42


def test_redirects_over_the_network_fetch_their_target_once(bad_server: BadServer) -> None:
    target = quote("/flaky?code=503&times=0&seconds=0.3", safe="")
    urls = [bad_server.url(f"/redirect?to={target}&number={number}") for number in range(12)]
    with HttpFetcher(FetchOptions(allow_networks=LOOPBACK, retries=0), cache=DictCache()) as fetcher:
        pages = [found for found, _ in fetcher.fetch((url, None) for url in urls)]
    assert bad_server.requests == {"/redirect": 12, "/flaky": 1}
    assert sorted(found.requested_url for found in pages) == sorted(urls)
    assert {found.status for found in pages} == {200}


def test_requests_that_wait_for_a_page_count_as_waiting() -> None:
    options, urls = FetchOptions(concurrency=1, per_host=1000), iter([f"{ONE}/old/{number}" for number in range(1000)])
    queue = RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), DictCache())
    [first] = queue.start(1)
    queue.redirect(first, HOME, 0.1)
    assert list(queue.start(1)) == [first]
    while others := list(queue.start(1)):
        queue.redirect(others[0], HOME, 0.1)
    assert next(urls) == f"{ONE}/old/65"


def test_behind_cookies_a_page_is_for_those_who_waited_before() -> None:
    old = f"{ONE}/old"
    queue = queue_of([old, old, f"{old}#2"], FetchOptions(per_host=4))
    (request,) = queue.start(16)
    queue.redirect(request, f"{ONE}/new", 0.1, ["a"])
    (request,) = queue.start(16)
    queue.redirect(request, HOME, 0.1)
    assert (list(queue.start(16)), request.addresses) == ([request], (old, f"{ONE}/new", HOME))
    complete(queue, request, page(HOME, body=b"yours"))
    finished = queue.take_finished()
    assert [(found.body, found.url, found.requested_url) for found, _ in finished] == [
        (b"yours", HOME, old),
        (b"yours", HOME, f"{old}#2"),
    ]


def test_a_request_with_cookies_shares_no_page() -> None:
    urls = [f"{ONE}/old/{number}" for number in range(4)]
    queue = queue_of(urls, FetchOptions(per_host=4))
    *early, late = queue.start(16)
    for request, cookies in zip(early, ((), ["a"], ()), strict=True):
        queue.redirect(request, HOME, 0.1, cookies)
    first, second = queue.start(16)
    assert [first.requested_url, second.requested_url] == urls[:2]
    complete(queue, second, page(HOME, body=b"yours"))
    assert (list(queue.start(16)), queue.take_finished()) == ([], [])
    complete(queue, first, page(HOME))
    assert [(found.body, url) for found, url in queue.take_finished()] == [(b"<h1>home</h1>", urls[2])]
    queue.redirect(late, HOME, 0.1, ["a"])
    assert list(queue.start(16)) == [late]


def test_part_of_a_result_is_not_shared() -> None:
    queue = queue_of([HOME, HOME])
    [first] = queue.start(16)
    queue.complete(first, [page(HOME)], cacheable=False)
    assert queue.take_finished() == []
    [second] = queue.start(16)
    assert second.address == HOME


def test_the_documents_of_a_visit_are_cached_and_shared_together() -> None:
    options, cache = FetchOptions(), DictCache()

    def begin(*urls: str) -> RequestQueue[str]:
        return RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), cache)

    documents = [replace(page(HOME, body=text), url=f"{ONE}/{text.decode()}") for text in (b"a", b"b", b"c")]
    queue = begin(HOME, HOME)
    [first] = queue.start(16)
    assert queue.complete(first, documents) == documents
    assert [each.body for each, _ in queue.take_finished()] == [b"a", b"b", b"c"]
    later = begin(HOME)
    assert list(later.start(16)) == []
    assert [(each.body, each.position) for each, _ in later.take_finished()] == [(b"a", 1), (b"b", 2), (b"c", 3)]
    # one of another visit, or a lost one: the visit is not there as a whole
    [last] = [key for key in cache.pages if key[1].endswith("3")]
    cache.pages[last] = replace(cache.pages[last], fetched_at=datetime.now(UTC))
    assert [*begin(HOME).start(16)]
    del cache.pages[last]
    assert [*begin(HOME).start(16)]


def test_what_a_visit_kept_is_cached_with_its_page() -> None:
    options, cache = FetchOptions(), DictCache()
    kept = {"picture": b"\x89PNG\xff", "state": {"name": "Ä", "sizes": [1, None]}, "nothing": None}
    queue = RequestQueue([(HOME, None)], options, LocalHostThrottle(options), cache)
    [first] = queue.start(16)
    queue.complete(first, [replace(page(HOME), kept=kept)])
    later = RequestQueue([(HOME, None)], options, LocalHostThrottle(options), cache)
    assert list(later.start(16)) == []
    [(found, _)] = later.take_finished()
    assert (found.kept, found.position, found.body) == (kept, None, b"<h1>home</h1>")
    [values] = [key for key in cache.pages if "values" in key[1]]
    cache.pages[values] = replace(cache.pages[values], body=b"cut")
    assert [*RequestQueue([(HOME, None)], options, LocalHostThrottle(options), cache).start(16)]


@pytest.mark.parametrize("text", ["9" * 5000, "0", "-3", "many", ""])
def test_a_site_that_sends_the_header_of_documents_harms_its_page_alone(text: str) -> None:
    options, cache = FetchOptions(), DictCache()
    cache.put(replace(page(HOME), head=f"Spindle-Documents: {text}\r\n".encode()))
    queue = RequestQueue([(HOME, None), (f"{TWO}/", None)], options, LocalHostThrottle(options), cache)
    started = [request.address for request in queue.start(16)]
    assert f"{TWO}/" in started
    assert len(started) + len(queue.take_finished()) == 2


def test_a_site_that_sends_the_header_of_values_has_a_page_of_its_own() -> None:
    hostile = replace(page(HOME), head=b"Spindle-Values: 1\r\n", body=b"[" * 200_000)
    found = detach_document(hostile)
    assert found is not None
    assert (found.body, found.head) == (hostile.body, b"")


@pytest.mark.parametrize("forbidden", [False, True])
def test_a_refused_request_is_a_page_with_its_reason(forbidden: bool) -> None:
    class RefusingThrottle(RecordingThrottle):
        def acquire(self, origin: str, url: str) -> bool | Refusal:
            return Refusal("not this one", forbidden)

    queue = RequestQueue([(f"{ONE}/0", None)], FetchOptions(), RefusingThrottle())
    assert list(queue.start(16)) == []
    [(found, _)] = queue.take_finished()
    assert (found.error, found.forbidden) == ("not this one", forbidden)


def test_a_refusal_concerns_the_waiting_requests_too() -> None:
    class StrictThrottle(RecordingThrottle):
        strict = False

        def acquire(self, origin: str, url: str) -> bool | Refusal:
            return Refusal("forbidden") if self.strict and url.endswith("/home") else super().acquire(origin, url)

    throttle, urls = StrictThrottle(), [f"{ONE}/old/{number}" for number in range(3)]
    throttle.permits[ONE] = 3
    queue = RequestQueue(((url, url) for url in urls), FetchOptions(), throttle, DictCache())
    for request in list(queue.start(16)):
        queue.redirect(request, f"{TWO}/home", 0.1)
    assert (list(queue.start(16)), queue.take_finished()) == ([], [])
    throttle.strict, throttle.polled = True, [TWO]
    assert list(queue.start(16)) == []
    assert [found.error for found, _ in queue.take_finished()] == [f"redirects to {TWO}/home: forbidden"] * 3
    assert queue.empty
