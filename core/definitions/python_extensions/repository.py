"""Python extensions: functions that an agent's pipeline calls."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select
from sqlalchemy.orm import Session

from core.definitions.agents.repository import AgentRepository
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.validation import validate_function
from core.errors import Conflict
from core.infra.repository import Repository, lock_organization
from core.tables import PythonExtension
from core.tables.extensions import ROW_TRANSFORM
from pipelines.language.names import normalize


class PythonExtensionRepository(Repository[PythonExtension]):
    """The extensions of one organization's agents. Names ignore case and underscores, as they do in a pipeline.

    With a `viewer_key_id` without those of agents in private categories of other keys.
    """

    row = PythonExtension
    noun = "Python extension"

    def __init__(self, session: Session, organization_id: str, *, viewer_key_id: str | None = None) -> None:
        super().__init__(session, organization_id)
        self._viewer_key_id = viewer_key_id
        self._agents = AgentRepository(session, organization_id, viewer_key_id=viewer_key_id)

    def list(self) -> Sequence[PythonExtension]:
        return self._fetch_page(self._select(), None, None)

    def list_of_agent(
        self, agent_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[PythonExtension]:
        """Raise NotFound for an unknown agent."""
        agent = self._agents.get(agent_id)
        return self._fetch_page(self._select().where(PythonExtension.agent_id == agent.id), limit, after)

    def load_row_transforms(self, agent_id: str) -> dict[str, str]:
        """Return the sources of the agent's row transforms by name, as an execution's specification has them."""
        return {each.name: each.source for each in self.list_of_agent(agent_id) if each.type == ROW_TRANSFORM}

    def get(self, extension_id: str) -> PythonExtension:
        return self._fetch_by_id(extension_id)

    def create(self, agent_id: str, new: ExtensionCreate) -> PythonExtension:
        """Raise BadInput with the lines of every problem, Conflict when the agent has an extension of this name."""
        agent, function = self._agents.get(agent_id), validate_function(new.source, new.name, new.type)
        self._check_name_is_free(agent.id, function.name)
        extension = PythonExtension(
            organization_id=self.organization_id,
            agent_id=agent.id,
            name=function.name,
            folded_name=normalize(function.name),
            type=function.type,
            source=function.source,
        )
        self.session.add(extension)
        self.session.flush()
        return extension

    def update(self, extension_id: str, changes: ExtensionUpdate) -> PythonExtension:
        """Apply the changed fields. Executions that were submitted before keep the old source."""
        extension = self.get(extension_id)
        function = validate_function(
            extension.source if changes.source is None else changes.source,
            extension.name if changes.name is None else changes.name,
            extension.type if changes.type is None else changes.type,
        )
        if normalize(function.name) != extension.folded_name:
            self._check_name_is_free(extension.agent_id, function.name)
        extension.name, extension.folded_name = function.name, normalize(function.name)
        extension.type, extension.source = function.type, function.source
        self.session.flush()
        return extension

    def delete(self, extension_id: str) -> None:
        self.session.delete(self.get(extension_id))
        self.session.flush()

    def _select(self) -> Select[tuple[PythonExtension]]:
        query = super()._select()
        if self._viewer_key_id is None:
            return query
        return query.where(PythonExtension.agent_id.in_(self._agents.select_visible_ids()))

    def _check_name_is_free(self, agent_id: str, name: str) -> None:
        lock_organization(self.session, self.organization_id)
        same = (PythonExtension.agent_id == agent_id, PythonExtension.folded_name == normalize(name))
        if self.session.scalar(self._select().where(*same)):
            sentence = f"The agent has a Python extension called '{name}' already."
            raise Conflict(sentence, path="name", code="name-taken")
