"""ETag and If-Match over REST, for every noun that has them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.api.operations import OPERATIONS
from tests.api.world import make_world
from tests.support.api import Api

PATHS = {
    "project": "/projects/id/{projectId}",
    "job": "/projects/id/{projectId}/jobs/{jobId}",
    "task": "/projects/{projectId}/jobs/{jobId}/tasks/{taskId}",
    "agent": "/agents/{categoryId}/{agentId}",
    "category": "/categories/id/{categoryId}",
    "credential": "/cloud-credentials/id/{credentialId}",
    "webhook": "/projects/{projectId}/webhooks/{webhookId}",
    "extension": "/python-extensions/{extensionId}",
    "dataset": "/datasets/{datasetId}",
}
FIELDS = dict.fromkeys(PATHS, "name") | {"webhook": "description"}


@pytest.fixture(scope="module")
def world(acme: Api) -> Mapping[str, str]:
    return make_world(acme, "editions")


@pytest.mark.parametrize("noun", PATHS)
def test_a_change_of_an_outdated_record_is_refused(acme: Api, world: Mapping[str, str], noun: str):
    path, field = PATHS[noun].format_map(world), FIELDS[noun]
    read = acme.call("GET", path)
    tag = read.headers["ETag"]
    assert acme.call("GET", path).headers["ETag"] == tag

    made = acme.call("PUT", path, json={field: f"first {noun}"}, headers={"If-Match": tag})
    assert made.status_code == 200
    assert made.headers["ETag"] != tag
    assert acme.call("GET", path).headers["ETag"] == made.headers["ETag"]

    late = acme.call("PUT", path, json={field: f"second {noun}"}, headers={"If-Match": tag})
    assert (late.status_code, late.json()["code"]) == (412, 412)
    assert "Read it again" in late.json()["error"]
    assert acme.call("DELETE", _deletion(path, noun), headers={"If-Match": tag}).status_code == 412
    assert acme.get(path)[field] == f"first {noun}"

    either = f'"0000", {made.headers["ETag"]}'
    assert acme.call("PUT", path, json={field: f"third {noun}"}, headers={"If-Match": either}).status_code == 200
    assert acme.call("PUT", path, json={field: f"fourth {noun}"}, headers={"If-Match": "*"}).status_code == 200
    assert acme.call("PUT", path, json={field: f"fifth {noun}"}).status_code == 200
    for never in ('W/"0000"', '""', "", "nonsense", '"*"', '"*'):
        assert acme.call("PUT", path, json={field: "x"}, headers={"If-Match": never}).status_code == 412
    assert acme.get(path)[field] == f"fifth {noun}"


@pytest.mark.parametrize("noun", PATHS)
def test_a_created_record_has_an_etag_for_its_deletion(acme: Api, noun: str):
    path = PATHS[noun].format_map(make_world(acme, f"tags of a {noun}"))
    tag = acme.call("GET", path).headers["ETag"]
    assert acme.call("DELETE", _deletion(path, noun), headers={"If-Match": tag}).status_code == 200
    assert acme.call("PUT", path, json={FIELDS[noun]: "x"}, headers={"If-Match": "*"}).status_code == 404


def _deletion(path: str, noun: str) -> str:
    return f"/agents/{path.rsplit('/', 1)[1]}" if noun == "agent" else path


def test_where_if_match_is_understood_the_openapi_file_says_so():
    told = {
        str(one)
        for one in OPERATIONS
        if any(parameter["name"] == "If-Match" for parameter in one.spec.get("parameters", ()))
    }
    # also the records of generic tables, notification rules, pools, and schedules; a schedule and cron jobs are changed
    assert len(told) == 2 * (len(PATHS) + 4) + 2
    for operation in OPERATIONS:
        if str(operation) in told:
            assert "412" in operation.spec["responses"]
