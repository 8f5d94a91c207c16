"""load and save: rows of any format that has its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

from pipelines.errors import ArgumentError
from pipelines.language.arguments import describe_faults
from pipelines.language.columns import Columns
from pipelines.language.formats import SAVE_MODES, Mode, SaveMode
from pipelines.language.names import describe_unknown, validate_choice
from pipelines.language.parameters import has_reference
from pipelines.planning.stage import CredentialName, Export, Source, Stage, register_stage
from pipelines.stages.load import READERS
from pipelines.stages.save import WRITERS
from pipelines.transforms.transform import Transforms


class FormatArguments(Stage):
    """A format and the arguments of its own stage; `options` are the other arguments of that stage."""

    stages: ClassVar[Mapping[str, type[Stage]]]
    format: str = Field(min_length=1, max_length=200)
    path: str | None = Field(default=None, min_length=1)
    options: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
    credential: CredentialName = None

    @model_validator(mode="after")
    def _check_stage(self) -> Self:
        if has_reference(self.format):
            return self
        if self.format == "jdbc":
            raise ArgumentError("databases are read by load_jdbc and written by save_jdbc")
        if self.format not in self.stages:
            raise ArgumentError(describe_unknown("format", self.format, self.stages), "unknown-value")
        try:
            self._build_stage()
        except ValidationError as error:
            faults = describe_faults(self.stages[self.format], error)
            raise ArgumentError(", ".join(each.message for each in faults), faults[0].code) from None
        return self

    def resolve(self, name: str, transforms: Transforms) -> Stage:
        return self._build_stage() if self.format in self.stages else self

    def _build_stage(self) -> Stage:
        """Return the stage of the format with these arguments."""
        own = self.model_dump(by_alias=True, exclude_none=True, exclude={"format", "options"})
        return self.stages[self.format].model_validate({**self.options, **own})


@register_stage("load")
class Load(FormatArguments, Source):
    """Replace the rows by those of files or of a table.

    `format` is csv, json, parquet, avro, xml, orc, text, delta or iceberg; `options` are the other arguments of that
    format's load stage.
    """

    example = """
pipeline:
  - {stage: load, args: [{format: csv, path: "${FOLDER}/products.csv", options: {sep: ","}}]}
"""

    stages = READERS
    positional = ("format", "path")
    schema_: str | None = Field(None, alias="schema", min_length=1)

    def describe(self) -> str:
        return f"{self.format} {self.path or ''}".rstrip()

    def list_inputs(self) -> tuple[str, ...]:
        return (self.path,) if self.path else ()

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        return ((self.path, self.credential),) if self.path and self.credential else ()

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)


@register_stage("save")
class Save(FormatArguments, Export):
    """Write the rows to files or to a table; the rows pass on unchanged.

    `format` is csv, json, parquet, avro, delta or iceberg; it takes the `path` and `mode` of that format's save stage,
    and the stage's other arguments as `options`.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save, args: [{format: json, path: "${FOLDER}/saved", mode: overwrite}]}
"""

    stages = WRITERS
    positional = ("format", "path", "mode")
    mode: Annotated[SaveMode, validate_choice("mode", SAVE_MODES)] | None = None

    def describe(self) -> str:
        return f"{self.path or ''} {self.mode or Mode.OVERWRITE}".lstrip()
