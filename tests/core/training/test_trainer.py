"""The trainer process brings each training to an end, whatever its provider does and wherever it is stopped."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.definitions.credentials.models import CredentialCreate
from core.definitions.credentials.repository import CredentialRepository
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Conflict, TooMany, Unavailable
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.tables import Training, now
from core.training.assembly import open_training_service
from core.training.downloads import open_download
from core.training.models import TrainingRequest
from core.training.providers.local import get_folder
from core.training.repository import TrainingRepository, find_next, update_training
from core.training.service import TrainingService
from core.training.trainer import GIVE_UP, THREADS_EACH, Trainer, choose_backoff, choose_pause
from tests.support.ai_providers import KEY, REFUSAL, WEIGHTS, AiProviders
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.shop import Shop
from tests.support.trainer import COMMAND, MODELS

REMOTE = ("openai", "together", "huggingface")
ROWS = "".join(json.dumps({"prompt": f"question {n}", "completion": f"answer {n}"}) + "\n" for n in range(100))


@dataclass
class Workshop:
    """An organization with a key of each provider and a file of examples, and the trainer process's work by steps."""

    service: TrainingService
    caller: Identity
    key_ring: KeyRing
    trainer: Trainer
    hours: int = 0

    def start(self, provider: str, model: str = "small", **fields: Any) -> str:
        request = TrainingRequest(model=model, **{"training_file": "models/rows.jsonl", **fields})
        return self.service.start(self.caller, provider, request, self.key_ring).id

    def get(self, training_id: str) -> Training:
        with self.service.database.read() as session:
            found = session.get(Training, training_id)
        assert found
        return found

    def step(self) -> None:
        """Do what is due an hour later than in the step before, the first one now."""
        self.trainer.run_due(now() + timedelta(hours=self.hours))
        self.hours += 1

    def wait(self, training_id: str, *states: str) -> Training:
        def is_there() -> bool:
            self.trainer.run_due(now() + timedelta(seconds=5))
            found = self.get(training_id)
            return found.state in states and not found.stop_pending

        wait_until(is_there, PATIENCE_SECONDS)
        return self.get(training_id)

    def cancel(self, provider: str, training_id: str) -> None:
        with self.service.database.write() as session:
            self.service.cancel(session, self.caller, provider, training_id)

    def list_log(self, training: Training) -> str:
        return "\n".join(self.service.list_log(self.caller, training.provider, training.id, self.key_ring))

    def download(self, training: Training, path: str | None = None) -> tuple[str, bytes]:
        opened = open_download(self.service, self.caller, training.provider, training.id, path, self.key_ring)
        return opened.name, b"".join(opened.chunks)

    def list_stored(self, training_id: str) -> list[str]:
        folder = f"{self.caller.organization_id}/trainings/{training_id}"
        return [file.key.removeprefix(f"{folder}/") for file in self.service.storage.list(folder)]


@pytest.fixture
def open_workshop(settings: Settings, shop: Shop, providers: AiProviders) -> Iterator[Callable[..., Workshop]]:
    opened: list[Workshop] = []

    def open_(**changes: Any) -> Workshop:
        changed = {"fetch_allow_networks": ("127.0.0.1/32",), "trainer": COMMAND, "trainer_models": MODELS}
        service = open_training_service(settings.replace(**(changed | changes)))
        key_ring = KeyRing(load_service_key(settings))
        if not opened:
            add_credentials(service.database, shop.organization_id, key_ring, providers)
            service.storage.put(f"{shop.organization_id}/models/rows.jsonl", BytesIO(ROWS.encode()))
        opened.append(Workshop(service, shop.caller, key_ring, Trainer(service)))
        return opened[-1]

    yield open_
    for workshop in opened:
        workshop.service.database.close()


def add_credentials(database: Database, organization_id: str, key_ring: KeyRing, providers: AiProviders) -> None:
    names = {"OPENAI": "openai", "TOGETHERAI": "together", "HUGGING_FACE": "huggingface"}
    with database.write() as session:
        for name, path in names.items():
            new = CredentialCreate(provider=name, api_key=KEY, endpoint=providers.get_endpoint(path))
            CredentialRepository(session, organization_id).create(new, key_ring)


@pytest.fixture
def workshop(open_workshop: Callable[..., Workshop]) -> Workshop:
    return open_workshop()


