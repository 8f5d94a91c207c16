"""Comparisons of arrays and rows with Trino's nulls, which DuckDB takes for values, and of numbers with its NaN."""

from __future__ import annotations

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.floats import FLOATS, TYPE, FindType, is_condition, is_nan, may_be_nan, rewrite_nan
from pipelines.sql.operators import COMPARISONS, SIGNS
from pipelines.sql.types import DATE, Type

NESTED = ("array", "map", "row")
NULL_FIELDS = "ROW comparison not supported for fields with null elements"


def rewrite_comparisons(tree: exp.Expr, find_type: FindType) -> None:
    """Compare numbers, arrays and rows as Trino does, or refuse it by name."""
    for node in tree.walk():
        if (type := find_type(node)) is not None:
            node.meta[TYPE] = type
    for node in reversed(list(tree.walk())):
        if isinstance(node, COMPARISONS):
            _rewrite_comparison(node, _get_type)
            continue
        for comparison in rewrite_nan(node, _get_type):
            _rewrite_comparison(comparison, _get_type)
        if isinstance(node, exp.In):
            _rewrite_in(node, _get_type)
        elif isinstance(node, exp.Anonymous) and node.name.lower() == "sequence":
            _add_step(node)


def _get_type(node: exp.Expr | None) -> Type | None:
    return node.meta.get(TYPE) if node is not None else None


def _add_step(node: exp.Anonymous) -> None:
    """A sequence of dates without a step counts days, up or down."""
    type = _get_type(node)
    if type != Type("array", (DATE,)) or len(node.expressions) != 2:
        return
    start, end = node.expressions
    up, down = (
        exp.Anonymous(
            this=node.this,
            expressions=[start.copy(), end.copy(), exp.Interval(this=exp.Literal.string(days), unit=exp.var("DAY"))],
        )
        for days in ("1", "-1")
    )
    rises = exp.LTE(this=start.copy(), expression=end.copy())
    node.replace(exp.Case(ifs=[exp.If(this=rises, true=up)], default=down))


def _name_type(node: exp.Expr, find_type: FindType) -> str | None:
    type = find_type(node)
    return type.name if type is not None else None


def _rewrite_comparison(node: exp.Expr, find_type: FindType) -> None:
    left, right = node.this, node.expression
    if isinstance(right, exp.Any | exp.All) or isinstance(right.unnest(), exp.Query):
        return
    names = {_name_type(each, find_type) for each in (left, right)}
    if not names & {*NESTED}:
        if names & {*FLOATS}:
            _rewrite_floats(node, find_type)
        return
    if isinstance(node, exp.EQ | exp.NEQ):
        equal = _compare(left, right, names)
        if equal is not None:
            node.replace(equal if isinstance(node, exp.EQ) else exp.not_(equal))
            return
    ordered = _order(node) if isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE) else None
    if ordered is not None:
        node.replace(ordered)
        return
    raise SqlError(f"This engine does not have {SIGNS[type(node)]} of arrays, maps and rows.", code="unsupported-sql")


def _rewrite_floats(node: exp.Expr, find_type: FindType) -> None:
    """NaN equals nothing, and is neither smaller nor greater; DuckDB takes it for the greatest number."""
    sides = [node.this, node.expression]
    uncertain = [each for each in sides if may_be_nan(each, find_type)]
    if isinstance(node, exp.EQ | exp.NEQ):
        checked = uncertain[0] if len(uncertain) == 2 else None
    else:
        greater = sides[0] if isinstance(node, exp.GT | exp.GTE) else sides[1]
        checked = greater if greater in uncertain and isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE) else None
    if checked is None:
        return
    other = sides[1] if checked is sides[0] else sides[0]
    unknown = is_nan(checked)
    if isinstance(node, exp.NEQ):
        made: exp.Expr = exp.or_(
            node.copy(), exp.and_(unknown, exp.Is(this=other.copy(), expression=exp.Null()).not_())
        )
    elif isinstance(node.parent, exp.Where | exp.And):  # where null and false are the same, and readers skip by bounds
        made = exp.and_(node.copy(), exp.not_(unknown))
    else:
        unequal = exp.NEQ(this=other.copy(), expression=other.copy())
        made = exp.Case(ifs=[exp.If(this=unknown, true=unequal)], default=node.copy())
    node.replace(exp.paren(made))


def _compare(left: exp.Expr, right: exp.Expr, names: set[str | None]) -> exp.Expr | None:
    """Return whether two arrays, or two rows that are written out, are equal: null where a null in them decides."""
    if "array" in names:
        return exp.Anonymous(this="trino_array_equal", expressions=[left.copy(), right.copy()])
    pairs = _pair_fields(left.unnest(), right.unnest())
    if pairs is None:
        return None
    return exp.paren(exp.and_(*(exp.EQ(this=one.copy(), expression=other.copy()) for one, other in pairs)))


def _order(node: exp.Expr) -> exp.Expr | None:
    """Return the comparison of two rows that are written out: by the first fields that differ."""
    pairs = _pair_fields(node.this.unnest(), node.expression.unnest())
    if pairs is None:
        return None
    strict = exp.GT if isinstance(node, exp.GT | exp.GTE) else exp.LT
    one, other = pairs[-1]
    found: exp.Expr = _check_nulls(one, other, type(node)(this=one.copy(), expression=other.copy()))
    for one, other in reversed(pairs[:-1]):
        same = exp.EQ(this=one.copy(), expression=other.copy())
        before = strict(this=one.copy(), expression=other.copy())
        found = _check_nulls(one, other, exp.Case(ifs=[exp.If(this=same, true=found)], default=before))
    return exp.paren(found)


def _check_nulls(one: exp.Expr, other: exp.Expr, found: exp.Expr) -> exp.Expr:
    """Return a comparison of fields that fails where it is reached and one of them is null."""
    nulls = exp.or_(*(exp.Is(this=each.copy(), expression=exp.Null()) for each in (one, other)))
    error = exp.Anonymous(this="trino_raise", expressions=[exp.Literal.string(NULL_FIELDS)])
    return exp.Case(ifs=[exp.If(this=nulls, true=error)], default=found)


def _pair_fields(left: exp.Expr, right: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]] | None:
    if not _is_row(left) or not _is_row(right):
        return None
    if len(left.expressions) != len(right.expressions):
        sizes = f"{len(left.expressions)} and {len(right.expressions)}"
        raise SqlError(f"Rows of {sizes} fields cannot be compared.", code="TYPE_MISMATCH")
    pairs = list(zip(left.expressions, right.expressions, strict=True))
    fields = [each.unnest() for pair in pairs for each in pair]
    nested = any(_is_row(each) or isinstance(each, exp.Array) for each in fields)
    return None if nested else pairs


def _is_row(node: exp.Expr) -> bool:
    return isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.lower() == "row")


def _rewrite_in(node: exp.In, find_type: FindType) -> None:
    name = _name_type(node.this, find_type)
    if name in ("array", "map"):
        raise SqlError(f"This engine does not have IN of a {name}.", code="unsupported-sql")
    if name == "row" and node.args.get("query") is not None and not is_condition(node):
        sentence = "This engine does not have IN of a row and a query but as a condition of WHERE; use EXISTS."
        raise SqlError(sentence, code="unsupported-sql")
    if name == "row" and node.expressions:
        equal = [_compare(node.this, each, {"row"}) for each in node.expressions]
        known = [each for each in equal if each is not None]
        if len(known) < len(equal):
            raise SqlError("This engine does not have IN of such rows.", code="unsupported-sql")
        node.replace(exp.paren(exp.or_(*known)))
