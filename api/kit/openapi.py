"""The OpenAPI file: FastAPI's, with the answers that this service gives: none of 422, and 413 to bodies too large."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.kit.errors import MEANINGS

NEVER_GIVEN = "422"
TOO_LARGE = {
    "description": MEANINGS[413],
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
VALIDATION_SCHEMAS = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> None:
    """Has the application answer with, and print, the corrected file."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _corrected(
                get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            )
        return app.openapi_schema

    app.openapi = openapi


def _corrected(schema: dict[str, Any]) -> dict[str, Any]:
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop(NEVER_GIVEN, None)
            if "requestBody" in operation:
                operation["responses"].setdefault("413", TOO_LARGE)
    for name in VALIDATION_SCHEMAS:
        schema["components"]["schemas"].pop(name, None)
    return schema
