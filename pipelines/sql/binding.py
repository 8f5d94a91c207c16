"""Names and types of a statement by Trino's rules: the columns and the types of expressions.

A type is None where the statement and its tables do not show it; rules that need a type then let the expression pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.column_names import UNNAMED
from pipelines.sql.gate import find_references
from pipelines.sql.names import TableName
from pipelines.sql.operators import Operators
from pipelines.sql.scopes import FromItem, Output, Scope, find_field
from pipelines.sql.signatures import Signature, load_signatures, substitute
from pipelines.sql.statement import LITERAL_DIGITS
from pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    UNKNOWN,
    Type,
    convert_type,
    find_common,
    has_months,
)

CLAUSES = ("where", "having", "qualify")
Ctes = Mapping[str, "Output | None"]


class Binder:
    """Finds the types of all expressions of one statement; `types` has them by the id of the node."""

    def __init__(self, tree: exp.Expr, tables: Mapping[TableName, Output | None]) -> None:
        self.types: dict[int, Type | None] = {}
        self._tables = {id(node): tables.get(name) for node, name in find_references(tree)}
        self._operators = Operators(self.find_type)
        self._check_answer(self._bind_query(tree, None, {}))

    def _check_answer(self, output: Output | None) -> None:
        """Refuse columns whose values DuckDB would not give as Trino does."""
        for name, type in output or ():
            if type is not None and has_months(type):
                sentence = f"This engine does not have intervals of years and months in an answer, as in {name}"
                raise SqlError(f"{sentence}; add it to a date.", code="unsupported-sql")

    def find_type(self, node: exp.Expr | None) -> Type | None:
        return self.types.get(id(node)) if node is not None else UNKNOWN

    def _bind_query(self, node: exp.Expr, outer: Scope | None, ctes: Ctes) -> Output | None:
        """Bind a query and return its columns."""
        ctes = self._bind_ctes(node, outer, ctes)
        match node:
            case exp.Select():
                return self._bind_select(node, outer, ctes)
            case exp.SetOperation():
                return self._bind_set_operation(node, outer, ctes)
            case exp.Values():
                return self._bind_values(node, outer, ctes)
            case exp.Subquery():
                output = self._bind_query(node.this, outer, ctes)
                self._bind_order(node, Scope(outer, [FromItem("", output)]), ctes)
                return output
            case exp.Table():
                return self._find_table(node, ctes)
            case _:
                return None

    def _bind_ctes(self, node: exp.Expr, outer: Scope | None, ctes: Ctes) -> Ctes:
        with_ = node.args.get("with_")
        if not isinstance(with_, exp.With):
            return ctes
        known = dict(ctes)
        for cte in with_.expressions:
            name, query = cte.alias_or_name.lower(), cte.this
            if with_.args.get("recursive") and isinstance(query, exp.SetOperation):
                first = self._bind_query(query.this, outer, known)
                known[name] = _rename(first, cte)
            known[name] = _rename(self._bind_query(query, outer, known), cte)
        return known

    def _bind_select(self, node: exp.Select, outer: Scope | None, ctes: Ctes) -> Output | None:
        scope = Scope(outer)
        from_ = node.args.get("from_")
        for each in [from_.this] if from_ else []:
            self._bind_source(each, scope, ctes)
        for each in node.args.get("joins") or ():
            self._bind_join(each, scope, ctes)
        for each in node.args.get("laterals") or ():
            self._bind_source(each, scope, ctes)
        for clause in CLAUSES:
            if node.args.get(clause) is not None:
                self._bind_condition(node.args[clause].this, scope, ctes, f"{clause.upper()} clause")
        for each in node.expressions:
            self._bind(each, scope, ctes)
        for each in node.args.get("windows") or ():
            self._bind_children(each, scope, ctes)
        output = self._list_output(node, scope)
        aliases = {each.alias.lower(): self.find_type(each) for each in node.expressions if each.alias}
        ordering = Scope(scope, names=aliases)
        group = node.args.get("group")
        if group is not None:
            self._bind_children(group, scope, ctes)
        self._bind_order(node, ordering, ctes)
        self._operators.check_order(node)
        return output

    def _bind_order(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> None:
        for clause in ("order", "limit", "offset"):
            if node.args.get(clause) is not None:
                self._bind_children(node.args[clause], scope, ctes)

    def _list_output(self, node: exp.Select, scope: Scope) -> Output | None:
        output: list[tuple[str, Type | None]] = []
        for position, each in enumerate(node.expressions):
            if each.is_star:
                table = each.table.lower() if isinstance(each, exp.Column) else ""
                sources = [source for source in scope.sources if not table or source.name == table]
                if scope.joined or any(source.columns is None for source in sources):
                    return None
                output += [column for source in sources for column in source.columns or ()]
            else:
                output.append(((each.alias_or_name or f"{UNNAMED}{position}").lower(), self.find_type(each)))
        return output

    def _bind_set_operation(self, node: exp.SetOperation, outer: Scope | None, ctes: Ctes) -> Output | None:
        left, right = (self._bind_query(each, outer, ctes) for each in (node.this, node.expression))
        output = left
        if left is not None and right is not None:
            if len(left) != len(right):
                sentence = f"{node.key.upper()} query has different number of fields: {len(left)}, {len(right)}."
                raise SqlError(sentence, code="TYPE_MISMATCH")
            pairs = [(one[1], other[1]) for one, other in zip(left, right, strict=True)]
            common = [self._operators.require_common(pair, f"columns of {node.key.upper()}") for pair in pairs]
            output = [(name, type) for (name, _), type in zip(left, common, strict=True)]
        self._bind_order(node, Scope(outer, [FromItem("", output)]), ctes)
        return output

    def _bind_values(self, node: exp.Values, outer: Scope | None, ctes: Ctes) -> Output:
        scope = Scope(outer)
        for row in node.expressions:
            self._bind(row, scope, ctes)
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        if len({len(row) for row in rows}) > 1:
            raise SqlError("Values rows have mismatched sizes.", code="TYPE_MISMATCH")
        columns = zip(*rows, strict=True)
        types = [self._operators.require_common(map(self.find_type, each), "columns of VALUES") for each in columns]
        return [(f"{UNNAMED}{position}", type) for position, type in enumerate(types)]

    def _bind_source(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> None:
        match node:
            case exp.Table():
                scope.sources.append(FromItem(node.alias_or_name.lower(), _rename(self._find_table(node, ctes), node)))
            case exp.Subquery() if isinstance(node.this, exp.Table | exp.Subquery) and not node.alias:
                self._bind_source(node.this, scope, ctes)
            case exp.Lateral():
                if isinstance(node.this, exp.Unnest):
                    self._bind_unnest(node.this, node, scope, ctes)
                else:
                    output = self._bind_query(node.this, scope, ctes)
                    scope.sources.append(FromItem(node.alias_or_name.lower(), _rename(output, node)))
            case exp.Unnest():
                self._bind_unnest(node, node, scope, ctes)
            case _:
                output = self._bind_query(node, scope.outer, ctes)
                scope.sources.append(FromItem(node.alias_or_name.lower(), _rename(output, node)))
        for each in node.args.get("joins") or ():
            self._bind_join(each, scope, ctes)

    def _bind_unnest(self, node: exp.Unnest, named: exp.Expr, scope: Scope, ctes: Ctes) -> None:
        columns: list[tuple[str, Type | None]] | None = []
        for each in node.expressions:
            type = self._bind(each, scope, ctes)
            if type is None or type.name not in ("array", "map"):
                columns = None
                break
            item = type.items[0]
            if type.name == "array" and item is not None and item.name == "row" and item.items:
                names = item.fields or ("",) * len(item.items)
                columns += [(name.lower(), each) for name, each in zip(names, item.items, strict=True)]
            else:
                columns += [("", each) for each in type.items]
        if columns is not None and node.args.get("offset"):
            columns.append((_name(node.args["offset"]), BIGINT))
        scope.sources.append(FromItem(named.alias_or_name.lower(), _rename(columns, named)))

    def _bind_join(self, node: exp.Join, scope: Scope, ctes: Ctes) -> None:
        self._bind_source(node.this, scope, ctes)
        scope.joined.update(each.name.lower() for each in node.args.get("using") or ())
        if node.args.get("on") is not None:
            self._bind_condition(node.args["on"], scope, ctes, "JOIN ON clause")

    def _find_table(self, node: exp.Table, ctes: Ctes) -> Output | None:
        name = node.name.lower()
        return ctes[name] if not node.db and name in ctes else self._tables.get(id(node))

    def _bind_condition(self, node: exp.Expr, scope: Scope, ctes: Ctes, what: str) -> None:
        self._operators.require_boolean(self._bind(node, scope, ctes), what)

    def _bind_children(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> None:
        for child in node.iter_expressions():
            self._bind(child, scope, ctes)

    def _bind(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> Type | None:
        """Bind an expression and all within it; return its type."""
        type = self._find(node, scope, ctes)
        self.types[id(node)] = type
        return type

    def _find(self, node: exp.Expr, scope: Scope, ctes: Ctes) -> Type | None:
        match node:
            case exp.Column():
                return None if node.is_star else scope.find_column(node)
            case exp.Identifier():
                return scope.find_name(node.name)
            case exp.Subquery() | exp.Select() | exp.SetOperation() | exp.Values():
                output = self._bind_query(node, scope, ctes)
                return output[0][1] if output is not None and len(output) == 1 else None
            case exp.Anonymous():
                return self._bind_call(node, scope, ctes)
            case exp.Lambda():
                return self._bind(node.this, Scope(scope, names={_name(each): None for each in node.expressions}), ctes)
            case exp.Dot():
                row = self._bind(node.this, scope, ctes)
                return find_field(row, node.expression.name)
            case exp.Exists():
                self._bind_query(node.this, scope, ctes)
                return BOOLEAN
            case exp.In() if node.args.get("query") is not None:
                self._bind(node.this, scope, ctes)
                self._bind(node.args["query"], scope, ctes)
                return BOOLEAN
            case exp.Cast():
                self._bind(node.this, scope, ctes)
                self._operators.check_cast(node)
                type, digits = convert_type(node.to), node.meta_get(LITERAL_DIGITS)
                return type if type is None or digits is None else replace(type, digits=digits)
            case exp.DataType() | exp.DataTypeParam() | exp.Var():
                return None
            case _:
                self._bind_children(node, scope, ctes)
                return self._operators.find_result(node)

    def _bind_call(self, node: exp.Anonymous, scope: Scope, ctes: Ctes) -> Type | None:
        name = node.name.lower()
        signatures = load_signatures().get(name)
        if signatures is None:
            raise SqlError(
                f"This engine does not have the function {name}; it runs on Trino only.", code="unsupported-sql"
            )
        for each in node.expressions:
            if not isinstance(each, exp.Lambda):
                self._bind(each, scope, ctes)
        for signature in signatures:
            bound: dict[str, Type | None] = {}
            lambdas = _find_lambdas(node, signature)
            types = [self.find_type(each) for each in node.expressions]
            if lambdas is None or not signature.match(types, bound):
                continue
            for lambda_, pattern in lambdas:
                items = [substitute(item, bound, types) if item else None for item in pattern.items]
                names = dict(zip(map(_name, lambda_.expressions), items, strict=False))
                type = self._bind(lambda_.this, Scope(scope, names=names), ctes)
                result = pattern.items[-1]
                if result is not None and len(result.name) == 1:
                    _, bound[result.name] = find_common([bound.get(result.name, UNKNOWN), type])
            return _make_row(types) if name == "row" else substitute(signature.result, bound, types)
        if name in ("coalesce", "nullif"):
            self._operators.require_common(map(self.find_type, node.expressions), f"{name.upper()} operands")
        given = ", ".join(_describe(self.find_type(each), each) for each in node.expressions)
        known = "; ".join(each.text for each in signatures)
        raise SqlError(f"Unexpected parameters ({given}) for function {name}. Here are: {known}.",
                       code="FUNCTION_NOT_FOUND")  # fmt: skip


def _find_lambdas(node: exp.Anonymous, signature: Signature) -> list[tuple[exp.Lambda, Type]] | None:
    """Return the lambdas of a call with their patterns; null where others are expected."""
    found: list[tuple[exp.Lambda, Type]] = []
    for each, pattern in zip(node.expressions, signature.arguments, strict=False):
        if isinstance(each, exp.Lambda) is not (pattern.name == "function"):
            return None
        if isinstance(each, exp.Lambda):
            if len(each.expressions) != len(pattern.items) - 1:
                return None
            found.append((each, pattern))
    return found


def _make_row(types: Sequence[Type | None]) -> Type:
    return Type("row", tuple(types), ("",) * len(types))


def _describe(type: Type | None, node: exp.Expr) -> str:
    return "function" if isinstance(node, exp.Lambda) else str(type or "?")


def _name(node: Any) -> str:
    return str(node.name if isinstance(node, exp.Expr) else node).lower()


def _rename(output: Output | None, named: exp.Expr) -> Output | None:
    """Return columns with the names that an alias gives them."""
    alias = named.args.get("alias")
    names = [each.name.lower() for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if output is None or not names:
        return output
    rest = output[len(names) :]
    return [*((name, type) for name, (_, type) in zip(names, output, strict=False)), *rest]
