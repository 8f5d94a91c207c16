"""The fields of an agent that a request sets."""

from __future__ import annotations

from core.infra.changes import Changes, Name, example

EXAMPLE = "fetch: {url: https://example.com/}\npipeline:\n  - {stage: extract, args: [{selector: h1, as: title}]}\n"


class AgentUpdate(Changes):
    model_config = example({"name": "Titles", "pipelineYaml": EXAMPLE})
    clearable = frozenset({"category_id", "code_type_id"})
    not_columns = frozenset({"pipeline_yaml", "code"})

    name: str | None = None
    category_id: str | None = None
    description: str | None = None
    pipeline_yaml: str | None = None
    code: str | None = None
    enabled: bool | None = None
    """Whether its jobs may be executed; true when left out at the creation."""
    code_type_id: str | None = None


class AgentCreate(AgentUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class PipelineCheck(Changes):
    model_config = example({"pipelineYaml": EXAMPLE})

    pipeline_yaml: str
    agent_id: str | None = None
    """The agent whose row transforms the pipeline may call."""
