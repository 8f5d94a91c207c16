"""Cloud credentials over REST: secrets go in and never come out."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from core.definitions.credentials.repository import MASK
from core.lifecycle.executions.spec import load_driver_secrets
from core.tables import Execution
from tests.support.api import PIPELINE, Api, Job, Server, open_session, read_code
from tests.support.processes import command_line

CANARY = "canary-4711-secret"
OWN_KEY = "canary-4711-own-key"
PATH = "/cloud-credentials"
UNKNOWN = "01990000-0000-7000-8000-000000000000"
AWS = {"provider": "aws", "accessKeyId": CANARY, "secretAccessKey": CANARY, "region": "eu-west-1"}


@pytest.fixture
def caller(server: Server, request: pytest.FixtureRequest) -> Api:
    """An organization of the test's own, as its credentials serve all its executions."""
    return server.caller(request.node.name, "admin")


def test_a_credential_is_made_read_changed_and_deleted(caller: Api):
    made = caller.post(PATH, AWS | {"description": "of the crawler"})
    assert (made["name"], made["provider"], made["enabled"]) == ("AWS", "AWS", True)
    assert made["description"] == "of the crawler"
    assert (made["accessKeyId"], made["secretAccessKey"], made["apiKey"]) == (MASK, MASK, None)
    assert (made["region"], made["organizationId"]) == ("eu-west-1", caller.organization_id)
    one = f"{PATH}/id/{made['id']}"
    changed = caller.put(one, made | {"name": "storage", "enabled": False, "region": None})
    assert changed == made | {"name": "storage", "enabled": False, "updatedAt": changed["updatedAt"]}
    assert caller.get(one) == changed
    assert caller.call("DELETE", one).json() == {}
    assert caller.call("GET", one).status_code == 404


def test_lists_come_in_pages_and_by_provider(caller: Api):
    ids = [caller.post(PATH, {"provider": provider})["id"] for provider in ("aws", "OpenAI", "Open_AI")]

    def listed(path: str = PATH, **query: int) -> list[str]:
        return [record["id"] for record in caller.get(path, **query) if record["organizationId"]]

    assert listed() == ids
    assert listed(page=0, pageSize=2) == ids[:2]
    assert listed(page=1, pageSize=2) == ids[2:]
    assert listed(limit=1) == ids[:1]
    assert listed(f"{PATH}/provider/openai") == listed(f"{PATH}/provider/OPEN_AI") == ids[1:]


@pytest.mark.parametrize(
    "body", [{}, {"provider": "--"}, {"provider": "AWS", "apiKey": 4711}, {"provider": "AWS", "apiKey": "x" * 20_000}]
)
def test_a_wrong_body_is_refused(caller: Api, body: dict[str, object]):
    assert caller.call("POST", PATH, json=body).status_code == 400


def test_only_a_super_admin_makes_global_ones(caller: Api, rival: Api, server: Server):
    body = {"provider": "Nobody Else's", "global": True}
    assert caller.call("POST", PATH, json=body).status_code == 403
    root = server.caller(caller.organization_id, "super_admin")
    made = root.post(PATH, body)
    assert made["organizationId"] is None
    one = f"{PATH}/id/{made['id']}"
    assert rival.get(one) == made
    assert rival.call("PUT", one, json={"enabled": False}).status_code == 403
    assert rival.call("DELETE", one).status_code == 403
    assert root.call("DELETE", one).status_code == 200


def test_an_execution_gets_the_named_credential_and_nobody_elses(caller: Api, rival: Api):
    job = caller.job("named")
    theirs, own = (api.post(PATH, {"provider": "OPENAI", "apiKey": CANARY})["id"] for api in (rival, caller))
    refused = [
        caller.call("POST", f"{job.path}/execute", json={"cloudCredentialIds": [each]}) for each in (theirs, UNKNOWN)
    ]
    assert [answer.status_code for answer in refused] == [400, 400]
    bodies = [{name: value for name, value in answer.json().items() if name != "timestamp"} for answer in refused]
    assert bodies[0] == bodies[1]
    execution = stored(job, job.execute({"cloudCredentialId": own}))
    assert execution.credentials == {"OPENAI_API_KEY": own}
    assert load_driver_secrets(caller.settings, execution)["OPENAI_API_KEY"] == CANARY


