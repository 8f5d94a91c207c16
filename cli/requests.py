"""The requests of a run by status, and the first addresses of the pages that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from cli.terminal import escape_text, format_count, print_table
from pipelines.contract.progress import RequestCount

_MAX_KINDS = 20  # of answers
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def print_requests(console: Console, counts: Sequence[RequestCount]) -> None:
    """Print the table of requests by status and, if pages have failed, the first addresses of every kind."""
    if not counts:
        return
    headings = ["Status", "Reason", "Pages", "Retries", "Cached", "Bytes", "Seconds"]
    print_table(headings, _list_rows(counts), console)
    failed = [each for each in counts if each.reason]
    if not failed:
        return
    pages, all_pages = (sum(each.pages for each in kinds) for kinds in (failed, counts))
    console.print(escape_text(f"{pages:,} of {format_count(all_pages, 'pages')} failed:", "yellow"))
    for each in failed[:_MAX_KINDS]:
        more = each.pages - len(each.addresses)
        others = f" and {more:,} more" if more > 0 else ""
        kind = " ".join(filter(None, _name_kind(each)))
        console.print(
            escape_text(f"  {each.pages:,} x {kind}: {', '.join(each.addresses)}{others}", "yellow"),
            soft_wrap=True,
        )
    if others := failed[_MAX_KINDS:]:
        console.print(escape_text(f"  and {sum(each.pages for each in others):,} of other kinds", "yellow"))


def _list_rows(counts: Sequence[RequestCount]) -> Iterable[Sequence[str]]:
    for each in counts[:_MAX_KINDS]:
        figures = (f"{number:,}" if number else "" for number in (each.pages, each.retries, each.cached))
        yield [*_name_kind(each), *figures, _format_bytes(each.bytes), f"{each.seconds:,.1f}"]


def _name_kind(count: RequestCount) -> tuple[str, str]:
    return str(count.status or ""), count.reason or ""


def _format_bytes(size: int) -> str:
    return next((f"{size / unit:,.1f} {name}" for name, unit in _UNITS if size >= unit), str(size))
