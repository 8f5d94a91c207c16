"""Objects of JSON as columns: the types that all rows show together, and values. Numbers keep their digits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct, field

from pipelines.engine.text_types import JSON_KINDS, Numbers, Texts, build_texts, convert_texts

MAX_FIELDS = 2_000
MAX_DEPTH = 100
_SMALL = 10**15


class Number(Struct, frozen=True):
    """A number with a point or an exponent, as it is written."""

    text: str


_decoder = msgspec.json.Decoder(float_hook=Number)


class InvalidRow(ValueError):
    """A text is not an object of JSON, or one that has no columns. The message is the reason."""


def read_object(text: str | bytes) -> dict[str, Any]:
    """Return an object of JSON. Raises InvalidRow."""
    found = read_value(text)
    if not isinstance(found, dict):
        raise InvalidRow("it is not an object")
    return found


def read_value(text: str | bytes) -> Any:
    """Return a value of JSON; NaN and Infinity may be in it, as Python writes them. Raises InvalidRow."""
    try:
        try:
            return _decoder.decode(text)
        except msgspec.DecodeError:
            value = json.loads(text, parse_float=Number, parse_constant=str)
            json.dumps(value, ensure_ascii=False, default=str).encode()
            return value
    except RecursionError:
        raise InvalidRow("it is nested too deep") from None
    except UnicodeEncodeError:
        raise InvalidRow("a text in it has half a character, a \\u escape without its other half") from None
    except ValueError:
        raise InvalidRow("it is not JSON") from None


class Values(Struct):
    """What the values of a column have in common: of which kinds they are, and what their parts are."""

    has_truth: bool = False
    has_number: bool = False
    has_text: bool = False
    has_list: bool = False
    has_object: bool = False
    numbers: Numbers = field(default_factory=Numbers)
    texts: Texts = field(default_factory=lambda: Texts(JSON_KINDS))
    items: Values | None = None
    fields: dict[str, Values] = field(default_factory=dict)

    def add(self, values: Sequence[Any], depth: int = 0) -> None:
        """Add values of rows that `read_object` gave. Raises InvalidRow for rows that are nested too deep."""
        if depth > MAX_DEPTH:
            raise InvalidRow("it is nested too deep")
        kinds = {*map(type, values)} - {type(None)}
        if bool in kinds:
            self.has_truth = True
        if kinds & {int, Number}:
            self.has_number = True
            self._add_numbers(values, kinds)
        if str in kinds:
            self.has_text = True
            self.texts.add(build_texts([value for value in values if type(value) is str]))
        if list in kinds:
            self.has_list = True
            self.items = self.items or Values()
            self.items.add([item for value in values if type(value) is list for item in value], depth + 1)
        if dict in kinds:
            self.has_object = True
            self._add_objects([value for value in values if type(value) is dict], depth)

    def _add_numbers(self, values: Sequence[Any], kinds: set[type]) -> None:
        if Number not in kinds:
            whole = [value for value in values if type(value) is int]
            low, high = min(whole), max(whole)
            if low > -_SMALL and high < _SMALL:
                whole = [low, high]
            self.numbers.add(build_texts([*map(str, whole)]))
        else:
            self.numbers.add(build_texts([_write_number(v) for v in values if type(v) in (int, Number)]))

    def _add_objects(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        if len(self.fields) > MAX_FIELDS:
            return
        for name in dict.fromkeys(name for each in objects for name in each):
            if len(self.fields) > MAX_FIELDS:
                return
            self.fields.setdefault(name, Values()).add([each.get(name) for each in objects], depth + 1)

    def merge(self, other: Values) -> None:
        """Add the common properties of the values of other rows."""
        self.has_truth = self.has_truth or other.has_truth
        self.has_number = self.has_number or other.has_number
        self.has_text = self.has_text or other.has_text
        self.has_list = self.has_list or other.has_list
        self.has_object = self.has_object or other.has_object
        self.numbers.merge(other.numbers)
        self.texts.merge(other.texts)
        if other.items is not None:
            self.items = self.items or Values()
            self.items.merge(other.items)
        for name, values in other.fields.items():
            self.fields.setdefault(name, Values()).merge(values)

    @property
    def is_empty(self) -> bool:
        return not (self.has_truth or self.has_number or self.has_text or self.has_list or self.has_object)

    def decide(self) -> pa.DataType:
        """Return the type that keeps all values; a text for values of several kinds."""
        kinds = self.has_truth, self.has_number, self.has_text, self.has_list, self.has_object
        match kinds:
            case (True, False, False, False, False):
                return pa.bool_()
            case (False, True, False, False, False):
                return self.numbers.decide(are_numbers=True) or pa.string()
            case (False, True, True, False, False) if "special" in self.texts.kinds and self.numbers.fit_double:
                return pa.float64()
            case (False, False, True, False, False):
                return self.texts.decide()
            case (False, False, False, True, False):
                return pa.list_(pa.field("element", self.items.decide() if self.items else pa.string()))
            case (False, False, False, False, True) if 0 < len(self.fields) <= MAX_FIELDS and self.has_own_names():
                return pa.struct([pa.field(name, self.fields[name].decide()) for name in self.fields])
            case _:
                return pa.string()

    def sort_fields(self) -> None:
        """Sort the fields by name at all levels, as Spark does."""
        self.fields = {name: self.fields[name] for name in sorted(self.fields)}
        for each in (*self.fields.values(), *([self.items] if self.items else ())):
            each.sort_fields()

    def has_own_names(self) -> bool:
        """Return whether all fields have names that differ in more than case: engines know no case."""
        return "" not in self.fields and len({name.casefold() for name in self.fields}) == len(self.fields)


def convert_values(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values of rows that `read_object` gave in a type; raise ValueError where one is not of it."""
    types = pa.types
    if types.is_list(type_):
        return _convert_lists(values, type_)
    if types.is_map(type_):
        return _convert_maps(values, type_)
    if types.is_struct(type_):
        _require_kind(values, dict)
        fields = [type_.field(position) for position in range(type_.num_fields)]
        known = {each.name for each in fields}
        if any(value is not None and not value.keys() <= known for value in values):
            raise ValueError("other fields")
        parts = [
            convert_values([None if value is None else value.get(each.name) for value in values], each.type)
            for each in fields
        ]
        return pa.StructArray.from_arrays(
            parts, fields=fields, mask=pa.array([value is None for value in values], pa.bool_())
        )
    if types.is_boolean(type_):
        _require_kind(values, bool)
        return pa.array(values, type_)
    if types.is_string(type_):
        return build_texts([None if value is None else write_text(value) for value in values])
    if types.is_integer(type_):
        _require_kind(values, int)
        return pa.array(values, type_)
    is_number = types.is_decimal(type_) or types.is_floating(type_)
    if is_number and not {*map(type, values)} <= {int, Number, str, type(None)}:
        raise ValueError("not numbers")
    if not is_number:
        _require_kind(values, str)
    texts = [value if value is None or type(value) is str else _write_number(value) for value in values]
    return convert_texts(build_texts(texts), type_)


