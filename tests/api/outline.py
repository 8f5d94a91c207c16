"""An OpenAPI document in few lines: operations with parameters, bodies and answers, and the fields of schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def describe_document(document: Schema) -> str:
    """Return a line for each operation, for each schema, and for each code of an error.

    A trailing `*` marks what a request has to have.
    """
    codes = document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["description"]
    lines = [
        *(
            _describe_operation(method, path, each[method])
            for path, each in document["paths"].items()
            for method in each
        ),
        *(f"{name}: {_describe_type(each)}" for name, each in document["components"]["schemas"].items()),
        *(line.partition(": ")[0].removeprefix("- ") for line in codes.splitlines() if line.startswith("- `")),
    ]
    return "".join(f"{line}\n" for line in lines)


def _describe_operation(method: str, path: str, operation: Schema) -> str:
    return " ".join([method.upper(), path, *_iter_inputs(operation), "->", *_iter_answers(operation)])


def _iter_inputs(operation: Schema) -> Iterator[str]:
    marks = {"query": "?", "header": "^", "cookie": "~"}
    for each in operation.get("parameters", ()):
        if each["in"] != "path":
            name, is_required = each["name"], each.get("required", False)
            yield f"{marks[each['in']]}{name}:{_describe_type(each['schema'])}{'*' * is_required}"
    body = operation.get("requestBody")
    if body is not None:
        yield f"{{{_describe_content(body)}}}{'*' * body.get('required', False)}"


def _iter_answers(operation: Schema) -> Iterator[str]:
    for status, each in operation["responses"].items():
        content = _describe_content(each)
        yield f"{status}:{content}" if content not in ("", "Error") else status


def _describe_content(holder: Schema) -> str:
    found = holder.get("content", {}).items()
    return "|".join(
        ("" if kind == "application/json" else f"{kind} ") + _describe_type(each.get("schema", {}))
        for kind, each in found
    )


def _describe_type(schema: Schema) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return "|".join(map(_describe_type, schema[union]))
    if "enum" in schema or "const" in schema:
        return "|".join(map(repr, schema.get("enum", [schema.get("const")])))
    if "properties" in schema:
        required = schema.get("required", ())
        fields = (
            f"{name}{'*' * (name in required)}={_describe_type(each)}" for name, each in schema["properties"].items()
        )
        return f"{{{', '.join(fields)}}}"
    if schema.get("type") == "array":
        return f"[{_describe_type(schema.get('items', {}))}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{*={_describe_type(schema['additionalProperties'])}}}"
    return str(schema.get("type", "any")) + (f"({schema['format']})" if "format" in schema else "")
