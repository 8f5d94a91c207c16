"""The driver's reports as Dagster metadata."""

from __future__ import annotations

from dagster import TableMetadataValue

from orchestration.metadata import build_failed_pages
from pipelines.contract.progress import Progress


def test_failed_pages_are_named_by_status_and_reason_with_the_first_addresses() -> None:
    urls = ["http://shop.test/1", "http://shop.test/2"]
    requests = [
        {"status": 200, "reason": None, "pages": 28},
        {"status": 500, "reason": "http-status", "pages": 12, "addresses": urls},
        {"status": None, "reason": "timeout", "pages": 1, "addresses": ["http://slow.test/"]},
    ]
    table = build_failed_pages(Progress.from_report({"requests": requests}))
    assert isinstance(table, TableMetadataValue)
    assert [record.data for record in table.records] == [
        {"status": 500, "reason": "http-status", "pages": 12, "addresses": " ".join(urls)},
        {"status": None, "reason": "timeout", "pages": 1, "addresses": "http://slow.test/"},
    ]
    assert build_failed_pages(Progress.from_report({"requests": requests[:1]})) is None
    assert build_failed_pages(Progress()) is None