def test_a_parameter_that_another_key_would_open_is_not_just_missing(caller: Api):
    job = caller.job("keyed", pipeline=PIPELINE.replace("127.0.0.1/", "127.0.0.1/?key=${OPENAI_API_KEY}"))
    sealed = {"provider": "OPENAI", "apiKey": CANARY}
    assert caller.call("POST", PATH, json=sealed, headers={"X-Encryption-Key": OWN_KEY}).json()["needsEncryptionKey"]
    cases = (({}, "missing-encryption-key"), ({"X-Encryption-Key": "another"}, "wrong-encryption-key"))
    for headers, code in cases:
        refused = caller.call("POST", f"{job.path}/execute", headers=headers)
        assert read_code(refused) == (400, code)
    answer = caller.call("POST", f"{job.path}/execute", headers={"X-Encryption-Key": OWN_KEY})
    execution = stored(job, answer.json()["executionId"])
    assert load_driver_secrets(caller.settings, execution)["OPENAI_API_KEY"] == CANARY


def test_no_secret_is_seen_anywhere(caller: Api, capsys: pytest.CaptureFixture[str]):
    job = caller.job("canary")
    headers = {"X-Encryption-Key": OWN_KEY}
    made = caller.call("POST", PATH, json=AWS, headers=headers)
    path = f"{PATH}/id/{made.json()['id']}"
    answers = [
        made,
        caller.call("PUT", path, json={"apiKey": CANARY}, headers=headers),
        caller.call("POST", PATH, json={"apiKey": CANARY}, headers=headers),
        caller.call("POST", PATH, json=AWS | {"name": [CANARY]}, headers=headers),
        caller.call("POST", f"{job.path}/execute", headers=headers),
        *(caller.call("GET", each) for each in (PATH, path, f"{PATH}/provider/aws", f"{job.path}/executions")),
    ]
    logged = capsys.readouterr()
    commands = ["\0".join(command_line(int(pid))) for pid in os.listdir("/proc") if pid.isdigit()]
    held = caller.settings.data.joinpath("spindle.db").read_bytes()
    with suppress(FileNotFoundError):  # goes with the last connection, and is in the file by then
        held += caller.settings.data.joinpath("spindle.db-wal").read_bytes()
    seen = [
        *(answer.text + str(answer.headers) for answer in answers),
        logged.out + logged.err,
        *commands,
        held.decode("latin-1"),
    ]
    assert [answer.status_code for answer in answers[:5]] == [200, 200, 400, 400, 200]
    assert not [text for text in seen if "canary-4711" in text]


def stored(job: Job, execution_id: str) -> Execution:
    with open_session(job.api.settings) as session:
        execution = session.get_one(Execution, execution_id)
    return execution


def test_an_endpoint_that_can_never_be_asked_is_not_stored(acme: Api) -> None:
    """Loopback is allowed here, other private networks are not."""
    for endpoint in (
        "http://169.254.169.254/v1",
        "http://10.0.0.1",
        "file:///etc/passwd",
        f"http://127.0.0.1:{acme.settings.api.port}",
    ):
        refused = acme.call("POST", PATH, json={"provider": "OpenAI", "apiKey": "x", "endpoint": endpoint})
        assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "endpoint"), endpoint
    made = acme.post(PATH, {"provider": "openai", "apiKey": "x", "endpoint": "http://127.0.0.1:9/v1"})
    path = f"{PATH}/id/{made['id']}"
    changed = acme.call("PUT", path, json={"apiKey": "y", "endpoint": "http://[::ffff:a9fe:a9fe]/"})
    assert (changed.status_code, acme.get(path)["endpoint"]) == (400, "http://127.0.0.1:9/v1")
    assert acme.post(PATH, {"provider": "KAFKA", "endpoint": "10.0.0.1:9092"})["endpoint"] == "10.0.0.1:9092"
    assert acme.post(PATH, {"provider": "our own", "endpoint": "anything"})["endpoint"] == "anything"