def write_text(value: Any) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if type(value) is str else "".join(_write(value))


def _write(value: Any) -> Iterable[str]:
    match value:
        case dict():
            yield "{"
            for position, (name, each) in enumerate(value.items()):
                yield f"{', ' if position else ''}{_quote(name)}: "
                yield from _write(each)
            yield "}"
        case list():
            yield "["
            for position, each in enumerate(value):
                yield ", " if position else ""
                yield from _write(each)
            yield "]"
        case str():
            yield _quote(value)
        case bool() | None:
            yield {True: "true", False: "false", None: "null"}[value]
        case _:
            yield _write_number(value)


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _write_number(value: int | Number) -> str:
    return value.text if isinstance(value, Number) else str(value)


def _convert_lists(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    _require_kind(values, list)
    items = convert_values([item for value in values if value is not None for item in value], type_.value_type)
    return pa.ListArray.from_arrays(_count_offsets(values), items, type=type_)


def _convert_maps(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    _require_kind(values, dict)
    names = [name for value in values if value is not None for name in value]
    parts = [part for value in values if value is not None for part in value.values()]
    keys = convert_texts(build_texts(names), type_.key_type)
    return pa.MapArray.from_arrays(_count_offsets(values), keys, convert_values(parts, type_.item_type), type=type_)


def _count_offsets(values: Sequence[Any]) -> pa.Array:
    """Return where each value's parts begin and the last ones end; null for a null."""
    offsets: list[int | None] = []
    end = 0
    for value in values:
        offsets.append(None if value is None else end)
        end += 0 if value is None else len(value)
    return pa.array([*offsets, end], pa.int32())


def _require_kind(values: Sequence[Any], kind: type) -> None:
    if not {*map(type, values)} <= {kind, type(None)}:
        raise ValueError(f"not all are {kind.__name__}")
