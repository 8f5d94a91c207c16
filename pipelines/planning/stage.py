"""Base classes of stages, and their registry.

A stage is a frozen pydantic model of its arguments, declared in a module of `pipelines.stages` or of a plugin:

    @register_stage("limit")
    class Limit(TableStage):
        '''Keep the first rows in document order.'''

        positional = ("rows",)
        rows: PositiveInt

        def apply(self, rows, context):
            return rows.orderBy("_ordinal").limit(self.rows)

Checks, plans, runs, the documentation and the catalog of the REST API all use this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from pipelines.contract.workers import BatchWorker, Tools
from pipelines.errors import ArgumentError
from pipelines.filesystem import split_address
from pipelines.language.arguments import Arguments
from pipelines.language.columns import Columns
from pipelines.language.formats import SAVE_MODES, Mode, SaveMode, check_target, list_format_libraries
from pipelines.language.names import validate_choice
from pipelines.language.origins import OTHERS, UNKNOWN_ORIGIN, Origin, SourceColumn
from pipelines.language.parameters import has_reference
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope
from pipelines.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.browser.actions import Browsing
    from pipelines.contract.context import RunContext
    from pipelines.extract.kinds import Parser
    from pipelines.extract.pagination import Pagination
    from pipelines.extract.rows import Link, PageSelector, Row
    from pipelines.fetch.files import FileName
    from pipelines.fetch.requests import RequestArguments
    from pipelines.transforms.transform import Transforms


CHUNK_ID, CHUNK_DOCUMENT = "id", "document"  # columns of a stage that gives chunks
CredentialName = Annotated[str | None, Field(min_length=1, max_length=200)]


def check_credential(path: str | None, credential: str | None) -> None:
    """Raise ArgumentError for the name of a credential beside a path that is in no bucket."""
    if credential is not None and not has_reference(path or "") and not split_address(path or ""):
        raise ArgumentError(
            "'credential' belongs to a path in a bucket, such as s3://bucket/folder", "conflicting-arguments"
        )


@dataclass(frozen=True, slots=True)
class Fetching:
    """How a stage's pages are fetched: in the browser, where there is `browsing`, or by plain GETs without a `request`.

    `cache_seconds` is their freshness lifetime, if it is not the pipeline's. With a `file_limit` in bytes they are kept
    as files, by their `file_name` or their hash. A `pagination` finds further pages of an address, which give rows as
    well. `parser` is a type in place of that of the answer. Pages of an `archive` are in its store, and not requested.
    Pages with `scripts` are rendered so where that shows more of what the selectors look for.
    """

    browsing: Browsing | None = None
    request: RequestArguments | None = None
    cache_seconds: float | None = None
    file_limit: int | None = None
    file_name: FileName | None = None
    pagination: Pagination | None = None
    parser: Parser | None = None
    archive: str | None = None
    scripts: Browsing | None = None


class Render(StrEnum):
    """Which pages of a stage the browser renders: those of its templates that need it, with `auto`."""

    NEVER = "never"
    AUTO = "auto"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Properties of a stage that planning and runners need to know.

    A stage that `can_start` may be the first one; one on whole tables then gets an empty table. It keeps `max_rows`
    rows at most, the first in document order. It `sets_order` of the rows or `loses_order`. One that
    `drops_engine_columns` leaves them null, unless it returns them as columns. It stores its rows under `stored_label`,
    and reads those of `used_labels`. One that `shows_rows` is run for its display, even where a later stage discards
    its rows. A later attempt may resume after an `is_checkpoint`.
    """

    can_start: bool = False
    max_rows: int | None = None
    sets_order: bool = False
    loses_order: bool = False
    drops_engine_columns: bool = False
    stored_label: str | None = None
    used_labels: tuple[str, ...] = ()
    shows_rows: bool = False
    is_checkpoint: bool = False


