"""Agents as JSON. `code` is another name of `pipelineYaml`, unless it holds Python, which gives that."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from api.kit.schemas import Body, Record
from core.definitions.agents.service import AgentWithScript
from core.infra.changes import example


class AgentRecord(Record):
    id: str
    """Id of the agent."""
    name: str
    category_id: str | None
    description: str | None
    pipeline_yaml: str | None
    code: str | None
    pyspark_code: str | None
    enabled: bool
    """Whether its jobs may be executed."""
    code_type_id: str | None
    created_at: datetime
    updated_at: datetime


class WrittenAgent(AgentRecord):
    """`warnings`, if any, name ignored keys, limits on unordered rows, missing row transforms and Java libraries.

    After a change they also name the agent's jobs that read each other's tables in a cycle.
    """

    warnings: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    """Ignored keys, limits on rows in no order, and what an execution would miss: row transforms that are not
    registered, Java libraries that are not on this machine. Left out when there is nothing."""


class ProblemRecord(Record):
    message: str
    """What is wrong there, as a sentence; its wording may change."""
    line: int | None
    """Its line in the pipeline, from 1; null where it concerns the whole."""
    column: int | None
    """Its column in that line, from 1."""
    path: str
    """Its place in the pipeline, such as `pipeline[2].args[0]`."""
    code: str
    """Stable name of the problem."""


class CheckedPipeline(Record):
    problems: list[ProblemRecord]
    """What keeps the pipeline from being stored, in the order of the text; empty for a valid one."""
    warnings: list[ProblemRecord]
    """What is suspicious in it, or missing for an execution."""
    plan: str | None
    """Its stages as `spindle check` prints them; null with problems."""


class PipelinePlace(Body):
    model_config = example({"pipelineYaml": "pipeline:\n- {stage: wgetj", "line": 2, "column": 16})

    pipeline_yaml: str
    line: Annotated[int, Field(ge=1)]
    """Line of the place, from 1."""
    column: Annotated[int, Field(ge=1)]
    """Column of the place in characters, from 1."""


class PipelineWord(Record):
    text: str
    """What may be written: the name of a stage, an argument with its colon, or a value."""
    about: str
    """What it means; may be empty."""


class PipelineCompletion(Record):
    start: int
    """The column from which on a suggestion replaces the text."""
    suggestions: list[PipelineWord]
    """What may be written at the place, the likeliest first; empty where nothing is known."""
    help: list[PipelineWord]
    """What the place is about: its stage, then the argument or value."""


def build_agent_record(found: AgentWithScript) -> AgentRecord:
    return AgentRecord.from_row(found.agent, **_compute_fields(found))


def build_written_agent(found: AgentWithScript, cycles: Sequence[str] = ()) -> WrittenAgent:
    return WrittenAgent.from_row(found.agent, **_compute_fields(found), warnings=[*found.warnings, *cycles])


def _compute_fields(found: AgentWithScript) -> dict[str, Any]:
    return {"code": found.agent.code or found.agent.pipeline_yaml, "pyspark_code": found.pyspark_code}
