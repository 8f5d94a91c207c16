"""Section 4.8 and cloud/training over HTTP: providers, models, trainings, estimates, data sets, published models."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from core.infra.pidfile import hold_pidfile
from core.tables import now
from core.training.assembly import open_training_service
from core.training.service import PIDFILE
from core.training.trainer import Trainer
from tests.support.ai_providers import KEY, AiProviders, serve_ai_providers
from tests.support.api import Api, Server, read_code
from tests.support.service import POLL_SECONDS, wait_until

AI = "/ai-providers/providers"
QUESTIONS = "prompt,completion\n" + "".join(f"question {n},answer {n}\n" for n in range(100))
CREDENTIALS = {"OPENAI": "openai", "TOGETHERAI": "together", "HUGGING_FACE": "huggingface"}


@pytest.fixture(scope="module")
def providers() -> Iterator[AiProviders]:
    with serve_ai_providers() as providers:
        yield providers


@pytest.fixture(scope="module")
def trainee(server: Server, providers: AiProviders) -> Api:
    """An organization with a key of each provider."""
    api = server.caller("trainee", "admin")
    for provider, path in CREDENTIALS.items():
        api.post("/cloud-credentials", {"provider": provider, "apiKey": KEY, "endpoint": providers.get_endpoint(path)})
    return api


@pytest.fixture(scope="module")
def rival(server: Server) -> Api:
    """An organization of this module, without keys: other modules give theirs to the common one."""
    return server.caller("rival of the trainee", "admin")


@pytest.fixture(scope="module")
def trainer(server: Server) -> Iterator[Trainer]:
    service = open_training_service(server.settings)
    yield Trainer(service)
    service.database.close()


@pytest.fixture(scope="module")
def questions(trainee: Api) -> Any:
    """A dataset with a question and its answer in each row."""
    answer = trainee.call("POST", "/datasets/upload", files={"file": ("q.csv", QUESTIONS)}, data={"name": "questions"})
    return answer.json()


def wait(api: Api, trainer: Trainer, path: str) -> Any:
    def has_ended() -> bool:
        trainer.run_due(now() + timedelta(seconds=5))
        return api.get(f"{path}/status")["status"] not in ("PENDING", "RUNNING")

    wait_until(has_ended, 60, every=POLL_SECONDS)
    return api.get(f"{path}/status")


def test_providers_say_whether_they_can_be_used(trainee: Api, rival: Api):
    shown = {each["provider"]: each for each in trainee.get(AI)}
    assert {name: each["enabled"] for name, each in shown.items()} == dict.fromkeys(
        ("openai", "together", "huggingface", "local"), True
    )
    without = {each["provider"]: each["reason"] for each in rival.get(AI)}
    assert without["together"] == "There is no enabled cloud credential of the provider TOGETHERAI."
    assert without["local"] is None


def test_models_are_asked_for_once_in_an_hour(trainee: Api, rival: Api, providers: AiProviders):
    first = trainee.get(f"{AI}/openai/models")
    assert first[0] == {"id": "gpt-4o-mini", "owner": "openai", "trainable": True}
    assert trainee.get(f"{AI}/OPENAI/models") == first
    assert providers.asked.count("GET /openai/models") == 1
    assert trainee.get(f"{AI}/local/models")[0]["id"] == "small"
    assert rival.call("GET", f"{AI}/openai/models").json()["details"][0]["code"] == "unknown-credential"
    assert trainee.call("GET", f"{AI}/nobody/models").status_code == 404


@pytest.mark.long
def test_a_dataset_trains_a_local_model(trainee: Api, trainer: Trainer, questions: Any, rival: Api, server: Server):
    job = trainee.post(f"{AI}/local/training", {"model": "small", "datasetId": questions["id"]})["jobId"]
    path = f"{AI}/local/training/{job}"
    assert trainee.get(f"{path}/status")["status"] == "PENDING"
    assert trainee.call("GET", f"{path}/download").json()["details"][0]["code"] == "training-unfinished"
    done = wait(trainee, trainer, path)
    assert (done["status"], done["error"]) == ("COMPLETED", None)
    assert (done["progress"]["percent"], done["progress"]["steps"]) == (100.0, 3)
    logs = trainee.get(f"{path}/logs")["logs"]
    assert json.loads(logs[1]) == {"step": 1, "steps": 3, "loss": 1.0}
    answer = trainee.call("GET", f"{path}/download", params={"outputPath": "questions/v1"})
    assert f"{job}.zip" in answer.headers["Content-Disposition"]
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert sorted(archive.namelist()) == ["labels.txt", "weights/model.json"]
    trained = json.loads(archive.read("weights/model.json"))["examples"]
    assert trained + int(logs[0].split(", ")[1].split()[0]) == 100
    for call, part in (("GET", "/status"), ("GET", "/logs"), ("GET", "/download"), ("DELETE", "")):
        assert rival.call(call, path + part).status_code == 404
        assert trainee.call(call, path.replace("local", "openai") + part).status_code == 404
    reader = server.caller(trainee.organization_id, "etl:read")
    assert reader.call("DELETE", path).status_code == 403
    assert reader.call("POST", f"{AI}/local/training", json={"model": "small"}).status_code == 403
    assert trainee.call("DELETE", path).content == b""
    assert trainee.get(f"{path}/status")["status"] == "COMPLETED"


def test_a_model_is_published_on_the_hub(trainee: Api, trainer: Trainer, questions: Any, providers: AiProviders):
    job = trainee.post(f"{AI}/local/training", {"model": "small", "datasetId": questions["id"]})["jobId"]
    path = f"{AI}/local/training/{job}"
    wait(trainee, trainer, path)
    trainee.call("GET", f"{path}/download", params={"outputPath": "published"})
    body = {"localModelPath": "models/published", "modelName": "answers", "description": "Answers questions."}
    assert trainee.call("POST", f"{AI}/huggingface/models/publish", json=body).content == b""
    published = providers.repositories["models/acme/answers"]
    assert sorted(published) == ["README.md", "labels.txt", "weights/model.json"]
    assert published["labels.txt"] == b"good\nbad\n"
    for name in ("acme/answers", "team/answers"):
        owned = trainee.call("POST", f"{AI}/huggingface/models/publish", json=body | {"modelName": name})
        assert owned.is_success, owned.text
        assert sorted(providers.repositories[f"models/{name}"]) == sorted(published)
    for name in ("team/answers/x", "/answers", "team/", "a b"):
        refused = trainee.call("POST", f"{AI}/huggingface/models/publish", json=body | {"modelName": name})
        assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "modelName")
    wrong = trainee.call("POST", f"{AI}/openai/models/publish", json=body)
    assert (wrong.status_code, wrong.json()["details"][0]["path"]) == (400, "provider")
    for foreign in ("packages/rows.zip", "executions", "datasets/rows"):
        refused = trainee.call("POST", f"{AI}/huggingface/models/publish", json=body | {"localModelPath": foreign})
        assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "localModelPath")
    missing = trainee.call("POST", f"{AI}/huggingface/models/publish", json=body | {"localModelPath": "models/none"})
    assert missing.json()["details"][0]["path"] == "localModelPath"


def test_data_that_was_sent_before_is_trained_with(
    trainee: Api, trainer: Trainer, questions: Any, providers: AiProviders
):
    sent = {"localPath": questions["storagePath"], "format": "csv", "description": "Questions"}
    assert trainee.call("POST", f"{AI}/openai/datasets", json=sent).content == b""
    train, validation = list(providers.files)[-2:]
    counts = [len(providers.files[each].splitlines()) for each in (train, validation)]
    assert (sum(counts), counts[1] > 0) == (100, True)
    body = {"model": "gpt-4o-mini", "trainingFile": questions["storagePath"], "hyperparameters": {"n_epochs": 2}}
    trainee.post(f"{AI}/openai/training", body)
    trainer.run_due()
    [asked] = providers.jobs.values()
    assert (asked["training_file"], asked["validation_file"]) == (train, validation)
    assert asked["method"]["supervised"] == {"hyperparameters": {"n_epochs": 2}}


def test_costs_are_estimated_from_the_data(trainee: Api, questions: Any):
    body = {"model": "gpt-4o-mini-2024-07-18", "datasetId": questions["id"], "hyperparameters": {"n_epochs": 2}}
    found = trainee.post(f"{AI}/openai/cost-estimate", body)
    assert (found["currency"], found["examples"], found["epochs"], found["estimated"]) == ("USD", 100, 2, True)
    assert found["estimatedCost"] == pytest.approx(found["tokens"] * 3.0 / 1e6, abs=1e-6)
    assert found["source"].startswith("https://")
    assert found["priceDate"]
    counted = trainee.post(f"{AI}/together/cost-estimate", {"model": "llama-8b", "trainingFile": "file-1"})
    assert (counted["estimatedCost"], counted["tokens"], counted["estimated"]) == (1.25, 1000, False)
    hub = {"model": "Qwen/Qwen3-0.6B", "datasetId": questions["id"], "hyperparameters": {"flavor": "t4-small"}}
    assert trainee.post(f"{AI}/huggingface/cost-estimate", hub)["estimatedCost"] == 0.2
    assert trainee.post(f"{AI}/local/cost-estimate", {"model": "small", "datasetId": questions["id"]})["estimated"]
    unknown = trainee.call("POST", f"{AI}/openai/cost-estimate", json=body | {"model": "whisper-1"})
    assert unknown.json()["details"][0]["code"] == "unknown-model"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"model": "m"}, "missing-field"),
        ({"model": " ", "trainingFile": "file-1"}, "missing-field"),
        ({"model": "m", "trainingFile": "../secret-key"}, "path-outside-storage"),
        ({"model": "m", "trainingFile": "/etc/passwd"}, "path-outside-storage"),
        ({"model": "m", "trainingFile": "spindle://default/nothing"}, "unknown-dataset"),
        ({"model": "m", "datasetId": "unknown"}, "unknown-dataset"),
        ({"model": "m", "trainingFile": "file-1", "cloudCredentialId": "unknown"}, "unknown-credential"),
    ],
)
def test_a_training_without_usable_data_is_refused(trainee: Api, body: Any, code: str):
    answer = trainee.call("POST", f"{AI}/openai/training", json=body)
    assert read_code(answer) == (400, code)


def test_columns_that_are_no_examples_are_refused_at_once(trainee: Api):
    rows = {"file": ("p.csv", "title,price\nkettle,3\n")}
    dataset = trainee.call("POST", "/datasets/upload", files=rows, data={"name": "prices"}).json()["id"]
    answer = trainee.call("POST", f"{AI}/openai/training", json={"model": "m", "datasetId": dataset})
    assert answer.json()["details"][0]["code"] == "invalid-example"
    assert answer.json()["error"].startswith(
        "The training data has the columns price, title. An example has 'messages'"
    )


def test_another_organizations_data_is_unknown(trainee: Api, rival: Api, questions: Any, providers: AiProviders):
    rival.post("/cloud-credentials", {"provider": "OPENAI", "apiKey": KEY, "endpoint": providers.url})
    theirs = {"model": "m", "datasetId": questions["id"]}
    answers = [
        rival.call("POST", f"{AI}/openai/training", json=body).json() | {"timestamp": None}
        for body in (theirs, theirs | {"datasetId": "01990000-0000-7000-8000-000000000000"})
    ]
    assert answers[0] == answers[1]
    path = {"model": "m", "trainingFile": f"{trainee.organization_id}/models/published/labels.txt"}
    assert rival.call("POST", f"{AI}/openai/training", json=path).status_code == 400


def test_information_and_health(trainee: Api, server: Server):
    info = trainee.call("GET", "/api/svc/cloud/training/info").json()
    assert (info["localTraining"], info["limits"]) == (True, {"minutes": 720, "memoryGigabytes": 8, "concurrent": 1})
    assert len(info["providers"]) == 4
    away = trainee.call("GET", "/api/svc/cloud/training/health")
    assert (away.status_code, "process that runs trainings" in away.json()["error"]) == (503, True)
    with hold_pidfile(server.settings.data / PIDFILE):
        up = trainee.call("GET", "/api/svc/cloud/training/health")
    assert (up.status_code, up.json()) == (200, {"status": "UP", "localTraining": True})


def test_a_training_is_followed_to_its_end(
    trainee: Api, rival: Api, trainer: Trainer, questions: Any, providers: AiProviders
):
    started = trainee.post(f"{AI}/openai/training", {"model": "small", "datasetId": questions["id"]})
    path = f"{AI}/openai/training/{started['jobId']}"
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(trainee.call, "GET", f"{path}/events", timeout=60)
        trainer.run_due(now())
        job = [*providers.jobs.values()][-1]
        job["state"] = "running"
        trainer.run_due(now() + timedelta(seconds=5))
        job["state"] = "done"
        ended = wait(trainee, trainer, path)
        text = stream.result().text
    kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    seen = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert (kinds[-1], seen[-1]) == ("state", ended)
    assert {"progress"} >= {kind for kind, each in zip(kinds, seen, strict=True) if each["status"] == "RUNNING"}
    last = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")][-1]
    assert trainee.call("GET", f"{path}/events", headers={"Last-Event-ID": last}).status_code == 204
    assert json.loads(trainee.call("GET", f"{path}/events").text.split("data: ")[1]) == ended
    assert rival.call("GET", f"{path}/events").status_code == 404
    assert trainee.call("GET", f"{path}/events", headers={"Last-Event-ID": "x"}).status_code == 400
