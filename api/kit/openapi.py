"""FastAPI's OpenAPI file, completed: groups, servers, shared descriptions, 413 for bodies, and the error codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from api.kit.errors import MEANINGS, describe_codes
from api.kit.field_descriptions import SHARED_DESCRIPTIONS
from api.kit.idempotency import HEADER
from core.infra.settings import Settings

GROUPS = {  # the tags of operations, in the order of their use
    "projects": "Start here: a project groups jobs, and has their storage and their schema in SQL.",
    "agents": "An agent holds a pipeline in YAML. Writing one is how a pipeline is created.",
    "jobs": "A job runs an agent's pipeline in a project, with its own parameters, input and credentials.",
    "executions": "An execution is one run of a job: execute, follow, read the log, cancel, retry.",
    "datasets": "The rows that executions publish are tables: list them and query them with SQL.",
    "partitions": "The parts of a dataset that executions make one by one, and backfills of many of them.",
    "schedules": "When the jobs of a project are executed by themselves.",
    "tasks": "A task is a run of a job as a record that can be started and stopped.",
    "categories": "Categories group agents.",
    "pools": "A pool limits how many executions run at once in all projects, of the jobs that name it.",
    "catalog": "What pipelines can be made of.",
    "python extensions": "Functions in Python that an agent's pipeline calls for each row.",
    "selectors": "What prompts were proven to mean on the pages of a host.",
    "cloud credentials": "Keys of providers, encrypted, for the pipelines that need them.",
    "events": "Executions followed live, as Server-Sent Events.",
    "webhooks": "Events of a project, sent to the addresses that it names.",
    "notifications": "Who is told what about a project's jobs: by chat, mail or a webhook.",
    "cron jobs": "Addresses that are called on a cron schedule.",
    "metrics": "Usage and costs of executions, jobs, projects and organizations.",
    "declarations": "All records of a file such as spindle.yaml, written at once.",
    "packages": "Projects with their jobs and agents, exported to a file and imported from one.",
    "plugins": "Plugins of the organization, and builds of the engine.",
    "html": "A single page, fetched as pipelines do.",
    "cms-tables": "Generic tables: JSON records in tables that users name.",
    "AI providers": "Models trained further with the organization's data, at a provider or on the operator's machine.",
    "training": "Facts about training, and whether it is possible now.",
    "spark": "Facts about Spark, and whether it works.",
    "auth": "API keys and their scopes, people and their roles, the audit log, and organizations.",
    "health": "Whether the service works.",
}
NEVER_GIVEN = "422"
TOO_LARGE = {
    "description": MEANINGS[413],
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
KEY_CONFLICT = {**TOO_LARGE, "description": MEANINGS[409]}
VALIDATION_SCHEMAS = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI, settings: Settings, plugins: Mapping[str, str]) -> None:
    """Replace the application's `openapi` method by one that returns the completed file, with the groups of plugins."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                servers=_list_servers(settings),
                tags=[{"name": name, "description": text} for name, text in {**GROUPS, **plugins}.items()],
            )
            _list_second_paths(app, schema)
            app.openapi_schema = _correct(schema)
        return app.openapi_schema

    app.openapi = openapi


def make_operation_id(route: APIRoute) -> str:
    """Return the endpoint's name; an endpoint with a second route for DELETE needs a second id."""
    is_second_route = "DELETE" in (route.methods or ()) and not route.name.startswith("delete")
    return f"{route.name}_by_delete" if is_second_route else route.name


def _list_servers(settings: Settings) -> list[dict[str, Any]]:
    """Return the relative address, for the docs page, and the absolute one, for a copy of the file."""
    address = settings.api.origin
    return [
        {"url": "/", "description": "The server that this file came from."},
        {"url": address, "description": "Its address, from SPINDLE_PUBLIC_URL or from the host and port of the API."},
    ]


def _list_second_paths(app: FastAPI, schema: dict[str, Any]) -> None:
    """Add the second path of an operation, which the specification does not have, to its description."""
    routes = [route for route in iter_route_contexts(app.routes) if isinstance(route.original_route, APIRoute)]
    second = {
        (route.endpoint, method): route.path_format
        for route in routes
        if not route.include_in_schema
        for method in route.methods or ()
    }
    for route in (route for route in routes if route.include_in_schema):
        for method in route.methods or ():
            if path := second.get((route.endpoint, method)):
                operation = schema["paths"][route.path_format][method.lower()]
                operation["description"] = f"{operation['description'].rstrip()}\n\nAlso at `{path}`."


def _correct(schema: dict[str, Any]) -> dict[str, Any]:
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop(NEVER_GIVEN, None)
            if "requestBody" in operation:
                operation["responses"].setdefault("413", TOO_LARGE)
            if any(each.get("name") == HEADER for each in operation.get("parameters", ())):
                operation["responses"].setdefault("409", KEY_CONFLICT)
    code = schema["components"]["schemas"]["ErrorDetail"]["properties"]["code"]
    code["description"] += f"\n\n{describe_codes()}"  # not in that of the file, which a page of docs begins with
    for name in VALIDATION_SCHEMAS:
        schema["components"]["schemas"].pop(name, None)
    for model in schema["components"]["schemas"].values():
        for name, field in model.get("properties", {}).items():
            if name in SHARED_DESCRIPTIONS:
                field.setdefault("description", SHARED_DESCRIPTIONS[name])
    return schema
