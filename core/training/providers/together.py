"""Fine-tuning at Together AI, whose models can be downloaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from core.infra.settings import Settings
from core.tables.states import State
from core.training.providers.client import ProviderClient, get_records, get_text, get_whole
from core.training.providers.protocol import ExampleFormat, Job, JobRequest, Model, ModelFile, Progress, ProviderRefused
from pipelines.http_client.client import FileBody

ADDRESS = "https://api.together.xyz/v1"
STATES = {
    "pending": State.PENDING,
    "queued": State.PENDING,
    "running": State.RUNNING,
    "compressing": State.RUNNING,
    "uploading": State.RUNNING,
    "cancel_requested": State.RUNNING,
    "cancelled": State.CANCELLED,
    "user_error": State.FAILED,
    "error": State.FAILED,
    "completed": State.COMPLETED,
}
NANO_DOLLARS = Decimal(10) ** 9  # the unit of total_price
SUFFIX_LENGTH = 40


class TogetherProvider:
    """Together AI, or a service that speaks its protocol at the credential's endpoint."""

    example_format: ClassVar[ExampleFormat] = "messages"

    def __init__(self, settings: Settings, fields: Mapping[str, str]) -> None:
        self._client = ProviderClient(settings, "Together AI", fields.get("endpoint") or ADDRESS, fields)

    def list_models(self) -> Sequence[Model]:
        records = get_records(self._client.get("/models"))
        found = [(get_text(each, "id"), get_text(each, "organization")) for each in records]
        return [Model(name, owner) for name, owner in found if name]

    def upload_file(self, owner_id: str, name: str, path: Path) -> str:
        """Announce the file, send it to the address of the answer, and have it checked."""
        fields = {"purpose": "fine-tune", "file_name": f"{owner_id}-{name}", "file_type": "jsonl"}
        announced = self._client.post_form("/files", fields)
        address, file_id = announced.headers.get("location"), announced.headers.get("x-together-file-id")
        if not address or not file_id:
            raise self._client.make_unreadable()
        with open(path, "rb") as content:
            body = FileBody(content, os.fstat(content.fileno()).st_size)
            self._client.send("PUT", address, {"Content-Type": "application/octet-stream"}, body)
        self._client.post(f"/files/{quote(file_id, safe='')}/preprocess")
        return file_id

    def estimate_price(
        self, model: str, file_id: str, hyperparameters: Mapping[str, Any]
    ) -> tuple[Decimal, int | None]:
        """Return the price of a training in US dollars and its tokens, as Together counts them in its own file.

        Raise ProviderRefused where it has not counted them.
        """
        body = {"n_epochs": 1, **hyperparameters, "model": model, "training_file": file_id}
        answer: Any = self._client.post("/fine-tunes/estimate-price", body)
        price = answer.get("estimated_total_price") if isinstance(answer, dict) else None
        if not isinstance(price, int | float):
            reason = get_text(answer, "unavailable_reason") or "it has no estimate"
            raise ProviderRefused(f"Together AI has not counted the file: {reason}.")
        tokens: Any = answer.get("estimated_train_token_count")
        return Decimal(str(price)), round(tokens) if isinstance(tokens, int | float) else None

    def create_job(self, request: JobRequest) -> str:
        body: dict[str, Any] = {
            **request.hyperparameters,
            "model": request.model,
            "training_file": request.train,
            "suffix": _make_suffix(request.training_id),
        }
        if request.validation:
            body |= {"validation_file": request.validation, "n_evals": request.hyperparameters.get("n_evals", 1)}
        return self._client.read_id(self._client.post("/fine-tunes", body))

    def find_job(self, training_id: str) -> str | None:
        suffix = _make_suffix(training_id)
        for record in get_records(self._client.get("/fine-tunes")):
            if suffix in (get_text(record, "suffix") or get_text(record, "model_output_name") or ""):
                return get_text(record, "id")
        return None

    def get_job(self, job_id: str) -> Job:
        record = self._client.get(self._get_path(job_id))
        state = STATES.get(get_text(record, "status") or "")
        if state is None:
            raise self._client.make_unreadable()
        events = get_records(record, "events")
        last = events[-1] if events else {}
        stepped = next((each for each in reversed(events) if get_whole(each, "step") is not None), {})
        price = get_whole(record, "total_price")
        message = get_text(last, "message") or ""
        return Job(
            state,
            Progress(get_whole(stepped, "step"), get_whole(stepped, "total_steps"), None, message),
            message or "The job has ended with an error." if state is State.FAILED else None,
            get_text(record, "model_output_name") or get_text(record, "output_name"),
            get_whole(record, "token_count"),
            None if price is None else price / NANO_DOLLARS,
        )

    def list_log(self, job_id: str) -> Sequence[str]:
        events = get_records(self._client.get(f"{self._get_path(job_id)}/events"))
        return [
            f"{get_text(each, 'created_at') or ''} {get_text(each, 'message') or get_text(each, 'type') or ''}".strip()
            for each in events
        ]

    def cancel_job(self, job_id: str) -> None:
        self._client.cancel(f"{self._get_path(job_id)}/cancel", lambda: self.get_job(job_id).state.terminal)

    def open_files(self, job_id: str, result: str | None) -> Sequence[ModelFile]:
        chunks = self._client.open_stream(f"/finetune/download?ft_id={quote(job_id, safe='')}")
        return [ModelFile(f"{job_id}.tar.zst", None, chunks)]

    def _get_path(self, job_id: str) -> str:
        return f"/fine-tunes/{quote(job_id, safe='')}"


def _make_suffix(training_id: str) -> str:
    """Return the end of the model's name, by which a job is found whose answer was lost."""
    return f"spindle-{training_id.replace('-', '')}"[:SUFFIX_LENGTH]
