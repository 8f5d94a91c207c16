"""load and save: rows of any Spark data source that the service allows, and of the formats with stages of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from pipelines.errors import ArgumentError, RunError, summarize_error
from pipelines.language.arguments import Arguments, describe_faults
from pipelines.language.columns import INTERNAL_COLUMNS, Columns
from pipelines.language.formats import SAVE_MODES, Mode, SaveMode, describe_missing_source, find_data_source
from pipelines.language.names import suggest, validate_choice
from pipelines.language.parameters import has_reference
from pipelines.planning.stage import CredentialName, Export, Sink, Source, check_credential, register_stage
from pipelines.stages.load import READERS
from pipelines.stages.save import WRITERS
from pipelines.stages.source_options import check_options, list_addresses, list_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext
    from pipelines.planning.stage import Stage
    from pipelines.transforms.transform import Transforms


class SourceArguments(Arguments):
    """Arguments of a data source; `options` are those of the data source, or other arguments of the format's stage."""

    format: str = Field(min_length=1, max_length=200)
    path: str | None = Field(default=None, min_length=1)
    options: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
    credential: CredentialName = None

    @property
    def texts(self) -> dict[str, str]:
        """The options as Spark takes them."""
        return {name: _to_text(value) for name, value in self.options.items()}

    def list_libraries(self) -> tuple[str, ...]:
        source = None if has_reference(self.format) else find_data_source(self.format)
        return (source,) if source else ()

    def build_arguments(self) -> dict[str, Any]:
        """Return the arguments for the stage of the format."""
        given = {"path": self.path, "credential": self.credential}
        return {**self.options, **{name: value for name, value in given.items() if value is not None}}

    def check_source(self, known: Mapping[str, type[Stage]]) -> None:
        """Raise ArgumentError unless the format is one of the known ones or an allowed data source."""
        if has_reference(self.format):
            return
        try:
            source = find_data_source(self.format)
        except ValueError as error:
            raise ArgumentError(str(error)) from None
        check_credential(self.path, self.credential)
        if self.format == "jdbc":
            raise ArgumentError("databases are read by the stage load_jdbc")
        if source is None:
            similar = suggest(self.format, known)
            hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
            raise ArgumentError(describe_missing_source(self.format) + hint, "source-not-allowed")
        for name, value in self.options.items():
            if name.casefold() in ("path", "paths"):
                raise ArgumentError(f"'{name}' is no option: 'path' is an argument beside 'format'")
            if not isinstance(value, str | int | float | bool):
                raise ArgumentError(f"the option '{name}' must be text, a number, true or false")
        check_options(source, self.texts)

    def check_addresses(self, context: RunContext) -> None:
        """Raise RunError for options that lead to an address that must not be reached, or to a file."""
        system = f"the data source {self.format}"
        try:
            for host, port in list_addresses(self.format, self.texts):
                context.resolve_host(host, port, system)
        except ArgumentError as error:
            raise RunError(f"{system}: {error}") from None
        for file in list_files(self.format, self.texts):
            context.find_files(file)


@register_stage("load")
class Load(SourceArguments, Source):
    """Replace the rows by those of any Spark data source that the service allows.

    A `format` with a load stage of its own (csv, json, parquet, avro, xml, delta, iceberg), orc and text need no
    setting; `options` are the stage's other arguments. Others, such as kafka, mongodb and bigquery, need jars, which
    the setting SPINDLE_SPARK_SOURCES names. Addresses in their options must be public, or in a network that the service
    allows; passwords come from parameters of credentials.
    """

    example = """
pipeline:
  - {stage: load, args: [{format: csv, path: "${FOLDER}/products.csv", options: {sep: ","}}]}
"""

    positional = ("format", "path")
    schema_: str | None = Field(None, alias="schema", min_length=1)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.format in READERS:
            _convert_faults(READERS[self.format], self._build_reader)
        else:
            self.check_source(READERS)
        return self

    def describe(self) -> str:
        return f"{self.format} {self.path or ''}".rstrip()

    def resolve(self, name: str, transforms: Transforms) -> Stage:
        return self._build_reader() if self.format in READERS else self

    def list_inputs(self) -> tuple[str, ...]:
        return (self.path,) if self.path else ()

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        return ((self.path, self.credential),) if self.path and self.credential else ()

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        """Read the rows once: a data source may have others at the next read."""
        from pyspark.sql import functions as F

        self.check_addresses(context)
        reader = spark.read.format(find_data_source(self.format) or self.format).options(**self.texts)
        reader = reader.schema(self.schema_) if self.schema_ else reader
        paths = list(context.find_files(self.path).paths) if self.path else None
        rows = _call_spark(self.format, "read", lambda: _plan_read(reader.load(paths)))
        if taken := [name for name in rows.columns if name.casefold() in INTERNAL_COLUMNS]:
            raise RunError(f"the data has a column '{taken[0]}', which is reserved for the engine")
        return rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id())).persist()

    def _build_reader(self) -> Stage:
        schema = {"schema": self.schema_} if self.schema_ else {}
        return READERS[self.format].model_validate({**self.build_arguments(), **schema})


