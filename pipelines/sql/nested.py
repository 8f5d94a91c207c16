"""Arrays, maps and UNNEST as Trino has them, in DuckDB's terms, by the types that the binder found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.expressions import apply_index_offset

from pipelines.sql.column_names import UNPLACED
from pipelines.sql.floats import TYPE
from pipelines.sql.syntax import call
from pipelines.sql.types import Type, find_common

Operand = tuple[exp.Expr, exp.Expr]


def get_type(node: exp.Expr | None) -> Type | None:
    return node.meta_get(TYPE) if node is not None else None


def is_array(node: exp.Expr | None) -> bool:
    type = get_type(node)
    return type is not None and type.name == "array"


def is_map(node: exp.Expr | None) -> bool:
    type = get_type(node)
    return type is not None and type.name == "map"


def concatenate(node: exp.DPipe) -> exp.Expr | None:
    """An array with an array or an element; null with null."""
    if not is_array(node) or (isinstance(node.parent, exp.DPipe) and is_array(node.parent)):
        return None
    return _join_arrays(_list_arrays(node))


def concatenate_all(node: exp.Concat) -> exp.Expr | None:
    return _join_arrays([(each, each) for each in node.expressions]) if any(map(is_array, node.expressions)) else None


def _list_arrays(node: exp.Expr) -> list[Operand]:
    """Return the arrays of a chain of `||`, an element as an array of one, and the values that make it null."""
    bare = node.unnest()
    if not isinstance(bare, exp.DPipe) or not is_array(bare):
        return [(node, node)]
    one, other = get_type(bare.this), get_type(bare.expression)
    left, right = _list_arrays(bare.this), _list_arrays(bare.expression)
    if find_common([one, other])[0]:
        return [*left, *right]
    if is_array(bare.this) and one is not None and find_common([one.items[0], other])[0]:
        return [*left, _wrap(bare.expression)]
    return [_wrap(bare.this), *right]


def _wrap(node: exp.Expr) -> Operand:
    return exp.Array(expressions=[node.copy()]), node


def _join_arrays(operands: Sequence[Operand]) -> exp.Expr:
    arrays, values = zip(*operands, strict=True)
    joined = arrays[0].copy()
    for each in arrays[1:]:
        joined = call("list_concat", joined, each)
    return call("cast_to_type", _skip_nulls(values, joined), _choose_any(arrays))


def join_maps(node: exp.Anonymous) -> exp.Expr:
    """The maps get the type that they have in common; null with null."""
    maps = node.expressions
    example = _choose_any(maps)
    return _skip_nulls(maps, call("map_concat", *(call("cast_to_type", each, example) for each in maps)))


def _choose_any(values: Sequence[exp.Expr]) -> exp.Expr:
    """Return an expression of the type that all values have in common."""
    ifs = [exp.If(this=exp.true(), true=each.copy()) for each in values[:-1]]
    return exp.Case(ifs=ifs, default=values[-1].copy()) if ifs else values[0].copy()


def _skip_nulls(values: Sequence[exp.Expr], result: exp.Expr) -> exp.Expr:
    nulls = exp.or_(*(exp.Is(this=each.copy(), expression=exp.Null()) for each in values))
    return exp.Case(ifs=[exp.If(this=nulls, true=exp.Null())], default=result)


def count_entries(node: exp.ArraySize) -> exp.Expr | None:
    return call("trino_map_size", node.this) if is_map(node.this) else None


def find_element(node: exp.Bracket) -> exp.Expr | None:
    """An index outside of an array and a key that a map lacks are errors."""
    if node.args.get("safe"):
        return call("trino_element_at", node.this, *node.expressions) if is_array(node.this) else None
    if not (is_array(node.this) or is_map(node.this)):
        return None
    (index,) = apply_index_offset(exp.column("any"), node.expressions, 1, dialect="trino")  # the parser took 1 off
    return call("trino_array_element" if is_array(node.this) else "trino_map_element", node.this, index)


def unnest(node: exp.Unnest) -> exp.Expr | None:
    """Give maps and rows a column for each of their parts."""
    types = [get_type(each) for each in node.expressions]
    alias = node.args.get("alias")
    if any(type is None for type in types):
        return None
    columns = [column for each in node.expressions for column in _list_columns(each)]
    written = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if len(node.expressions) == 1 and len(columns) == 1 and written:
        return None
    names = [*written, *(name or f"{UNPLACED}{place}" for place, (name, _) in enumerate(columns))][: len(columns)]
    cells = [call("unnest", value) for _, value in columns]
    offset = node.args.get("offset")
    if offset:
        lengths = [call("len", value) for _, value in columns]
        longest = call("greatest", *lengths) if len(lengths) > 1 else lengths[0]
        one = exp.Literal.number(1)
        cells.append(call("unnest", call("range", one, exp.Add(this=longest, expression=one.copy()))))
        names.append(offset.name if isinstance(offset, exp.Identifier) else f"{UNPLACED}{len(columns)}")
    table = alias.this if isinstance(alias, exp.TableAlias) and alias.this else exp.to_identifier("unnest")
    named = exp.TableAlias(this=table.copy(), columns=[exp.to_identifier(name, quoted=True) for name in names])
    return exp.Lateral(this=exp.Subquery(this=exp.select(*cells)), alias=named)


def _list_columns(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the names and the arrays of values of the columns that a map or an array becomes."""
    type = get_type(node)
    item = type.items[0] if type is not None and type.items else None
    if is_map(node):
        yield "", call("map_keys", node)
        yield "", call("map_values", node)
    elif item is not None and item.name == "row" and item.items:
        for place, name in enumerate(item.fields or ("",) * len(item.items), 1):
            yield name, call("trino_list_field", node, exp.Literal.number(place))
    else:
        yield "", node
