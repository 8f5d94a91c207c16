"""spindle.yaml: the declared projects, agents and jobs. Fields that are not declared keep their values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cli.client import ClientError
from core.integrations.declarations.models import AgentDeclaration, Declaration, ExtensionDeclaration


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
            f"{path}:{_find_line(root, each['loc'])}: {'.'.join(map(str, each['loc']))}: {_describe_problem(each)}"
            for each in problems
        ]
        raise ClientError("\n".join(lines)) from None


def _describe_problem(problem: ErrorDetails) -> str:
    return "unknown key" if problem["type"] == "extra_forbidden" else problem["msg"]


class _Loader(yaml.SafeLoader):
    """A loader that reads timestamps as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def embed_files(declaration: Declaration, folder: Path) -> dict[str, Any]:
    """Return the declaration as JSON, with the texts of files in `folder` in place of their names."""
    body = declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
    for agent, values in zip(declaration.agents or (), body.get("agents", ()), strict=True):
        _embed_pipeline(agent, values, folder)
        for extension, fields in zip(agent.extensions or (), values.get("extensions", ()), strict=True):
            _embed_function(extension, fields, folder)
    return body


def _embed_pipeline(agent: AgentDeclaration, values: dict[str, Any], folder: Path) -> None:
    if sum(each is not None for each in (agent.pipeline, agent.pipeline_file, agent.code)) > 1:
        raise ClientError(f"The agent '{agent.name}' has more than one of pipeline, pipelineFile and code.")
    if agent.pipeline_file is not None:
        del values["pipelineFile"]
        values["pipeline"] = _read_text(folder / agent.pipeline_file)


def _embed_function(extension: ExtensionDeclaration, values: dict[str, Any], folder: Path) -> None:
    if extension.function_file is None:
        return
    if extension.function is not None:
        raise ClientError(f"The extension '{extension.name}' has both function and functionFile.")
    del values["functionFile"]
    values["function"] = _read_text(folder / extension.function_file)


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
