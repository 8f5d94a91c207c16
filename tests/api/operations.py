"""The operations of the OpenAPI file, with a request for each that is valid as far as its schema tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.app import create_app
from core.settings import Settings

OPENAPI = create_app(Settings()).openapi()
SAMPLES = {"status": "FAILED", "sql": "SELECT 1 AS x", "table": "products"}


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    spec: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def scopes(self) -> list[str]:
        return [scope for requirement in self.spec["security"] for scope in requirement["ApiKeyAuth"]]

    @property
    def path_parameters(self) -> list[str]:
        return [one["name"] for one in self.spec.get("parameters", ()) if one["in"] == "path"]

    @property
    def addresses_records(self) -> bool:
        return any(name.endswith(("Id", "Name")) for name in self.path_parameters)

    @property
    def query(self) -> dict[str, str]:
        parameters = self.spec.get("parameters", ())
        return {one["name"]: SAMPLES[one["name"]] for one in parameters if one["in"] == "query" and one["required"]}

    def body(self, values: Mapping[str, str]) -> Any:
        """An object with a value for each required field; None where the operation takes no body."""
        content = self.spec.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return None
        schema = content["schema"]
        reference = schema.get("$ref") or schema.get("anyOf", [{}])[0].get("$ref")
        if reference is None:
            return {}
        required = OPENAPI["components"]["schemas"][reference.rsplit("/", 1)[1]].get("required", [])
        return {name: values.get(name) or SAMPLES.get(name, "x") for name in required}


OPERATIONS = [
    Operation(method.upper(), path, spec) for path, item in OPENAPI["paths"].items() for method, spec in item.items()
]
