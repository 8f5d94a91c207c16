"""The syntax that the embedded engine accepts: the nodes of a statement's tree with their clauses.

The parser takes more than Trino does, and DuckDB would run much of it; all else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipelines.errors import SqlError

MAX_SHOWN = 60
BINARY = (
    *(exp.Add, exp.Sub, exp.Mul, exp.And, exp.Or, exp.DPipe, exp.Mod, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT),
    *(exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Dot, exp.Escape, exp.Is),
)
UNARY = (exp.All, exp.Any, exp.Exists, exp.From, exp.Having, exp.HexString, exp.IgnoreNulls, exp.RespectNulls, exp.Neg,
         exp.Not, exp.Paren, exp.UnicodeString, exp.Var, exp.Where, exp.DataTypeParam)  # fmt: skip
LISTS = (exp.Array, exp.Cube, exp.Distinct, exp.GroupingSets, exp.Rollup, exp.Tuple, exp.Group)
SYNTAX: Mapping[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys(BINARY, frozenset({"this", "expression"})),
    **dict.fromkeys(UNARY, frozenset({"this"})),
    **dict.fromkeys(LISTS, frozenset({"expressions"})),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp, exp.Null, exp.Star), frozenset()),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.AtTimeZone: frozenset({"this", "zone"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Boolean: frozenset({"this"}),
    exp.Bracket: frozenset({"this", "expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.ColumnDef: frozenset({"this", "kind"}),
    exp.DataType: frozenset({"this", "expressions", "nested"}),
    exp.Div: frozenset({"this", "expression", "typed"}),
    exp.Except: frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"}),
    exp.Extract: frozenset({"this", "expression"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.Filter: frozenset({"this", "expression"}),
    exp.GroupConcat: frozenset({"this", "separator"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Intersect: frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Join: frozenset({"this", "on", "kind", "side", "using"}),
    exp.Lambda: frozenset({"this", "expressions"}),
    exp.Lateral: frozenset({"this", "alias"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.Limit: frozenset({"expression"}),
    exp.LimitOptions: frozenset({"rows", "with_ties"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Offset: frozenset({"expression"}),
    exp.Order: frozenset({"this", "expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Select: frozenset(
        {
            *("expressions", "from_", "joins", "laterals", "where", "group", "having", "distinct", "windows", "order"),
            *("limit", "offset", "with_"),
        }
    ),
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.Subquery: frozenset({"this", "alias", "joins", "order", "limit", "offset", "with_"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Trim: frozenset({"this", "position", "expression"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
    exp.Union: frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"}),
    exp.Unnest: frozenset({"expressions", "alias", "offset"}),
    exp.Values: frozenset({"expressions", "alias", "order", "limit", "offset", "with_"}),
    exp.Window: frozenset({"this", "over", "order", "spec", "partition_by", "alias"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.With: frozenset({"expressions", "recursive"}),
    exp.WithinGroup: frozenset({"this", "expression"}),
}
JOINS = ("", "INNER", "CROSS", "OUTER")
FIELDS = frozenset(  # of EXTRACT
    {
        *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAY_OF_MONTH", "DAY_OF_WEEK", "DOW", "DAY_OF_YEAR", "DOY"),
        *("YEAR_OF_WEEK", "YOW", "HOUR", "MINUTE", "SECOND"),
    }
)
UNITS = frozenset({"SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"})  # of intervals


def check_syntax(tree: exp.Expr) -> None:
    """Raise SqlError for syntax that is not listed."""
    for node in tree.walk():
        clauses = SYNTAX.get(type(node))
        if clauses is None:
            raise _refuse(_describe(node))
        for clause, value in node.args.items():
            if clause not in clauses and value not in (None, False, [], ""):
                raise _refuse(f"{clause.strip('_').upper()} in {_describe(node)}")
        if not _is_listed(node):
            raise _refuse(_describe(node))


def _is_listed(node: exp.Expr) -> bool:
    match node:
        case exp.Is():
            return isinstance(node.expression, exp.Null)
        case exp.Join():
            return str(node.args.get("kind") or "").upper() in JOINS
        case exp.Extract():
            return node.name.upper() in FIELDS
        case exp.Interval():
            return node.unit is not None and node.unit.name.upper() in UNITS and isinstance(node.this, exp.Literal)
        case exp.Unnest():
            return isinstance(node.parent, exp.From | exp.Join | exp.Lateral | exp.Table)
        case exp.Distinct():
            return not (isinstance(node.parent, exp.Order) and len(node.expressions) > 1)
        case _:
            return True


def _describe(node: exp.Expr) -> str:
    try:
        text = " ".join(node.sql("trino").split())
    except SqlglotError:
        return node.key.upper()
    return f"{text[:MAX_SHOWN]}{'…' if len(text) > MAX_SHOWN else ''} ({node.key.upper()})"


def _refuse(what: str) -> SqlError:
    return SqlError(f"This engine does not have {what}.", code="unsupported-sql")


def call(name: str, *arguments: exp.Expr | None) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments if each is not None])


def refuse(what: str) -> SqlError:
    return SqlError(f"This engine does not have {what}.", code="unsupported-sql")
