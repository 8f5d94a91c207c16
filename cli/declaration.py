"""spindle.yaml: the declared projects, agents and jobs. Fields that are not declared keep their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from cli.client import ClientError

# (kind, name, ...) from the outside in: project before job; category (or "") before agent before extension
Key = tuple[str, ...]
KINDS = ("category", "agent", "extension", "project", "job")


class NamedDeclaration(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    name: str


class RecordDeclaration(NamedDeclaration):
    description: str | None = None
    enabled: bool | None = None


class CategoryDeclaration(RecordDeclaration):
    icon: str | None = None
    visibility: str | None = None


class ExtensionDeclaration(NamedDeclaration):
    """A Python function for the agent's pipeline; `functionFile` is relative to spindle.yaml."""

    function: str | None = None
    function_file: str | None = None


class AgentDeclaration(RecordDeclaration):
    """An agent with `pipeline`, `code` (Python) or `pipelineFile`, which is relative to spindle.yaml."""

    category: str | None = None
    pipeline: str | dict[str, Any] | None = None
    pipeline_file: str | None = None
    code: str | None = None
    extensions: list[ExtensionDeclaration] | None = None


class JobDeclaration(RecordDeclaration):
    """A job; `agent` is NAME or CATEGORY/NAME, `inputDataset` the SQL name SCHEMA.TABLE."""

    agent: str | None = None
    input_dataset: str | None = None
    cloud_credentials: list[str] | None = None
    parameters: dict[str, Any] | None = None
    scheduled_time: AwareDatetime | None = Field(default=None, strict=False)


class ProjectDeclaration(RecordDeclaration):
    cron_schedule: str | None = None
    parameters: dict[str, Any] | None = None
    jobs: list[JobDeclaration] | None = None


class Declaration(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    categories: list[CategoryDeclaration] | None = None
    agents: list[AgentDeclaration] | None = None
    projects: list[ProjectDeclaration] | None = None

    def read_records(self, folder: Path) -> dict[Key, dict[str, Any]]:
        """Return the declared fields of every record by kind and names."""
        found: dict[Key, dict[str, Any]] = {}
        for key, values in self._iter_records(folder):
            if key in found:
                raise ClientError(f"The {key[0]} '{format_name(key)}' is declared twice.")
            found[key] = values
        return found

    def owns(self, key: Key) -> bool:
        """Return whether --prune deletes an undeclared record with this key: its section is in the file."""
        if parent := get_parent(key):
            sections: dict[Key, Sequence[NamedDeclaration] | None] = {
                ("project", each.name): each.jobs for each in self.projects or ()
            }
            sections |= {("agent", each.category or "", each.name): each.extensions for each in self.agents or ()}
            return sections.get(parent) is not None
        return {"category": self.categories, "agent": self.agents, "project": self.projects}[key[0]] is not None

    def _iter_records(self, folder: Path) -> Iterator[tuple[Key, dict[str, Any]]]:
        for category in self.categories or ():
            yield ("category", category.name), _dump_fields(category)
        for agent in self.agents or ():
            names = agent.category or "", agent.name
            yield ("agent", *names), _read_agent(agent, folder)
            for extension in agent.extensions or ():
                yield ("extension", *names, extension.name), _read_extension(extension, folder)
        for project in self.projects or ():
            yield ("project", project.name), _dump_fields(project)
            for job in project.jobs or ():
                yield ("job", project.name, job.name), _dump_fields(job)


def format_name(key: Key) -> str:
    """Return the name for messages, such as `Shop/Books`."""
    return "/".join(part for part in key[1:] if part)


def get_parent(key: Key) -> Key | None:
    """Return the record that contains this one: a job's project, an extension's agent."""
    parent = {"job": "project", "extension": "agent"}.get(key[0])
    return (parent, *key[1:-1]) if parent else None


def read_declaration(path: Path) -> Declaration:
    """Read and validate the file; raise ClientError with file, line and field of every problem."""
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader without timestamps
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
            f"{path}:{_find_line(root, each['loc'])}: {'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in problems
        ]
        raise ClientError("\n".join(lines)) from None


class _Loader(yaml.SafeLoader):
    """A loader that reads timestamps as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _dump_fields(declared: NamedDeclaration) -> dict[str, Any]:
    return declared.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"jobs", "extensions"})


def _read_agent(agent: AgentDeclaration, folder: Path) -> dict[str, Any]:
    """Return the fields, with the text of the pipeline as `pipeline`."""
    values = _dump_fields(agent)
    texts = [values.pop(name) for name in ("pipeline", "pipelineFile") if name in values]
    if len(texts) + ("code" in values) > 1:
        raise ClientError(f"The agent '{agent.name}' has more than one of pipeline, pipelineFile and code.")
    if agent.pipeline_file is not None:
        values["pipeline"] = _read_text(folder / agent.pipeline_file)
    elif isinstance(agent.pipeline, dict):
        values["pipeline"] = yaml.safe_dump(agent.pipeline, sort_keys=False, allow_unicode=True)
    elif agent.pipeline is not None:
        values["pipeline"] = agent.pipeline
    return values


def _read_extension(extension: ExtensionDeclaration, folder: Path) -> dict[str, Any]:
    """Return the fields, with the text of the function as `function`."""
    values = _dump_fields(extension)
    if (file := values.pop("functionFile", None)) is None:
        return values
    if "function" in values:
        raise ClientError(f"The extension '{extension.name}' has both function and functionFile.")
    return {**values, "function": _read_text(folder / file)}


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ClientError(f"{path} cannot be read: {reason}.") from None


def _find_line(root: Any, path: Sequence[int | str]) -> int:
    """Return the line of the value at this path, or of its nearest existing parent."""
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
