"""Every provider keeps the protocol; the remote ones are asked over HTTP at servers that speak theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.infra import http_client
from core.infra.settings import Settings
from core.tables import new_id
from core.tables.states import State
from core.training.providers.protocol import Job, JobRequest, ProviderRefused, ProviderUnavailable, TrainingProvider
from core.training.providers.registry import Access, open_provider
from tests.support.ai_providers import KEY, REFUSAL, WEIGHTS, AiProviders
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.trainer import COMMAND, MODELS

REMOTE = ("openai", "together", "huggingface")
ROWS = "".join(f'{{"text": "row {number}"}}\n' for number in range(200))


@dataclass(frozen=True)
class Case:
    """A provider, and how its server or trainer is brought into a state."""

    name: str
    provider: TrainingProvider
    server: AiProviders
    folder: Path

    def begin(self, model: str = "small", training_id: str | None = None) -> str:
        training_id = training_id or new_id()
        files: list[str] = []
        for name in ("train.jsonl", "validation.jsonl"):
            source = self.folder / name
            source.write_text(ROWS)
            files.append(self.provider.upload_file(training_id, name, source))
        return self.provider.create_job(JobRequest(training_id, model, files[0], files[1], {}))

    def wait(self, job_id: str, state: State) -> Job:
        wait_until(lambda: self.provider.get_job(job_id).state is state, PATIENCE_SECONDS)
        return self.provider.get_job(job_id)


@pytest.fixture
def open_case(tmp_path: Path, providers: AiProviders) -> Callable[[str], Case]:
    def open_(name: str) -> Case:
        settings = Settings(
            data=tmp_path, fetch_allow_networks=("127.0.0.1/32",), trainer=COMMAND, trainer_models=MODELS
        )
        access = Access(None, {"api_key": KEY, "endpoint": providers.get_endpoint(name)})
        return Case(name, open_provider(settings, name, access), providers, tmp_path)

    return open_


@pytest.fixture(params=[*REMOTE, "local"])
def case(request: pytest.FixtureRequest, open_case: Callable[[str], Case]) -> Iterator[Case]:
    case = open_case(request.param)
    yield case
    if case.name == "local":
        for folder in (case.folder / "trainings").glob("*"):
            case.provider.cancel_job(folder.name)
            wait_until((folder / "end.json").exists, PATIENCE_SECONDS)


@pytest.fixture(params=REMOTE)
def remote(request: pytest.FixtureRequest, open_case: Callable[[str], Case]) -> Case:
    return open_case(request.param)


def test_models_have_names(case: Case) -> None:
    assert all(model.id for model in case.provider.list_models())
    assert case.provider.list_models()


def test_a_training_runs_to_its_model(case: Case) -> None:
    training_id = new_id()
    job_id = case.begin(training_id=training_id)
    assert case.provider.find_job(training_id) == job_id
    assert case.provider.find_job(new_id()) is None
    if case.name != "local":
        assert case.provider.get_job(job_id).state is State.PENDING
        case.server.move("running")
        assert case.provider.get_job(job_id).state is State.RUNNING
        case.server.move("done")
    job = case.wait(job_id, State.COMPLETED)
    assert job.error is None
    assert case.provider.list_log(job_id)
    if case.name == "openai":
        assert (job.result, job.tokens) == ("ft:gpt-4o-mini:acme", 2_000_000)
        with pytest.raises(ProviderRefused, match="keeps the weights") as refused:
            case.provider.open_files(job_id, job.result)
        assert refused.value.details[0].code == "weights-kept"
    else:
        files = {file.name: b"".join(file.chunks) for file in case.provider.open_files(job_id, job.result)}
        assert (
            files
            == {
                "together": {f"{job_id}.tar.zst": WEIGHTS},
                "huggingface": {"config.json": b"{}", "model.safetensors": b"{}"},
                "local": {"labels.txt": b"good\nbad\n", "weights/model.json": b'{"examples": 200}'},
            }[case.name]
        )


def test_data_arrives_as_it_was(remote: Case) -> None:
    remote.begin()
    repositories = [content for files in remote.server.repositories.values() for content in files.values()]
    assert [*remote.server.files.values(), *repositories] == [ROWS.encode(), ROWS.encode()]


def test_progress_is_the_providers(case: Case) -> None:
    job_id = case.begin("endless")
    if case.name != "local":
        case.server.move("running")
        progress = case.provider.get_job(job_id).progress
        assert (progress.step, progress.steps) == ((None, None) if case.name == "huggingface" else (3, 10))
    else:
        wait_until(lambda: case.provider.get_job(job_id).progress.step == 3, PATIENCE_SECONDS)
        job = case.provider.get_job(job_id)
        assert (job.state, job.progress.percent, job.progress.loss) == (State.RUNNING, 100.0, pytest.approx(1 / 3))


def test_a_cancelled_job_ends_and_may_be_cancelled_again(case: Case) -> None:
    job_id = case.begin("endless")
    case.provider.cancel_job(job_id)
    case.wait(job_id, State.CANCELLED)
    case.provider.cancel_job(job_id)
    assert case.provider.get_job(job_id).state is State.CANCELLED


def test_a_failure_has_the_providers_sentence(case: Case) -> None:
    job_id = case.begin("failing")
    if case.name != "local":
        case.server.move("failed")
    job = case.wait(job_id, State.FAILED)
    assert (job.error or "").endswith(REFUSAL if case.name != "local" else "ValueError: the labels are missing")
    assert job.result is None or case.name != "openai"


@pytest.mark.parametrize("fault", ["429", "500", "garbage", "silence"])
def test_a_fault_is_worth_a_retry(remote: Case, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = remote.begin()
    monkeypatch.setattr(http_client, "TOTAL_SECONDS", 0.3)
    remote.server.faults.append(fault)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ProviderUnavailable) as error:
        remote.provider.get_job(job_id)
    assert error.value.retryable
    assert remote.provider.get_job(job_id).state is State.PENDING


def test_a_bad_key_is_refused_and_never_shown(remote: Case) -> None:
    remote.server.faults.append("401")
    with pytest.raises(ProviderRefused, match="answered 401: Incorrect API key provided") as error:
        remote.provider.list_models()
    assert "sk-abc" not in error.value.sentence
    assert not [path for path in remote.server.asked if KEY in path]


def test_a_job_whose_answer_was_lost_is_found(remote: Case) -> None:
    training_id = new_id()
    source = remote.folder / "train.jsonl"
    source.write_text(ROWS)
    train = remote.provider.upload_file(training_id, "train.jsonl", source)
    if remote.name == "huggingface":
        remote.provider.list_models()
    before = len(remote.server.asked)
    remote.provider.create_job(JobRequest(training_id, "small", train, None, {"n_epochs": 2}))
    requests = len(remote.server.asked) - before
    [job_id] = remote.server.jobs
    remote.server.jobs.clear()
    remote.server.faults.extend(["none"] * (requests - 1) + ["lost-answer"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ProviderUnavailable):
        remote.provider.create_job(JobRequest(training_id, "small", train, None, {}))
    assert (remote.provider.find_job(training_id) or "").endswith(job_id)
