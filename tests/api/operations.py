"""The operations of an OpenAPI file, with a request for each that is valid as far as its schema tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.app import create_app
from core.infra.settings import Settings

OPENAPI = create_app(Settings()).openapi()
SAMPLES = {"status": "FAILED", "role": "viewer", "sql": "SELECT 1 AS x", "table": "products"}


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    spec: Mapping[str, Any]
    document: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def scopes(self) -> list[str]:
        return [scope for requirement in self.spec["security"] for scope in requirement["ApiKeyAuth"]]

    @property
    def path_parameters(self) -> list[str]:
        return self._parameters("path")

    @property
    def query_parameters(self) -> list[str]:
        return self._parameters("query")

    @property
    def addresses_records(self) -> bool:
        return any(map(addresses_a_record, self.path_parameters))

    @property
    def streams(self) -> bool:
        """Whether the answer goes on until one of the two has enough."""
        return "text/event-stream" in self.spec["responses"].get("200", {}).get("content", {})

    @property
    def query(self) -> dict[str, str]:
        parameters = self.spec.get("parameters", ())
        return {one["name"]: SAMPLES[one["name"]] for one in parameters if one["in"] == "query" and one["required"]}

    @property
    def body_schema(self) -> Mapping[str, Any] | None:
        """Of a JSON body, with its own reference resolved; None where the operation takes none."""
        content = self.spec.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return None
        schema = content["schema"]
        reference = schema.get("$ref") or schema.get("anyOf", [{}])[0].get("$ref")
        return self.document["components"]["schemas"][reference.rsplit("/", 1)[1]] if reference else schema

    def body(self, values: Mapping[str, str]) -> Any:
        """An object with a value for each required field; None where the operation takes no body."""
        schema = self.body_schema
        if schema is None:
            return None
        return {name: values.get(name) or SAMPLES.get(name, "x") for name in schema.get("required", [])}

    def _parameters(self, place: str) -> list[str]:
        return [one["name"] for one in self.spec.get("parameters", ()) if one["in"] == place]


def addresses_a_record(parameter: str) -> bool:
    return parameter.endswith(("Id", "Name"))


def operations_of(document: Mapping[str, Any]) -> list[Operation]:
    return [
        Operation(method.upper(), path, spec, document)
        for path, item in document["paths"].items()
        for method, spec in item.items()
    ]


OPERATIONS = operations_of(OPENAPI)
