"""The columns of a pipeline that fetches pages and declares no columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pipelines.contract.workers import Tools
from pipelines.language.columns import Columns
from pipelines.language.origins import Origin
from pipelines.planning.stage import RowStage

if TYPE_CHECKING:
    from pipelines.extract.rows import Row

PAGE_COLUMNS = (("url", "string"), ("status", "int"), ("title", "string"))


class DescribePages(RowStage):
    """Add the address, the status and the title of a row's page; the planner adds this stage, which has no name."""

    keeps_rows = True

    def describe(self) -> str:
        return ", ".join(name for name, _ in PAGE_COLUMNS)

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(PAGE_COLUMNS)

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return {name: Origin(parts=(name,)) for name, _ in PAGE_COLUMNS}

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        return _describe_page


def _describe_page(row: Row) -> Iterable[Row]:
    title = row.element.first(":root title") if row.element else None
    values = {"url": row.value("_url"), "status": row.fetched.status, "title": title.text() if title else None}
    return (row.with_values(values),)
