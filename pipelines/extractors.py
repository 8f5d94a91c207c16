"""Extractors: what one column is read from, and by which method; shared by the stages that add columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from pydantic import Field, field_validator, model_validator

from pipelines.arguments import Arguments
from pipelines.fetch import canonical_url
from pipelines.html import compile_selector, extract, parse_price
from pipelines.names import fold, unknown
from pipelines.parameters import column_reference
from pipelines.rows import Row
from pipelines.selectors import Selector

Read = Callable[[Row], object]


@dataclass(frozen=True, slots=True)
class Method:
    """An extractor method: its column type, and how it reads a column's value where it can (`of_value`)."""

    name: str
    type: str
    of_value: Callable[[object, Row], object] | None


def _text(value: object, row: Row) -> object:
    return None if value is None else str(value)


def _price(value: object, row: Row) -> object:
    return float(value) if isinstance(value, int | float) else parse_price(str(value)) if value is not None else None


def _link(value: object, row: Row) -> object:
    return canonical_url(str(value), row.fetched.url) if value is not None else None


METHODS = {
    method.name: method
    for method in (
        Method("text", "string", _text),
        Method("code", "string", _text),
        Method("attr", "string", None),
        Method("attrs", "map<string,string>", None),
        Method("href", "string", _link),
        Method("src", "string", _link),
        Method("price", "double", _price),
    )
}
_ALIASES = {"html": "code"}


def _split(spelling: str) -> tuple[str, str | None]:
    """`attr:href` and `attr(href)` → ("attr", "href")."""
    name, argument = spelling, None
    if spelling.endswith(")") and "(" in spelling:
        name, _, argument = spelling[:-1].partition("(")
    elif ":" in spelling:
        name, _, argument = spelling.partition(":")
    folded = fold(name.strip())
    return _ALIASES.get(folded, folded), argument.strip() if argument is not None else None


class Extractor(Arguments):
    """One column: `selector` or `field` says what is read, `method` how, `as` what the column is called."""

    selector: Selector | None = Field(None, min_length=1)
    field: str | None = Field(None, min_length=1)
    method: str = "text"
    args: tuple[str, ...] = ()
    as_: str = Field("", alias="as")

    @field_validator("method")
    @classmethod
    def _known(cls, value: str) -> str:
        name, argument = _split(value)
        if name.startswith("${"):  # a parameter that has no value yet
            return "text"
        if name not in METHODS:
            raise ValueError(unknown("method", value, (*METHODS, *_ALIASES)))
        if argument is not None and name != "attr":
            raise ValueError(f"the method '{name}' has no argument")
        return value

    @field_validator("as_")
    @classmethod
    def _no_ordinal(cls, value: str) -> str:
        if value == "_ordinal":
            raise ValueError("a column cannot be called _ordinal; the engine orders the rows by it")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.selector and self.field:
            raise ValueError("give either 'selector' or 'field', not both")
        if self.name() == "attr" and not self.argument():
            raise ValueError("attr needs a name: attr:NAME")
        if self.column() and METHODS[self.name()].of_value is None:
            raise ValueError(f"the method '{self.name()}' reads an element; a field has only a value")
        return self

    def name(self) -> str:
        return _split(self.method)[0]

    def argument(self) -> str | None:
        """The attribute that `attr` reads."""
        return _split(self.method)[1] or (self.args[0] if self.args else None)

    def column(self) -> str | None:
        """The column that is read; None where it is the page."""
        if self.field:
            return column_reference(self.field) or self.field
        return column_reference(self.selector) if self.selector else None

    def output(self) -> tuple[str, str]:
        """Name and type of the column that is added."""
        return self.as_ or self.name(), METHODS[self.name()].type

    def worker(self) -> Read:
        """The function that reads the value; null where nothing is found."""
        name, argument = self.name(), self.argument()
        if column := self.column():
            of_value = METHODS[name].of_value or _text
            return lambda row: of_value(row.value(column), row)
        if self.selector is None:
            return lambda row: extract(name, argument, row.element) if row.element else None
        selector = compile_selector(self.selector)

        def read(row: Row) -> object:
            found = row.element.first(selector) if row.element else None
            return extract(name, argument, found) if found else None

        return read


def check_names(extractors: Iterable[Extractor]) -> None:
    """Raises ValueError when two extractors of a stage write one column."""
    seen: set[str] = set()
    for extractor in extractors:
        name = extractor.output()[0]
        if name.casefold() in seen:
            raise ValueError(f"two extractors are called '{name}'; give each its own 'as'")
        seen.add(name.casefold())
