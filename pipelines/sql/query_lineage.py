"""Lineage of a query's columns: the columns of the view `rows` and of other tables that they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

from sqlglot import exp

from pipelines.language.origins import OTHERS, UNKNOWN_ORIGIN, Origin, SourceColumn
from pipelines.sql.expressions import ROWS, SqlDialect, list_output_names, parse_query_tree

_REMEMBERED = 64  # a pipeline is checked and planned


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of a table that a query names; `table` is None where its name is ambiguous."""

    table: str | None
    column: str


@lru_cache(_REMEMBERED)
def trace_query(
    text: str, dialect: SqlDialect, columns: tuple[str, ...] | None, tables: tuple[tuple[str, str], ...]
) -> Mapping[str, Origin]:
    """Return what the columns of a query are made of, with an entry for those of `*`.

    `columns` are those of `rows`, None where planning does not know all of them; `tables` are the sources of the other
    tables by their names. A query that cannot be followed has columns that are made of everything.
    """
    named = {name.casefold(): source for name, source in tables}
    try:
        return _trace(text, dialect, columns, named)
    except Exception:  # sqlglot raises what it likes for queries that its optimizer does not know
        everything = Origin(sources=tuple(SourceColumn(each) for each in named.values()), is_unknown=True)
        names = list_output_names(parse_query_tree(text, dialect), dialect)
        return dict.fromkeys((*names, OTHERS), everything)


def _trace(
    text: str, dialect: SqlDialect, columns: tuple[str, ...] | None, sources: Mapping[str, str]
) -> Mapping[str, Origin]:
    from sqlglot.lineage import lineage  # here, because few pipelines have SQL
    from sqlglot.optimizer import build_scope, qualify
    from sqlglot.schema import ensure_schema

    tree = parse_query_tree(text, dialect)
    names = list_output_names(tree, dialect)
    schema = ensure_schema({ROWS: dict.fromkeys(columns, "varchar")} if columns else {}, dialect=dialect.value)
    qualified = qualify.qualify(
        tree,
        dialect=dialect.value,
        schema=schema,
        expand_stars=False,
        identify=False,
        validate_qualify_columns=False,
        allow_partial_qualification=True,
    )
    scope = build_scope(qualified)
    if scope is None or not isinstance(scope.expression, exp.Query):
        raise ValueError("it is no query")
    made, others = dict[str, Origin](), Origin()
    selects, unnamed = scope.expression.selects, iter(names)
    known = {each.name.casefold() for each in scope.expression.find_all(exp.Table)} - {
        each.alias_or_name.casefold() for each in scope.expression.find_all(exp.CTE)
    }
    nodes = lineage(None, qualified, schema, dialect=dialect.value, scope=scope, trim_selects=False, copy=False)
    for select in selects:
        if select.is_star:
            others = _add(others, _read_star(select, scope, sources))
            continue
        leaves = dict.fromkeys(_list_leaves(nodes[select.alias_or_name]))
        made[next(unnamed)] = _make_origin(leaves, select, columns, {each: sources.get(each) for each in known})
    return {**made, OTHERS: others}


def _list_leaves(root: Any) -> Iterator[_Leaf]:
    """Yield the columns of tables below a node of sqlglot's; a `*` has the name that is asked of it."""
    waiting, seen = [(root, OTHERS)], set[tuple[int, str]]()
    while waiting:
        node, asked = waiting.pop()
        if (id(node), asked) in seen:
            continue
        seen.add((id(node), asked))
        name = exp.to_column(node.name).name if node.name and node.name != "*" else asked
        if isinstance(node.expression, exp.Table):
            yield _Leaf(node.expression.name.casefold(), name)
        elif isinstance(node.expression, exp.Placeholder):
            yield _Leaf(None, name)
        waiting.extend((each, name) for each in reversed(node.downstream))


def _make_origin(
    leaves: Mapping[_Leaf, None], select: exp.Expr, columns: tuple[str, ...] | None, sources: Mapping[str, str | None]
) -> Origin:
    own, others = dict[str, None](), dict[SourceColumn, None]()
    for leaf in leaves:
        tables = [leaf.table] if leaf.table else list(sources)  # a name without a table may be of any
        for table in tables:
            if (source := sources.get(table)) is not None:
                others[SourceColumn(source, leaf.column)] = None
            elif table == ROWS and (columns is None or leaf.table or leaf.column in columns):
                own[leaf.column] = None
    if not (own or others) and select.find(exp.AggFunc, exp.Star):  # like count(*)
        return UNKNOWN_ORIGIN
    is_copy = len(own) == 1 and not others and isinstance(select.unalias(), exp.Column)
    return Origin(tuple(own), sources=tuple(others), is_copy=is_copy)


def _read_star(select: exp.Expr, scope: Any, sources: Mapping[str, str]) -> Origin:
    """Return what the columns of `*` or `alias.*` are made of: those of the same names."""
    if scope.set_operation_scopes:
        parts = [_read_star(select, each, sources) for each in scope.set_operation_scopes]
        return reduce(_add, parts)
    own, others = False, list[SourceColumn]()
    prefix = select.args["table"].name if isinstance(select, exp.Column) and select.args.get("table") else None
    chosen = [each for name, each in scope.sources.items() if prefix in (None, name)]
    for each in chosen:
        tree = each if isinstance(each, exp.Table) else each.expression
        for table in [tree] if isinstance(tree, exp.Table) else tree.find_all(exp.Table):
            name = table.name.casefold()
            own = own or name == ROWS
            if name in sources:
                others.append(SourceColumn(sources[name], OTHERS))
    return Origin((OTHERS,) if own else (), sources=tuple(others), is_copy=own and not others)


def _add(first: Origin, second: Origin) -> Origin:
    columns = tuple(dict.fromkeys((*first.columns, *second.columns)))
    sources = tuple(dict.fromkeys((*first.sources, *second.sources)))
    return Origin(columns, sources=sources, is_copy=bool(columns) and not sources)
