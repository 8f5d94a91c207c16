"""spindle.yaml: the projects, agents and jobs that there should be. Who declares nothing of a field leaves it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from cli.client import ClientError

# a kind, and names: a project's before its job's, a category's (or none) before its agent's, both before an extension's
Key = tuple[str, ...]
KINDS = ("category", "agent", "extension", "project", "job")


class Named(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    name: str


class Declared(Named):
    description: str | None = None
    enabled: bool | None = None


class CategoryDeclared(Declared):
    icon: str | None = None
    visibility: str | None = None


class ExtensionDeclared(Named):
    """A function that its agent's pipeline calls by this name; its text stands here or in a file beside this one."""

    function: str | None = None
    function_file: str | None = None


class AgentDeclared(Declared):
    """Its text stands here (`pipeline`, or `code` for Python) or in a file beside this one (`pipelineFile`)."""

    category: str | None = None
    pipeline: str | dict[str, Any] | None = None
    pipeline_file: str | None = None
    code: str | None = None
    extensions: list[ExtensionDeclared] | None = None


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
        """What is declared of each category, agent, extension, project and job, by kind and full name."""
        found: dict[Key, dict[str, Any]] = {}
        for key, values in self._all(folder):
            if key in found:
                raise ClientError(f"The {key[0]} '{full_name(key)}' is declared twice.")
            found[key] = values
        return found

    def owns(self, key: Key) -> bool:
        """Whether what is not declared under this key is to be pruned: its section is there, and leaves it out."""
        if outer := around(key):
            sections: dict[Key, Sequence[Named] | None] = {
                ("project", each.name): each.jobs for each in self.projects or ()
            }
            sections |= {("agent", each.category or "", each.name): each.extensions for each in self.agents or ()}
            return sections.get(outer) is not None
        return {"category": self.categories, "agent": self.agents, "project": self.projects}[key[0]] is not None

    def _all(self, folder: Path) -> Iterator[tuple[Key, dict[str, Any]]]:
        for category in self.categories or ():
            yield ("category", category.name), _values(category)
        for agent in self.agents or ():
            names = agent.category or "", agent.name
            yield ("agent", *names), _agent(agent, folder)
            for extension in agent.extensions or ():
                yield ("extension", *names, extension.name), _extension(extension, folder)
        for project in self.projects or ():
            yield ("project", project.name), _values(project)
            for job in project.jobs or ():
                yield ("job", project.name, job.name), _values(job)


def full_name(key: Key) -> str:
    """`Shop/Books`, as people name it."""
    return "/".join(part for part in key[1:] if part)


def around(key: Key) -> Key | None:
    """What the record stands within and goes with: a job's project, an extension's agent."""
    outer = {"job": "project", "extension": "agent"}.get(key[0])
    return (outer, *key[1:-1]) if outer else None


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


def _values(declared: Named) -> dict[str, Any]:
    return declared.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"jobs", "extensions"})


def _agent(agent: AgentDeclared, folder: Path) -> dict[str, Any]:
    """`pipeline` becomes the text, wherever it stands."""
    values = _values(agent)
    texts = [values.pop(name) for name in ("pipeline", "pipelineFile") if name in values]
    if len(texts) + ("code" in values) > 1:
        raise ClientError(f"The agent '{agent.name}' has more than one of pipeline, pipelineFile and code.")
    if agent.pipeline_file is not None:
        values["pipeline"] = _text(folder / agent.pipeline_file)
    elif isinstance(agent.pipeline, dict):
        values["pipeline"] = yaml.safe_dump(agent.pipeline, sort_keys=False, allow_unicode=True)
    elif agent.pipeline is not None:
        values["pipeline"] = agent.pipeline
    return values


def _extension(extension: ExtensionDeclared, folder: Path) -> dict[str, Any]:
    """`function` becomes the text, wherever it stands."""
    values = _values(extension)
    if (file := values.pop("functionFile", None)) is None:
        return values
    if "function" in values:
        raise ClientError(f"The extension '{extension.name}' has both function and functionFile.")
    return {**values, "function": _text(folder / file)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ClientError(f"{path} cannot be read: {reason}.") from None


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