@pytest.mark.parametrize("provider", REMOTE)
def test_a_remote_training_completes(workshop: Workshop, providers: AiProviders, provider: str) -> None:
    training = workshop.start(provider, "gpt-4o-mini", hyperparameters={"n_epochs": 2})
    assert workshop.get(training).state == "PENDING"
    workshop.step()
    providers.move("running")
    workshop.step()
    assert workshop.get(training).state == "RUNNING"
    assert workshop.get(training).sealed_access
    providers.move("done")
    workshop.step()
    done = workshop.get(training)
    assert (done.state, done.error, done.sealed_access, done.progress["percent"]) == ("COMPLETED", None, None, 100.0)
    assert done.cost == {"openai": 6_000_000, "together": 4_800_000, "huggingface": None}[provider]
    assert workshop.list_log(done)
    assert KEY not in workshop.list_log(done)
    if provider == "openai":
        [sent] = providers.files.values()
        first = json.loads(sent.splitlines()[0])
        assert [message["role"] for message in first["messages"]] == ["user", "assistant"]
        with pytest.raises(Conflict, match="ft:gpt-4o-mini:acme") as kept:
            workshop.download(done)
        assert kept.value.details[0].code == "weights-kept"
    if provider == "together":
        assert workshop.download(done)[1] == WEIGHTS


def test_a_failed_one_has_the_providers_sentence(workshop: Workshop, providers: AiProviders) -> None:
    training = workshop.start("openai")
    workshop.step()
    providers.move("failed")
    workshop.step()
    failed = workshop.get(training)
    assert (failed.state, failed.error, failed.error_code) == ("FAILED", REFUSAL, "training-failed")


def test_faults_are_waited_out_with_growing_pauses(workshop: Workshop, providers: AiProviders) -> None:
    training = workshop.start("openai")
    workshop.step()
    pauses: list[float] = []
    for fault in ("429", "500", "garbage"):
        providers.faults.append(fault)  # pyright: ignore[reportArgumentType]
        at = now() + timedelta(hours=len(pauses) + 1)
        workshop.trainer.run_due(at)
        pauses.append((workshop.get(training).due_at - at).total_seconds())
    assert pauses == [5, 10, 20]
    assert workshop.get(training).progress["message"] == "OpenAI answered something that cannot be read."
    providers.move("done")
    workshop.hours = 5
    workshop.step()
    assert (workshop.get(training).state, workshop.get(training).failures) == ("COMPLETED", 3)
    assert choose_backoff(50) == 600
    assert [choose_pause(age) for age in (0, 100, 86_400)] == [2, 10, 300]


def test_a_provider_that_never_answers_is_given_up_after_a_day(workshop: Workshop, providers: AiProviders) -> None:
    training = workshop.start("openai")
    workshop.step()
    providers.faults += ["500", "500"]
    workshop.step()
    assert workshop.get(training).state == "PENDING"
    workshop.trainer.run_due(now() + GIVE_UP + timedelta(hours=1))
    failed = workshop.get(training)
    assert (failed.state, failed.error) == ("FAILED", "OpenAI answered 500: Too busy.")
    assert failed.error_code == "provider-unavailable"


@pytest.mark.parametrize(("provider", "fault"), [*((each, "garbage") for each in REMOTE), ("openai", "no-http")])
def test_a_start_that_is_answered_by_garbage_fails_within_a_minute(
    workshop: Workshop, providers: AiProviders, provider: str, fault: str
) -> None:
    training = workshop.start(provider)
    began = now()
    providers.faults += [fault] * 20  # pyright: ignore[reportOperatorIssue]
    while (found := workshop.get(training)).state == "PENDING" and found.due_at < began + timedelta(minutes=1):
        workshop.trainer.run_due(found.due_at)
    assert (found.state, found.error_code) == ("FAILED", "provider-unreadable")
    assert "answered something that cannot be read. It was asked 3 times to begin." in str(found.error)


def test_a_lost_answer_begins_no_second_job(workshop: Workshop, providers: AiProviders) -> None:
    training = workshop.start("openai")
    providers.faults += ["none", "lost-answer"]  # pyright: ignore[reportOperatorIssue]
    workshop.step()
    assert workshop.get(training).provider_job_id is None
    again = Trainer(workshop.service)  # as after a restart
    again.run_due(now() + timedelta(minutes=1))
    assert workshop.get(training).provider_job_id == "ftjob-1"
    assert len(providers.jobs) == 1


