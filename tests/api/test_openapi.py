"""The OpenAPI file: complete, committed, and readable without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import sync_playwright

from tests.api.operations import OPENAPI, OPERATIONS, Operation, operations_of
from tests.api.world import make_world
from tests.support.api import Api, Server
from tests.support.service import PATIENCE_SECONDS

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chromium-headless-shell"))), None)
GOLDEN = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_committed_file_matches_the_code():
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
    if "requestBody" in operation.spec:
        assert "413" in operation.spec["responses"]
    if operation.addresses_records:
        assert "404" in operation.spec["responses"]


def test_operation_ids_are_unique():
    ids = [operation.spec["operationId"] for operation in OPERATIONS]
    assert len(ids) == len(set(ids))


WITH_BODY = [operation for operation in OPERATIONS if operation.body_schema is not None]
ASKS_A_PROVIDER = "/cloud-credentials/test"


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_the_example_of_an_operation_is_answered_with_success(server: Server, operation: Operation):
    [example] = (operation.body_schema or {})["examples"]
    if operation.path.endswith(ASKS_A_PROVIDER):
        pytest.skip("asks a provider")
    api = server.caller(f"example {uuid4().hex}", "super_admin")
    world = make_world(api, "an example")
    body = example | {name: world[name] for name in example.keys() & world.keys()}
    path = operation.path.format_map(world)
    answer = api.call(operation.method, path, json=body)
    assert answer.is_success, answer.text


def test_every_answer_with_a_body_has_a_schema():
    for operation in OPERATIONS:
        for status, answer in operation.spec["responses"].items():
            for content in answer.get("content", {}).values():
                assert content.get("schema"), f"{operation}: {status}"


def test_the_command_lists_every_operation():
    command = [sys.executable, "-m", "cli.main", "openapi"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert [str(each) for each in operations_of(printed)] == [str(each) for each in OPERATIONS]


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; bin/test installs it")
def test_the_docs_page_loads_nothing_from_elsewhere(acme: Api):
    base, requests, errors = str(acme.client.base_url), [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=1000 * PATIENCE_SECONDS
        )
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{base}/api/docs")
        page.locator(".opblock-tag").first.click()
        page.locator(".opblock-summary").first.click()
        page.locator(".opblock-body").first.wait_for()
        browser.close()
    elsewhere = [url for url in requests if not url.startswith((base, "data:", "blob:"))]
    assert (elsewhere, errors) == ([], [])
    assert {url.removeprefix(base) for url in requests} >= {"/api/docs", "/api/openapi.json"}
