"""Operations on the agents that the caller may see, as with categories.

Pipelines are parsed before a writing transaction and scripts generated after it: other writers wait for its lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import NO_CATEGORY, NO_TEXTS, AgentRepository
from core.definitions.agents.texts import CheckedTexts, check_texts
from core.definitions.agents.validation import PipelineVerdict, find_warnings, judge_pipeline
from core.definitions.identity.api_keys import Identity
from core.definitions.plugins.scope import OrganizationPlugins, load_scope
from core.errors import Conflict
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.infra.settings import Settings
from core.tables import Agent
from pipelines.planning.notebook import make_notebook
from pipelines.planning.script import make_script


@dataclass(frozen=True, slots=True)
class AgentWithScript:
    """An agent and its pipeline as a Python script, None without a pipeline.

    After a change `warnings` lists ignored keys, and row transforms and Java libraries that are missing.
    """

    agent: Agent
    pyspark_code: str | None
    warnings: Sequence[str] = ()


def list_visible(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[AgentWithScript]:
    agents = _open_repository(session, caller)
    return [_add_script(each, agents.load_row_transforms(each)) for each in agents.list(limit=limit, after=after)]


def list_of_category(
    session: Session, caller: Identity, category_id: str, *, limit: int | None = None, after: str | None = None
) -> Sequence[AgentWithScript]:
    agents = _open_repository(session, caller)
    page = agents.list_of_category(category_id, limit=limit, after=after)
    return [_add_script(each, agents.load_row_transforms(each)) for each in page]


def get(session: Session, caller: Identity, category_id: str, agent_id: str) -> Versioned[AgentWithScript]:
    agents = _open_repository(session, caller)
    agent = agents.get_in_category(category_id, agent_id)
    return Versioned(_add_script(agent, agents.load_row_transforms(agent)), compute_etag(agent))


def find_category(session: Session, caller: Identity, agent_id: str) -> str:
    """Return the id of the agent's category as paths have it; `none` for an agent without one."""
    return _open_repository(session, caller).get(agent_id).category_id or NO_CATEGORY


def get_by_name(session: Session, caller: Identity, category_id: str, name: str) -> Versioned[AgentWithScript]:
    agents = _open_repository(session, caller)
    agent = agents.get_by_name(category_id, name)
    return Versioned(_add_script(agent, agents.load_row_transforms(agent)), compute_etag(agent))


def make_agent_notebook(session: Session, caller: Identity, category_id: str, agent_id: str) -> str:
    """Return the agent's script as a Jupyter notebook."""
    script = get(session, caller, category_id, agent_id).value.pyspark_code
    if script is None:
        raise Conflict("The agent has no pipeline that a script can be made of.", code="no-pipeline")
    return make_notebook(script)


def check(session: Session, caller: Identity, text: str, agent_id: str | None) -> PipelineVerdict:
    """Check the text of a pipeline, with the row transforms of an agent if one is named. Nothing is stored."""
    agents = _open_repository(session, caller)
    transforms = agents.load_row_transforms(agents.get(agent_id), text) if agent_id else {}
    plugins = load_scope(session, caller.organization_id)
    return judge_pipeline(text, plugins.add_transforms(transforms), plugins.scope)


def create(database: Database, settings: Settings, caller: Identity, new: AgentCreate) -> Versioned[AgentWithScript]:
    texts = check_texts(database, settings, caller.organization_id, [new.pipeline_yaml], [new.code])
    with database.write() as session:
        agents = _open_repository(session, caller, texts)
        agent = agents.create(new)
        transforms = agents.load_row_transforms(agent)
        plugins = load_scope(session, caller.organization_id)
    return Versioned(_add_script_and_warnings(agent, transforms, plugins, texts), compute_etag(agent))


def update(
    database: Database,
    settings: Settings,
    caller: Identity,
    category_id: str,
    agent_id: str,
    changes: AgentUpdate,
    if_match: Collection[str],
) -> Versioned[AgentWithScript]:
    texts = check_texts(database, settings, caller.organization_id, [changes.pipeline_yaml], [changes.code])
    with database.write() as session:
        agents = _open_repository(session, caller, texts)
        agents.lock(agents.get_in_category(category_id, agent_id), if_match)
        agent = agents.update(agent_id, changes)
        transforms = agents.load_row_transforms(agent)
        plugins = load_scope(session, caller.organization_id)
    return Versioned(_add_script_and_warnings(agent, transforms, plugins, texts), compute_etag(agent))


def delete(session: Session, caller: Identity, agent_id: str, if_match: Collection[str]) -> None:
    agents = _open_repository(session, caller)
    agents.lock(agents.get(agent_id), if_match)
    agents.delete(agent_id)


def _open_repository(session: Session, caller: Identity, texts: CheckedTexts = NO_TEXTS) -> AgentRepository:
    return AgentRepository(session, caller.organization_id, viewer_key_id=caller.viewer_key_id, texts=texts)


def _add_script(agent: Agent, transforms: Mapping[str, str]) -> AgentWithScript:
    return AgentWithScript(
        agent, make_script(agent.pipeline_yaml, transforms) if agent.pipeline_yaml is not None else None
    )


def _add_script_and_warnings(
    agent: Agent, transforms: Mapping[str, str], plugins: OrganizationPlugins, texts: CheckedTexts
) -> AgentWithScript:
    warnings = find_warnings(agent.pipeline_yaml, plugins.add_transforms(transforms), plugins.scope)
    if (read := texts.codes.get(agent.code or "")) is not None and read.warning is not None:
        warnings = [read.warning, *warnings]
    return replace(_add_script(agent, transforms), warnings=warnings)
