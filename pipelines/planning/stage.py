"""The one registry of stages: what each is called, what arguments it takes, and what it does to columns and rows.

A stage is a frozen pydantic model of its own arguments, declared in one module of `pipelines.stages`:

    @stage("limit")
    class Limit(TableStage):
        '''Keeps the first rows in document order.'''

        positional = ("rows",)
        rows: PositiveInt

Checking, planning, the documentation and the stage catalogue all read it from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from pydantic import Field

from pipelines.language.arguments import Arguments
from pipelines.language.columns import Columns
from pipelines.language.names import validate_choice
from pipelines.registry.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.browser.actions import Browsing
    from pipelines.extract.rows import Link, Row
    from pipelines.planning.context import RunContext
    from pipelines.transforms.transform import Transforms


class Mode(StrEnum):
    """What becomes of earlier rows where new ones are written."""

    OVERWRITE = "overwrite"
    APPEND = "append"


class Stage(Arguments):
    """Arguments of one stage; a list of arguments fills `positional` in order, and `rest` takes what is left.

    `example` is a whole pipeline for the documentation: ${SHOP} is a small shop's address, ${FOLDER} a folder of files.
    """

    example: ClassVar[str] = ""
    positional: ClassVar[tuple[str, ...]] = ()
    rest: ClassVar[str | None] = None
    takes_name: ClassVar[bool] = False
    needs_page: ClassVar[bool] = False
    gives_page: ClassVar[bool] = False
    holds: ClassVar[bool] = False  # whether Spark keeps the rows here, so that nothing later makes them again

    def title(self) -> str:
        """What the stage does here, in a few words after its name."""
        return ""

    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the stage refers to."""
        return ()

    def unknown(self, before: Columns) -> Iterable[str]:
        """Names that the stage refers to and that no column has, as far as that is known before the run."""
        return (name for name in self.reads() if not before.has(name))

    def resolved(self, name: str, transforms: Transforms) -> Stage:
        """The stage with what its own `name` stands for; raises UnknownName and PipelineError."""
        return self

    def uses_page(self) -> bool:
        """Whether these arguments read the row's page."""
        return self.needs_page

    def loads(self) -> tuple[str, ...]:
        """Paths of the files that the stage reads."""
        return ()

    def columns(self, before: Columns) -> Columns:
        """Columns after the stage."""
        return before


class Source(Stage):
    """Replaces the current rows by those of files."""

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Batched:
    """Work that costs less on several rows at once: for each row, in order, the rows that it becomes.

    Who takes too long for them all is left after one of them, and asked for the others again.
    """

    rows: Callable[[Sequence[Row]], Iterable[Iterable[Row]]]


class RowStage(Stage):
    """Works row by row inside a pass, in a Python worker, where the row's page is at hand.

    A stage that `widens` makes any number of rows of one, which are therefore written as they come.
    """

    widens: ClassVar[bool] = False

    def fails(self) -> bool:
        """Whether a row that cannot be made ends the run; otherwise it has `_error`."""
        return False

    def worker(self) -> Callable[[Row], Iterable[Row]] | Batched:
        """The function that turns one row into its rows; called once per partition, so that selectors compile once."""
        raise NotImplementedError


class LinkStage(Stage):
    """Finds links in each row; what they lead to is fetched by the next pass, `depth` levels deep."""

    gives_page = True

    def literal(self) -> str | None:
        """The one address that is fetched for all rows, and that makes the first row where there is none."""
        return None

    def drops_rows_without_link(self) -> bool:
        """Whether a row without a link ends here; otherwise it stays, without a page."""
        return False

    def browsing(self) -> Browsing | None:
        """How the browser makes the pages; None for plain HTTP."""
        return None

    def levels(self) -> int | None:
        """How deep links of links are followed; None for a stage that follows links once and leaves its own page."""
        return None

    def worker(self) -> Callable[[Row], Iterable[Link]]:
        """The function that lists a row's links in document order; called once per partition."""
        raise NotImplementedError


class TableStage(Stage):
    """Works on whole tables, on Spark; pages do not pass through it.

    A stage that `begins` needs no rows before it: it gets a table without rows. One that `shows` rows to people does
    so even where a later stage begins anew.
    """

    begins: ClassVar[bool] = False
    shows: ClassVar[bool] = False

    def stores(self) -> str | None:
        """The label that the rows are remembered under, if they are."""
        return None

    def drops_engine_columns(self) -> bool:
        """Whether the engine's columns are null after the stage, but for those among its `columns`."""
        return False

    def labels(self) -> tuple[str, ...]:
        """Labels of the stored rows that the stage takes in."""
        return ()

    def table(self, rows: DataFrame, context: RunContext) -> DataFrame:
        raise NotImplementedError


class Sink(Stage):
    """Writes the rows to files, which nobody sees before the run is complete; the rows pass on unchanged."""

    positional = ("path", "mode")
    holds = True
    format: ClassVar[str]
    path: str = Field(min_length=1)
    mode: Annotated[Mode, validate_choice("mode", Mode)] = Mode.OVERWRITE

    def title(self) -> str:
        return f"{self.path} {self.mode}"

    def write(self, rows: DataFrame, folder: str) -> None:
        """Writes `rows` to `folder`, which is not there yet."""
        raise NotImplementedError


class Reset(Stage):
    """Begins anew without rows; what was stored stays."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: store, args: [old]}
  - {stage: reset}
  - {stage: load_csv, args: ["${FOLDER}/more.csv"]}
  - {stage: union_with, args: [old]}
"""


STAGES: Catalog[type[Stage]] = Catalog("stage")
StageClass = TypeVar("StageClass", bound=type[Stage])


def stage(name: str, *aliases: str) -> Callable[[StageClass], StageClass]:
    """Class decorator that registers a stage under its name and aliases."""

    def register(cls: StageClass) -> StageClass:
        STAGES.add(name, *aliases, thing=cls)
        return cls

    return register


def find(name: str) -> tuple[str, type[Stage]]:
    """The stage that a pipeline calls `name`, in any accepted spelling, and its registered name; raises UnknownName.

    Of a stage that takes a name of its own, as in `python_row_transform:clean`, that part stays as it is.
    """
    base, colon, own = name.partition(":")
    found = STAGES.get(base) if colon else None
    if found and found.thing.takes_name:
        return f"{found.name}:{own.strip()}", found.thing
    entry = STAGES.find(name)
    return entry.name, entry.thing