def test_a_cancelled_one_that_finishes_stays_cancelled(workshop: Workshop, providers: AiProviders) -> None:
    training = workshop.start("together")
    workshop.step()
    providers.move("running")
    workshop.step()
    workshop.cancel("together", training)
    providers.move("done")
    workshop.step()
    ended = workshop.get(training)
    assert (ended.state, ended.stop_pending, ended.sealed_access) == ("CANCELLED", False, None)
    assert providers.asked.count("POST /together/fine-tunes/ft-1/cancel") == 1
    workshop.step()
    assert providers.job["state"] == "done"
    with pytest.raises(Conflict, match="CANCELLED"):
        workshop.download(ended)


def test_bad_data_fails_with_its_line(workshop: Workshop, providers: AiProviders) -> None:
    bad = ROWS + '{"messages": [{"role": "king", "content": "x"}]}\n'
    workshop.service.storage.put(f"{workshop.caller.organization_id}/models/bad.jsonl", BytesIO(bad.encode()))
    training = workshop.start("openai", training_file="models/bad.jsonl")
    workshop.step()
    failed = workshop.get(training)
    assert (failed.state, failed.error_code) == ("FAILED", "invalid-example")
    assert (failed.error or "").startswith("Line 101 of the training data has a message without one of the roles")
    assert (providers.files, providers.jobs) == ({}, {})


def test_a_local_training_completes_and_is_downloaded(workshop: Workshop) -> None:
    training = workshop.start("local")
    done = workshop.wait(training, "COMPLETED", "FAILED")
    assert (done.state, done.error) == ("COMPLETED", None)
    assert "examples, " in workshop.list_log(done)
    assert done.progress["loss"] == pytest.approx(1 / 3)
    assert workshop.list_stored(training) == ["log", "model/labels.txt", "model/weights/model.json"]
    assert not get_folder(workshop.service.settings, training).exists()
    name, archive = workshop.download(done, "reviews/v1")
    assert (name, archive[:2]) == (f"{training}.zip", b"PK")
    stored = workshop.service.storage.open(f"{workshop.caller.organization_id}/models/reviews/v1/labels.txt")
    assert stored.read() == b"good\nbad\n"
    stored.close()
    for path in ("../executions", "a/../../b", "/etc", f"{workshop.caller.organization_id}x/y://z"):
        with pytest.raises(BadInput) as outside:
            workshop.download(done, path)
        assert outside.value.details[0].code == "path-outside-storage"


@pytest.mark.long
def test_a_second_local_training_waits(workshop: Workshop) -> None:
    first, second = workshop.start("local", "endless"), workshop.start("local")
    workshop.wait(first, "RUNNING")
    workshop.wait(second, "PENDING")
    assert (workshop.get(second).state, workshop.get(second).attempts) == ("PENDING", 0)
    workshop.cancel("local", first)
    workshop.wait(first, "CANCELLED")
    assert workshop.list_stored(first) == ["log"]
    assert workshop.wait(second, "COMPLETED", "FAILED").state == "COMPLETED"


def test_organizations_take_turns_with_local_trainings(workshop: Workshop, other_shop: Shop) -> None:
    database = workshop.service.database
    ours = [workshop.start("local") for _ in range(3)]
    theirs = Training(
        organization_id=other_shop.organization_id, provider="local", model="small", sources={}, hyperparameters={}
    )
    with database.write() as session:
        theirs = TrainingRepository(session, other_shop.organization_id).create(theirs)

    def find() -> str | None:
        with database.read() as session:
            return find_next(session, "local")

    def put(training_id: str, **values: Any) -> None:
        with database.write() as session:
            update_training(session, training_id, values)

    assert find() == ours[0]
    put(ours[0], attempts=1, started_at=now())
    assert find() is None
    put(ours[0], state="COMPLETED")
    assert find() == theirs.id
    put(theirs.id, attempts=1, started_at=now() + timedelta(seconds=1))
    put(theirs.id, state="FAILED")
    assert find() == ours[1]


