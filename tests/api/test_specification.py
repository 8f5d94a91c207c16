"""Every row of the specification's tables: its path in the OpenAPI file and the service, parameters, fields, types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.kit.errors import HTTP_ERRORS
from tests.api.operations import OPENAPI, OPERATIONS
from tests.support.api import Api

TABLES = Path(__file__).parent / "specification"
ROOT = "/api"
UNKNOWN = re.compile(r"\{\w+\}")
SPELLINGS = ("/projects/id/{projectId}/", "/projects/{projectId}/")


@dataclass(frozen=True)
class Row:
    section: str
    method: str
    path: str
    query: dict[str, str | None]
    answer: str

    def __str__(self) -> str:
        return f"{self.section} {self.method} {self.path}"

    @property
    def spec(self) -> Any:
        return next(one.spec for one in OPERATIONS if (one.method, one.path) == (self.method, ROOT + self.path))


def lines_of(name: str) -> list[str]:
    return [line for line in (TABLES / name).read_text().splitlines() if not line.startswith("#")]


def row(line: str) -> Row:
    request, answer = line.split("->")
    section, method, path, *query = request.split()
    named = [each.partition("=") for each in query]
    return Row(section, method, path, {name: default or None for name, _, default in named}, answer.strip())


ROWS = [row(line) for line in lines_of("operations.txt")]


def test_every_operation_of_the_specification_is_there():
    offered = [(operation.method, operation.path) for operation in OPERATIONS]
    assert [str(row) for row in ROWS if (row.method, ROOT + row.path) not in offered] == []


def test_every_operation_has_the_parameters_of_the_specification():
    def has_its_parameters(row: Row) -> bool:
        declared = {one["name"]: one for one in row.spec.get("parameters", ()) if one["in"] == "query"}
        defaults = {
            name: default and str(declared[name]["schema"].get("default"))
            for name, default in row.query.items()
            if name in declared
        }
        return defaults == row.query and not any(one["required"] for one in declared.values())

    assert [str(row) for row in ROWS if not has_its_parameters(row)] == []


def test_every_operation_in_a_project_answers_in_both_spellings(acme: Api):
    rows = [row for row in ROWS if any(each in row.path for each in SPELLINGS)]
    assert [str(row) for row in rows if not has_both_spellings(acme, row)] == []


def has_both_spellings(api: Api, row: Row) -> bool:
    shown = next(each for each in SPELLINGS if each in row.path)
    answers = [api.call(row.method, UNKNOWN.sub("x", ROOT + row.path.replace(shown, each))) for each in SPELLINGS]
    one, other = [(answer.status_code, answer.json() | {"timestamp": None}) for answer in answers]
    return one == other and one[1]["error"] != HTTP_ERRORS[404][0]


def test_every_operation_answers_the_fields_of_the_specification():
    assert {str(row): wrong for row in ROWS if (wrong := find_difference(row))} == {}


def find_difference(row: Row) -> Any:
    """Return what an operation answers where that is not what the specification says."""
    answers = row.spec["responses"]
    content = (answers.get("200") or answers["201"]).get("content", {})
    if row.answer == "nothing":
        return None
    if row.answer == "no body":
        return content
    if "/" in row.answer:
        return None if list(content) == [row.answer] else content
    schema = resolved(content["application/json"]["schema"])
    if (schema.get("type") == "array") is not row.answer.startswith("["):
        return schema
    fields = fields_of(row.answer.strip("[]"))
    found = {name: type_at(schema, name.split(".")) for name in fields}
    return {name: type_ for name, type_ in found.items() if type_ != fields[name]}


def fields_of(answer: str) -> dict[str, str]:
    told = [line.split(maxsplit=1)[1].split(":") for line in lines_of("fields.txt") if line.split()[0] == answer]
    assert told
    return {name: type_.strip() for names, type_ in told for name in names.split()}


def resolved(schema: Any) -> Any:
    """What a reference, or a type that may be null, comes down to."""
    if "$ref" in schema:
        return resolved(OPENAPI["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema:
        [one] = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return resolved(one)
    return schema


def type_at(schema: Any, path: list[str]) -> str:
    if not path:
        item = resolved(schema["items"])["type"] if schema["type"] == "array" else None
        return f"[{item}]" if item else schema.get("format", schema["type"])
    inside = resolved(schema["items"]) if schema["type"] == "array" else schema
    return type_at(resolved(inside["properties"][path[0]]), path[1:])
