"""Origins of columns: the columns that a stage makes a column of, and the sources of an output's columns."""

from __future__ import annotations

from dataclasses import dataclass

OTHERS = "*"  # any column that planning does not know by its name
LONGEST_DESCRIPTION = 1000  # characters


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a source, a part of its pages like a selector, or (None) no particular one.

    The source is the address of a host or bucket, a path, a table of a database, or the key of a dataset that a stage
    reads by name (`make_table_key`).
    """

    source: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """What a stage makes a column of; without anything, of constants.

    `columns` are those of the rows before it, `parts` the selectors that are applied to their page, `sources` the
    columns of files and datasets that the stage reads, and `labels` those of stored rows. `OTHERS` among the names is
    the name of the column itself. One that `is_copy` has the values of its one column, and so its description. The
    values of one that `is_unknown` may be made of all columns and the page.
    """

    columns: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    sources: tuple[SourceColumn, ...] = ()
    labels: tuple[str, ...] = ()
    description: str | None = None
    is_copy: bool = False
    is_unknown: bool = False


UNKNOWN_ORIGIN = Origin(is_unknown=True)


@dataclass(frozen=True, slots=True)
class TracedColumn:
    """A column of an output with the columns of sources that its values are made of.

    One that `is_whole` may be made of all columns that a stage has read. `OTHERS` as a name is for all columns without
    an own entry, and as the column of a source for that of the same name.
    """

    name: str
    description: str | None = None
    sources: tuple[SourceColumn, ...] = ()
    is_whole: bool = False