@register_stage("save")
class Save(SourceArguments, Export):
    """Write the rows to any Spark data source that the service allows; the rows pass on unchanged.

    A `format` with a save stage of its own (csv, json, parquet, avro, delta, iceberg) takes the `path` and `mode` of
    that stage, and its other arguments as `options`. Others, such as kafka and mongodb, need jars, which the setting
    SPINDLE_SPARK_SOURCES names. They are written as the last act of the run, in the `mode` append (the default),
    overwrite, error or ignore; a run that is repeated after a failure may write rows a second time.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: save, args: [{format: json, path: "${FOLDER}/saved", mode: overwrite}]}
"""

    positional = ("format", "path", "mode")
    mode: Annotated[SaveMode, validate_choice("mode", SAVE_MODES)] | None = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.format in WRITERS:
            _convert_faults(WRITERS[self.format], self._build_sink)
            return self
        self.check_source(WRITERS)
        if self.path:
            raise ArgumentError(f"{self.format} takes 'options' and no 'path'", "conflicting-arguments")
        if self.mode is Mode.MERGE:
            raise ArgumentError("merge needs the format delta or iceberg", "unsupported-mode")
        return self

    def describe(self) -> str:
        return f"{self.format} {self.mode or Mode.APPEND}"

    def resolve(self, name: str, transforms: Transforms) -> Stage:
        return self._build_sink() if self.format in WRITERS else self

    def prepare(self, context: RunContext) -> None:
        self.check_addresses(context)

    def export(self, rows: DataFrame) -> None:
        mode = (self.mode or Mode.APPEND).value
        writer = rows.write.format(find_data_source(self.format) or self.format).options(**self.texts).mode(mode)
        _call_spark(self.format, "written", writer.save)

    def _build_sink(self) -> Sink:
        mode = {"mode": self.mode} if self.mode else {}
        return WRITERS[self.format].model_validate({**self.build_arguments(), **mode})


def _convert_faults(model: type[Arguments], build: Callable[[], object]) -> None:
    """Raise ArgumentError for arguments that the format's own stage does not take."""
    try:
        build()
    except ValidationError as error:
        faults = describe_faults(model, error)
        raise ArgumentError(", ".join(each.message for each in faults), faults[0].code) from None


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plan_read(rows: DataFrame) -> DataFrame:
    """Return the rows after asking for their partitions: a system that cannot be reached is found here."""
    java: Any = rows
    java._jdf.rdd().getNumPartitions()
    return rows


def _call_spark(format_: str, done: str, work: Callable[[], Any]) -> Any:
    """Return the result of `work`; convert errors of Spark to RunError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return work()
    except Py4JJavaError as error:
        reason = summarize_error(Exception(_find_cause(error.java_exception)))
    except PySparkException as error:
        reason = summarize_error(error)
    raise RunError(f"the data source {format_} cannot be {done}: {reason}")


def _find_cause(error: Any) -> str:
    """Return the message of the first cause of a Java exception."""
    message = error.getMessage()
    while error.getCause() is not None:
        error = error.getCause()
        message = error.getMessage() or message
    return str(message or error.toString())
