"""The trainer process: submits trainings, follows them at their providers, and ends them.

Every step is repeated until its outcome is stored, so the process may die at any point. A training that was begun
before a crash is found again at its provider, by the label that its job carries.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import structlog

from core.errors import SpindleError, Unavailable
from core.infra.background import OutageLog
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.infra.storage.protocol import training_key
from core.infra.turns import order_by_turns
from core.lifecycle.usage.bills import MILLION, SECONDS_PER_HOUR, multiply
from core.lifecycle.usage.prices import load_rates
from core.tables import Training, now
from core.tables.states import State
from core.training.downloads import MODEL, ChunkReader, delete_folder
from core.training.estimates import CURRENCY, price_tokens
from core.training.examples import TRAIN, VALIDATION, write_examples
from core.training.providers.local import LocalProvider
from core.training.providers.protocol import Job, JobRequest, Progress, ProviderUnreadable, TrainingProvider
from core.training.providers.registry import LOCAL
from core.training.repository import (
    UNFINISHED,
    end_training,
    find_next,
    has_unfinished,
    list_due,
    note_stopped,
    update_training,
)
from core.training.service import LOG, TrainingService
from core.training.sources import Source

THREADS = 16
THREADS_EACH = 4  # of one organization
IDLE_SECONDS = 0.5
LOCAL_SECONDS = 1.0
SHORTEST, LONGEST = 2.0, 300.0  # between two looks at a provider's job
FIRST_BACKOFF, LONGEST_BACKOFF = 5.0, 600.0
GIVE_UP = timedelta(hours=24)
MAX_ATTEMPTS = 3
FIELDS = {"train": "trainingFile", "validation": "validationFile"}
FAULT = "The training failed by a fault of the service, which has been logged."

log = structlog.get_logger()


def choose_pause(age_seconds: float) -> float:
    """Return the seconds until a job is looked at again: a tenth of its age, within limits."""
    return min(LONGEST, max(SHORTEST, age_seconds / 10))


def choose_backoff(failures: int) -> float:
    """Return the seconds after so many failures in a row, doubled by every failure."""
    return min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(failures - 1, 20))


class Trainer:
    """Advances the trainings that are due, several at a time."""

    def __init__(self, service: TrainingService) -> None:
        self._service = service
        self._settings = service.settings
        self._database = service.database
        self._storage = service.storage
        self._key_ring = KeyRing(load_service_key(service.settings))
        self._pool = ThreadPoolExecutor(THREADS, "trainer")
        self._busy: dict[str, tuple[str, Future[None]]] = {}  # organization and work, by training
        self._claims = threading.Lock()
        self._idle = self._database.watch_commits()

    def run(self, shutdown: threading.Event) -> None:
        """Work until the event is set."""
        outages = OutageLog()
        while not shutdown.wait(IDLE_SECONDS):
            outages.run_step(self.submit_due)
        self._pool.shutdown(cancel_futures=True)
        self._idle.close()

    def run_due(self, at: datetime | None = None) -> None:
        """Turn once to the trainings that are due at a time and have a thread, and wait until that is done."""
        self.submit_due(at)
        for _, future in [*self._busy.values()]:
            future.result()

    def submit_due(self, at: datetime | None = None) -> None:
        self._busy = {key: (owner, future) for key, (owner, future) in self._busy.items() if not future.done()}
        if self._idle.is_resting():
            return
        with self._database.read() as session:
            if not has_unfinished(session):
                self._idle.rest()
                return
            due = [each for each in list_due(session, at or now()) if each.id not in self._busy]
        for training in order_by_turns(due, lambda each: (each.organization_id, each.provider)):
            owner = training.organization_id
            if len(self._busy) < THREADS and [each for each, _ in self._busy.values()].count(owner) < THREADS_EACH:
                self._busy[training.id] = owner, self._pool.submit(self._turn_to, training, at or now())

    def _turn_to(self, training: Training, at: datetime) -> None:
        """Do the next step of a training. No error leaves it as it is for ever."""
        step = self._advance if State(training.state) in UNFINISHED else self._stop
        try:
            step(training, at)
        except Unavailable as error:
            self._postpone(training, error, at)
        except SpindleError as error:
            self._give_up(training, error.sentence, error.details[0].code)
        except Exception:
            log.exception("training failed", training=training.id)
            self._give_up(training, FAULT, "internal-error")

    def _advance(self, training: Training, at: datetime) -> None:
        provider = self._service.open_provider_of(training, self._key_ring)
        if training.provider_job_id is None:
            self._submit(training, provider, at)
        else:
            self._follow(training, provider, provider.get_job(training.provider_job_id), at)

    def _submit(self, training: Training, provider: TrainingProvider, at: datetime) -> None:
        """Send the files and begin the job, unless an earlier attempt has done so."""
        if not self._claim(training, at):
            return
        job_id = provider.find_job(training.id) if training.attempts else None
        if job_id is None:
            files = self._send_files(training, provider)
            if files is None or not self._update(training, {"attempts": training.attempts + 1}):
                return
            request = JobRequest(
                training.id, training.model, files["train"], files.get("validation"), training.hyperparameters
            )
            job_id = provider.create_job(request)
        begun = {"provider_job_id": job_id, "failures": 0, "failing_since": None, "due_at": at}
        if not self._update(training, begun):  # it was cancelled in the meantime
            with self._database.write() as session:
                note_stopped(session, training.id, {"provider_job_id": job_id})

    def _claim(self, training: Training, at: datetime) -> bool:
        """Return whether the training may begin: local ones run one at a time, and organizations take turns."""
        if training.provider != LOCAL:
            return True
        with self._claims, self._database.write() as session:
            if training.attempts == 0 and find_next(session, LOCAL) != training.id:
                update_training(session, training.id, {"due_at": at + timedelta(seconds=LOCAL_SECONDS)})
                return False
            return update_training(session, training.id, {"attempts": max(1, training.attempts)})

    def _send_files(self, training: Training, provider: TrainingProvider) -> dict[str, str] | None:
        """Send the files that the provider does not have yet; return None for a training that was cancelled."""
        files: dict[str, str] = dict(training.files)
        sources: Mapping[str, Source | None] = training.sources
        for role, name in (("train", TRAIN), ("validation", VALIDATION)):
            source = sources.get(role)
            if role in files or source is None:
                continue
            if source["kind"] == "provider":
                files[role] = source["id"]
                continue
            with self._service.sources.open_scratch() as scratch:
                split = training.provider == LOCAL and role == "train" and not sources.get("validation")
                lines = self._service.sources.read_lines(training.organization_id, source, FIELDS[role])
                made = write_examples(lines, provider.example_format, scratch, FIELDS[role], split=split)
                files[role] = provider.upload_file(training.id, name, made.train)
                if made.validation:
                    files["validation"] = provider.upload_file(training.id, VALIDATION, made.validation)
            if not self._update(training, {"files": files}):
                return None
        return files

    def _follow(self, training: Training, provider: TrainingProvider, job: Job, at: datetime) -> None:
        """Store how far the job is, or its end."""
        if job.lost and isinstance(provider, LocalProvider) and training.attempts < MAX_ATTEMPTS:
            provider.delete_files(training.id)
            log.warning("training lost", training=training.id, attempt=training.attempts)
            anew = {"provider_job_id": None, "files": {}, "state": State.PENDING, "due_at": at}
            self._update(training, anew)
        elif job.state.terminal:
            self._end(training, provider, job, at)
        else:
            age = (at - (training.started_at or training.created_at)).total_seconds()
            pause = LOCAL_SECONDS if training.provider == LOCAL else choose_pause(age)
            values = {
                "state": job.state,
                "progress": job.progress.to_json(),
                "started_at": training.started_at or (at if job.state is State.RUNNING else None),
                "due_at": at + timedelta(seconds=pause),
                "failures": 0,
                "failing_since": None,
            }
            self._update(training, values)

    def _end(self, training: Training, provider: TrainingProvider, job: Job, at: datetime) -> None:
        """Store the log, the files of a local model and the end; a training that was cancelled keeps no model."""
        self._store_log(training, provider)
        folder = f"{training_key(training.organization_id, training.id)}/{MODEL}"
        is_local = isinstance(provider, LocalProvider)
        if is_local and job.state is State.COMPLETED:
            for file in provider.open_files(training.id, job.result):
                self._storage.put(f"{folder}/{file.name}", ChunkReader(file.chunks))
        started = training.started_at or training.created_at
        seconds = max(0, round((at - started).total_seconds()))
        cost = self._compute_cost(training, job, seconds)
        values = {
            "state": job.state,
            "progress": job.progress.to_json(done=job.state is State.COMPLETED),
            "result": job.result if not is_local else None,
            "tokens": job.tokens,
            "seconds": seconds,
            "started_at": started,
            "completed_at": at,
            "cost": cost,
            "currency": CURRENCY if cost is not None else None,
            "sealed_access": None,
            **_describe_error(job),
        }
        with self._database.write() as session:
            ended = end_training(session, training.id, values)
        if not ended:
            delete_folder(self._storage, folder)
        elif is_local:
            provider.delete_files(training.id)

    def _stop(self, training: Training, at: datetime) -> None:
        """Have the provider end the job of a cancelled training; a result of the job changes nothing."""
        provider = self._service.open_provider_of(training, self._key_ring)
        job_id = training.provider_job_id or (provider.find_job(training.id) if training.attempts else None)
        if job_id is not None:
            provider.cancel_job(job_id)
            if isinstance(provider, LocalProvider) and not provider.get_job(job_id).state.terminal:
                with self._database.write() as session:
                    note_stopped(session, training.id, {"due_at": at + timedelta(seconds=IDLE_SECONDS)})
                return
            self._store_log(training, provider)
        if isinstance(provider, LocalProvider):
            provider.delete_files(training.id)
        seconds = round((at - training.started_at).total_seconds()) if training.started_at else 0
        cost = self._compute_cost(training, Job(State.CANCELLED), seconds)
        values = {"stop_pending": False, "sealed_access": None, "seconds": seconds}
        with self._database.write() as session:
            note_stopped(session, training.id, {**values, "cost": cost, "currency": CURRENCY if cost else None})

    def _store_log(self, training: Training, provider: TrainingProvider) -> None:
        job_id = training.provider_job_id
        lines = provider.list_log(job_id) if job_id else ()
        text = "".join(f"{line}\n" for line in lines)
        self._storage.put(f"{training_key(training.organization_id, training.id)}/{LOG}", BytesIO(text.encode()))

    def _compute_cost(self, training: Training, job: Job, seconds: int) -> int | None:
        """Return the provider's own price, or that of the table; local time costs as much as a driver's machine."""
        if training.provider == LOCAL:
            return multiply(seconds, SECONDS_PER_HOUR, load_rates(self._settings.costs).driver_hour)
        cost = job.cost if job.cost is not None else price_tokens(training.provider, training.model, job.tokens)
        return None if cost is None else int((cost * MILLION).to_integral_value())

    def _postpone(self, training: Training, error: SpindleError, at: datetime) -> None:
        """Try again after a growing pause; after a day of failures, end the training with the last one's sentence."""
        since = training.failing_since or at
        if at - since >= GIVE_UP:
            self._give_up(training, error.sentence, error.details[0].code)
            return
        failures = training.failures + 1
        if isinstance(error, ProviderUnreadable) and training.provider_job_id is None and failures >= MAX_ATTEMPTS:
            hint = " If it has begun a job all the same, end that at the provider." if training.attempts else ""
            self._give_up(
                training, f"{error.sentence} It was asked {failures} times to begin.{hint}", "provider-unreadable"
            )
            return
        values: dict[str, Any] = {
            "failures": failures,
            "failing_since": since,
            "due_at": at + timedelta(seconds=choose_backoff(failures)),
        }
        with self._database.write() as session:
            if State(training.state) in UNFINISHED:
                progress = {**Progress().to_json(), **training.progress, "message": error.sentence}
                update_training(session, training.id, {**values, "progress": progress})
            else:
                note_stopped(session, training.id, values)

    def _give_up(self, training: Training, sentence: str, code: str) -> None:
        values = {"state": State.FAILED, "error": sentence, "error_code": code, "sealed_access": None}
        with self._database.write() as session:
            if not end_training(session, training.id, values):
                note_stopped(session, training.id, {"stop_pending": False, "sealed_access": None})

    def _update(self, training: Training, values: Mapping[str, Any]) -> bool:
        """Change a training that has not ended, in the database and in memory."""
        with self._database.write() as session:
            updated = update_training(session, training.id, values)
        for name, value in values.items():
            setattr(training, name, value)
        return updated


def _describe_error(job: Job) -> dict[str, str | None]:
    if job.state is State.FAILED:
        code = "training-lost" if job.lost else "training-failed"
        return {"error": job.error or "The provider gives no reason.", "error_code": code}
    if job.state is State.CANCELLED:
        return {"error": "The training was cancelled at its provider.", "error_code": "training-cancelled"}
    return {"error": None, "error_code": None}
