"""Model of a pipeline: its stages with their positions in the text, its output and its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from pipelines.language.arguments import Arguments
from pipelines.language.formats import FORMATS, Mode, check_target
from pipelines.language.names import validate_choice
from pipelines.language.nodes import Node
from pipelines.planning.checks import CheckCall
from pipelines.planning.options import Options
from pipelines.planning.stage import CredentialName, Stage, check_credential


class Output(Arguments):
    """Where and how the rows are written; without a path, to the dataset of the job.

    `merge` updates the rows with equal `keys` and adds the others. `partition_by` are columns with a folder for each of
    their values. `credential` names the cloud credential for a path in a bucket.
    """

    path: str | None = None
    mode: Annotated[Mode, validate_choice("mode", Mode)] = Mode.OVERWRITE
    format: Annotated[str, validate_choice("format", FORMATS)] = "parquet"
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = Field(default=(), alias="partitionBy")
    credential: CredentialName = None

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        check_target(self.format, self.mode, self.keys, self.partition_by)
        check_credential(self.path, self.credential)
        return self


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
