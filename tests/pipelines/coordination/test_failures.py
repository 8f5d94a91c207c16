"""The list of failed pages is bounded, and all of them are counted."""

from __future__ import annotations

from datetime import UTC, datetime

from pipelines.coordination.client import connect
from pipelines.coordination.failures import MAX_FAILED_PAGES, FailureList, list_blocking_hosts, sum_answers
from pipelines.coordination.messages import FailedPage, FetchTally
from pipelines.coordination.server import Coordinator
from pipelines.engine.progress import ProgressReporter
from pipelines.extract.rows import Fetched
from pipelines.fetch import Page
from pipelines.fetch.blocks import describe_block

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _fail(reporter: ProgressReporter, url: str, status: int | None = 500, secrets: tuple[str, ...] = ()) -> None:
    page = Page(url, url, status, None if status else "timed out after 60 s", None, None, b"", NOW, attempts=2)
    reporter.add_page(reporter.get_step("s01_fetch"), page, Fetched.from_page(page, secrets))


def _list(failed: FailureList) -> list[str]:
    return [page.url for page in failed.list_pages()]


def test_the_first_failures_are_listed_and_further_kinds_keep_their_first_addresses() -> None:
    failed, late = FailureList(), FailedPage("http://late/", None, "timeout", "timed out", "s01_fetch")
    failed.add("1", (FailedPage(f"http://h/{n}", 404, "http-status", "no", "s01_fetch") for n in range(20_000)))
    failed.add("2", [late])
    assert len(failed.list_pages()) == MAX_FAILED_PAGES
    assert failed.get_addresses(FetchTally(None, "timeout")) == ["http://late/"]
    assert failed.get_addresses(FetchTally(404, "http-status")) == ["http://h/0", "http://h/1", "http://h/2"]


def test_a_task_that_runs_again_lists_its_failures_once() -> None:
    with Coordinator() as coordinator:
        for _ in range(2):
            for task in ("1", "2"):
                connection = connect(coordinator.endpoint, task)
                reporter = ProgressReporter(connection)
                _fail(reporter, f"http://h/{task}")
                reporter.close()
                assert connection
                connection.close()
        assert sorted(page.url for page in coordinator.list_failed_pages()) == ["http://h/1", "http://h/2"]
        ((answer, addresses),) = coordinator.list_answers()
    assert (answer.status, answer.reason, answer.pages, answer.retries) == (500, "http-status", 2, 2)
    assert sorted(addresses) == ["http://h/1", "http://h/2"]


def test_what_an_earlier_run_has_exported_is_listed_too() -> None:
    with Coordinator() as first, Coordinator() as second:
        reporter = ProgressReporter(connect(first.endpoint, "1"))
        _fail(reporter, "http://h/a", None)
        reporter.close()
        second.import_report(first.export_report())
        assert second.list_failed_pages() == first.list_failed_pages()
        assert second.list_answers() == first.list_answers()
    (page,) = second.list_failed_pages()
    assert (page.url, page.status, page.reason, page.step, page.attempts) == (
        "http://h/a",
        None,
        "timeout",
        "s01_fetch",
        2,
    )


def test_one_task_sends_a_bounded_list_and_all_counts() -> None:
    with Coordinator() as coordinator:
        connection = connect(coordinator.endpoint, "1")
        reporter = ProgressReporter(connection)
        for number in range(MAX_FAILED_PAGES + 500):
            _fail(reporter, f"http://h/{number}{'x' * 3000}")
        _fail(reporter, "http://h/late", 404)
        reporter.close()
        pages, answers = coordinator.list_failed_pages(), coordinator.list_answers()
    assert len(pages) == MAX_FAILED_PAGES
    assert max(len(page.url) for page in pages) == 2000
    assert [(answer.status, answer.pages) for answer, _ in answers] == [(500, MAX_FAILED_PAGES + 500), (404, 1)]
    assert answers[1][1] == ["http://h/late"]


def test_secrets_and_passwords_are_masked_in_addresses() -> None:
    with Coordinator() as coordinator:
        reporter = ProgressReporter(connect(coordinator.endpoint, "1"))
        _fail(reporter, "http://user:hunter2@h/a?key=top-secret", secrets=("top-secret",))
        reporter.close()
        (page,) = coordinator.list_failed_pages()
    assert page.url == "http://user:********@h/a?key=********"


def test_a_host_that_blocks_a_share_of_its_pages_is_named() -> None:
    with Coordinator() as coordinator:
        reporter = ProgressReporter(connect(coordinator.endpoint, "1"))
        step = reporter.get_step("s01_fetch")
        for number in range(6):
            url = f"http://shop.test/{number}"
            page = Page(url, url, 200, describe_block("X") if number % 2 else None, "text/html", None, b"", NOW)
            reporter.add_page(step, page, Fetched.from_page(page))
        reporter.close()
        assert coordinator.list_blocking_hosts() == [("shop.test", 5, 3)]
    assert list_blocking_hosts({"rarely.test": (1000, 10), "twice.test": (2, 2)}) == []


def test_answers_of_tasks_are_summed_by_status_and_reason() -> None:
    ok, more = FetchTally(200, None, 3, 1, 100, 0.5, 1), FetchTally(200, None, 5, 0, 50, 0.25, 0)
    failed = FetchTally(500, "http-status", 1)
    assert sum_answers([[failed, ok], [more]]) == [FetchTally(200, None, 8, 1, 150, 0.75, 1), failed]
