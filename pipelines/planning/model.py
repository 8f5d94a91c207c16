"""Model of a pipeline: its stages with their positions in the text, its output and its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pipelines.language.arguments import Arguments
from pipelines.language.names import validate_choice
from pipelines.language.nodes import Node
from pipelines.planning.checks import CheckCall
from pipelines.planning.options import Options
from pipelines.planning.stage import Mode, Stage


class Output(Arguments):
    """Where the rows are written; without a path, to the execution's own output.

    `format` is always parquet; save_csv writes CSV.
    """

    path: str | None = None
    mode: Annotated[Mode, validate_choice("mode", Mode)] = Mode.OVERWRITE
    format: Annotated[str, validate_choice("format", ["parquet"])] = "parquet"


@dataclass(frozen=True, slots=True)
class StageCall:
    """One stage of a pipeline: `name` is the registered name, `written` the alias or spelling in the text.

    `path` is `fetch` or `pipeline[0]`.
    """

    name: str
    written: str
    stage: Stage
    node: Node
    path: str


@dataclass(frozen=True, slots=True)
class PipelineModel:
    """A whole pipeline; a fetch block is its first stage, and `node` is the list of stages."""

    stages: tuple[StageCall, ...]
    output: Output
    options: Options
    checks: tuple[CheckCall, ...]
    node: Node
