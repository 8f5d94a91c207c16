"""References to datasets in pipelines: `project.job`, a dataset's name or a spindle:// path, with a version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from core.data.datasets.repository import SCHEME
from core.infra.slugs import make_slug

_VERSION = re.compile(r"(?s)(.+?)(?:@([0-9]+))?")

_WORDS = re.compile(r"\w+([ -]+\w+)+")  # slugs, which may be longer than a new one, stay as they are


class NamedTable(Protocol):
    """A table with the names that queries and pipelines use."""

    @property
    def schema(self) -> str: ...

    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=NamedTable)


@dataclass(frozen=True, slots=True)
class DatasetReference:
    """A dataset as a pipeline names it: by its whole spindle:// `path`, or else by its table's name and schema.

    Without a `version` it means the current one.
    """

    name: str
    schema: str | None = None
    path: str | None = None
    version: str | None = None

    def __str__(self) -> str:
        return self.path or ".".join(part for part in (self.schema, self.name) if part)


def parse_reference(text: str) -> DatasetReference:
    """Return the reference that a text means; `@` and digits at its end are the number of a version."""
    match = _VERSION.fullmatch(text.strip())
    whole, version = match.groups() if match else ("", None)
    if whole.startswith(SCHEME):
        return DatasetReference("", path=whole.rstrip("/"), version=version)
    schema, dot, name = whole.rpartition(".")
    return DatasetReference(_to_slug(name), _to_slug(schema) if dot else None, version=version)


def _to_slug(name: str) -> str:
    """Return the slug of a table or project that is written by its slug or by its name."""
    folded = name.strip().lower()
    return make_slug(folded) if _WORDS.fullmatch(folded) else folded


def choose_table(name: str, schema: str | None, own_schema: str | None, tables: Iterable[Named]) -> Named | None:
    """Return the table that a name means; null for an unknown or ambiguous name.

    A name without a schema means the table of `own_schema`, or else the only one of that name.
    """
    same = [table for table in tables if table.name == name]
    if schema is not None:
        return next((table for table in same if table.schema == schema), None)
    found = [table for table in same if table.schema == own_schema] or same
    return found[0] if len(found) == 1 else None
