"""spindle.yaml: the projects, agents and jobs that there should be. Who declares nothing of a field leaves it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from core.cli.client import ClientError

Key = tuple[str, ...]  # a kind, and names: a project's before its job's, a category's (or none) before its agent's
KINDS = ("category", "agent", "project", "job")


class Declared(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    name: str
    description: str | None = None
    enabled: bool | None = None


class CategoryDeclared(Declared):
    icon: str | None = None
    visibility: str | None = None


class AgentDeclared(Declared):
    """Its text stands here (`pipeline`, or `code` for Python) or in a file beside this one (`pipelineFile`)."""

    category: str | None = None
    pipeline: str | dict[str, Any] | None = None
    pipeline_file: str | None = None
    code: str | None = None


class JobDeclared(Declared):
    """`agent` is a name, or category/name; `inputDataset` a table as SQL names it, `schema.table`."""

    agent: str | None = None
    input_dataset: str | None = None
    cloud_credentials: list[str] | None = None
    parameters: dict[str, Any] | None = None
    scheduled_time: AwareDatetime | None = Field(default=None, strict=False)


class ProjectDeclared(Declared):
    cron_schedule: str | None = None
    parameters: dict[str, Any] | None = None
    jobs: list[JobDeclared] | None = None


class Declaration(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    categories: list[CategoryDeclared] | None = None
    agents: list[AgentDeclared] | None = None
    projects: list[ProjectDeclared] | None = None

    def entities(self, folder: Path) -> dict[Key, dict[str, Any]]:
        """What is declared of each category, agent, project and job, by kind and full name."""
        found: dict[Key, dict[str, Any]] = {}
        for key, values in self._all(folder):
            if key in found:
                raise ClientError(f"The {key[0]} '{full_name(key)}' is declared twice.")
            found[key] = values
        return found

    def owns(self, key: Key) -> bool:
        """Whether what is not declared under this key is to be pruned: its section is there, and leaves it out."""
        if key[0] == "job":
            sections = {each.name: each.jobs for each in self.projects or ()}
            return sections.get(key[1]) is not None
        return {"category": self.categories, "agent": self.agents, "project": self.projects}[key[0]] is not None

    def _all(self, folder: Path) -> Iterator[tuple[Key, dict[str, Any]]]:
        for category in self.categories or ():
            yield ("category", category.name), _values(category)
        for agent in self.agents or ():
            yield ("agent", agent.category or "", agent.name), _agent(agent, folder)
        for project in self.projects or ():
            yield ("project", project.name), _values(project)
            for job in project.jobs or ():
                yield ("job", project.name, job.name), _values(job)


def full_name(key: Key) -> str:
    """`Shop/Books`, as people name it."""
    return "/".join(part for part in key[1:] if part)


def read_declaration(path: Path) -> Declaration:
    """Raises ClientError that tells file, line and field of what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, without its reading of times
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ClientError(f"{path} is not UTF-8 text.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ClientError(f"{path}:{mark.line + 1 if mark else 1}: {error.problem}") from None
    try:
        return Declaration.model_validate({} if values is None else values)
    except ValidationError as error:
        root = yaml.compose(text, _Loader)
        problems = error.errors(include_url=False)
        lines = [
            f"{path}:{_line(root, each['loc'])}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems
        ]
        raise ClientError("\n".join(lines)) from None


class _Loader(yaml.SafeLoader):
    """Leaves times as the text that they are written as."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _values(declared: Declared) -> dict[str, Any]:
    return declared.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"jobs"})


def _agent(agent: AgentDeclared, folder: Path) -> dict[str, Any]:
    """`pipeline` becomes the text, wherever it stands."""
    values = _values(agent)
    texts = [values.pop(name) for name in ("pipeline", "pipelineFile") if name in values]
    if len(texts) + ("code" in values) > 1:
        raise ClientError(f"The agent '{agent.name}' has more than one of pipeline, pipelineFile and code.")
    if agent.pipeline_file is not None:
        try:
            values["pipeline"] = (folder / agent.pipeline_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ClientError(f"{folder / agent.pipeline_file} cannot be read: {reason}.") from None
    elif isinstance(agent.pipeline, dict):
        values["pipeline"] = yaml.safe_dump(agent.pipeline, sort_keys=False, allow_unicode=True)
    elif agent.pipeline is not None:
        values["pipeline"] = agent.pipeline
    return values


def _line(root: Any, path: Sequence[int | str]) -> int:
    """Where the value at this path stands, or the last that is there of the way to it."""
    node = root
    for step in path:
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            found = [value if key.value == step else None for key, value in cast(list[Any], children)]
            found = [value for value in found if value is not None]
        else:
            found = children[step : step + 1] if isinstance(step, int) else []
        if not found:
            break
        node = found[0]
    return node.start_mark.line + 1 if node is not None else 1
