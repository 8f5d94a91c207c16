"""Operations on Python extensions, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.python_extensions.scripts import generate_script
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.tables import PythonExtension


class PythonExtensionService:
    """Extensions of the agents that the caller may see."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_of_agent(
        self, caller: Identity, agent_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[PythonExtension]:
        with self._database.read() as session:
            return _open_repository(session, caller).list_of_agent(agent_id, limit=limit, after=after)

    def get(self, caller: Identity, extension_id: str) -> Versioned[PythonExtension]:
        with self._database.read() as session:
            return _add_etag(_open_repository(session, caller).get(extension_id))

    def create(self, caller: Identity, agent_id: str, values: Mapping[str, Any]) -> Versioned[PythonExtension]:
        with self._database.write() as session:
            return _add_etag(_open_repository(session, caller).create(agent_id, **values))

    def update(
        self, caller: Identity, extension_id: str, changes: Mapping[str, Any], if_match: Collection[str]
    ) -> Versioned[PythonExtension]:
        with self._database.write() as session:
            extensions = _open_repository(session, caller)
            extensions.lock(extensions.get(extension_id), if_match)
            return _add_etag(extensions.update(extension_id, changes))

    def delete(self, caller: Identity, extension_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            extensions = _open_repository(session, caller)
            extensions.lock(extensions.get(extension_id), if_match)
            extensions.delete(extension_id)

    def generate_script(self, caller: Identity, extension_id: str) -> str:
        return generate_script(self.get(caller, extension_id).value)


def _open_repository(session: Session, caller: Identity) -> PythonExtensionRepository:
    return PythonExtensionRepository(session, caller.organization_id, viewer_key_id=caller.viewer_key_id)


def _add_etag(extension: PythonExtension) -> Versioned[PythonExtension]:
    return Versioned(extension, compute_etag(extension))
