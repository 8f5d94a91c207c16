"""Pages of the console: Jinja's templates, how they show values, and the headers of all pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from jinja2.utils import htmlsafe_json_dumps

from api.console.texts import OF_SCRIPTS, TEXT
from api.executions.schemas import ExecutionRecord
from api.kit.services import Services, get_services
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import is_shared
from core.definitions.identity.roles import SUPER_ADMIN

CELL_LENGTH = 300
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would send forms with the origin null
    "Cache-Control": "no-store",
    "Vary": "Cookie",
}
NOTHING = "\N{EN DASH}"
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
environment = Environment(
    loader=PackageLoader("api.console"),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page with the rights of the caller; a page without a caller shows no navigation."""
    services = get_services(request)
    settings = services.settings
    caller: Identity | None = getattr(request.state, "identity", None)
    root = settings.api.root_path
    page = environment.get_template(template).render(
        **values,
        caller=caller,
        path=request.url.path,
        shared="X-Spindle-Event" in request.headers,
        api=f"{root}/{settings.api.service_segment}/api",
        cloud=f"{root}/{settings.api.service_segment}/cloud",
        docs=f"{root}/docs",
        has_provider=settings.oidc.issuer is not None,
        shows_dagster=caller is not None and may_see_dagster(services, caller),
    )
    return HTMLResponse(page, status, HEADERS)


def may_see_dagster(services: Services, caller: Identity) -> bool:
    """Return whether the caller may see all that the Dagster UI shows, which is every organization."""
    if caller.may(SUPER_ADMIN):
        return True
    with services.database.read() as session:
        return not is_shared(session)


def format_number(value: float | None) -> str:
    """Return a number with spaces between thousands, and at most two decimals."""
    if value is None:
        return NOTHING
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    return text.replace(",", "\u202f")


def format_bytes(value: int | None) -> str:
    if value is None:
        return NOTHING
    power = min((len(str(value)) - 1) // 3, len(UNITS) - 1)
    return f"{value / 1000**power:.3g} {UNITS[power]}"


def format_seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value < 60:
        return f"{value:.3g} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def format_money(value: float, currency: str = "USD") -> str:
    return f"{value:.6f}".rstrip("0").ljust(4, "0") + f" {currency}"


def format_iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds")


def format_cell(value: Any) -> str:
    """Return a value of a row as short text."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) < CELL_LENGTH else f"{text[:CELL_LENGTH]}…"


def format_json(value: Any) -> str:
    """Return a value as JSON for a person to change."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def count_rows(execution: ExecutionRecord) -> int | None:
    """Return the rows of the execution's last stage so far, else those of its output; None before it has stages."""
    stages = execution.progress.stages
    return stages[-1].rows if stages else execution.records_output


def count_pages(execution: ExecutionRecord) -> int | None:
    """Return the number of pages of all stages so far; None after a cleanup."""
    return None if execution.details_removed_at else sum(each.pages for each in execution.progress.stages)


def count_failures(execution: ExecutionRecord, listed: int = 0) -> int | None:
    """Return the number of pages that could not be fetched, at least the `listed` ones; None after a cleanup."""
    if execution.details_removed_at:
        return listed or None
    return max(listed, sum(each.pages for each in execution.progress.requests if each.reason is not None))


def compute_pace(execution: ExecutionRecord) -> float | None:
    """Return the pages a second since the execution's start; None before that, and after a cleanup."""
    seconds, pages = execution.execution_time_seconds, count_pages(execution)
    return round(pages / seconds, 1) if seconds and pages is not None else None


FILTERS: dict[str, Any] = {
    "rows": count_rows,
    "pages": count_pages,
    "failures": count_failures,
    "pace": compute_pace,
    "number": format_number,
    "bytes": format_bytes,
    "seconds": format_seconds,
    "money": format_money,
    "iso": format_iso,
    "cell": format_cell,
    "json": format_json,
}
environment.filters.update(FILTERS)
GLOBALS: dict[str, Any] = {"text": TEXT, "texts_of_scripts": htmlsafe_json_dumps(OF_SCRIPTS, ensure_ascii=False)}
environment.globals.update(GLOBALS)
