"""Training as a job of Hugging Face: its data is a private dataset, its result a private model of the Hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from core.infra.settings import Settings
from core.tables.states import State
from core.training.providers.client import ProviderClient, get_records, get_text, get_whole
from core.training.providers.hub import HubFile, HubRepository
from core.training.providers.protocol import ExampleFormat, Job, JobRequest, Model, ModelFile, Progress, ProviderRefused

ADDRESS = "https://huggingface.co"
IMAGE = "huggingface/trl"
FLAVOR = "a10g-small"
STATES = {
    "SCHEDULING": State.PENDING,
    "RUNNING": State.RUNNING,
    "COMPLETED": State.COMPLETED,
    "ERROR": State.FAILED,
    "CANCELED": State.CANCELLED,
    "DELETED": State.CANCELLED,
}
LABEL = "spindle_training"
MODELS = "/api/models?pipeline_tag=text-generation&sort=downloads&direction=-1&limit=100"
OWN_PARAMETERS = ("flavor", "image", "timeoutSeconds")
MAX_LINES = 1000


class HuggingFaceProvider:
    """The Hub and its Jobs, which run TRL's command for supervised fine-tuning.

    Hyperparameters become options of that command, except `flavor` (the hardware), `image` and `timeoutSeconds`.
    """

    example_format: ClassVar[ExampleFormat] = "text"

    def __init__(self, settings: Settings, fields: Mapping[str, str]) -> None:
        self._key = fields["api_key"]
        self._client = ProviderClient(settings, "Hugging Face", fields.get("endpoint") or ADDRESS, fields)

    def list_models(self) -> Sequence[Model]:
        own = f"/api/models?author={quote(self.get_namespace(), safe='')}&limit=100"
        records = [*get_records(self._client.get(own)), *get_records(self._client.get(MODELS))]
        names = dict.fromkeys(filter(None, (get_text(each, "id") for each in records)))
        return [Model(name, name.partition("/")[0]) for name in names]

    def get_namespace(self) -> str:
        """Return the name of the user that the key belongs to."""
        return self._client.read_id(self._client.get("/api/whoami-v2"), "name")

    def open_repository(self, kind: str, name: str, owner: str | None = None) -> HubRepository:
        """Return a private repository of an owner, or of the key's user, which is made if there is none."""
        user = self.get_namespace()
        return HubRepository.create(self._client, kind, owner or user, name, is_own=owner in (None, user))

    def upload_file(self, owner_id: str, name: str, path: Path) -> str:
        """Add the file to the owner's dataset on the Hub, in which its name says its purpose."""
        repository = self.open_repository("dataset", f"spindle-{owner_id}")
        repository.commit([HubFile(name, path)], f"Add {name}")
        return repository.id

    def create_job(self, request: JobRequest) -> str:
        namespace = self.get_namespace()
        model = f"{namespace}/{_name_model(request.training_id)}"
        options = {"model_name_or_path": request.model, "dataset_name": request.train, "hub_model_id": model}
        options |= {name: value for name, value in request.hyperparameters.items() if name not in OWN_PARAMETERS}
        arguments = [part for name, value in options.items() for part in (f"--{name}", _to_text(value))]
        fixed = ["--output_dir", "/tmp/model", "--push_to_hub", "--hub_private_repo"]  # noqa: S108 - of the job
        body: dict[str, Any] = {
            "command": ["trl", "sft", *arguments, *fixed],
            "arguments": [],
            "environment": {},
            "secrets": {"HF_TOKEN": self._key},
            "flavor": request.hyperparameters.get("flavor", FLAVOR),
            "dockerImage": request.hyperparameters.get("image", IMAGE),
            "labels": {LABEL: request.training_id, "hub_model_id": model},
        }
        if seconds := get_whole(request.hyperparameters, "timeoutSeconds"):
            body["timeoutSeconds"] = seconds
        return f"{namespace}/{self._client.read_id(self._client.post(f'/api/jobs/{namespace}', body))}"

    def find_job(self, training_id: str) -> str | None:
        namespace = self.get_namespace()
        for record in get_records(self._client.get(f"/api/jobs/{namespace}")):
            if get_text(record.get("labels"), LABEL) == training_id and (found := get_text(record, "id")):
                return f"{namespace}/{found}"
        return None

    def get_job(self, job_id: str) -> Job:
        record = self._client.get(f"/api/jobs/{job_id}")
        status: Any = record.get("status") if isinstance(record, dict) else None
        state = STATES.get(get_text(status, "stage") or "")
        if state is None:
            raise self._client.make_unreadable()
        message = get_text(status, "message") or ""
        labels: Any = record.get("labels")
        error = message or "The job has ended with an error." if state is State.FAILED else None
        return Job(state, Progress(message=message), error, get_text(labels, "hub_model_id"))

    def list_log(self, job_id: str) -> Sequence[str]:
        """Return the lines so far: events of Server-Sent Events whose data is JSON."""
        response = self._client.send("GET", f"/api/jobs/{job_id}/logs?tail={MAX_LINES}", {})
        lines: list[str] = []
        for line in response.body.decode("utf-8", "replace").splitlines():
            if line.startswith("data:") and (text := _read_event(line[5:])):
                lines.append(text)
        return lines

    def cancel_job(self, job_id: str) -> None:
        self._client.cancel(f"/api/jobs/{job_id}/cancel", lambda: self.get_job(job_id).state.terminal)

    def open_files(self, job_id: str, result: str | None) -> Sequence[ModelFile]:
        if result is None:
            raise ProviderRefused("The job has pushed no model to the Hub.", code="weights-kept")
        return HubRepository(self._client, "model", result).open_files()


def _name_model(training_id: str) -> str:
    return f"spindle-{training_id}"


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read_event(data: str) -> str | None:
    try:
        return get_text(json.loads(data), "data")
    except ValueError:  # a line that is no event of the log
        return None
