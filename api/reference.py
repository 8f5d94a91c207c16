"""Reference of the REST operations, a line each: `python -m api.reference > docs/api.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from api.app import create_app
from core.infra.settings import Settings

_INTRODUCTION = """\
# REST operations

All operations of a service without plugins of others, by subject. The paths begin with `/api/svc/api` unless they begin
with `/api`. A running service has their fields, examples and errors at `/api/docs`, and the OpenAPI file at
`/api/openapi.json`; `spindle openapi` prints it. [rest.md](rest.md) goes through the first pipeline with curl.
`key` is the scope that the API key needs.

| subject | operation | what it does | key |
|---|---|---|---|
"""
_PREFIX = "/api/svc/api"


def build_reference(document: dict[str, Any]) -> str:
    """Return the page for an OpenAPI document, in the order of its subjects."""
    subjects = [each["name"] for each in document["tags"]]
    lines = sorted(_iter_lines(document), key=lambda line: subjects.index(line[0]))
    return _INTRODUCTION + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _iter_lines(document: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            scopes = [scope for each in operation.get("security", ()) for names in each.values() for scope in names]
            shown = f"`{method.upper()} {path.removeprefix(_PREFIX) or '/'}`"
            yield operation["tags"][0], shown, operation["summary"].replace("|", "\\|"), ", ".join(scopes)


def main() -> None:
    print(build_reference(create_app(Settings()).openapi()), end="")


if __name__ == "__main__":
    main()
