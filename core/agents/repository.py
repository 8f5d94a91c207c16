"""Agents: each holds a pipeline's text, checked when it is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, or_
from sqlalchemy.orm import Session

from core.categories.repository import CategoryRepository
from core.errors import BadInput, Conflict, Detail, NotFound
from core.infra.repository import Repository, lock_organization, validate_fields
from core.infra.validation import check_storable, storable
from core.tables import Agent
from pipelines import MAX_PROBLEMS, Pipeline, PipelineError, Transforms, check_yaml, script

# a top-level key `pipeline` of block or flow YAML, and not the annotated name of a line of Python
_PIPELINE_KEY = re.compile(r"""^["']?pipeline["']?\s*:\s*(\[|#|$)|\A\s*\{.*["']?pipeline["']?\s*:""", re.MULTILINE)

NO_CATEGORY = "none"  # in place of a category's id


class AgentRepository(Repository[Agent]):
    """`pipeline_yaml` and its alias `code` carry the same text, unless `code` is Python.

    `viewer_key_id` hides what lies in the private categories of other keys.
    """

    row = Agent
    noun = "agent"
    fields = frozenset({"name", "category_id", "description", "code_type_id", "enabled"})

    def __init__(
        self,
        session: Session,
        organization_id: str,
        sound: Collection[str] = (),
        *,
        viewer_key_id: str | None = None,
    ) -> None:
        """`sound` are pipelines that were checked before, when nobody waited for this transaction."""
        super().__init__(session, organization_id)
        self._sound = sound
        self._categories = CategoryRepository(session, organization_id, viewer_key_id)

    def create(self, values: Mapping[str, Any]) -> Agent:
        """Raises BadInput without a name or with a pipeline that is wrong, told by line; Conflict for a taken name."""
        agent = self.new(values)
        self._check_place(agent.name, agent.category_id)
        self.session.add(agent)
        self.session.flush()
        return agent

    def new(self, values: Mapping[str, Any]) -> Agent:
        """One that is right in itself, not stored yet, whose name may be taken in its category; or BadInput."""
        known = validate_fields(values, self.fields)
        if "name" not in known:
            raise BadInput("An agent needs a 'name'.", [Detail("name", "is missing")])
        agent = Agent(organization_id=self.organization_id, **known)
        self._write(agent, values)
        return agent

    def list(
        self, *, category_id: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Sequence[Agent]:
        query = self._select()
        return self._fetch_page(query if category_id is None else query.where(_in(category_id)), limit, after)

    def get(self, agent_id: str) -> Agent:
        return self._fetch_by_id(agent_id)

    def by_name(self, category_id: str, name: str) -> Agent:
        """Of several of the name, which there may be without a category, the oldest."""
        if not storable(category_id + name):
            raise self._not_found("name")
        return self._fetch_one(self._select().where(_in(category_id), Agent.name == name).order_by(Agent.id), "name")

    def update(self, agent_id: str, changes: Mapping[str, Any]) -> Agent:
        """Merges; a new text makes a new revision."""
        agent, known = self.get(agent_id), validate_fields(changes, self.fields)
        place = (known.get("name", agent.name), known.get("category_id", agent.category_id))
        if place != (agent.name, agent.category_id):
            self._check_place(*place)
        if self._write(agent, changes):
            agent.revision += 1
        return self._apply(agent, known)

    def delete(self, agent_id: str) -> None:
        """Removes the agent; its jobs stay, without one."""
        self.session.delete(self.get(agent_id))
        self.session.flush()

    def visible_ids(self) -> Select[tuple[str]]:
        return self._select().with_only_columns(Agent.id)

    def _select(self) -> Select[tuple[Agent]]:
        own = super()._select()
        if self._categories.viewer_key_id is None:
            return own
        return own.where(or_(Agent.category_id.is_(None), Agent.category_id.in_(self._categories.visible_ids())))

    def _check_place(self, name: str, category_id: str | None) -> None:
        """The category must exist, and the name be free in it."""
        if category_id is None:
            return
        try:
            self._categories.get(category_id)
        except NotFound as error:
            raise BadInput(error.sentence, [Detail("categoryId", error.sentence)]) from error
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(self._select().where(Agent.category_id == category_id, Agent.name == name)):
            raise Conflict("There is an agent with this name in the category already.")

    def _write(self, agent: Agent, values: Mapping[str, Any]) -> bool:
        """Sets the text that differs from the agent's; a record sent back whole carries the old one beside it."""
        old = (agent.pipeline_yaml, agent.code)
        sent = (values.get("pipeline_yaml"), values.get("code"))
        pipeline, code = (text if text not in old else None for text in sent)
        if pipeline is None and code is None:
            return False
        check_storable("pipelineYaml", pipeline or code)
        if pipeline is None and code is not None and _PIPELINE_KEY.search(re.sub(r"\r\n?", "\n", code)):
            pipeline = code
        if pipeline is None:
            agent.pipeline_yaml, agent.code = None, code
        else:
            if pipeline not in self._sound:
                check_pipeline(pipeline)
            agent.pipeline_yaml, agent.code = pipeline, None
        return True


def _in(category_id: str) -> ColumnElement[bool]:
    return Agent.category_id.is_(None) if category_id == NO_CATEGORY else Agent.category_id == category_id


def check_pipeline(text: str) -> None:
    """Raises BadInput with the line and column of everything that is wrong; parameters may still be open."""
    try:
        check_yaml(text)
    except PipelineError as error:
        raise bad_pipeline(error) from error


def bad_pipeline(error: PipelineError) -> BadInput:
    details = [Detail(f"line {p.line}, column {p.column}" if p.line else p.path, p.message) for p in error.problems]
    return BadInput(f"The pipeline has {_counted(len(details))}: {error.problems[0]}", details)


def _counted(problems: int) -> str:
    if problems == 1:
        return "a problem"
    return f"{f'more than {MAX_PROBLEMS}' if problems > MAX_PROBLEMS else problems} problems, the first of them"


def pyspark_code(agent: Agent) -> str | None:
    """The agent's pipeline as a Python script, with its row transforms; None for an agent without a pipeline."""
    if agent.pipeline_yaml is None:
        return None
    return script(agent.pipeline_yaml, row_transforms(agent))


def row_transforms(agent: Agent) -> Mapping[str, str]:
    """Texts by name; none for an agent whose pipeline calls none."""
    if agent.pipeline_yaml is None or not _calls_functions(agent.pipeline_yaml):
        return {}
    return {each.name: each.source for each in agent.extensions}


def warnings(pipeline: str | None, transforms: Mapping[str, str]) -> Sequence[str]:
    """What an execution would fail at as long as the row transforms are these, by line.

    It reads each function that is called: no transaction should wait for it.
    """
    if pipeline is None or not _calls_functions(pipeline):
        return ()
    try:
        found = Pipeline.from_yaml(pipeline).check(Transforms(transforms))
    except PipelineError as error:
        found = error.problems
    return [str(problem) for problem in found]


def _calls_functions(pipeline: str) -> bool:
    return "pythonrowtransform" in pipeline.replace("_", "").casefold()