class Stage(Arguments):
    """Arguments of one stage; a list of arguments fills `positional` in order, then the list `rest`.

    The docstring of a stage is its documentation, and `example` a whole pipeline for it, in which ${SHOP} is the
    address of a small shop and ${FOLDER} a folder of files.
    """

    example: ClassVar[str] = ""
    positional: ClassVar[tuple[str, ...]] = ()
    rest: ClassVar[str | None] = None
    takes_name: ClassVar[bool] = False  # as python_row_transform:NAME does
    gives_page: ClassVar[bool] = False
    persists: ClassVar[bool] = False  # Spark persists the rows after this stage, so that it computes them once
    reads_given_rows: ClassVar[bool] = False  # those of the execution's request
    # the stage takes a table of `list_tables` that nobody has published yet for an empty one
    takes_empty_tables: ClassVar[bool] = False
    gives_chunks: ClassVar[bool] = False  # all rows of a document, unless the row of its page failed
    # reading the stage's rows again gives the same ones, and costs less than keeping them in memory
    repeatable: ClassVar[bool] = False

    @property
    def asks_questions(self) -> bool:
        """Whether the stage asks questions about pages, which a language model may have to answer."""
        return False

    @property
    def uses_model(self) -> bool:
        """Whether a language model may be called for the stage."""
        return self.asks_questions

    @property
    def capabilities(self) -> Capabilities:
        """The stage's effects on order, limits and stored rows."""
        return Capabilities()

    @property
    def fetching(self) -> Fetching:
        """How the pages of the stage's links are fetched."""
        return Fetching()

    @property
    def reads_page(self) -> bool:
        """Whether these arguments read the row's page."""
        return False

    def describe(self) -> str:
        """Return a few words about the arguments, for the plan; they follow the stage's name."""
        return ""

    def list_references(self) -> tuple[str, ...]:
        """Return the names of the columns that the arguments refer to."""
        return ()

    def list_selectors(self) -> tuple[PageSelector, ...]:
        """Return the selectors that the stage applies to pages, whose matches are counted."""
        return ()

    def requires_answer(self, prompt: str, field: str) -> bool:
        """Return whether the run must have a field that the stage asks for by a prompt."""
        return False

    def find_unknown_columns(self, before: Columns) -> Iterable[str]:
        """Return referenced names that no column has, as far as planning can decide."""
        return (name for name in self.list_references() if not before.has(name))

    def find_taken_columns(self, before: Columns) -> Iterable[str]:
        """Return the names of columns that the stage adds, and that the rows have already."""
        return ()

    def resolve(self, name: str, transforms: Transforms) -> Stage:
        """Return the stage bound to the function that its `name` refers to; raises UnknownName and PipelineError."""
        return self

    def use_browser(self) -> Self:
        """Return the stage as it is after a fetch with traces."""
        return self

    def render_by_default(self, render: Render) -> Self:
        """Return the stage as it is where it does not say itself which pages are rendered."""
        return self

    def list_inputs(self) -> tuple[str, ...]:
        """Return the paths of the files that the stage reads."""
        return ()

    def list_tables(self) -> tuple[str, ...]:
        """Return the datasets that the stage reads by name, such as `project.job@4`; local runs read files instead."""
        return ()

    def list_table_columns(self) -> tuple[tuple[str, str], ...]:
        """Return those datasets with the columns of theirs that the stage certainly reads."""
        return ()

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        """Return paths in buckets with the names of the credentials that reach them."""
        return ()

    def list_libraries(self) -> tuple[str, ...]:
        """Return the Java libraries that Spark needs for the stage, of those that Spindle can fetch."""
        return ()

    def list_stages_before(self) -> tuple[tuple[str, Stage], ...]:
        """Return stages, by name, that have to run before this one, such as the fetch of its page."""
        return ()

    def infer_columns(self, before: Columns) -> Columns:
        """Return the columns after the stage."""
        return before

    def list_sources(self) -> tuple[str, ...]:
        """Return the addresses, paths and tables that rows and pages come from, besides `list_tables`."""
        return self.list_inputs()

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        """Return what the columns that the stage makes are made of, for their lineage; it copies all others.

        `OTHERS` is the name of those that only the run discovers; a stage that replaces the columns has an entry there.
        Without another implementation, new columns are made of everything.
        """
        known, after = dict(before.types), self.infer_columns(before)
        made = {name: UNKNOWN_ORIGIN for name, type_ in after.types if known.get(name) != type_}
        opens = after.open and self.infer_columns(Columns(before.types)).open
        return {**made, OTHERS: UNKNOWN_ORIGIN} if opens else made

    def needs_spark(self, before: Columns) -> bool:
        """Return whether only Spark can run the stage on rows with these columns."""
        return False


