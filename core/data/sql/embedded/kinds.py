"""Kinds of types, as far as a statement shows them, and what Trino says of operators over them.

DuckDB casts text to the type of the other side where Trino refuses, and compares nested values without regard to the
nulls in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from core.data.columns import Column
from core.errors import BadInput

Columns = Mapping[str, str | None]
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
SIGNS: Mapping[type[exp.Expr], str] = {
    **{exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="},
    **{exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM"},
    **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||"},
}
NUMBERS = ("tinyint", "smallint", "integer", "int", "bigint", "real", "double", "decimal")
GROUPS = {**dict.fromkeys(NUMBERS, "number"), "timestamp": "time", "date": "time"}  # that are compared
TEXTS = (exp.Upper, exp.Lower, exp.Concat, exp.ConcatWs, exp.Substring, exp.Trim, exp.Replace, exp.TimeToStr)
WHOLE_NUMBERS = (exp.Count, exp.CountIf, exp.Length, exp.Year, exp.Month, exp.Day, exp.Extract, exp.RowNumber)
NESTED = ("array", "map", "row")


def list_kinds(columns: Iterable[Column]) -> dict[str, str | None]:
    """Return the kinds of columns by lower-case name; None for a name with more than one."""
    found: dict[str, str | None] = {}
    for column in columns:
        name, kind = column.name.lower(), column.type.partition("(")[0].partition(" ")[0].lower()
        found[name] = kind if found.get(name, kind) == kind else None
    return found


def check_operators(tree: exp.Expr, columns: Columns) -> None:
    """Refuse operators over types that Trino does not mix, and give comparisons of rows and arrays Trino's nulls.

    `columns` are the kinds of the columns of the tables that the statement reads.
    """
    known = {name: kind for name, kind in columns.items() if name not in _list_own_names(tree)}
    for node in list(tree.walk()):
        if isinstance(node, COMPARISONS):
            _check_comparison(node, known)
        elif isinstance(node, ARITHMETIC):
            _check_arithmetic(node, known)
        elif isinstance(node, exp.DPipe):
            _check_concatenation(node, known)
        elif isinstance(node, exp.In):
            _check_in(node, known)
        elif isinstance(node, exp.Between):
            for each in (node.args["low"], node.args["high"]):
                _check_pair(node.this, each, "BETWEEN", known)
        elif isinstance(node, exp.SetOperation):
            _check_set_operation(node, known)
        elif isinstance(node, exp.Coalesce):
            _check_same([node.this, *node.expressions], "COALESCE operands", known)
        elif isinstance(node, exp.Case):
            results = [each.args["true"] for each in node.args["ifs"]]
            _check_same([*results, node.args.get("default")], "CASE results", known)


def _list_own_names(tree: exp.Expr) -> set[str]:
    """Return the names that the statement itself gives to columns."""
    aliases = {node.alias.lower() for node in tree.find_all(exp.Alias)}
    return aliases | {each.name.lower() for node in tree.find_all(exp.TableAlias) for each in node.columns}


def _find_kind(node: exp.Expr | None, columns: Columns) -> str | None:
    """Return the name of the type without its parameters; None where the statement does not show it."""
    bare = node.unnest() if node is not None else None
    match bare:
        case exp.Literal():
            return "varchar" if bare.is_string else ("double" if "e" in bare.name.lower() else _name_number(bare.name))
        case exp.TryCast() | exp.Cast():
            return bare.to.sql("trino").partition("(")[0].partition(" ")[0].lower()
        case exp.Column():
            return columns.get(bare.name.lower())
        case exp.Neg():
            return _find_kind(bare.this, columns)
        case exp.Array():
            return "array"
        case exp.Map() | exp.MapFromEntries():
            return "map"
        case exp.Struct() | exp.Tuple():
            return "row"
        case exp.CurrentDate():
            return "date"
        case exp.Boolean() | exp.Connector() | exp.Not():
            return "boolean"
        case _ if isinstance(bare, TEXTS):
            return "varchar"
        case _ if isinstance(bare, WHOLE_NUMBERS):
            return "bigint"
        case _ if isinstance(bare, COMPARISONS):
            return "boolean"
        case _:
            return None


def _name_number(text: str) -> str:
    return "decimal" if "." in text else ("integer" if int(text) < 2**31 else "bigint")


def _check_pair(left: exp.Expr, right: exp.Expr, sign: str, columns: Columns) -> None:
    kinds = _find_kind(left, columns), _find_kind(right, columns)
    if not _fit(kinds):
        hint = ""
        if kinds[1] == "varchar" and kinds[0] in ("date", "timestamp") and isinstance(right.unnest(), exp.Literal):
            hint = f"; write {str(kinds[0]).upper()} '{right.unnest().name[:40]}'"
        raise BadInput(f"Cannot apply operator: {kinds[0]} {sign} {kinds[1]}{hint}.", code="TYPE_MISMATCH")


def _fit(kinds: Iterable[str | None]) -> bool:
    return len({GROUPS.get(kind, kind) for kind in kinds if kind is not None}) <= 1


def _check_comparison(node: exp.Binary, columns: Columns) -> None:
    left, right = node.this, node.expression
    if isinstance(right, exp.Any | exp.All) or isinstance(right.unnest(), exp.Query):
        return
    _check_pair(left, right, SIGNS[type(node)], columns)
    kinds = {_find_kind(left, columns), _find_kind(right, columns)}
    if not kinds & {*NESTED}:
        return
    if isinstance(node, exp.EQ | exp.NEQ):
        equal = _compare(left, right, kinds)
        if equal is not None:
            node.replace(equal if isinstance(node, exp.EQ) else exp.not_(equal))
            return
    ordered = _order(node) if isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE) else None
    if ordered is not None:
        node.replace(ordered)
        return
    raise BadInput(f"This engine does not have {SIGNS[type(node)]} of arrays, maps and rows.", code="unsupported-sql")


def _compare(left: exp.Expr, right: exp.Expr, kinds: set[str | None]) -> exp.Expr | None:
    """Return whether two arrays, or two rows that are written out, are equal: null where a null in them decides."""
    if "array" in kinds:
        return exp.Anonymous(this="trino_array_equal", expressions=[left.copy(), right.copy()])
    pairs = _pair_fields(left.unnest(), right.unnest())
    if pairs is None:
        return None
    return exp.paren(exp.and_(*(exp.EQ(this=one.copy(), expression=other.copy()) for one, other in pairs)))


def _order(node: exp.Binary) -> exp.Expr | None:
    """Return the comparison of two rows that are written out: by the first fields that differ."""
    pairs = _pair_fields(node.this.unnest(), node.expression.unnest())
    if pairs is None:
        return None
    strict = exp.GT if isinstance(node, exp.GT | exp.GTE) else exp.LT
    one, other = pairs[-1]
    found: exp.Expr = type(node)(this=one.copy(), expression=other.copy())
    for one, other in reversed(pairs[:-1]):
        before = strict(this=one.copy(), expression=other.copy())
        same = exp.EQ(this=one.copy(), expression=other.copy())
        found = exp.or_(before, exp.and_(same, found))
    return exp.paren(found)


def _pair_fields(left: exp.Expr, right: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]] | None:
    if not isinstance(left, exp.Tuple | exp.Struct) or not isinstance(right, exp.Tuple | exp.Struct):
        return None
    if len(left.expressions) != len(right.expressions):
        sizes = f"{len(left.expressions)} and {len(right.expressions)}"
        raise BadInput(f"Rows of {sizes} fields cannot be compared.", code="TYPE_MISMATCH")
    pairs = list(zip(left.expressions, right.expressions, strict=True))
    fields = [each.unnest() for pair in pairs for each in pair]
    nested = any(isinstance(each, exp.Tuple | exp.Struct | exp.Array | exp.Map) for each in fields)
    return None if nested else pairs


def _check_arithmetic(node: exp.Binary, columns: Columns) -> None:
    kinds = _find_kind(node.this, columns), _find_kind(node.expression, columns)
    dated = "date" in kinds and {*kinds} & {*NUMBERS}
    if "varchar" in kinds or dated:
        other = f"{kinds[0] or 'value'} {SIGNS[type(node)]} {kinds[1] or 'value'}"
        raise BadInput(f"Cannot apply operator: {other}.", code="TYPE_MISMATCH")


def _check_concatenation(node: exp.DPipe, columns: Columns) -> None:
    kinds = {_find_kind(node.this, columns), _find_kind(node.expression, columns)}
    if "varchar" in kinds and (wrong := kinds & {*NUMBERS, "date", "timestamp", "boolean"}):
        sentence = f"Cannot apply operator: varchar || {wrong.pop()}; write CAST(value AS varchar)."
        raise BadInput(sentence, code="TYPE_MISMATCH")


def _check_in(node: exp.In, columns: Columns) -> None:
    for each in node.expressions:
        _check_pair(node.this, each, "IN", columns)
    kind = _find_kind(node.this, columns)
    if kind in ("array", "map"):
        raise BadInput(f"This engine does not have IN of a {kind}.", code="unsupported-sql")
    if kind == "row" and node.expressions:
        equal = [_compare(node.this, each, {"row"}) for each in node.expressions]
        known = [each for each in equal if each is not None]
        if len(known) < len(equal):
            raise BadInput("This engine does not have IN of such rows.", code="unsupported-sql")
        node.replace(exp.paren(exp.or_(*known)))


def _check_set_operation(node: exp.SetOperation, columns: Columns) -> None:
    sides = [each.unnest() for each in (node.this, node.expression)]
    for one, other in zip(*(each.selects if isinstance(each, exp.Select) else [] for each in sides), strict=False):
        _check_same([one.unalias(), other.unalias()], f"columns of {node.key.upper()}", columns)


def _check_same(nodes: Iterable[exp.Expr | None], what: str, columns: Columns) -> None:
    kinds = [_find_kind(each, columns) for each in nodes]
    if not _fit(kinds):
        names = " and ".join(dict.fromkeys(kind for kind in kinds if kind is not None))
        sentence = f"All {what} must be the same type or coercible to a common type; here are {names}."
        raise BadInput(sentence, code="TYPE_MISMATCH")
