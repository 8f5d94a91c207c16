"""The OpenAPI file: FastAPI's, without the validation answers that this service does not give."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

NEVER_GIVEN = "422"
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
    for name in VALIDATION_SCHEMAS:
        schema["components"]["schemas"].pop(name, None)
    return schema