class Source(Stage):
    """Base of stages that replace the current rows by those of files.

    The rows of a source that `gives_page` have an address in `_requestedUrl`, whose pages the next pass fetches.
    """

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_start=True, sets_order=True)

    @property
    def fixed_urls(self) -> tuple[str, ...]:
        """The web addresses of the rows, if they have any."""
        return ()

    def list_sources(self) -> tuple[str, ...]:
        return (*self.fixed_urls, *super().list_sources())

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return trace_sources((*self.infer_columns(before), OTHERS), self.list_sources())

    def needs_spark(self, before: Columns) -> bool:
        return True

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        """Return the rows, with their position in the column `_ordinal`."""
        raise NotImplementedError

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        """Return the same rows as `load`, and their columns; raise NeedsSpark for files that only Spark reads."""
        raise NotImplementedError


class RowStage(Stage):
    """Base of stages that work row by row in a Python worker, where the row's page is available.

    A stage that `widens` may return many rows for one; they are written one by one. One that `is_slow` takes so long
    for a row that few rows are worth spreading over all cores. One that `keeps_rows` returns a row or more for each. A
    stage whose rows show their columns has the `usual_columns` where they show none; one that `mixes_types` has the
    columns of all its rows, with text where they have several types: otherwise the first 100 decide, and others fail.
    """

    widens: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False
    usual_columns: ClassVar[tuple[tuple[str, str], ...]] = ()
    mixes_types: ClassVar[bool] = False

    @property
    def fails_run(self) -> bool:
        """Whether a row that fails ends the run; otherwise the error is in its column `_error`."""
        return False

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]] | BatchWorker:
        """Return the function that turns a row into its rows; called once per partition, so it may prepare work.

        The function of a stage that asks questions or services raises AnswerPending for a row to be taken again.
        """
        raise NotImplementedError


class ServiceStage(RowStage):
    """Base of stages that send requests about rows to a service over HTTP, like a search engine."""

    is_slow = True

    @property
    def can_start(self) -> bool:
        """Whether the stage can be the first one of a pipeline: it then gets one row without columns."""
        return not self.list_references()


class LinkStage(Stage):
    """Base of stages that find links in each row; the next pass fetches their pages, `max_depth` levels deep."""

    gives_page = True

    @property
    def fixed_urls(self) -> tuple[str, ...]:
        """The addresses to fetch for all rows, if they are not in a column; they create the first rows."""
        return ()

    @property
    def seed_file(self) -> str | None:
        """The path of a file of addresses, which create the first rows of a pipeline."""
        return None

    def list_sources(self) -> tuple[str, ...]:
        return (*self.fixed_urls, *super().list_sources())

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_start=bool(self.fixed_urls) or self.seed_file is not None)

    def list_seeds(self, context: RunContext) -> Sequence[Link]:
        """Return the addresses of the first rows; raises RunError for a file that cannot be read."""
        raise NotImplementedError

    @property
    def drops_rows_without_link(self) -> bool:
        """Whether rows without a link are dropped; otherwise they remain, without a page."""
        return False

    @property
    def uses_model(self) -> bool:
        browsing = self.fetching.browsing
        return self.asks_questions or (browsing is not None and browsing.asks_model)

    @property
    def max_depth(self) -> int | None:
        """How deep links of links are followed; None for a stage that follows links once."""
        return None

    @property
    def max_per_template(self) -> int | None:
        """The most pages whose addresses have one template; None for any number."""
        return None

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Link]]:
        """Return the function that lists a row's links in document order; called once per partition.

        The function of a stage that asks questions raises AnswerPending for a row to be taken again.
        """
        raise NotImplementedError


class TableStage(Stage):
    """Base of stages that work on whole tables as Spark DataFrames; pages do not pass through it.

    One that `keeps_rows` only adds columns, so that a trial shows it and limits reach past it.
    """

    keeps_rows: ClassVar[bool] = False

    def list_selected_names(self) -> tuple[str, ...]:
        """Return the names of columns that the stage's text shows and `infer_columns` does not."""
        return ()

    def needs_spark(self, before: Columns) -> bool:
        return True

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        """Return the rows after the stage, with their position in the column `_ordinal`."""
        raise NotImplementedError

    def prepare_locally(self, context: RunContext) -> None:
        """Read what `apply_locally` needs besides the rows, before the pages of the run are fetched.

        Raise RunError, or NeedsSpark for files that only Spark reads.
        """

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        """Return the same rows as `apply`, for rows in document order."""
        raise NotImplementedError


