"""The OpenAPI file: complete, committed, and readable without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.conftest import Api
from tests.api.operations import OPENAPI, OPERATIONS, Operation

GOLDEN = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_committed_file_is_what_the_code_says():
    assert json.loads(GOLDEN.read_text()) == OPENAPI, "python -m api.openapi > docs/openapi.json"


def test_the_command_prints_the_file(acme: Api):
    printed = subprocess.run([sys.executable, "-m", "api.openapi"], capture_output=True, check=True, text=True).stdout
    assert json.loads(printed) == OPENAPI == acme.client.get("/api/openapi.json").json()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_is_described_whole(operation: Operation):
    assert operation.spec["summary"]
    assert operation.spec["tags"]
    assert operation.spec["security"][0].keys() == {"ApiKeyAuth"}
    assert {"200", "400", "401", "403", "500"} <= operation.spec["responses"].keys()
    assert "422" not in operation.spec["responses"]
    error = operation.spec["responses"]["401"]["content"]["application/json"]["schema"]
    assert error == {"$ref": "#/components/schemas/Error"}
    if operation.addresses_records:
        assert "404" in operation.spec["responses"]


def test_operation_ids_are_unique():
    ids = [operation.spec["operationId"] for operation in OPERATIONS]
    assert len(ids) == len(set(ids))


def test_the_docs_page_loads_nothing_from_elsewhere(acme: Api):
    page = acme.client.get("/api/docs")
    assert page.status_code == 200
    sources = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page.text)
    assert len(sources) == 3
    for source in sources:
        assert source.startswith("/api/docs/")
        assert acme.client.get(source).status_code == 200
