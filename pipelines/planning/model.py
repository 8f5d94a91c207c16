"""What a pipeline says, checked and frozen: its fetch, its stages with their lines, its output and its own options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from pipelines.fetch.fetcher import check_user_agent
from pipelines.language.arguments import Arguments
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.names import choice
from pipelines.language.nodes import Node
from pipelines.registry.stage import Mode, Stage

EngineColumn = Annotated[str, choice("engine column", ENGINE_COLUMNS)]


class Output(Arguments):
    """The output block: where the rows go; without a path they go to the execution's own place.

    `format` is always parquet; save_csv writes CSV.
    """

    path: str | None = None
    mode: Annotated[Mode, choice("mode", Mode)] = Mode.OVERWRITE
    format: Annotated[str, choice("format", ["parquet"])] = "parquet"


class Robots(StrEnum):
    OBEY = "obey"
    IGNORE = "ignore"


class Options(Arguments):
    """The top-level key `spindle`: what a pipeline sets about its own run."""

    robots: Annotated[Robots, choice("robots", Robots)] = Field(
        default=Robots.OBEY, description="whether pages that robots.txt forbids are left alone"
    )
    delay: NonNegativeFloat = Field(default=0, le=3600, description="seconds between two requests to one host")
    cache: NonNegativeFloat | None = Field(
        default=None,
        description="seconds that a page of an earlier run is used again whose server does not say; 0: always ask",
    )
    max_failure_ratio: float = Field(
        default=0.5, alias="maxFailureRatio", ge=0, le=1, description="share of addresses that may fail"
    )
    user_agent: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(check_user_agent)] | None = Field(
        default=None, alias="userAgent", description="what servers are told; Spindle if not set"
    )
    concurrency: PositiveInt | None = Field(
        default=None, le=256, description="requests at once to one host, over the whole run; 16 if not set"
    )
    max_pages: PositiveInt | None = Field(
        default=None, alias="maxPages", description="most pages that one explore visits; all if not set"
    )
    keep_columns: tuple[EngineColumn, ...] = Field(
        default=(), alias="keepColumns", description="engine columns in the output"
    )
    timeout: PositiveFloat | None = Field(default=None, description="seconds that a page may take; 60 if not set")


@dataclass(frozen=True, slots=True)
class StageCall:
    """One stage as it stands in the text: `name` as registered, and as `written`, which may be another of its names;
    `node` for the lines of what is found wrong later.
    """

    name: str
    written: str
    stage: Stage
    node: Node


@dataclass(frozen=True, slots=True)
class PipelineModel:
    """A whole pipeline; a fetch block is its first stage, and `node` is the list of stages."""

    stages: tuple[StageCall, ...]
    output: Output
    options: Options
    node: Node
