"""The OpenAPI file against the service, by requests made from it: no fault, and no answer that it does not describe."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.operations import OPENAPI
from tests.support.api import Api, Server
from tests.support.site import serve_gated_site

# what a valid request and one that is not may be answered with; whether `If-Match` holds is seen before a body is
ANSWERS = {
    "positive_data_acceptance": ["2xx", "401", "403", "404", "409", "412", "429"],
    "negative_data_rejection": ["400", "401", "403", "404", "409", "412", "413", "429"],
}
EVENTS = "/events$"  # left out of the small round: a stream that is silent is left after ten seconds
HEALTH = "/cloud/(spark|training)/health$"  # left out of both: 503 is its answer without the rest of the service

# parameters of which the file cannot say what is right, each with what that depends on
UNSAID = {
    "cursor": "what the page before told",
    "Last-Event-ID": "which events were sent",
    "X-Encryption-Key": "what a credential was sealed with",
    "startDate": "that a period begins before it ends, in years that there are",
    "sort": "which fields can be sorted by",
    "provider": "which providers there are, in any case",
    "catalog": "which catalogs and tables there are",
    "uploadId": "what was uploaded",
    "keys": "which columns the versions have",
    "url": "which addresses have a page",
}
BESIDE_EXTENSIONS = "(GET|POST) /.*/python-extensions/(info|supported-types|process-yaml|validate|register)"
RELOAD = "POST /.*/plugin-installations/reload"
# check → the operations (method and path) that it is off for, each with why the file cannot say more than it does
NOT_CHECKED = {
    "allow_header_conformance": {
        "(GET|DELETE) /.*/agents/{(categoryId|agentId)}": "two nouns share a path, which the file shows as two",
        "(GET|POST) /.*/datasets/(query|queries|upload)": "as the path of a dataset it could be read too",
        BESIDE_EXTENSIONS: "as the path of an extension they could be read too",
        RELOAD: "as the path of an installation it could be read too",
    },
    "ensure_resource_availability": {
        "GET /.*": "that an Idempotency-Key repeats the answer of a creation, whatever was deleted since",
    },
    "negative_data_rejection": {
        "POST /.*/jobs/{jobId}/completion": "what the compute side reports is read as far as it can be",
    },
    "positive_data_acceptance": {
        "POST /.*/datasets/.*query.*": "which SQL is right",
        "(POST|PUT) /.*/datasets(/{datasetId}(/retention)?)?": "which projects there are; types are known in any case",
        "POST /.*/datasets/upload": "which files have rows",
        "POST /.*/ean-image-sourcing/.*": "which files have EANs, which SQL is right, and what is a cron schedule",
        "(POST|PUT) /.*/agents.*": "which pipeline is right, and which categories there are",
        "(POST|PUT) /.*/jobs(/{jobId})?": "which agents, datasets and credentials there are",
        "POST /.*/jobs/{jobId}/(execute|completion)": "which parameters the pipeline has, and where its output may lie",
        "POST /.*/(tasks/{taskId}/start|executions/{executionId}/retry)": "as with execute",
        "(POST|PUT) /.*/projects(/id/{projectId})?": "which names paths use, and what is a cron schedule",
        "(POST|PUT) /.*/tasks(/{taskId})?": "taskType is known in any case",
        "(POST|PUT) /.*/categories.*": "which names paths use",
        "(POST|PUT) /.*/python-extensions/.*": "which Python and which pipeline is right, and which agents there are",
        "(POST|PUT) /.*/projects/id/{projectId}/schedules?(/{scheduleName})?": "cron schedules, and which jobs exist",
        "(POST|PUT) /.*/notifications(/{ruleName}(/test)?)?": "which jobs and credentials there are",
        "POST /.*/jobs/{jobId}/backfills": "which partitions a job has",
        "POST /.*/cronjobs": "which addresses the service calls, and what is a cron schedule",
        "(POST|PUT) /.*/webhooks(/{webhookId})?": "which addresses the service calls",
        "(POST|PUT) /.*/cloud-credentials.*": "which fields a provider needs, and that it is named by a letter",
        "(POST|PUT) .*/cms-tables/.*": "which documents can be stored",
        "POST /.*/ai-providers/.*": "which models, data and credentials there are",
        "(POST|PUT) /.*/admin/(plugin-installations|etl-library-versions).*": "which builds were uploaded",
        "POST /.*/admin/(plugins|etl-library-versions)/upload": "which files are builds",
        "POST /.*/apply": "that names are unique, and which references there are",
        "POST /.*/auth/.*": "when a key may expire, and which names are blank",
    },
    "unsupported_method": {
        BESIDE_EXTENSIONS: "as the path of an extension they could be read too",
        RELOAD: "as the path of an installation it could be read too",
    },
    "use_after_free": {
        "GET /.*/executions/{executionId}.*": "what is cancelled by DELETE stays",
    },
}


@pytest.fixture(scope="module")
def caller(server: Server) -> Api:
    return server.caller("schemathesis", "admin")


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Where a page is, without its protocol: what is fetched is ours."""
    with serve_gated_site() as site:
        site.open()
        yield site.url.removeprefix("http://")


