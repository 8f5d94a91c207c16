"""JSONPath: the compliance suite of RFC 9535, as far as docs/stages.md promises it: names, indexes and *."""

from __future__ import annotations

import json
import re

from bench.conformance.cases import Case
from bench.conformance.sources import get_node_source
from bench.service import Json
from pipelines.extract.jsonpath import JsonPathError, parse_json_path

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_MORE = re.compile(r"\.\s*\.|[?,:]")  # descendants, filters, several selectors in one bracket, slices


def read_cases() -> list[Case]:
    package = get_node_source("jsonpath-rfc9535", "1.3.0")
    suite = json.loads((package / "src/__tests__/jsonpath-compliance-test-suite/cts.json").read_text())
    cases: list[Case] = []
    for test in suite["tests"]:
        if _MORE.search(_QUOTED.sub("''", test["selector"])):
            continue
        right = [{"found": each} for each in test.get("results", [test.get("result")])]
        expected = {"refused": True} if test.get("invalid_selector") else right[0]
        question = {"selector": test["selector"], "document": test.get("document")}
        cases.append(Case(test["name"], question, expected, right[1:]))
    return cases


def find_values(question: Json) -> Json:
    """Return what the product finds, or that it refuses the path."""
    try:
        path = parse_json_path(question["selector"])
    except JsonPathError:
        return {"refused": True}
    return {"found": path.find(question["document"])}
