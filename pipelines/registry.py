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

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pipelines.arguments import Arguments
from pipelines.columns import Columns
from pipelines.names import fold, unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.rows import Link, Row
    from pipelines.spark.context import RunContext


class Stage(Arguments):
    """Arguments of one stage; a list of arguments fills `positional` in order, and `rest` takes what is left.

    `example` is a whole pipeline for the documentation: ${SHOP} is a small shop's address, ${FOLDER} a folder of files.
    """

    example: ClassVar[str] = ""
    positional: ClassVar[tuple[str, ...]] = ()
    rest: ClassVar[str | None] = None
    needs_page: ClassVar[bool] = False
    gives_page: ClassVar[bool] = False

    def title(self) -> str:
        """What the stage does here, in a few words after its name."""
        return ""

    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the stage refers to."""
        return ()

    def uses_page(self) -> bool:
        """Whether these arguments read the row's page."""
        return self.needs_page

    def columns(self, before: Columns) -> Columns:
        """Columns after the stage."""
        return before


class Source(Stage):
    """Replaces the current rows by those of files."""

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        raise NotImplementedError


class RowStage(Stage):
    """Works row by row inside a pass, in a Python worker, where the row's page is at hand."""

    def worker(self) -> Callable[[Row], Iterable[Row]]:
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

    def levels(self) -> int | None:
        """How deep links of links are followed; None for a stage that follows links once and leaves its own page."""
        return None

    def worker(self) -> Callable[[Row], Iterable[Link]]:
        """The function that lists a row's links in document order; called once per partition."""
        raise NotImplementedError


class TableStage(Stage):
    """Works on whole tables, on Spark; pages do not pass through it.

    A stage that `begins` needs no rows before it: it gets a table without rows.
    """

    begins: ClassVar[bool] = False

    def stores(self) -> str | None:
        """The label that the rows are remembered under, if they are."""
        return None

    def labels(self) -> tuple[str, ...]:
        """Labels of the stored rows that the stage takes in."""
        return ()

    def table(self, rows: DataFrame, context: RunContext) -> DataFrame:
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


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    aliases: tuple[str, ...]
    stage: type[Stage]

    @property
    def doc(self) -> str:
        return (self.stage.__doc__ or "").strip()


StageClass = TypeVar("StageClass", bound=type[Stage])

_entries: dict[str, Entry] = {}


class UnknownStage(LookupError):
    """No stage has this name; the message lists near matches."""


def stage(name: str, *aliases: str) -> Callable[[StageClass], StageClass]:
    """Class decorator that registers a stage under its name and aliases."""

    def register(cls: StageClass) -> StageClass:
        entry = Entry(name, aliases, cls)
        for spelling in (name, *aliases):
            if fold(spelling) in _entries:
                raise ValueError(f"two stages are called {spelling}")
            _entries[fold(spelling)] = entry
        return cls

    return register


def entries() -> tuple[Entry, ...]:
    """All stages, by name."""
    _load()
    return tuple(sorted({entry.name: entry for entry in _entries.values()}.values(), key=lambda entry: entry.name))


def find(name: str) -> Entry:
    """The stage that a pipeline calls `name`, in any accepted spelling; raises UnknownStage."""
    _load()
    entry = _entries.get(fold(name))
    if entry is None:
        known = [spelling for each in entries() for spelling in (each.name, *each.aliases)]
        raise UnknownStage(unknown("stage", name, known))
    return entry


def _load() -> None:
    import pipelines.stages  # the stages import this module: late, to break the circle

    pipelines.stages.load_all()
