"""Extractors: one column each, read from an element or another column by a method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self, cast

from pydantic import Field, ValidationInfo, field_validator, model_validator
from selectolax.lexbor import LexborNode

from pipelines.errors import ArgumentError, RunError
from pipelines.extract.casts import Cast, Convert, parse_cast
from pipelines.extract.clean_text import ARTICLE_TYPE, html_to_article, html_to_markdown, read_article, to_markdown
from pipelines.extract.document import Element, HtmlElement, Value
from pipelines.extract.images import find_source
from pipelines.extract.jsonpath import JsonPath, is_json_path
from pipelines.extract.matching import Query
from pipelines.extract.patterns import PatternText, Searched, compile_pattern
from pipelines.extract.prices import convert_price, get_price_text, parse_price
from pipelines.extract.rows import Row
from pipelines.extract.selectors import Selector, SelectorError, SelectorText, XPathText, compile_selector
from pipelines.extract.tables import read_row
from pipelines.extract.text import FindHidden, get_seen_text
from pipelines.fetch.urls import canonical_url
from pipelines.language.arguments import Arguments
from pipelines.language.columns import JSON, UNKNOWN, check_not_reserved
from pipelines.language.names import normalize
from pipelines.language.origins import LONGEST_DESCRIPTION
from pipelines.language.parameters import has_reference, parse_column_reference
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope, UploadedMethod
from pipelines.registry import Registry, UnknownName

ReadRow = Callable[[Row], object]
NO_ROW = Row({}, ())  # for a value without links


@dataclass(frozen=True, slots=True)
class Method:
    """An extractor method.

    `type` is the SQL type of its column. `of_element` reads an element; it also gets the argument of `name:argument`
    if the method `takes` one (its name in messages), else None. `of_value` reads the value of a column.
    """

    type: str
    of_element: Callable[[Element, str | None], object]
    of_value: Callable[[object, Row], object] | None = None
    takes: str | None = None
    about: str = ""


def _read_text(element: Element, argument: str | None) -> object:
    return element.text()


def _read_json(element: Element, argument: str | None) -> object:
    """Return the value of a JSON page: a number, a truth value or a text, and lists and objects as text."""
    value = element.value if isinstance(element, Value) else None
    return value if isinstance(value, str | int | float) else element.text()


def _read_price_text(element: Element, argument: str | None) -> object:
    is_html = isinstance(element, HtmlElement)
    return get_price_text(element.node, element.document.find_hidden) if is_html else element.text()


def _read_price(element: Element, argument: str | None) -> object:
    read = _read_price_text if isinstance(element, HtmlElement) else _read_json
    return convert_price(read(element, argument))


# the same for nodes of HTML, faster; by function, since plugins derive methods from these
_NODE_READERS: dict[object, Callable[[LexborNode, FindHidden], object]] = {
    _read_text: get_seen_text,
    _read_price: lambda node, find: parse_price(get_price_text(node, find)),
}


def _take_first(value: object) -> object:
    """Return the first item of a list, and other values as they are."""
    return next(iter(cast("list[object]", value)), None) if isinstance(value, list) else value


def _convert_text(value: object, row: Row) -> object:
    value = _take_first(value)
    return None if value is None else str(value)


def _convert_price(value: object, row: Row) -> object:
    return convert_price(_take_first(value))


def _convert_link(value: object, row: Row) -> object:
    value = _take_first(value)
    return canonical_url(str(value), row.fetched.url) if value is not None else None


def _convert_html(value: object, row: Row, convert: Callable[[str, str], object]) -> object:
    value = _take_first(value)
    return convert(str(value), row.fetched.url or "") if value is not None else None


METHODS: Registry[Method] = Registry("method")


def register_method(name: str, *aliases: str, method: Method) -> None:
    """Register a method under its name and aliases."""
    METHODS.add(name, *aliases, thing=method)


register_method(
    "text",
    method=Method(
        "string",
        _read_text,
        _convert_text,
        about="the text as people see it: spaces collapsed, without `hidden` and `display: none`",
    ),
)
register_method(
    "code",
    "html",
    method=Method("string", lambda element, _: element.html(), _convert_text, about="the element as HTML"),
)
register_method(
    "attr", method=Method("string", lambda element, name: element.attr(name or ""), takes="NAME", about="an attribute")
)
register_method(
    "attrs", method=Method("map<string,string>", lambda element, _: element.attrs(), about="all attributes")
)
register_method(
    "href",
    method=Method(
        "string", lambda element, _: element.absolute("href"), _convert_link, about="the address of a link, absolute"
    ),
)
register_method(
    "src",
    method=Method(
        "string",
        lambda element, _: find_source(element),
        _convert_link,
        about="the address of an image or script, absolute; the largest of srcset where src is a placeholder",
    ),
)
register_method(
    "price",
    method=Method(
        "double",
        _read_price,
        _convert_price,
        about="the number beside a currency sign, else the first one: £1,09 is 1.09, 19<sup>99</sup> is 19.99",
    ),
)
register_method(
    "cells",
    method=Method(
        "map<string,string>",
        lambda element, _: read_row(element),
        about="the texts of a table's row by their headings; null for a row of headings",
    ),
)
register_method(
    "markdown",
    method=Method(
        "string",
        lambda element, _: to_markdown(element),
        lambda value, row: _convert_html(value, row, html_to_markdown),
        about="Markdown with headings, lists, tables, code and absolute links: of an element, of a page without menus "
        "and banners, or of the HTML in a column",
    ),
)
register_method(
    "article",
    method=Method(
        ARTICLE_TYPE,
        lambda element, _: read_article(element),
        lambda value, row: _convert_html(value, row, html_to_article),
        about="title, author, date, site, language and text of the page's main article",
    ),
)
_LINKED_DATA = "jsonld"
register_method(
    _LINKED_DATA,
    method=Method(
        "string",
        _read_text,
        about="a value of the page's JSON-LD: `path`, such as offers.price, in the object of this `type`; an `@id` is "
        "the object that has it",
    ),
)
ASKED = "llm"
register_method(
    ASKED,
    method=Method(
        "map<string,string>",
        lambda element, _: None,  # the stage asks, since an answer may have to be waited for
        lambda value, row: None,
        about="what the instruction in `args` asks for, by name: see iextract",
    ),
)


def _split_spelling(spelling: str) -> tuple[str, str | None]:
    """Split `attr:href` or `attr(href)` into ("attr", "href")."""
    name, argument = spelling, None
    if spelling.endswith(")") and "(" in spelling:
        name, _, argument = spelling[:-1].partition("(")
    elif ":" in spelling:
        name, _, argument = spelling.partition(":")
    return name.strip(), argument.strip() if argument is not None else None


def _make_method(declared: UploadedMethod) -> Method:
    """Return the method of an uploaded plugin as far as planning knows it."""
    convert = _convert_in_driver if declared.reads_columns else None
    return Method(declared.type or UNKNOWN, _read_in_driver, convert, declared.takes)


def _read_in_driver(element: Element, argument: str | None) -> object:
    raise RunError("methods of uploaded plugins run in drivers")


def _convert_in_driver(value: object, row: Row) -> object:
    raise RunError("methods of uploaded plugins run in drivers")


def _get_plugins(info: ValidationInfo) -> PluginScope:
    return info.context or ALL_PLUGINS


class Extractor(Arguments):
    """One column: `selector`, `xpath` or `field` is the source, `method` reads it, `as` is the name of the column.

    A field is a column, which an extractor above it in the list may have made; with a dot or bracket, unless it is
    written `$"a.b"`, it is a path in the page's JSON.
    """

    selector: SelectorText | None = Field(None, min_length=1)
    field: str | None = Field(None, min_length=1)
    method: str = "text"
    args: tuple[str, ...] = ()
    as_: str = Field("", alias="as")
    required: bool = Field(default=False, description="fail the run when nothing is found on any page that was read")
    xpath: XPathText | None = Field(None, min_length=1, description="instead of selector")
    all_: bool = Field(
        False,
        alias="all",
        description="a list of what all matches have, instead of the first match; of JSON with its nulls",
    )
    pattern: PatternText | None = Field(
        None, min_length=1, description="regular expression; its first group, or its match, is the value"
    )
    default: str | int | float | bool | None = Field(None, description="value where nothing is found")
    cast_: str | None = Field(
        None,
        alias="cast",
        description="type of the column: int, decimal(p,s), double, date, timestamp or boolean; "
        "a value that does not fit is null and counted",
    )
    format_: str | None = Field(
        None,
        alias="format",
        min_length=1,
        description="of the casts date and timestamp, such as %d.%m.%Y; by default ISO 8601, or as in RSS, "
        "also with AM and PM",
    )
    type_: str | None = Field(None, alias="type", min_length=1, description="of jsonld: the type of the object")
    path: str | None = Field(None, min_length=1, description="of jsonld: the path in the object")
    description: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_DESCRIPTION,
        description="what the column means, for the dataset's readers",
    )

    @field_validator("method")
    @classmethod
    def _check_method(cls, value: str, info: ValidationInfo) -> str:
        plugins = _get_plugins(info)
        name, argument = _split_spelling(value)
        if name.startswith("${"):  # a parameter that has no value yet
            return "text"
        try:
            found = METHODS.find(name, plugins)
            name, takes_argument = found.name, found.thing.takes is not None
        except UnknownName as error:
            declared = plugins.methods.get(normalize(name))
            if declared is None and not plugins.accepts(error.may_come):
                raise ArgumentError(str(error), error.code, error.may_come) from None
            takes_argument = declared is None or declared.type is None or declared.takes is not None
        if argument is not None and not takes_argument:
            raise ValueError(f"the method '{name}' has no argument")
        return value

    @field_validator("as_")
    @classmethod
    def _check_name(cls, value: str) -> str:
        check_not_reserved(value)
        return value

    @model_validator(mode="after")
    def _check_combination(self, info: ValidationInfo) -> Self:
        declared, name = None, _split_spelling(self.method)[0]
        if METHODS.get(name) is None:
            declared = _get_plugins(info).methods.get(normalize(name)) or UploadedMethod(name)
            self._uploaded = declared
        if len([source for source in (self.selector, self.field, self.xpath) if source]) > 1:
            raise ArgumentError("give one of 'selector', 'xpath' and 'field'", "conflicting-arguments")
        if path := self._get_json_path(self.field or ""):
            _compile_path(path)
        if declared is not None and declared.type is None:
            return self
        method = self._find_method()
        if method.takes and not self.argument():
            raise ArgumentError(f"{self.name()} needs an argument: {self.name()}:{method.takes}", "missing-argument")
        if self.column() and method.of_value is None:
            raise ValueError(f"the method '{self.name()}' reads an element; a field has only a value")
        self._check_options(method)
        return self

    def _check_options(self, method: Method) -> None:
        is_linked = self.name() == _LINKED_DATA
        if is_linked and (self.selector or self.field or self.xpath):
            message = "jsonld reads the whole page: give 'type' and 'path' instead of a selector, xpath or field"
            raise ArgumentError(message, "conflicting-arguments")
        if is_linked:
            self._get_linked_path()
        elif self.type_ or self.path:
            raise ArgumentError("'type' and 'path' belong to the method jsonld", "conflicting-arguments")
        if self.pattern and method.type != "string" and method.of_value is None:
            raise ArgumentError(f"a pattern reads texts, and {self.name()} gives none", "conflicting-arguments")
        if self.all_ and self.default is not None:
            message = "with 'all', nothing found is an empty list: leave out 'default'"
            raise ArgumentError(message, "conflicting-arguments")
        if self.asks_questions and (
            self.xpath or self.all_ or self.required or self.pattern or self.default is not None
        ):
            message = "llm reads one selector or field: leave out xpath, all, pattern, default and required"
            raise ArgumentError(message, "conflicting-arguments")
        cast = self._parse_cast()
        if cast and method.type not in ("string", "double"):
            raise ArgumentError(f"{self.name()} gives a {method.type}, which has no cast", "conflicting-arguments")
        self._convert_default()

    @property
    def asks_questions(self) -> bool:
        """Whether the value is the answer to a question, which the stage asks."""
        return self.name() == ASKED

    def _parse_cast(self) -> Cast | None:
        if self.cast_ is None and self.format_ is not None:
            raise ArgumentError("a format is for the casts date and timestamp", "conflicting-arguments")
        if self.cast_ is None or has_reference(f"{self.cast_} {self.format_ or ''}"):
            return None
        return parse_cast(self.cast_, self.format_)

    @property
    def source(self) -> str | None:
        """The part that is read: the selector, XPath or field, or the type and path of jsonld."""
        linked = " ".join(filter(None, ("jsonld", self.type_, self.path))) if self.name() == _LINKED_DATA else None
        return self.selector or self.xpath or self.field or linked

    def name(self) -> str:
        if self._uploaded is not None:
            return self._uploaded.name
        return METHODS.find(_split_spelling(self.method)[0]).name

    def _find_method(self) -> Method:
        if isinstance(self._uploaded, UploadedMethod):
            return _make_method(self._uploaded)
        return METHODS.find(self.name()).thing

    def argument(self) -> str | None:
        """Return the argument of the method: the attribute that `attr` reads."""
        return _split_spelling(self.method)[1] or (self.args[0] if self.args else None)

    def column(self) -> str | None:
        """Return the source column; None if the source is the page."""
        if self.field and self._get_json_path(self.field) is None:
            return parse_column_reference(self.field) or self.field
        return parse_column_reference(self.selector) if self.selector else None

    def _get_json_path(self, field: str) -> str | None:
        """Return the JSON path of a field; None for a column."""
        if parse_column_reference(field) or "${" in field or not set(field) & {".", "["}:
            return None
        return field if field.startswith("$") else f"${field}" if field.startswith("[") else f"$.{field}"

    @property
    def keeps_json(self) -> bool:
        """Whether the column has the values of a JSON page as they are, not as text."""
        if self.cast_ or self.pattern or "method" in self.model_fields_set:
            return False
        return bool(self.selector and is_json_path(self.selector)) or bool(
            self.field and self._get_json_path(self.field)
        )

    @property
    def _keeps_nulls(self) -> bool:
        """Whether a list has an item for each value of a path, so that lists of several paths stay parallel."""
        return is_json_path(self.selector or self._get_json_path(self.field or "") or "")

    def output(self) -> tuple[str, str]:
        """Return name and type of the new column."""
        cast = self._parse_cast()
        type_ = cast.type if cast else JSON if self.keeps_json else self._find_method().type
        return self.as_ or self.name(), f"array<{type_}>" if self.all_ else type_

    def build_worker(self, with_default: bool = True, on_unfit: Callable[[], None] | None = None) -> ReadRow:
        """Return the function that reads the value of a row, null or the default without a match.

        It calls `on_unfit` for values that do not fit the cast, except blank texts.
        """
        if self.all_ or self.pattern or self.xpath or self.name() == _LINKED_DATA:
            read = self._build_column_reader() if self.column() else self._build_reader()
        else:
            read = self._build_simple_reader()
        if cast := self._parse_cast():
            read = _cast_values(read, cast.convert, on_unfit, self._keeps_nulls)
        default = self.build_default() if with_default else None
        if default is None:
            return read
        return lambda row: value if (value := read(row)) is not None else default(row)

    def build_default(self) -> ReadRow | None:
        """Return the function for the default value of a row, null without a page to read; None without a default."""
        if self.default is None:
            return None
        default, needs_page = self._convert_default(), self.column() is None
        return lambda row: default if row.element or not needs_page else None

    def _convert_default(self) -> object:
        """Return the default as a value of the column."""
        default, method = self.default, self._find_method()
        if default is None or (isinstance(default, str) and "${" in default):
            return None
        if cast := self._parse_cast():
            if (value := cast.convert(default if isinstance(default, str) else str(default))) is None:
                raise ValueError(f"the default '{default}' is not a value of the cast {self.cast_}")
            return value
        if self.keeps_json:
            return default
        if method.type == "string":
            return str(default).lower() if isinstance(default, bool) else str(default)
        value = method.of_value(default, NO_ROW) if method.of_value and not isinstance(default, bool) else None
        if value is None:
            raise ValueError(f"the default '{default}' is not a value of {self.name()}, which is {method.type}")
        return value

    def _build_reader(self) -> ReadRow:
        """Return the reader of a page or segment with an xpath, a pattern, `all` or the method jsonld."""
        find, read_one, argument = self._build_finder(), self._build_element_reader(), self.argument()
        keeps_nulls = self._keeps_nulls

        def read_first(row: Row) -> object:
            found = find(row.element) if row.element else None
            return read_one(found[0], argument) if found else None

        def read_all(row: Row) -> object:
            if not row.element:
                return None
            found = ((each, isinstance(each, Value) and each.value is None) for each in find(row.element))
            values = (None if is_null else read_one(each, argument) for each, is_null in found)
            return [value for value in values if keeps_nulls or value is not None]

        return read_all if self.all_ else read_first

    def _build_finder(self) -> Callable[[Element], list[Element]]:
        if self.name() == _LINKED_DATA:
            type_, path = self.type_, self._get_linked_path()
            return lambda element: [
                Value(element.document, each) for each in element.document.linked_data.find(type_, path)
            ]
        if xpath := self.xpath:
            return lambda element: element.select_xpath(xpath)
        text = self.selector or (self._get_json_path(self.field) if self.field else None)
        if text is None:
            return lambda element: [element]
        selector = compile_selector(text)
        if self.all_ and isinstance(selector, JsonPath):
            return lambda element: [*element.select_values(selector)]
        if self.all_:
            return lambda element: element.select(selector)
        return lambda element: [found] if (found := element.first(selector)) else []

    def _build_element_reader(self) -> Callable[[Element, str | None], object]:
        method = self._find_method()
        if self.keeps_json:
            return _read_json
        if not self.pattern:
            return method.of_element
        pattern, of_value = compile_pattern(self.pattern), method.of_value
        of_element = method.of_element
        if method.type != "string":
            of_element = _read_price_text if of_element is _read_price else _read_text

        def read(element: Element, argument: str | None) -> object:
            text = of_element(element, argument)
            found = pattern.find_group(str(text), element.document.searched) if text is not None else None
            return found if method.type == "string" or of_value is None else of_value(found, NO_ROW)

        return read

    def _build_column_reader(self) -> ReadRow:
        """Return the reader of a column with a pattern, or with `all`, for which a list counts as its items."""
        column, method = self.column() or "", self._find_method()
        pattern, of_value = compile_pattern(self.pattern) if self.pattern else None, method.of_value or _convert_text

        def convert(value: object, row: Row, searched: Searched) -> object:
            if pattern and (value := _take_first(value)) is not None:
                value = pattern.find_group(str(value), searched)
            return of_value(value, row)

        def read(row: Row) -> object:
            value, searched = row.value(column), row.element.document.searched if row.element else {}
            if not self.all_:
                return convert(value, row, searched)
            values = (convert(each, row, searched) for each in (value if isinstance(value, list) else [value]))
            return [each for each in values if each is not None]

        return read

    def _get_linked_path(self) -> JsonPath | None:
        """Return the path in an object of JSON-LD."""
        if not self.path or "${" in self.path:
            return None
        path = self.path if self.path.startswith("$") else f"${'' if self.path.startswith('[') else '.'}{self.path}"
        return cast(JsonPath, _compile_path(path))

    def _build_simple_reader(self) -> ReadRow:
        """Return the reader of the first match, or of a column: the usual case, as fast as possible."""
        method, argument = self._find_method(), self.argument()
        if column := self.column():
            of_value = method.of_value or _convert_text
            return lambda row: of_value(row.value(column), row)
        text = self.selector or (self._get_json_path(self.field) if self.field else None)
        if text is None:
            return lambda row: method.of_element(row.element, argument) if row.element else None
        selector, of_element = compile_selector(text), _read_json if self.keeps_json else method.of_element
        of_node = _NODE_READERS.get(of_element)

        def read(row: Row) -> object:
            found = row.element.first(selector) if row.element else None
            return of_element(found, argument) if found else None

        return _make_node_reader(selector, of_node, read) if of_node and isinstance(selector, Query) else read


def _cast_values(read: ReadRow, convert: Convert, on_unfit: Callable[[], None] | None, keeps_nulls: bool) -> ReadRow:
    def convert_counted(value: object) -> object:
        if value is None:
            return None
        converted = convert(value)
        if converted is None and on_unfit and str(value).strip():
            on_unfit()
        return converted

    def read_cast(row: Row) -> object:
        value = read(row)
        if isinstance(value, list):
            converted = map(convert_counted, cast("list[object]", value))
            return [each for each in converted if keeps_nulls or each is not None]
        return convert_counted(value)

    return read_cast


def _make_node_reader(query: Query, of_node: Callable[[LexborNode, FindHidden], object], otherwise: ReadRow) -> ReadRow:
    first = query.first

    def read(row: Row) -> object:
        element = row.element
        if not isinstance(element, HtmlElement):
            return otherwise(row)
        node = first(element)
        return of_node(node, element.document.find_hidden) if node is not None else None

    return read


def _compile_path(path: str) -> Selector:
    try:
        return compile_selector(path)
    except SelectorError as error:
        raise ArgumentError(f"the field is not a JSON path: {error}", "invalid-selector") from None


def check_names(extractors: Iterable[Extractor]) -> None:
    """Raise ValueError if two extractors of a stage write one column."""
    seen: set[str] = set()
    for extractor in extractors:
        name = extractor.output()[0]
        if name.casefold() in seen:
            raise ArgumentError(f"two extractors are called '{name}'; give each its own 'as'", "duplicate-column")
        seen.add(name.casefold())
