"""The load stages: read rows from files and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self
from urllib.parse import unquote

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from pipelines.contract.context import unescape_pattern
from pipelines.errors import NeedsSpark, RunError
from pipelines.filesystem import split_address
from pipelines.language.columns import INTERNAL_COLUMNS, Columns, declare_columns, quote_column
from pipelines.language.formats import list_format_libraries
from pipelines.language.names import validate_choice
from pipelines.planning.stage import CredentialName, Source, check_credential, register_stage
from pipelines.spark.dataframes import hide_bounds
from pipelines.stages.documents import download_file, is_web_address
from pipelines.tables.snapshots import get_version_option

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from pipelines.contract.context import RunContext
    from pipelines.contract.request import Files

_FILE_CHOICE = {"path_glob_filter", "recursive_file_lookup"}
_OTHER_SYNTAX = {
    *("quote", "escape", "char_to_escape_quote_escaping", "comment", "encoding", "line_sep"),
    *("column_name_of_corrupt_record", "ignore_leading_white_space"),
}
_CORRUPT = "_corrupt_record"  # the column that Spark infers for text that it cannot parse
ReadMode = Annotated[str, validate_choice("mode", ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"))]
# all that pipelines/engine/text_types.py takes for one; by itself, Spark makes a null of a time without seconds
_LOCAL_TIME = "yyyy-MM-dd['T'][ ]HH:mm[:ss][.SSSSSSSSS]"


class PathSource(Source):
    """Base of stages that read the files at a path, which may be in a bucket of the credential."""

    positional = ("path",)
    path: str = Field(min_length=1)
    credential: CredentialName = None

    @model_validator(mode="after")
    def _check_credential(self) -> Self:
        check_credential(self.path, self.credential)
        return self

    def describe(self) -> str:
        return self.path

    def list_inputs(self) -> tuple[str, ...]:
        return (self.path,)

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        return ((self.path, self.credential),) if self.credential else ()


class FileSource(PathSource):
    """Base of stages that read files of one format; all arguments except the path are options of Spark's reader."""

    format: ClassVar[str]
    schema_: str | None = Field(None, alias="schema", min_length=1)
    path_glob_filter: str | None = Field(None, alias="pathGlobFilter")
    recursive_file_lookup: bool | None = Field(None, alias="recursiveFileLookup")

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def build_options(self) -> dict[str, Any]:
        """Return the options that are set, under the names of Spark's reader."""
        return self.model_dump(by_alias=True, exclude={"path", "schema_", "credential"}, exclude_none=True)

    def list_libraries(self) -> tuple[str, ...]:
        return list_format_libraries(self.format)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        """Read the files; those of a dataset are read in the format in which they were written.

        The job's own dataset has no rows before anything was published.
        """
        files = self.find_files(context)
        if not files.paths and self.path in context.inputs:
            schema = declare_columns((*files.columns, ("_ordinal", "array<bigint>")))
            return spark.createDataFrame(spark.sparkContext.emptyRDD(), schema)
        reader = self if files.format in (None, self.format) else _find_reader(files.format, self.path)
        return reader.read_checked(spark, files, context)

    def read_checked(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        """Return the rows of the files; raise RunError where there are no columns, or some of the engine's."""
        rows = self.read(spark, files, context)
        if rows.columns == ["_ordinal"]:
            raise RunError(self.describe_empty())
        if taken := [name for name in rows.columns if name.casefold() in INTERNAL_COLUMNS]:
            raise RunError(f"'{self.path}' has a column '{taken[0]}', which is reserved for the engine: rename it")
        return rows

    @property
    def reads_text(self) -> bool:
        """Whether files are texts whose encoding the stage does not name."""
        return False

    def find_files(self, context: RunContext) -> Files:
        if not is_web_address(self.path):
            return context.find_files(self.path)
        return download_file(self.path, context, is_text=self.reads_text)

    def read(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        """Return the rows of the files with their position in the column `_ordinal`."""
        read = spark.read.options(**self.build_options()).format(self.format)
        if files.partition_by:
            return _read_partitioned(read, files)
        return _add_ordinal((read.schema(self.schema_) if self.schema_ else read).load(list(files.paths)))

    def load_files_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        """Return the rows of files that one process reads whole; raise NeedsSpark for others."""
        from pipelines.local.dataset_files import read_rows

        files = download_file(self.path, context, False, is_text=self.reads_text) if is_web_address(self.path) else None
        files = files or context.find_files(self.path, escaped=False)
        if files.format not in (None, self.format) or files.partition_by or not files.paths:
            raise NeedsSpark(f"only Spark reads '{self.path}' with load_{self.format}")
        paths = [unescape_pattern(path) if self.path in context.inputs else path for path in files.paths]
        return read_rows(self.path, paths, self.format)

    def describe_empty(self) -> str:
        """Return the error message for files without columns."""
        return f"the file '{self.path}' has no columns"


@register_stage("load_csv")
class LoadCsv(FileSource):
    """Replace the rows by those of CSV files; without a header, the columns are called _c0, _c1 and so on.

    The path may be an http or https address, for the other loads too. All columns are text, unless `inferSchema` (which
    reads the files twice) or `schema` ("name STRING, price DOUBLE") sets their types. `delimiter` is an alias of `sep`.
    Quotes within quoted values are doubled, as save_csv, pandas and DuckDB write them; a file with a backslash before
    them needs `escape: "\\"`. Quoted values with line breaks need `multiLine`, which datasets of the service do not.
    A row with more values than columns, or with a quote that is not closed, is an error with its line, as in an upload;
    `mode` PERMISSIVE drops such values, DROPMALFORMED such rows. A row with fewer values has nulls.
    """

    example = """
pipeline:
  - {stage: load_csv, args: [{path: "${FOLDER}/products.csv", header: true, inferSchema: true}]}
"""

    positional = ("path", "header")
    format = "csv"
    header: bool = True
    infer_schema: bool = Field(False, alias="inferSchema")
    sep: str = Field(",", min_length=1)
    delimiter: str | None = Field(None, min_length=1)
    quote: str = Field('"', max_length=1)
    escape: str = Field('"', max_length=1)
    char_to_escape_quote_escaping: str | None = Field(None, alias="charToEscapeQuoteEscaping", max_length=1)
    comment: str | None = Field(None, max_length=1)
    encoding: str = "UTF-8"
    null_value: str = Field("", alias="nullValue")
    empty_value: str | None = Field(None, alias="emptyValue")
    nan_value: str | None = Field(None, alias="nanValue")
    positive_inf: str | None = Field(None, alias="positiveInf")
    negative_inf: str | None = Field(None, alias="negativeInf")
    multi_line: bool = Field(False, alias="multiLine")
    line_sep: str | None = Field(None, alias="lineSep", min_length=1)
    mode: ReadMode | None = None
    column_name_of_corrupt_record: str | None = Field(None, alias="columnNameOfCorruptRecord", min_length=1)
    enforce_schema: bool | None = Field(None, alias="enforceSchema")
    sampling_ratio: float | None = Field(None, alias="samplingRatio", gt=0, le=1)
    ignore_leading_white_space: bool | None = Field(None, alias="ignoreLeadingWhiteSpace")
    ignore_trailing_white_space: bool | None = Field(None, alias="ignoreTrailingWhiteSpace")
    date_format: str | None = Field(None, alias="dateFormat")
    timestamp_format: str | None = Field(None, alias="timestampFormat")
    locale: str | None = None
    max_columns: PositiveInt | None = Field(None, alias="maxColumns")
    max_chars_per_column: int | None = Field(None, alias="maxCharsPerColumn")

    def build_options(self) -> dict[str, Any]:
        options = super().build_options()
        return {**options, "sep": options.pop("delimiter", self.sep)}

    def read(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        is_own = files.format == self.format and "multi_line" not in self.model_fields_set
        if not is_own:
            rows = super().read(spark, files, context)
            self._check_records(spark, files, rows)
            return rows
        whole = self.model_copy(update={"multi_line": True})
        if self.schema_ is None and any("\\" in path for path in files.paths):
            # with multiLine, Spark infers the columns by patterns that it has unescaped already
            single = spark.read.options(**self.build_options()).format(self.format).load(list(files.paths))
            whole = whole.model_copy(update={"schema_": single.schema})
        return FileSource.read(whole, spark, files, context)

    def _check_records(self, spark: SparkSession, files: Files, rows: DataFrame) -> None:
        """Raise RunError for a row with extra values or an open quote, unless a mode says what becomes of it."""
        from pipelines.stages.csv_files import check_records

        separator = self.delimiter or self.sep
        if self.mode is None and len(separator) == 1 and not self.model_fields_set & _OTHER_SYNTAX:
            options = self.model_dump(by_alias=True, include=_FILE_CHOICE, exclude_none=True)
            columns = None if self.schema_ else len(rows.columns) - 1
            check_records(spark.read.options(**options), files.paths, separator, columns, self.multi_line)

    def describe_empty(self) -> str:
        return f"the file '{self.path}' is empty: it has neither a header nor rows"

    @property
    def reads_text(self) -> bool:
        return "encoding" not in self.model_fields_set

    def needs_spark(self, before: Columns) -> bool:
        separator = self.delimiter or self.sep
        own = self.model_fields_set - {"path", "header", "sep", "delimiter", "credential"}
        is_plain = len(separator) == 1 and separator not in '\\"\r\n\0'
        return bool(own) or not is_plain or split_address(self.path) is not None

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        from pipelines.local.csv_files import read_csv

        files = download_file(self.path, context, False, is_text=True) if is_web_address(self.path) else None
        files = files or context.find_files(self.path, escaped=False)
        if files.format not in (None, self.format):
            raise NeedsSpark(f"only Spark reads '{self.path}' with load_csv: it is stored as {files.format}")
        if files.partition_by or len(files.paths) != 1:
            raise NeedsSpark(f"only Spark reads '{self.path}': it is more than one CSV file")
        path = unescape_pattern(files.paths[0]) if self.path in context.inputs else files.paths[0]
        return read_csv(path, self.delimiter or self.sep, self.header, context.most_links is not None)


@register_stage("load_json", "load_jsonl")
class LoadJson(FileSource):
    """Replace the rows by those of JSON files: one object per line, or with multiLine one array or object per file.

    Columns have the [types of uploads](datasets.md#types); with options about types, and in files that are not strictly
    JSON, those that Spark infers. Columns whose names differ only in case are an error. So is text that is no JSON;
    `mode` PERMISSIVE reads it into a column `_corrupt_record`, DROPMALFORMED leaves it out.
    """

    example = """
pipeline:
  - {stage: load_json, args: ["${FOLDER}/products.json"]}
"""

    format = "json"
    multi_line: bool = Field(False, alias="multiLine")
    encoding: str = "UTF-8"
    line_sep: str | None = Field(None, alias="lineSep", min_length=1)
    mode: ReadMode | None = None
    column_name_of_corrupt_record: str | None = Field(None, alias="columnNameOfCorruptRecord", min_length=1)
    sampling_ratio: float | None = Field(None, alias="samplingRatio", gt=0, le=1)
    primitives_as_string: bool | None = Field(None, alias="primitivesAsString")
    prefers_decimal: bool | None = Field(None, alias="prefersDecimal")
    drop_field_if_all_null: bool | None = Field(None, alias="dropFieldIfAllNull")
    allow_comments: bool | None = Field(None, alias="allowComments")
    allow_single_quotes: bool | None = Field(None, alias="allowSingleQuotes")
    allow_unquoted_field_names: bool | None = Field(None, alias="allowUnquotedFieldNames")
    allow_numeric_leading_zeros: bool | None = Field(None, alias="allowNumericLeadingZeros")
    allow_non_numeric_numbers: bool | None = Field(None, alias="allowNonNumericNumbers")
    date_format: str | None = Field(None, alias="dateFormat")
    timestamp_format: str | None = Field(None, alias="timestampFormat")
    locale: str | None = None

    def read(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        from pipelines.stages.json_files import infer_json_columns

        if files.partition_by or self.model_fields_set - {"path", "multi_line", "credential", "mode", *_FILE_CHOICE}:
            return self._read_by_rules_of_spark(spark, files, context)
        options = self.model_dump(by_alias=True, include=_FILE_CHOICE, exclude_none=True)
        found = infer_json_columns(spark, files.paths, options, self.multi_line)
        if found is None:
            return self._read_by_rules_of_spark(spark, files, context)
        times = {"timestampFormat": f"{_LOCAL_TIME}[XXX][XX][X]", "timestampNTZFormat": _LOCAL_TIME}
        read = spark.read.options(**self.build_options(), **times).format(self.format).schema(found)
        return _add_ordinal(read.load(list(files.paths)))

    def _read_by_rules_of_spark(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        """Return the rows that Spark reads; raise RunError for text that is no JSON, unless an option is about it."""
        from pipelines.stages.json_files import check_text_after_objects

        if not files.partition_by and self.reads_text:  # those of a dataset are partitioned, and ours
            options = self.model_dump(by_alias=True, include={"line_sep", *_FILE_CHOICE}, exclude_none=True)
            check_text_after_objects(spark, files.paths, options, self.multi_line)
        rows = super().read(spark, files, context)
        if _CORRUPT in rows.columns and not self.model_fields_set & {"mode", "column_name_of_corrupt_record"}:
            modes = f"to read it nevertheless, in a column {_CORRUPT}, set mode: PERMISSIVE, or DROPMALFORMED"
            raise RunError(f"'{self.path}' has text that is no JSON object; {modes} to leave it out")
        return rows

    def needs_spark(self, before: Columns) -> bool:
        return bool(self.model_fields_set - {"path"}) or split_address(self.path) is not None

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        return self.load_files_locally(context)

    def describe_empty(self) -> str:
        return f"the file '{self.path}' contains no JSON objects"

    @property
    def reads_text(self) -> bool:
        return "encoding" not in self.model_fields_set


@register_stage("load_parquet")
class LoadParquet(FileSource):
    """Replace the rows by those of Parquet files; `mergeSchema` combines files with different columns."""

    example = """
pipeline:
  - {stage: load_parquet, args: ["${FOLDER}/products.parquet"]}
"""

    format = "parquet"
    repeatable = True
    merge_schema: bool = Field(False, alias="mergeSchema")

    def needs_spark(self, before: Columns) -> bool:
        return bool(self.model_fields_set - {"path"}) or split_address(self.path) is not None

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        return self.load_files_locally(context)


@register_stage("load_avro")
class LoadAvro(FileSource):
    """Replace the rows by those of Avro files."""

    example = """
pipeline:
  - {stage: load_avro, args: ["${FOLDER}/products.avro"]}
"""

    format = "avro"
    mode: ReadMode | None = None


@register_stage("load_xml")
class LoadXml(FileSource):
    """Replace the rows by those of XML files: a row for each element called `rowTag`, its children as columns.

    Attributes are columns with a `_` before their name. Types are inferred; `inferSchema: false` keeps texts. A file
    that is not well-formed is an error; `mode` PERMISSIVE or DROPMALFORMED reads the other elements.
    """

    example = """
pipeline:
  - {stage: load_xml, args: ["${FOLDER}/products.xml", product]}
"""

    positional = ("path", "row_tag")
    format = "xml"
    row_tag: str = Field(alias="rowTag", min_length=1)
    attribute_prefix: str | None = Field(None, alias="attributePrefix", min_length=1)
    value_tag: str | None = Field(None, alias="valueTag", min_length=1)
    exclude_attribute: bool | None = Field(None, alias="excludeAttribute")
    infer_schema: bool | None = Field(None, alias="inferSchema")
    ignore_namespace: bool | None = Field(None, alias="ignoreNamespace")
    ignore_surrounding_spaces: bool | None = Field(None, alias="ignoreSurroundingSpaces")
    sampling_ratio: float | None = Field(None, alias="samplingRatio", gt=0, le=1)
    encoding: str = "UTF-8"
    null_value: str | None = Field(None, alias="nullValue")
    mode: ReadMode | None = None
    column_name_of_corrupt_record: str | None = Field(None, alias="columnNameOfCorruptRecord", min_length=1)
    date_format: str | None = Field(None, alias="dateFormat")
    timestamp_format: str | None = Field(None, alias="timestampFormat")

    def build_options(self) -> dict[str, Any]:
        return {"mode": "FAILFAST", **super().build_options()}

    def read(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        if self.mode is None and "encoding" not in self.model_fields_set:
            from pipelines.stages.xml_files import check_xml_files

            options = self.model_dump(by_alias=True, include=_FILE_CHOICE, exclude_none=True)
            check_xml_files(spark, files.paths, options)
        return super().read(spark, files, context)

    def describe_empty(self) -> str:
        return f"the file '{self.path}' has no element '{self.row_tag}'"


class TableSource(FileSource):
    """Base of stages that read one version of a table; a dataset's is the version that was current at the start."""

    repeatable = True
    timestamp_as_of: str | None = Field(None, alias="timestampAsOf", min_length=1)

    def find_files(self, context: RunContext) -> Files:
        if is_web_address(self.path):
            raise RunError(f"'{self.path}' cannot be read: a table is a folder, and this is a web address")
        return context.find_files(self.path, escaped=False)

    def read(self, spark: SparkSession, files: Files, context: RunContext) -> DataFrame:
        if not files.paths:
            raise RunError(
                f"'{self.path}' is written when the run is complete; to go on with its rows, use store and union_with"
            )
        if len(files.paths) != 1:
            raise RunError(f"'{self.path}' names {len(files.paths)} folders, and a table is one")
        options = self.build_options()
        if files.snapshot is not None and not options:
            options = {"versionAsOf": get_version_option(self.format, files.snapshot)}
        from pyspark.sql import functions as F

        rows = spark.read.format(self.format).options(**options).load(files.paths[0])
        for name, value in files.partition:
            rows = rows.where(F.col(quote_column(name)) == value)
        if context.local_folders is not None and files.format is None:
            self.check_files(rows, files.paths[0])
        return rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))

    def check_files(self, rows: DataFrame, location: str) -> None:
        """Raise RunError for a table whose log names files outside its folder, which may be another's."""
        from pipelines.tables.spark_tables import list_logged_files

        root = re.sub("^file:/+", "/", location).rstrip("/") + "/"
        for file in list_logged_files(rows, self.format, location):
            path = unquote(re.sub("^file:/+", "/", file))
            if not path.startswith(root) or ".." in path.split("/"):
                raise RunError(f"'{self.path}' cannot be read: the table has files outside its folder")


@register_stage("load_delta")
class LoadDelta(TableSource):
    """Replace the rows by those of a Delta table; `versionAsOf` or `timestampAsOf` choose an earlier version.

    The path is that of a dataset, or the table's folder.
    """

    example = """
pipeline:
  - {stage: load_delta, args: ["${FOLDER}/products.delta"]}
"""

    format = "delta"
    version_as_of: NonNegativeInt | None = Field(None, alias="versionAsOf")


@register_stage("load_iceberg")
class LoadIceberg(TableSource):
    """Replace the rows by those of an Iceberg table; `versionAsOf` (the id of a snapshot) or `timestampAsOf` choose an
    earlier version.

    The path is that of a dataset, or the table's folder.
    """

    example = """
pipeline:
  - {stage: load_iceberg, args: ["${FOLDER}/products.iceberg"]}
"""

    format = "iceberg"
    version_as_of: int | None = Field(None, alias="versionAsOf")


class LoadOrc(FileSource):
    """Rows of ORC files, for `load` and unions."""

    format = "orc"
    merge_schema: bool = Field(False, alias="mergeSchema")


class LoadText(FileSource):
    """Lines of text files in the column `value`, for `load` and unions."""

    format = "text"
    whole_text: bool = Field(False, alias="wholetext")
    line_sep: str | None = Field(None, alias="lineSep", min_length=1)


READERS: Mapping[str, type[FileSource]] = {
    each.format: each
    for each in (LoadCsv, LoadJson, LoadParquet, LoadAvro, LoadXml, LoadOrc, LoadText, LoadDelta, LoadIceberg)
}


def read_table(spark: SparkSession, context: RunContext, name: str) -> DataFrame:
    """Return the rows of a dataset that a stage reads by name, or of local files, in no order; raise RunError."""
    files = context.find_table(name)
    return hide_bounds(_find_reader(files.format or "", name).read_checked(spark, files, context).drop("_ordinal"))


def _find_reader(format_: str, path: str) -> FileSource:
    if format_ not in READERS:
        raise RunError(f"the dataset '{path}' is {format_}, which this version does not read")
    return READERS[format_].model_validate({"path": path})


def _read_partitioned(read: DataFrameReader, files: Files) -> DataFrame:
    """Return the rows of folders that are partitioned alike: Spark itself takes only one of them at a time."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    schema = declare_columns(files.columns)
    parts = [
        _add_ordinal(read.schema(schema).load(path)).withColumn("_ordinal", F.concat(F.array(F.lit(place)), "_ordinal"))
        for place, path in enumerate(files.paths)
    ]
    return reduce(DataFrame.unionByName, parts)


def _add_ordinal(rows: DataFrame) -> DataFrame:
    """Add the position in document order: file name, offset in the file, row; for a single file, only the row.

    Spark reads large files first, so partitions are not in the order of names.
    """
    from pyspark.sql import functions as F

    # local paths have one slash after the scheme in the metadata, but three in inputFiles
    files = sorted(re.sub("^file:/+", "file:/", each) for each in rows.inputFiles())
    row = F.monotonically_increasing_id()
    if len(files) <= 1:
        return rows.withColumn("_ordinal", F.array(row))
    file = F.array_position(F.array(*map(F.lit, files)), F.col("_metadata.file_path"))
    return rows.withColumn("_ordinal", F.array(file, F.col("_metadata.file_block_start"), row))