class Sink(Stage):
    """Base of stages that write the rows to files, published when the run is complete; the rows pass on unchanged."""

    positional = ("path", "mode")
    persists = True
    format: ClassVar[str]
    path: str = Field(min_length=1)
    mode: Annotated[SaveMode, validate_choice("mode", SAVE_MODES)] = Mode.OVERWRITE
    partition_by: tuple[str, ...] = Field(default=(), alias="partitionBy")
    credential: CredentialName = None

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        check_target(self.format, self.mode, self.merge_keys, self.partition_by)
        check_credential(self.path, self.credential)
        return self

    @property
    def merge_keys(self) -> tuple[str, ...]:
        """The columns that tell rows apart, for the mode merge."""
        return ()

    def describe(self) -> str:
        return f"{self.path} {self.mode}"

    def list_references(self) -> tuple[str, ...]:
        return (*self.merge_keys, *self.partition_by)

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        return ((self.path, self.credential),) if self.credential else ()

    def list_libraries(self) -> tuple[str, ...]:
        return list_format_libraries(self.format)

    def needs_spark(self, before: Columns) -> bool:
        return True

    def write(self, rows: DataFrame, folder: str) -> None:
        """Write `rows` to `folder`, which does not exist yet."""
        raise NotImplementedError


class Export(Stage):
    """Base of stages that write the rows to another system, as the last act of a run; the rows pass on unchanged.

    They get the rows of either runner as Arrow batches.
    """

    persists = True

    def prepare(self, context: RunContext) -> None:
        """Raise RunError for an address that must not be reached, before the pages of the run are fetched."""

    def export(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], context: RunContext) -> None:
        """Write the rows; `context` names the step."""
        raise NotImplementedError


class Reset(Stage):
    """Discards all rows except stored ones; the next stage must be a fetch or a load.

    Rows that store has put aside remain available to union_with.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: store, args: [old]}
  - {stage: reset}
  - {stage: load_csv, args: ["${FOLDER}/more.csv"]}
  - {stage: union_with, args: [old]}
"""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_start=True, sets_order=True)


class MissingStage(RowStage):
    """A stage of an uploaded plugin, which a driver has, or one that a plugin may bring."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_start=True)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(before.types, open=True)


def trace_sources(names: Iterable[str], sources: Sequence[str], *columns: str) -> Mapping[str, Origin]:
    """Return columns that are made of those with the same names in these sources, and of these `columns`."""
    return {name: Origin(columns, sources=tuple(SourceColumn(each, name) for each in sources)) for name in names}


STAGES: Registry[type[Stage]] = Registry("stage")
StageClass = TypeVar("StageClass", bound=type[Stage])


# methods and properties of stages before 2026-11-28, by which a plugin would be ignored without a word
FORMER = {
    **dict.fromkeys(("build_worker", "build_tallied_worker", "build_asking_worker"), "work(self, tools)"),
    "build_service_worker": "work(self, tools), with `tools.services`",
    **dict.fromkeys(("sets_order", "drops_engine_columns"), "capabilities"),
}


def register_stage(name: str, *aliases: str) -> Callable[[StageClass], StageClass]:
    """Class decorator that registers a stage under its name and aliases."""

    def register(cls: StageClass) -> StageClass:
        for former, now in FORMER.items():
            if former in vars(cls):
                raise TypeError(f"The stage '{name}' has `{former}`, which nothing calls any more: write `{now}`.")
        STAGES.add(name, *aliases, thing=cls)
        return cls

    return register


def find_stage(name: str, plugins: PluginScope = ALL_PLUGINS) -> tuple[str, type[Stage]]:
    """Return the registered name and class of a stage for any accepted spelling; raises UnknownName.

    For a stage that takes a name, as in `python_row_transform:clean`, the part after the colon is kept unchanged.
    """
    base, colon, own = name.partition(":")
    found = STAGES.get(base) if colon else None
    if found and found.thing.takes_name:
        return f"{found.name}:{own.strip()}", found.thing
    entry = STAGES.find(base if colon and found is None else name, plugins)
    return entry.name, entry.thing
