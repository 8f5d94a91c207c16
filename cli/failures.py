"""`spindle failures`: the pages that an execution could not fetch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.client import Connection, connect
from cli.jobs import find_execution
from cli.terminal import format_count, print_table

_PAGE = 1000  # the most that the server returns at once


def print_failures(connection: Connection, job: str, execution: str | None, limit: int) -> int:
    """Print the counts of failed pages by status and reason, then the first pages."""
    with connect(connection) as client:
        path = f"{find_execution(client, job, execution)}/failures"
        answer = client.get(path, limit=min(limit, _PAGE))
        pages: list[Any] = answer["failures"]
        while len(pages) < limit and (
            more := client.get(path, limit=min(limit - len(pages), _PAGE), cursor=len(pages))["failures"]
        ):
            pages += more
    if not answer["pages"]:
        print("No page has failed.")
        return 0
    print(f"{format_count(answer['pages'], 'pages')} failed.")
    print_table(["Pages", "Status", "Reason"], ([f"{each['pages']:,}", *_name_kind(each)] for each in answer["counts"]))
    headings = ["Address", "Status", "Reason", "Line", "Message"]
    print_table(headings, ([each["url"], *_name_kind(each), _show(each["line"]), each["message"]] for each in pages))
    return 0


def _name_kind(count: Mapping[str, Any]) -> tuple[str, str]:
    return _show(count["status"]), count["reason"]


def _show(value: Any) -> str:
    return "" if value is None else str(value)
