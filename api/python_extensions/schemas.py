"""Python extensions as JSON. The service keeps their text, checks it and never runs it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from api.kit.schemas import Body, Record
from core.definitions.python_extensions.scripts import ProcessedPipeline, write_pipeline
from core.definitions.python_extensions.validation import ExtensionFunction
from core.infra.changes import example
from core.infra.validation import replace_unstorable
from core.tables import PythonExtension

SOURCE = "def shout(row, *, mark='!'):\n    return {'title': row['title'].upper() + mark}\n"
INLINE = """\
python_extensions:
  stages:
    shout:
      type: row_transform
      function: |
        def shout(row):
            return {'title': row['title'].upper()}
fetch: {url: https://example.com/}
pipeline:
  - {stage: extract, args: [{selector: h1, as: title}]}
  - {stage: "python_row_transform:shout"}
"""
TEXT_NAMES = ("pipelineYaml", "yaml", "code")
SOURCE_NAMES = AliasChoices("function", "code", "source")
SOURCE_DESCRIPTION = "The function's text, of at most 64 KiB. Also understood as `code` or `source`."
Sentences = Annotated[list[str], BeforeValidator(replace_unstorable)]  # they quote the function
ExtensionName = Annotated[
    str | None, Field(description="What the agent's pipeline calls it by: `python_row_transform:<name>`.")
]
ExtensionType = Annotated[
    str | None,
    Field(
        validation_alias=AliasChoices("extensionType", "type"),
        description="`row_transform`, in any spelling. Also understood as `type`.",
    ),
]


class NamedBody(Body):
    """Of a field with several names, one that is null counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in cast(dict[str, Any], given).items() if value is not None}


class ExtensionUpdate(NamedBody):
    model_config = example({"name": "shout", "extensionType": "row_transform", "function": SOURCE})

    name: ExtensionName = None
    type: ExtensionType = None
    source: str | None = Field(default=None, validation_alias=SOURCE_NAMES, description=SOURCE_DESCRIPTION)


class ExtensionCreate(ExtensionUpdate):
    """`name` left out is that of the only function in the text."""

    source: str = Field(  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        validation_alias=SOURCE_NAMES, description=SOURCE_DESCRIPTION
    )


class ExtensionRegistration(ExtensionCreate):
    """`name` left out is that of the only function in the text."""

    model_config = example(
        {"agentId": "01a1fe8d-908f-7f00-a12a-dce377429a92", "name": "shout", "function": SOURCE.replace("!", "?")}
    )

    agent_id: str = Field(description="The agent whose pipeline calls it.")

    def function(self) -> dict[str, str]:
        return {name: value for name, value in self.values().items() if name != "agent_id"}


class PipelineText(NamedBody):
    """A pipeline, or its `python_extensions` alone, as text; or the pipeline itself in place of this object."""

    model_config = example({"pipelineYaml": INLINE})

    pipeline_yaml: str = Field(
        validation_alias=AliasChoices(*TEXT_NAMES), description="The YAML. Also understood as `yaml` or `code`."
    )

    @model_validator(mode="before")
    @classmethod
    def _of_pipeline(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        fields = cast(dict[str, Any], given)
        has_text = any(fields.get(name) is not None for name in TEXT_NAMES)
        if has_text or not fields.keys() & {"pipeline", "python_extensions"}:
            return fields
        return {"pipelineYaml": write_pipeline({key: fields[key] for key in fields if key not in TEXT_NAMES})}


class FunctionRecord(Record):
    name: str
    """What the agent's pipeline calls it by."""
    extension_type: str
    """`row_transform`."""
    function: str
    """Text of the function."""


class ExtensionRecord(FunctionRecord):
    id: str
    """Id of the Python extension."""
    agent_id: str
    created_at: datetime
    updated_at: datetime


class ProcessedText(Record):
    """`code` is the pipeline as a script with its functions, null for a text without a pipeline."""

    extensions: list[FunctionRecord]
    """The functions of the text."""
    warnings: Sentences
    """Row transforms that the pipeline calls and the text lacks."""
    code: str | None
    """The pipeline as a script with its functions; null for a text without a pipeline."""


class GeneratedCode(Record):
    code: str
    """Text of the Python script."""


class Validation(Record):
    """`errors` name the lines of the function's text."""

    valid: bool
    """Whether the function can be used."""
    errors: Sentences
    """Its problems, with their lines."""


class Information(Record):
    """`provided` are the row transforms of plugins, which every pipeline may call."""

    supported_types: list[str]
    """Types of extensions."""
    provided: list[str]
    """Names of the row transforms that plugins provide to every pipeline."""
    max_function_bytes: int
    """Largest size of a function's text, in bytes."""
    row_seconds: float
    """Longest time that a function may take for a row, in seconds."""
    row_memory_mib: int
    """Memory that a function may use, in MiB."""


def build_extension_record(extension: PythonExtension) -> ExtensionRecord:
    return ExtensionRecord(
        id=extension.id,
        agent_id=extension.agent_id,
        name=extension.name,
        extension_type=extension.type,
        function=extension.source,
        created_at=extension.created_at,
        updated_at=extension.updated_at,
    )


def build_processed_text(processed: ProcessedPipeline) -> ProcessedText:
    extensions = [_build_function_record(each) for each in processed.functions]
    return ProcessedText(extensions=extensions, warnings=[*processed.warnings], code=processed.code)


def _build_function_record(function: ExtensionFunction) -> FunctionRecord:
    return FunctionRecord(name=function.name, extension_type=function.type, function=function.source)
