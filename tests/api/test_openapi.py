"""The OpenAPI file: complete, as it was, and readable without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import sync_playwright

from api.app import create_app
from api.kit.field_descriptions import SHARED_DESCRIPTIONS
from api.reference import build_reference
from core.infra.settings import Settings
from tests.api.operations import OPENAPI, OPERATIONS, Operation, operations_of
from tests.api.outline import describe_document
from tests.api.world import make_world
from tests.plugins.ean_image_sourcing.countries import fill_country
from tests.support.answers import Answer, find_unlisted
from tests.support.api import Api, Server
from tests.support.service import PATIENCE_SECONDS

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chromium-headless-shell"))), None)
GOLDEN = Path(__file__).with_name("openapi.txt")
REFERENCE = Path(__file__).parents[2] / "docs" / "api.md"


def test_operations_fields_and_codes_are_those_of_the_golden_file():
    """`UPDATE_OPENAPI=1 pytest` writes the file."""
    outline = describe_document(OPENAPI)
    if os.environ.get("UPDATE_OPENAPI"):
        GOLDEN.write_text(outline)
    assert outline.splitlines() == GOLDEN.read_text().splitlines()


def test_the_reference_has_each_operation():
    assert REFERENCE.read_text() == build_reference(OPENAPI), "run: python -m api.reference > docs/api.md"


@pytest.mark.long
def test_the_command_prints_the_file(acme: Api):
    printed = subprocess.run([sys.executable, "-m", "api.openapi"], capture_output=True, check=True, text=True).stdout
    assert json.loads(printed) == OPENAPI == acme.client.get("/api/openapi.json").json()


def test_every_operation_is_described():
    def is_described(operation: Operation) -> bool:
        spec = operation.spec
        described = [
            spec.get("summary"),
            spec.get("description"),
            *(one.get("description") for one in spec.get("parameters", ())),
        ]
        return all(described) and {*spec["tags"]} <= {group["name"] for group in OPENAPI["tags"]}

    assert [str(operation) for operation in OPERATIONS if not is_described(operation)] == []


def test_every_operation_needs_a_key():
    assert [str(each) for each in OPERATIONS if each.spec["security"][0].keys() != {"ApiKeyAuth"}] == []


def test_an_answer_that_is_not_listed_is_found():
    path = "/api/svc/api/datasets/query"
    answers = [
        Answer("POST", path, 200),
        Answer("POST", path, 404, ("unknown-table",)),
        Answer("POST", path, 400, ("COLUMN_NOT_FOUND", "never-heard")),
        Answer("POST", path, 418),
        Answer("GET", "/nowhere", 404, ("unknown-path",)),
        Answer("HEAD", "/api/svc/api/projects/id/x", 404, ("not-found",)),
    ]
    assert find_unlisted(OPENAPI, answers) == [f"POST {path} 418", "code never-heard"]


def test_second_paths_are_listed():
    operation = OPENAPI["paths"]["/api/svc/api/python-extensions/python-extensions/{extensionId}"]["get"]
    assert operation["description"].endswith("\n\nAlso at `/api/svc/api/python-extensions/{extensionId}`.")


def test_every_operation_lists_the_statuses_that_it_answers():
    def lists_its_statuses(operation: Operation) -> bool:
        statuses = operation.spec["responses"].keys()
        needed = {"400", "401", "403", "500"}
        needed |= {"413"} if "requestBody" in operation.spec else set()
        needed |= {"404"} if operation.addresses_records else set()
        return needed <= statuses and "422" not in statuses and bool({"200", "201"} & statuses)

    assert [str(operation) for operation in OPERATIONS if not lists_its_statuses(operation)] == []


def test_errors_of_every_operation_have_one_schema():
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    assert [str(each) for each in OPERATIONS if each.spec["responses"]["401"]["content"] != error] == []


def test_every_field_is_described():
    fields = [
        (model, name, field.get("description"))
        for model, schema in OPENAPI["components"]["schemas"].items()
        for name, field in schema.get("properties", {}).items()
    ]
    assert [(model, name) for model, name, text in fields if not text] == []
    texts = {(name, text) for _, name, text in fields}
    assert [each for each in SHARED_DESCRIPTIONS.items() if each not in texts] == [], "descriptions of no field"


def test_groups_have_a_line_each_and_come_in_the_order_of_use():
    groups = [group["name"] for group in OPENAPI["tags"] if group["description"]]
    assert groups[:5] == ["projects", "agents", "jobs", "executions", "datasets"]
    assert {*groups} == {tag for operation in OPERATIONS for tag in operation.spec["tags"]}


@pytest.mark.long
def test_the_file_says_where_the_service_is():
    settings = Settings(public_url="https://etl.example/", root_path="/v1")
    servers = [server["url"] for server in create_app(settings).openapi()["servers"]]
    assert servers == ["/", "https://etl.example"]


def test_the_root_answers_people_with_a_page_and_clients_with_json(server: Server):
    page = server.client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["Location"]) == (303, "/console")
    facts = server.client.get("/").json()
    assert facts["name"] == "Spindle"
    assert server.client.get(facts["docs"]).status_code == 200
    assert server.client.get(facts["openapi"]).json() == OPENAPI
    assert {"api", "health", "console", "dagster"} <= facts.keys()


def test_the_docs_begin_with_the_operations():
    assert len(OPENAPI["info"]["description"]) < 200
    code = OPENAPI["components"]["schemas"]["ErrorDetail"]["properties"]["code"]
    assert "- `needs-saves`: " in code["description"]


def test_operation_ids_are_unique():
    ids = [operation.spec["operationId"] for operation in OPERATIONS]
    assert len(ids) == len(set(ids))


ASKS_A_PROVIDER = ("/cloud-credentials/test", "/models/publish")
ASKS_FOR_PARTITIONS = ("/backfills",)  # of a job that has some
ASKS_FOR_A_PERSON = ("/me/api-keys",)
LEFT_OUT = ASKS_A_PROVIDER + ASKS_FOR_PARTITIONS + ASKS_FOR_A_PERSON
WITH_BODY = [each for each in OPERATIONS if each.body_schema is not None and not each.path.endswith(LEFT_OUT)]


def test_the_example_of_every_operation_is_answered_with_success(server: Server):
    callers = [call_in_new_world(server)]
    refused: list[str] = []
    for operation in WITH_BODY:
        answer = callers[-1](operation)
        if answer.status_code == 409:  # an earlier example took its name
            callers.append(call_in_new_world(server))
            answer = callers[-1](operation)
        if not answer.is_success:
            refused.append(f"{operation}: {answer.text}")
    assert refused == []


def call_in_new_world(server: Server) -> Callable[[Operation], httpx.Response]:
    """Return what calls an operation with its example, about the records of a new organization."""
    api = server.caller(f"example {uuid4().hex}", "super_admin")
    version = api.post("/admin/etl-library-versions", {"buildType": uuid4().hex, "buildNumber": 1})
    world = make_world(api, "an example") | {"id": str(version["id"])}
    cron_job = {"name": "an example of a cron job", "schedule": "@daily", "webhookUrl": "https://example.com/"}
    named = {"provider": "local", "name": api.post("/api/svc/cloud/scheduler/cronjobs", cron_job)["name"]}

    def call(operation: Operation) -> httpx.Response:
        if "{country}" in operation.path and "country" not in world:
            world["country"] = fill_country(api, "france")
        [example] = (operation.body_schema or {})["examples"]
        body = example | {name: world[name] for name in example.keys() & world.keys()}
        return api.call(operation.method, operation.path.format_map(named | world), json=body)

    return call


def test_every_answer_with_a_body_has_a_schema():
    for operation in OPERATIONS:
        for status, answer in operation.spec["responses"].items():
            for content in answer.get("content", {}).values():
                assert content.get("schema"), f"{operation}: {status}"


@pytest.mark.long
def test_the_command_lists_every_operation():
    command = [sys.executable, "-m", "cli.main", "openapi"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert [str(each) for each in operations_of(printed)] == [str(each) for each in OPERATIONS]


@pytest.mark.long
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
