"""What a pipeline says, checked and frozen: its fetch, its stages with their lines, its output and its own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pipelines.language.arguments import Arguments
from pipelines.language.names import validate_choice
from pipelines.language.nodes import Node
from pipelines.planning.options import Options
from pipelines.planning.stage import Mode, Stage


class Output(Arguments):
    """The output block: where the rows go; without a path they go to the execution's own place.

    `format` is always parquet; save_csv writes CSV.
    """

    path: str | None = None
    mode: Annotated[Mode, validate_choice("mode", Mode)] = Mode.OVERWRITE
    format: Annotated[str, validate_choice("format", ["parquet"])] = "parquet"


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
