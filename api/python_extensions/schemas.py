"""Python extensions as JSON. The service keeps their text, checks it and never runs it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from api.kit.schemas import Record
from core.definitions.python_extensions.models import AliasedChanges
from core.definitions.python_extensions.scripts import ProcessedPipeline, write_pipeline
from core.definitions.python_extensions.validation import ExtensionFunction
from core.infra.changes import example
from core.infra.validation import replace_unstorable
from core.tables import PythonExtension

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
Sentences = Annotated[list[str], BeforeValidator(replace_unstorable)]  # they quote the function


class PipelineText(AliasedChanges):
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
