"""Rotation of the service key: every stored secret is encrypted again, while no server runs.

The new key is written to DATA/secret-key.next first, all secrets are encrypted again in one transaction, and then the
file replaces the old key. If the process is killed in between, the next rotation or start finishes the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.credentials.repository import bind_credential, bind_environment
from core.errors import Conflict
from core.infra.database import Database
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.idempotency import bind_answer
from core.infra.installation import CODE
from core.infra.secrets import hash_key, load_key, load_service_key
from core.infra.settings import Settings
from core.integrations.webhooks.repository import bind_webhook
from core.lifecycle.tasks.repository import bind_task
from core.tables import CloudCredential, Execution, IdempotencyRecord, Installation, Task, Training, Webhook
from core.training.repository import bind_access

WEBHOOK_FIELDS = ("secret", "previous_secret")


@dataclass(slots=True)
class Rotation:
    """The number of stored secrets, and of those that no key decrypts, which stay as they are."""

    values: int = 0
    unreadable: int = 0


def rotate_service_key(settings: Settings, database: Database) -> Rotation:
    """Encrypt every stored secret under a new service key.

    Raise Conflict when the key comes from SPINDLE_SECRET_KEY and SPINDLE_NEW_SECRET_KEY is not set, and when it is not
    the key of this database.
    """
    if settings.keys.secret_key is not None and settings.keys.new_secret_key is None:
        raise Conflict(
            "The service key comes from SPINDLE_SECRET_KEY. Set SPINDLE_NEW_SECRET_KEY to its successor and repeat.",
            code="missing-setting",
            path="SPINDLE_NEW_SECRET_KEY",
        )
    next_file = _get_next_file(settings)
    key = load_key(next_file) if settings.keys.new_secret_key is None else hash_key(settings.keys.new_secret_key)
    old, new = KeyRing(load_service_key(settings)), KeyRing(key)
    with database.write() as session:
        _record_key(session, old, new)
        rotation = _reencrypt_all(session, old, new)
    if settings.keys.new_secret_key is None:
        next_file.replace(settings.data / "secret-key")
    return rotation


def finish_rotation(settings: Settings, database: Database) -> None:
    """Complete a rotation that was killed."""
    if settings.keys.secret_key is None and _get_next_file(settings).exists():
        rotate_service_key(settings, database)


def _get_next_file(settings: Settings) -> Path:
    return settings.data / "secret-key.next"


def _record_key(session: Session, old: KeyRing, new: KeyRing) -> None:
    row = session.scalars(select(Installation)).one_or_none()
    if row is None:  # a database of an earlier version; its next start records the key
        return
    if row.key_id not in (old.service_key_id, new.service_key_id):
        raise Conflict("The service key is not that of this database, so its secrets cannot be read.", code=CODE)
    row.key_id = new.service_key_id


def _reencrypt_all(session: Session, old: KeyRing, new: KeyRing) -> Rotation:
    rotation = Rotation()

    def reencrypt(stored: str, data: AssociatedData) -> str:
        rotation.values += 1
        try:
            return new.reencrypt(stored, data, old)
        except Conflict:
            rotation.unreadable += 1
            return stored

    for credential in session.scalars(select(CloudCredential)):
        secrets = credential.secrets.items()
        credential.secrets = {field: reencrypt(stored, bind_credential(credential, field)) for field, stored in secrets}
    for row, field, data in (
        *_list_webhook_secrets(session),
        *_list_environments(session),
        *_list_task_keys(session),
        *_list_answers(session),
        *_list_training_access(session),
    ):
        setattr(row, field, reencrypt(getattr(row, field), data))
    return rotation


def _list_webhook_secrets(session: Session) -> Iterator[tuple[Webhook, str, AssociatedData]]:
    for webhook in session.scalars(select(Webhook)):
        for field in WEBHOOK_FIELDS:
            if getattr(webhook, field) is not None:
                yield webhook, field, bind_webhook(webhook, field)


def _list_environments(session: Session) -> Iterator[tuple[Execution, str, AssociatedData]]:
    """List the environments of executions that have not ended; the others are erased."""
    for execution in session.scalars(select(Execution).where(Execution.sealed_environment.is_not(None))):
        yield execution, "sealed_environment", bind_environment(execution)


def _list_task_keys(session: Session) -> Iterator[tuple[Task, str, AssociatedData]]:
    for task in session.scalars(select(Task).where(Task.sealed_api_key.is_not(None))):
        yield task, "sealed_api_key", bind_task(task)


def _list_answers(session: Session) -> Iterator[tuple[IdempotencyRecord, str, AssociatedData]]:
    for record in session.scalars(select(IdempotencyRecord).where(IdempotencyRecord.answer.is_not(None))):
        yield record, "answer", bind_answer(record)


def _list_training_access(session: Session) -> Iterator[tuple[Training, str, AssociatedData]]:
    for training in session.scalars(select(Training).where(Training.sealed_access.is_not(None))):
        yield training, "sealed_access", bind_access(training)
