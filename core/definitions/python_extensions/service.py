"""Operations on the Python extensions of the agents that the caller may see."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.python_extensions import scripts
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.infra.preconditions import Versioned, add_etag
from core.tables import PythonExtension


def list_of_agent(
    session: Session, caller: Identity, agent_id: str, *, limit: int | None = None, after: str | None = None
) -> Sequence[PythonExtension]:
    return _open_repository(session, caller).list_of_agent(agent_id, limit=limit, after=after)


def get(session: Session, caller: Identity, extension_id: str) -> Versioned[PythonExtension]:
    return add_etag(_open_repository(session, caller).get(extension_id))


def create(session: Session, caller: Identity, agent_id: str, new: ExtensionCreate) -> Versioned[PythonExtension]:
    return add_etag(_open_repository(session, caller).create(agent_id, new))


def update(
    session: Session, caller: Identity, extension_id: str, changes: ExtensionUpdate, if_match: Collection[str]
) -> Versioned[PythonExtension]:
    extensions = _open_repository(session, caller)
    extensions.lock(extensions.get(extension_id), if_match)
    return add_etag(extensions.update(extension_id, changes))


def delete(session: Session, caller: Identity, extension_id: str, if_match: Collection[str]) -> None:
    extensions = _open_repository(session, caller)
    extensions.lock(extensions.get(extension_id), if_match)
    extensions.delete(extension_id)


def generate_script(session: Session, caller: Identity, extension_id: str) -> str:
    return scripts.generate_script(_open_repository(session, caller).get(extension_id))


def _open_repository(session: Session, caller: Identity) -> PythonExtensionRepository:
    return PythonExtensionRepository(session, caller.organization_id, viewer_key_id=caller.viewer_key_id)