def test_an_organization_has_a_limited_number_of_trainings(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.training.service.MOST_UNFINISHED", 2)
    first, _ = workshop.start("local"), workshop.start("openai", "gpt-4o-mini")
    with pytest.raises(TooMany) as refused:
        workshop.start("local")
    assert refused.value.details[0].code == "training-limit"
    workshop.cancel("local", first)
    assert workshop.start("local")


def test_many_trainings_of_one_organization_leave_threads_for_others(
    workshop: Workshop, other_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    end = threading.Event()

    def hold(training: Training, _at: datetime) -> None:
        begun.append(training.organization_id)
        end.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(workshop.trainer, "_turn_to", hold)
    for _ in range(THREADS_EACH + 3):
        workshop.start("openai", "gpt-4o-mini")
    with workshop.service.database.write() as session:
        another = Training(
            organization_id=other_shop.organization_id, provider="openai", model="m", sources={}, hyperparameters={}
        )
        TrainingRepository(session, other_shop.organization_id).create(another)
    try:
        workshop.trainer.submit_due()
        wait_until(lambda: len(begun) == THREADS_EACH + 1, PATIENCE_SECONDS)
        workshop.trainer.submit_due()
        assert Counter(begun) == {workshop.caller.organization_id: THREADS_EACH, other_shop.organization_id: 1}
    finally:
        end.set()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("failing", "The trainer ended with code 3: .*ValueError: the labels are missing"),
        ("empty", "without a file in its output folder"),
        ("hungry", "needed more than 0.2 GB of memory"),
        ("endless", "took longer than 0.02 minutes"),
    ],
)
def test_limits_and_failures_of_the_trainer(open_workshop: Callable[..., Workshop], model: str, reason: str) -> None:
    limits = {"trainer_gigabytes": 0.2} if model == "hungry" else {}
    limits |= {"trainer_minutes": 0.02} if model == "endless" else {}
    workshop = open_workshop(**limits)
    training = workshop.start("local", model)
    failed = workshop.wait(training, "FAILED", "COMPLETED")
    assert failed.state == "FAILED"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(failed.error)
    assert workshop.list_stored(training) == ["log"]


@pytest.mark.long
def test_a_trainer_whose_process_was_killed_begins_again(workshop: Workshop) -> None:
    training = workshop.start("local", "endless")
    workshop.wait(training, "RUNNING")
    for process in find_processes(training, "core.training.runner"):
        process.kill()
    wait_until(lambda: not find_processes(training, "core.training.runner"), 30)
    workshop.wait(training, "PENDING", "FAILED")
    wait_until(lambda: not find_processes(training, "tests/support/trainer.py"), 30)
    assert workshop.wait(training, "RUNNING").attempts == 2
    workshop.cancel("local", training)
    workshop.wait(training, "CANCELLED")
    wait_until(lambda: not find_processes(training, ""), 30)


def find_processes(training_id: str, part: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if training_id in line and part in line and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def test_a_local_training_needs_the_setting_and_one_of_its_models(open_workshop: Callable[..., Workshop]) -> None:
    with pytest.raises(Unavailable, match="SPINDLE_TRAINER") as unset:
        open_workshop(trainer=None).start("local")
    assert unset.value.details[0].code == "trainer-unset"
    with pytest.raises(BadInput, match="It has small, ") as unknown:
        open_workshop().start("local", "other")
    assert unknown.value.details[0].code == "unknown-model"


def test_the_trainer_sees_no_secret_of_the_service(open_workshop: Callable[..., Workshop], tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text("import json, os, sys; open(sys.argv[3] + '/env', 'w').write(json.dumps(dict(os.environ)))")
    workshop = open_workshop(trainer=f"{sys.executable} {script} {{model}} {{train}} {{output}}")
    done = workshop.wait(workshop.start("local"), "COMPLETED", "FAILED")
    seen = json.loads(workshop.download(done)[1])
    assert {name for name in seen if name.startswith(("SPINDLE_", "AWS", "DAGSTER"))} == {"SPINDLE_TRAINING"}


def test_a_training_without_a_credential_is_a_conflict(workshop: Workshop, other_shop: Shop) -> None:
    request = TrainingRequest(model="gpt-4o-mini", training_file="file-1")
    with pytest.raises(Conflict, match="needs an enabled cloud credential of the provider OPENAI"):
        workshop.service.start(other_shop.caller, "openai", request, workshop.key_ring)
