"""Agents as JSON. `code` is another name of `pipelineYaml`, unless it holds Python."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from api.kit.schemas import Body, Name, Record, example
from core.agents.repository import pyspark_code, warnings
from core.tables import Agent

EXAMPLE = "fetch: {url: https://example.com/}\npipeline:\n  - {stage: extract, args: [{selector: h1, as: title}]}\n"


class AgentUpdate(Body):
    model_config = example({"name": "Titles", "pipelineYaml": EXAMPLE})

    name: str | None = None
    category_id: str | None = None
    description: str | None = None
    pipeline_yaml: str | None = None
    code: str | None = None
    enabled: bool | None = None
    code_type_id: str | None = None


class AgentCreate(AgentUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class AgentRecord(Record):
    id: str
    name: str
    category_id: str | None
    description: str | None
    pipeline_yaml: str | None
    code: str | None
    pyspark_code: str | None
    enabled: bool
    code_type_id: str | None
    created_at: datetime
    updated_at: datetime


class WrittenAgent(AgentRecord):
    """`warnings`, where there are some, name what an execution would fail at: row transforms to be registered yet."""

    warnings: list[str] = Field(default_factory=list, exclude_if=operator.not_)


def agent_record(agent: Agent) -> AgentRecord:
    computed: dict[str, Any] = {"code": agent.code or agent.pipeline_yaml, "pyspark_code": pyspark_code(agent)}
    stored = {name: getattr(agent, name) for name in AgentRecord.model_fields if name not in computed}
    return AgentRecord(**stored, **computed)


def written_agent(record: AgentRecord, transforms: Mapping[str, str]) -> WrittenAgent:
    return WrittenAgent(**dict(record), warnings=[*warnings(record.pipeline_yaml, transforms)])