@pytest.mark.long
@pytest.mark.gate
def test_a_small_round(caller: Api, page: str, tmp_path: Path) -> None:
    limits = ("--max-time", "10", "--exclude-path-regex", f"{EVENTS}|{HEALTH}")
    run(caller, page, tmp_path, "--phases", "examples,coverage", *limits)


@pytest.mark.variant
def test_a_large_round_with_links_between_the_operations(caller: Api, page: str, tmp_path: Path) -> None:
    phases = "examples,coverage,fuzzing,stateful"
    limits = ("--max-examples", "15", "--max-time", "90", "--exclude-path-regex", HEALTH)
    run(caller, page, tmp_path, "--phases", phases, *limits)


def run(caller: Api, page: str, folder: Path, *options: str) -> None:
    (folder / "schemathesis.toml").write_text("\n".join(settings(page)))
    url = f"{caller.client.base_url}/api/openapi.json"
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", url, "-H", f"X-API-Key: {caller.key}"]
    fixed = ["--seed", "1", "--no-color", "--no-shrink", "--continue-on-failure", "--warnings", "off"]
    ended = subprocess.run(
        [*command, *fixed, *options], cwd=folder, capture_output=True, text=True, timeout=560, check=False
    )
    assert ended.returncode == 0, ended.stdout[-20_000:]


def settings(page: str) -> Iterator[str]:
    """schemathesis.toml: all checks, but for the operations that one cannot be on for."""
    for check, statuses in ANSWERS.items():
        yield from (f"[checks.{check}]", f"expected-statuses = {json.dumps(statuses)}")
    yield from ("[[operations]]", f"include-name = {json.dumps(list(with_unsaid_parameters()))}")
    yield "checks.positive_data_acceptance.enabled = false"
    for check, operations in NOT_CHECKED.items():
        for operation in operations:
            yield from ("[[operations]]", f"include-name-regex = {json.dumps(f'^{operation}$')}")
            yield f"checks.{check}.enabled = false"
    yield from ("[[operations]]", f"include-path-regex = {json.dumps(EVENTS)}")
    yield from ("max-stream-events = 1", "request-timeout = 10")
    yield "checks.response_schema_conformance.enabled = false"  # OpenAPI 3.1 has a stream as text, not as events
    yield from (
        "[[operations]]",
        'include-path-regex = "/execute$"',
        "request-timeout = 90",
    )  # it may wait for a minute
    yield "parameters = { wait = 1, Prefer = 'wait=1' }"
    yield from ("[[operations]]", 'include-path-regex = "/html/"')
    yield f"parameters = {{ url = {json.dumps([page, page + 'other'])} }}"


def with_unsaid_parameters() -> Iterator[str]:
    """Operations (method and path) that have a parameter of which the file cannot say what is right."""
    for path, operations in OPENAPI["paths"].items():
        for method, operation in operations.items():
            if any(parameter["name"] in UNSAID for parameter in operation.get("parameters", [])):
                yield f"{method.upper()} {path}"
