"""Operations on the trainings of the caller's organization."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict
from sqlalchemy.orm import Session

from core.definitions.credentials.repository import CredentialRepository
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, NotFound, SpindleError, TooMany, Unavailable
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.heartbeats import Heartbeats
from core.infra.pidfile import is_alive
from core.infra.records import RECORD
from core.infra.repository import lock_organization
from core.infra.settings import Settings
from core.infra.storage.protocol import NotStored, Storage, training_key
from core.tables import Training, new_id
from core.training.models import TrainingRequest
from core.training.providers.local import LocalProvider
from core.training.providers.protocol import Model, TrainingProvider
from core.training.providers.registry import (
    CREDENTIALS,
    HUB,
    LOCAL,
    TITLES,
    Access,
    find_access,
    is_of_provider,
    open_provider,
    parse_provider_name,
)
from core.training.repository import TrainingRepository, bind_access
from core.training.sources import Source, SourceReader

MODELS_SECONDS = 3600
MOST_UNFINISHED = 100  # of an organization
RETRY_AFTER_SECONDS = 60
PIDFILE = "trainer.pid"
LOG = "log"


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    provider: str
    """Name of the provider in paths."""
    name: str
    """Name of the provider for people."""
    enabled: bool
    """Whether the organization can train there now."""
    reason: str | None
    """Why it cannot; null where it can."""
    credential_provider: str | None
    """Provider of the cloud credential that it needs; null for the local trainer."""
    keeps_weights: bool
    """Whether the provider keeps the weights, so that models cannot be downloaded."""
    publishes: bool
    """Whether models can be published there."""


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """Where the organization can train, its unfinished trainings, and the limits of local ones."""

    providers: Sequence[ProviderRecord]
    local_training: bool
    active_jobs: int
    minutes: float
    memory_gigabytes: float


class TrainingService:
    """Every method works on the caller's organization; trainings of others are unknown (NotFound)."""

    def __init__(self, settings: Settings, database: Database, storage: Storage, sources: SourceReader) -> None:
        self.settings = settings
        self.database = database
        self.storage = storage
        self.sources = sources
        self._models: dict[tuple[str, str, str], tuple[float, Sequence[Model]]] = {}
        self._lock = threading.Lock()

    def list_providers(self, session: Session, caller: Identity, key_ring: KeyRing) -> Sequence[ProviderRecord]:
        usable = CredentialRepository(session, caller.organization_id).select_for_execution([], key_ring)
        found: list[ProviderRecord] = []
        for name, title in TITLES.items():
            if name == LOCAL:
                reason = self._find_local_problem()
            elif any(is_of_provider(each, name) for each in usable):
                reason = None
            else:
                reason = f"There is no enabled cloud credential of the provider {CREDENTIALS[name]}."
            keeps = name == "openai"
            info = ProviderRecord(name, title, reason is None, reason, CREDENTIALS.get(name), keeps, name == HUB)
            found.append(info)
        return found

    def list_models(self, caller: Identity, provider: str, key_ring: KeyRing) -> Sequence[Model]:
        """Ask the provider for its models; an answer is used for an hour."""
        name = parse_provider_name(provider)
        with self.database.read() as session:
            access = find_access(session, caller.organization_id, name, key_ring)
        key = (caller.organization_id, name, json.dumps([access.credential_id, dict(access.fields)]))
        with self._lock:
            asked_at, known = self._models.get(key, (0.0, ()))
        if known and time.monotonic() - asked_at < MODELS_SECONDS:
            return known
        models = open_provider(self.settings, name, access).list_models()
        with self._lock:
            self._models[key] = (time.monotonic(), models)
        return models

    def start(self, caller: Identity, provider: str, request: TrainingRequest, key_ring: KeyRing) -> Training:
        """Store a training, which the trainer process submits.

        Raise BadInput for data that cannot be training data, Conflict without a credential, Unavailable without a local
        trainer, and TooMany while the organization has many that have not ended.
        """
        name = parse_provider_name(provider)
        request.check()
        with self.database.read() as session:
            access = find_access(session, caller.organization_id, name, key_ring, request.cloud_credential_id)
            opened = self.open_checked(name, access, request.model)
            train, validation = self.find_sources(session, caller.organization_id, name, opened, request)
        training = Training(
            id=new_id(),
            organization_id=caller.organization_id,
            provider=name,
            model=request.model,
            hyperparameters=request.hyperparameters,
            sources={"train": train, "validation": validation},
            credential_id=access.credential_id,
        )
        if access.fields:
            text = json.dumps(dict(access.fields))
            training.sealed_access = key_ring.without_caller_key.encrypt(text, bind_access(training))
        with self.database.write() as session:
            lock_organization(session, caller.organization_id)
            trainings = TrainingRepository(session, caller.organization_id)
            if trainings.count_unfinished() >= MOST_UNFINISHED:
                sentence = f"{MOST_UNFINISHED} trainings of the organization have not ended. Cancel some, or wait."
                raise TooMany(sentence, RETRY_AFTER_SECONDS, code="training-limit")
            return trainings.create(training)

    def get(self, session: Session, caller: Identity, provider: str, training_id: str) -> Training:
        return TrainingRepository(session, caller.organization_id).get(parse_provider_name(provider), training_id)

    def cancel(self, session: Session, caller: Identity, provider: str, training_id: str) -> None:
        """End a training at once; the trainer process tells the provider. One that has ended stays as it is."""
        trainings = TrainingRepository(session, caller.organization_id)
        trainings.cancel(trainings.get(parse_provider_name(provider), training_id))

    def list_log(self, caller: Identity, provider: str, training_id: str, key_ring: KeyRing) -> Sequence[str]:
        """Return the log's lines: those that were stored at the end, or the provider's lines so far."""
        with self.database.read() as session:
            training = self.get(session, caller, provider, training_id)
        try:
            with self.storage.open(f"{training_key(training.organization_id, training.id)}/{LOG}") as content:
                return content.read().decode("utf-8", "replace").splitlines()
        except NotStored:
            if training.provider_job_id is None:
                return []
        return self.open_provider_of(training, key_ring).list_log(training.provider_job_id)

    def describe(self, session: Session, caller: Identity, key_ring: KeyRing) -> TrainingFacts:
        return TrainingFacts(
            self.list_providers(session, caller, key_ring),
            self._find_local_problem() is None,
            TrainingRepository(session, caller.organization_id).count_unfinished(),
            self.settings.trainer.minutes,
            self.settings.trainer.gigabytes,
        )

    def check_health(self, session: Session, caller: Identity, key_ring: KeyRing) -> bool:
        """Return whether there is a local trainer; raise Unavailable with the reason when nothing can be trained."""
        if Heartbeats(self.settings.data).leads and not is_alive(self.settings.data / PIDFILE):
            raise Unavailable("The process that runs trainings does not answer. Look into the log of `spindle up`.")
        providers = self.list_providers(session, caller, key_ring)
        if not any(each.enabled for each in providers):
            sentence = "No AI provider is enabled: there is neither a cloud credential of one nor a local trainer."
            raise Unavailable(sentence)
        return next(each.enabled for each in providers if each.provider == LOCAL)

    def open_checked(self, name: str, access: Access, model: str) -> TrainingProvider:
        """Open a provider for a model; only the local trainer's models are known without asking."""
        opened = open_provider(self.settings, name, access)
        if isinstance(opened, LocalProvider):
            opened.check_model(model)
        return opened

    def open_provider_of(self, training: Training, key_ring: KeyRing) -> TrainingProvider:
        """Open the provider of a training: by its own access while it has one, later by a credential of now."""
        if training.sealed_access:
            fields = json.loads(key_ring.decrypt(training.sealed_access, bind_access(training)))
            return open_provider(self.settings, training.provider, Access(training.credential_id, fields))
        with self.database.read() as session:
            access = self._find_later_access(session, training, key_ring)
        return open_provider(self.settings, training.provider, access)

    def find_sources(
        self, session: Session, organization_id: str, name: str, provider: TrainingProvider, request: TrainingRequest
    ) -> tuple[Source, Source | None]:
        """Return the data of a request, and that for its validation; files that were converted before are taken."""
        path = request.training_file
        converted = path and TrainingRepository(session, organization_id).find_dataset(name, path)
        if converted and not request.dataset_id:
            train, validation = converted.files["train"], converted.files.get("validation")
        else:
            field = "datasetId" if request.dataset_id else "trainingFile"
            train = self.sources.find(session, organization_id, path, request.dataset_id, field)
            validation = None
            if train is None:
                raise BadInput("There is no training data.", code="missing-field", path=field)
            self.sources.check(session, organization_id, train, provider.example_format, field)
        if request.validation_file:
            validation = self.sources.find(session, organization_id, request.validation_file, None, "validationFile")
        for source, field in ((train, "trainingFile"), (validation, "validationFile")):
            if name == LOCAL and source and source["kind"] == "provider":
                sentence = f"'{field}' is a provider's file. The local trainer takes a dataset or file of the storage."
                raise BadInput(sentence, path=field)
        return train, validation

    def _find_later_access(self, session: Session, training: Training, key_ring: KeyRing) -> Access:
        try:
            if training.credential_id:
                CredentialRepository(session, training.organization_id).get(training.credential_id)
        except NotFound:
            return find_access(session, training.organization_id, training.provider, key_ring)
        return find_access(session, training.organization_id, training.provider, key_ring, training.credential_id)

    def _find_local_problem(self) -> str | None:
        try:
            LocalProvider(self.settings)
        except SpindleError as error:
            return error.sentence
        return None
