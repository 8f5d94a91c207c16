"""FastAPI's OpenAPI file, corrected: no 422 answers, 413 for operations with a body, and the list of error codes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.kit.errors import MEANINGS, describe_codes

NEVER_GIVEN = "422"
TOO_LARGE = {
    "description": MEANINGS[413],
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
VALIDATION_SCHEMAS = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> None:
    """Replace the application's `openapi` method by one that returns the corrected file."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = f"{app.description}\n\n## Error codes\n\n{describe_codes()}"
            schema = get_openapi(title=app.title, version=app.version, description=description, routes=app.routes)
            app.openapi_schema = _correct(schema)
        return app.openapi_schema

    app.openapi = openapi


def _correct(schema: dict[str, Any]) -> dict[str, Any]:
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop(NEVER_GIVEN, None)
            if "requestBody" in operation:
                operation["responses"].setdefault("413", TOO_LARGE)
    for name in VALIDATION_SCHEMAS:
        schema["components"]["schemas"].pop(name, None)
    return schema
