"""Python extensions: functions that an agent's pipeline calls, checked by their text and never run here."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from core.agents import Agents
from core.errors import BadInput, Conflict, Detail, NotFound
from core.repository import lock_organization
from core.tables import PythonExtension
from core.values import check_name, check_storable, storable
from pipelines import PipelineError
from pipelines.names import fold
from pipelines.transforms import source as texts

ROW_TRANSFORM = "row_transform"
TYPES = (ROW_TRANSFORM,)


class PythonExtensions:
    """Of one organization's agents. Names ignore case and underscores, as they do in a pipeline."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._organization_id = organization_id

    def list(self) -> Sequence[PythonExtension]:
        """Those of all agents."""
        return self._session.scalars(self._own()).all()

    def of_agent(self, agent_id: str) -> Sequence[PythonExtension]:
        """Raises NotFound for an agent that is not there."""
        agent = Agents(self._session, self._organization_id).get(agent_id)
        return self._session.scalars(self._own().where(PythonExtension.agent_id == agent.id)).all()

    def transforms(self, agent_id: str) -> dict[str, str]:
        """Texts of the agent's row transforms by name, as an execution spec has them."""
        return {each.name: each.source for each in self.of_agent(agent_id) if each.type == ROW_TRANSFORM}

    def get(self, extension_id: str) -> PythonExtension:
        own = self._own().where(PythonExtension.id == extension_id)
        found = self._session.scalar(own) if storable(extension_id) else None
        if found is None:
            raise NotFound("There is no Python extension with this id.")
        return found

    def create(self, agent_id: str, *, name: str, source: str, type: str = ROW_TRANSFORM) -> PythonExtension:
        """Raises BadInput with the lines of what is wrong, Conflict for a name that the agent has already."""
        agent = Agents(self._session, self._organization_id).get(agent_id)
        _check(name, source, type)
        lock_organization(self._session, self._organization_id)
        if any(each.folded_name == fold(name) for each in self.of_agent(agent_id)):
            raise Conflict(f"The agent has a Python extension called '{name}' already.")
        extension = PythonExtension(
            organization_id=self._organization_id,
            agent_id=agent.id,
            name=name,
            folded_name=fold(name),
            type=type,
            source=source,
        )
        self._session.add(extension)
        self._session.flush()
        return extension

    def replace(self, extension_id: str, source: str) -> PythonExtension:
        """Gives an extension another text; executions that are on their way keep theirs."""
        extension = self.get(extension_id)
        _check(extension.name, source, extension.type)
        extension.source = source
        self._session.flush()
        return extension

    def delete(self, extension_id: str) -> None:
        self._session.delete(self.get(extension_id))
        self._session.flush()

    def _own(self) -> Select[tuple[PythonExtension]]:
        own = select(PythonExtension).where(PythonExtension.organization_id == self._organization_id)
        return own.order_by(PythonExtension.id)


def problems(name: str, source: str) -> tuple[str, ...]:
    """What is wrong with the text of a row transform, each with its line; nothing when it can be used."""
    try:
        texts.read(name, source)
    except PipelineError as error:
        return tuple(str(problem) for problem in error.problems)
    return ()


def _check(name: str, source: str, type: str) -> None:
    check_name(name)
    check_storable("function", source)
    if type not in TYPES:
        raise BadInput(f"There is no Python extension of the type '{type}'; there is {', '.join(TYPES)}.")
    if wrong := problems(name, source):
        raise BadInput(
            f"The function '{name}' cannot be used: {wrong[0]}", [Detail("function", each) for each in wrong]
        )
