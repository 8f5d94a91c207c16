"""Fine-tuning at OpenAI, which keeps the weights of the models that it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from core.infra.settings import Settings
from core.tables.states import State
from core.training.providers.client import ProviderClient, get_records, get_text, get_whole
from core.training.providers.protocol import (
    ExampleFormat,
    Job,
    JobRequest,
    Model,
    ModelFile,
    Progress,
    ProviderRefused,
)

ADDRESS = "https://api.openai.com/v1"
STATES = {
    "validating_files": State.PENDING,
    "queued": State.PENDING,
    "running": State.RUNNING,
    "paused": State.RUNNING,
    "succeeded": State.COMPLETED,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
}
LABEL = "spindle_training"  # of the job's metadata, by which a job is found whose answer was lost
MAX_EVENTS = 100
TRAINABLE = ("gpt-3.5-turbo", "gpt-4o", "gpt-4.1", "o4-mini", "davinci-002", "babbage-002")


class OpenAiProvider:
    """OpenAI, or a service that speaks its protocol at the credential's endpoint."""

    example_format: ClassVar[ExampleFormat] = "messages"

    def __init__(self, settings: Settings, fields: Mapping[str, str]) -> None:
        self._client = ProviderClient(settings, "OpenAI", fields.get("endpoint") or ADDRESS, fields)

    def list_models(self) -> Sequence[Model]:
        records = get_records(self._client.get("/models"))
        found = [(get_text(each, "id"), get_text(each, "owned_by")) for each in records]
        return [Model(name, owner, name.removeprefix("ft:").startswith(TRAINABLE)) for name, owner in found if name]

    def upload_file(self, owner_id: str, name: str, path: Path) -> str:
        response = self._client.post_form("/files", {"purpose": "fine-tune"}, (f"{owner_id}-{name}", path))
        return self._client.read_id(self._client.read_json(response))

    def create_job(self, request: JobRequest) -> str:
        supervised = {"hyperparameters": dict(request.hyperparameters)} if request.hyperparameters else {}
        body = {
            "model": request.model,
            "training_file": request.train,
            "metadata": {LABEL: request.training_id},
            "method": {"type": "supervised", "supervised": supervised},
        }
        if request.validation:
            body["validation_file"] = request.validation
        return self._client.read_id(self._client.post("/fine_tuning/jobs", body))

    def find_job(self, training_id: str) -> str | None:
        query = f"limit=100&{quote(f'metadata[{LABEL}]', safe='')}={quote(training_id, safe='')}"
        for record in get_records(self._client.get(f"/fine_tuning/jobs?{query}")):
            metadata = record.get("metadata")
            if get_text(metadata, LABEL) == training_id:
                return get_text(record, "id")
        return None

    def get_job(self, job_id: str) -> Job:
        record = self._client.get(f"/fine_tuning/jobs/{quote(job_id, safe='')}")
        state = STATES.get(get_text(record, "status") or "")
        if state is None:
            raise self._client.make_unreadable()
        error: Any = record.get("error")
        return Job(
            state,
            self._read_progress(job_id) if state is State.RUNNING else Progress(),
            get_text(error, "message"),
            get_text(record, "fine_tuned_model"),
            get_whole(record, "trained_tokens"),
        )

    def list_log(self, job_id: str) -> Sequence[str]:
        events = reversed(self._list_events(job_id))
        return [f"{get_text(each, 'level') or 'info'}: {get_text(each, 'message') or ''}" for each in events]

    def cancel_job(self, job_id: str) -> None:
        path = f"/fine_tuning/jobs/{quote(job_id, safe='')}/cancel"
        self._client.cancel(path, lambda: self.get_job(job_id).state.terminal)

    def open_files(self, job_id: str, result: str | None) -> Sequence[ModelFile]:
        raise ProviderRefused(
            f"OpenAI keeps the weights of the models that it trains. Use it under its name: {result or job_id}.",
            code="weights-kept",
        )

    def _read_progress(self, job_id: str) -> Progress:
        """Return the last step that an event has; newest events come first."""
        events = self._list_events(job_id)
        message = get_text(events[0], "message") or "" if events else ""
        for event in events:
            data = event.get("data")
            if isinstance(data, dict) and (step := get_whole(data, "step")) is not None:
                loss: Any = event["data"].get("train_loss")
                return Progress(
                    step, get_whole(data, "total_steps"), loss if isinstance(loss, float) else None, message
                )
        return Progress(message=message)

    def _list_events(self, job_id: str) -> list[dict[str, Any]]:
        path = f"/fine_tuning/jobs/{quote(job_id, safe='')}/events?limit={MAX_EVENTS}"
        return get_records(self._client.get(path))
