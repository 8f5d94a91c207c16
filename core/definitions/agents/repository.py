"""Agents: each holds the text of a pipeline, or of a Python program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Select, or_
from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.plan_outline import dump_outline
from core.definitions.agents.texts import CheckedTexts
from core.definitions.agents.validation import calls_functions, check_pipeline
from core.definitions.categories.repository import CategoryRepository
from core.definitions.plugins.scope import load_scope
from core.errors import BadInput, Conflict, NotFound
from core.infra.repository import Repository, lock_organization
from core.infra.validation import check_storable, is_storable
from core.tables import Agent, PythonExtension
from core.tables.extensions import ROW_TRANSFORM
from pipelines.language.names import normalize

NO_TEXTS = CheckedTexts()
NO_CATEGORY = "none"  # stands for the category of agents without one


class AgentRepository(Repository[Agent]):
    """The agents of one organization; with a `viewer_key_id` without those in private categories of other keys.

    `pipeline_yaml` and `code` are two names of the same text, unless `code` is Python, which gives the pipeline. New
    codes are among `texts`, since they are not run here (see `check_texts`); pipelines there are not checked again.
    """

    row = Agent
    noun = "agent"

    def __init__(
        self,
        session: Session,
        organization_id: str,
        *,
        viewer_key_id: str | None = None,
        texts: CheckedTexts = NO_TEXTS,
    ) -> None:
        super().__init__(session, organization_id)
        self._texts = texts
        self._categories = CategoryRepository(session, organization_id, viewer_key_id)

    def create(self, new: AgentCreate) -> Agent:
        """Store a new agent.

        Raise BadInput without a valid name or pipeline, Conflict when the category has an agent of this name.
        """
        agent = self.build(new)
        self._check_category_and_name(agent.category_id, agent.name)
        self.session.add(agent)
        self.session.flush()
        self._set_functions(agent, new.code)
        return agent

    def build(self, new: AgentCreate) -> Agent:
        """Return a valid agent that is not stored yet: its name may be taken in its category."""
        agent = Agent(organization_id=self.organization_id, **new.to_columns())
        self._set_text(agent, new)
        return agent

    def list(
        self, *, category_id: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Sequence[Agent]:
        query = self._select()
        return self._fetch_page(query if category_id is None else query.where(_is_in(category_id)), limit, after)

    def get(self, agent_id: str) -> Agent:
        return self._fetch_by_id(agent_id)

    def get_in_category(self, category_id: str, agent_id: str) -> Agent:
        """Return the agent; raise NotFound when it is in another category."""
        agent = self.get(agent_id)
        if category_id != (agent.category_id or NO_CATEGORY):
            raise self._not_found()
        return agent

    def get_by_name(self, category_id: str, name: str) -> Agent:
        """Return the oldest agent of this name: without a category, several may share one."""
        if not is_storable(category_id + name):
            raise self._not_found("name")
        return self._fetch_one(self._select().where(_is_in(category_id), Agent.name == name).order_by(Agent.id), "name")

    def list_of_category(
        self, category_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Agent]:
        """Raise NotFound for an unknown category."""
        if category_id != NO_CATEGORY:
            self._categories.get(category_id)
        return self.list(category_id=category_id, limit=limit, after=after)

    def update(self, agent_id: str, changes: AgentUpdate) -> Agent:
        """Apply the changed fields; a new text makes a new revision."""
        agent, columns = self.get(agent_id), changes.to_columns()
        category_id, name = columns.get("category_id", agent.category_id), changes.name or agent.name
        if (category_id, name) != (agent.category_id, agent.name):
            self._check_category_and_name(category_id, name)
        if self._set_text(agent, changes):
            agent.revision += 1
            self._set_functions(agent, changes.code)
        return self._apply(agent, columns)

    def delete(self, agent_id: str) -> None:
        """Delete the agent; its jobs stay, without an agent."""
        self.session.delete(self.get(agent_id))
        self.session.flush()

    def load_row_transforms(self, agent: Agent, text: str | None = None) -> Mapping[str, str]:
        """Return the sources of the agent's row transforms by name; empty if its pipeline, or `text`, calls none."""
        if not calls_functions(text or agent.pipeline_yaml or ""):
            return {}
        return {each.name: each.source for each in agent.extensions}

    def select_visible_ids(self) -> Select[tuple[str]]:
        return self._select().with_only_columns(Agent.id)

    def _select(self) -> Select[tuple[Agent]]:
        query = super()._select()
        if self._categories.viewer_key_id is None:
            return query
        visible = Agent.category_id.in_(self._categories.select_visible_ids())
        return query.where(or_(Agent.category_id.is_(None), visible))

    def _check_category_and_name(self, category_id: str | None, name: str) -> None:
        """Raise BadInput for an unknown category, Conflict when it has an agent of this name."""
        if category_id is None:
            return
        try:
            self._categories.get(category_id)
        except NotFound as error:
            raise BadInput(error.sentence, path="categoryId", code="not-found") from error
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(self._select().where(Agent.category_id == category_id, Agent.name == name)):
            sentence = "There is an agent with this name in the category already."
            raise Conflict(sentence, path="name", code="name-taken")

    def _set_text(self, agent: Agent, changes: AgentUpdate) -> bool:
        """Set the agent's text and return whether it changed.

        A client that sends a whole record back changes one of `pipeline_yaml` and `code` and repeats the other's old
        value, so only a value that differs from both old ones counts.
        """
        old = (agent.pipeline_yaml, agent.code)
        pipeline, code = (text if text not in old else None for text in (changes.pipeline_yaml, changes.code))
        if pipeline is None and code is None:
            return False
        check_storable("pipelineYaml", pipeline or code)
        agent.code = agent.outline = agent.package_lock = None
        if pipeline is None and code is not None:
            read = self._texts.codes[code]
            pipeline, agent.code = read.pipeline, code if read.is_python else None
        agent.pipeline_yaml = pipeline
        if pipeline is not None:
            outline = self._texts.pipelines.get(pipeline)
            if outline is None:
                outline = check_pipeline(pipeline, load_scope(self.session, self.organization_id).scope)
            agent.outline = dump_outline(outline)
            agent.package_lock = self._texts.locks[outline.packages] if outline.packages else None
        return True

    def _set_functions(self, agent: Agent, code: str | None) -> None:
        """Change and add the row transforms of the script that the agent's new text was."""
        transforms = self._texts.codes[code].transforms if code is not None else {}
        named = {each.folded_name: each for each in agent.extensions} if transforms else {}
        for name, source in transforms.items():
            if (known := named.get(normalize(name))) is not None:
                known.source = source
                continue
            fields = {"name": name, "folded_name": normalize(name), "type": ROW_TRANSFORM, "source": source}
            self.session.add(PythonExtension(organization_id=self.organization_id, agent_id=agent.id, **fields))
        self.session.flush()
        self.session.expire(agent, ["extensions"])


def _is_in(category_id: str) -> ColumnElement[bool]:
    return Agent.category_id.is_(None) if category_id == NO_CATEGORY else Agent.category_id == category_id
