"""Extractors: what one column is read from, and by which method; shared by the stages that add columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from pydantic import Field, field_validator, model_validator
from selectolax.lexbor import LexborNode

from pipelines.extract import (
    NODE_READERS,
    READERS,
    Element,
    HtmlElement,
    Query,
    SelectorError,
    compile_selector,
    parse_price,
)
from pipelines.extract.rows import Row
from pipelines.extract.selector_arguments import Selector
from pipelines.fetch import canonical_url
from pipelines.language.arguments import Arguments
from pipelines.language.columns import engine_fault
from pipelines.language.parameters import parse_column_reference
from pipelines.registry.catalog import Catalog, UnknownName

Read = Callable[[Row], object]
_NO_PRICE = 1e50  # numbers of as many digits are none in a text either


@dataclass(frozen=True, slots=True)
class Method:
    """An extractor method: its column's SQL type, how it reads an element, and how a column's value where it can.

    `of_element` gets the argument of `name:argument` beside the element, where the method `takes` one (so called in
    messages); else None.
    """

    type: str
    of_element: Callable[[Element, str | None], object]
    of_value: Callable[[object, Row], object] | None = None
    takes: str | None = None
    about: str = ""


def _text(value: object, row: Row) -> object:
    return None if value is None else str(value)


def _price(value: object, row: Row) -> object:
    if isinstance(value, int | float):
        return float(value) if -_NO_PRICE < value < _NO_PRICE else None
    return parse_price(str(value)) if value is not None else None


def _link(value: object, row: Row) -> object:
    return canonical_url(str(value), row.fetched.url) if value is not None else None


METHODS: Catalog[Method] = Catalog("method")
METHODS.add("text", thing=Method("string", READERS["text"], _text, about="the text as people see it, spaces collapsed"))
METHODS.add("code", "html", thing=Method("string", READERS["code"], _text, about="the element as HTML"))
METHODS.add("attr", thing=Method("string", READERS["attr"], takes="NAME", about="an attribute"))
METHODS.add("attrs", thing=Method("map<string,string>", READERS["attrs"], about="all attributes"))
METHODS.add("href", thing=Method("string", READERS["href"], _link, about="the address of a link, absolute"))
METHODS.add("src", thing=Method("string", READERS["src"], _link, about="the address of an image or script, absolute"))
_PRICE = "the first price: £1,09 is 1.09; in a long text within 100 characters of where the first number begins"
METHODS.add("price", thing=Method("double", READERS["price"], _price, about=_PRICE))
METHODS.mark_unsupported("it needs a language model, which this version does not have; use selectors", "llm")


def _split(spelling: str) -> tuple[str, str | None]:
    """The name and the argument: `attr:href` and `attr(href)` → ("attr", "href")."""
    name, argument = spelling, None
    if spelling.endswith(")") and "(" in spelling:
        name, _, argument = spelling[:-1].partition("(")
    elif ":" in spelling:
        name, _, argument = spelling.partition(":")
    return name.strip(), argument.strip() if argument is not None else None


class Extractor(Arguments):
    """One column: `selector` or `field` says what is read, `method` how, `as` what the column is called.

    A field is a column; one with a dot or bracket, unless it is written `$"a.b"`, is a path in the page's JSON.
    """

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
        try:
            found = METHODS.find(name)
        except UnknownName as error:
            raise ValueError(str(error)) from None
        if argument is not None and not found.thing.takes:
            raise ValueError(f"the method '{found.name}' has no argument")
        return value

    @field_validator("as_")
    @classmethod
    def _no_engine_column(cls, value: str) -> str:
        if fault := engine_fault(value):
            raise ValueError(fault)
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.selector and self.field:
            raise ValueError("give either 'selector' or 'field', not both")
        if path := self._path(self.field or ""):
            _check_path(path)
        method = self._method()
        if method.takes and not self.argument():
            raise ValueError(f"{self.name()} needs an argument: {self.name()}:{method.takes}")
        if self.column() and method.of_value is None:
            raise ValueError(f"the method '{self.name()}' reads an element; a field has only a value")
        return self

    def name(self) -> str:
        name = _split(self.method)[0]
        return METHODS.find(name).name

    def _method(self) -> Method:
        return METHODS.find(self.name()).thing

    def argument(self) -> str | None:
        """What the method is told beside the element: the attribute that `attr` reads."""
        return _split(self.method)[1] or (self.args[0] if self.args else None)

    def column(self) -> str | None:
        """The column that is read; None where it is the page."""
        if self.field and self._path(self.field) is None:
            return parse_column_reference(self.field) or self.field
        return parse_column_reference(self.selector) if self.selector else None

    def _path(self, field: str) -> str | None:
        """The path in the page's JSON that a field means; None for a column."""
        if parse_column_reference(field) or "${" in field or not set(field) & {".", "["}:
            return None
        return field if field.startswith("$") else f"${field}" if field.startswith("[") else f"$.{field}"

    def output(self) -> tuple[str, str]:
        """Name and type of the column that is added."""
        return self.as_ or self.name(), self._method().type

    def worker(self) -> Read:
        """The function that reads the value; null where nothing is found."""
        method, argument = self._method(), self.argument()
        if column := self.column():
            of_value = method.of_value or _text
            return lambda row: of_value(row.value(column), row)
        text = self.selector or (self._path(self.field) if self.field else None)
        if text is None:
            return lambda row: method.of_element(row.element, argument) if row.element else None
        selector, of_element = compile_selector(text), method.of_element
        of_node = next((quick for reader, quick in NODE_READERS if reader is of_element), None)

        def read(row: Row) -> object:
            found = row.element.first(selector) if row.element else None
            return of_element(found, argument) if found else None

        return _reading_nodes(selector, of_node, read) if of_node and isinstance(selector, Query) else read


def _reading_nodes(query: Query, of_node: Callable[[LexborNode], object], otherwise: Read) -> Read:
    first = query.first

    def read(row: Row) -> object:
        element = row.element
        if not isinstance(element, HtmlElement):
            return otherwise(row)
        node = first(element)
        return of_node(node) if node is not None else None

    return read


def _check_path(path: str) -> None:
    try:
        compile_selector(path)
    except SelectorError as error:
        raise ValueError(f"the field is not a JSON path: {error}") from None


def check_names(extractors: Iterable[Extractor]) -> None:
    """Raises ValueError when two extractors of a stage write one column."""
    seen: set[str] = set()
    for extractor in extractors:
        name = extractor.output()[0]
        if name.casefold() in seen:
            raise ValueError(f"two extractors are called '{name}'; give each its own 'as'")
        seen.add(name.casefold())
