"""Another service key: everything that is sealed under the old one is sealed anew, while no server runs.

The new key lies in DATA/secret-key.next until all is sealed under it, in one transaction; only then it takes the old
key's place. Killed anywhere in between, running it again, or starting the server, finishes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.credentials.repository import bind_credential, bind_environment
from core.errors import Conflict
from core.infra.database import Database
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.secrets import key_in, key_of, service_key
from core.infra.settings import Settings
from core.tables import CloudCredential, Execution, Webhook
from core.webhooks.repository import bind_webhook

WEBHOOK_FIELDS = ("secret", "previous_secret")


@dataclass(slots=True)
class Rotation:
    """How many sealed values there are, and how many of them no key opens, which stay as they are."""

    values: int = 0
    unreadable: int = 0


def rotate(settings: Settings, database: Database) -> Rotation:
    """Makes a new service key and seals everything under it; raises Conflict without a new key where one is set."""
    if settings.secret_key is not None and settings.new_secret_key is None:
        sentence = "The service key is that of SPINDLE_SECRET_KEY. Put the one that is to follow it into"
        raise Conflict(f"{sentence} SPINDLE_NEW_SECRET_KEY, and run this again.")
    following = _next(settings)
    key = key_in(following) if settings.new_secret_key is None else key_of(settings.new_secret_key)
    old, new = KeyRing(service_key(settings)), KeyRing(key)
    with database.write() as session:
        rotation = _reseal(session, old, new)
    if settings.new_secret_key is None:
        following.replace(settings.data / "secret-key")
    return rotation


def finish_rotation(settings: Settings, database: Database) -> None:
    """Does what is left of a rotation that was killed."""
    if settings.secret_key is None and _next(settings).exists():
        rotate(settings, database)


def _next(settings: Settings) -> Path:
    return settings.data / "secret-key.next"


def _reseal(session: Session, old: KeyRing, new: KeyRing) -> Rotation:
    rotation = Rotation()

    def resealed(sealed: str, at: AssociatedData) -> str:
        rotation.values += 1
        try:
            return new.reencrypt(sealed, at, old)
        except Conflict:
            rotation.unreadable += 1
            return sealed

    for credential in session.scalars(select(CloudCredential)):
        sealed = credential.secrets
        credential.secrets = {field: resealed(sealed[field], bind_credential(credential, field)) for field in sealed}
    for row, field, at in (*_webhooks(session), *_executions(session)):
        setattr(row, field, resealed(getattr(row, field), at))
    return rotation


def _webhooks(session: Session) -> Iterator[tuple[Webhook, str, AssociatedData]]:
    for webhook in session.scalars(select(Webhook)):
        for field in WEBHOOK_FIELDS:
            if getattr(webhook, field) is not None:
                yield webhook, field, bind_webhook(webhook, field)


def _executions(session: Session) -> Iterator[tuple[Execution, str, AssociatedData]]:
    """Those that have not ended: what they were given is erased at their end."""
    for execution in session.scalars(select(Execution).where(Execution.sealed_environment.is_not(None))):
        yield execution, "sealed_environment", bind_environment(execution)
