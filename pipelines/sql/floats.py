"""NaN as Trino has it: equal to nothing, and neither the greatest nor the least number beside others.

DuckDB takes it for the greatest number, which equals itself.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from pipelines.sql.types import Type

FLOATS = ("double", "real")
TYPE = "trino_type"  # in the meta data of a node, which copies keep
FindType = Callable[[exp.Expr | None], Type | None]


def rewrite_nan(node: exp.Expr, find_type: FindType) -> list[exp.Expr]:
    """Rewrite an expression of floating point numbers, and return the comparisons that it is made of now."""
    match node:
        case exp.Between() if is_float(node.this, find_type):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            node.replace(exp.paren(exp.and_(low, high, copy=False), copy=False))
            return [low, high]
        case exp.Case() if node.this is not None and is_float(node.this, find_type):
            value, ifs = node.this, node.args["ifs"]
            for each in ifs:
                each.set("this", exp.EQ(this=value.copy(), expression=each.this.copy()))
            node.set("this", None)
            return [each.this for each in ifs]
        case exp.In() if may_be_nan(node.this, find_type):
            _rewrite_in(node)
        case exp.Anonymous() if is_float(node, find_type):
            return _rewrite_call(node)
        case _:
            pass
    return []


def is_float(node: exp.Expr | None, find_type: FindType) -> bool:
    type = find_type(node)
    return type is not None and type.name in FLOATS


def may_be_nan(node: exp.Expr | None, find_type: FindType) -> bool:
    if node is None:
        return False
    bare = node.unnest()
    bare = bare.this if isinstance(bare, exp.Neg) else bare
    return is_float(node, find_type) and not isinstance(bare, exp.Literal)


def is_nan(node: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="isnan", expressions=[node.copy()])


def _rewrite_call(node: exp.Anonymous) -> list[exp.Expr]:
    name, arguments = node.name.lower(), node.expressions
    if name == "nullif":
        equal = exp.EQ(this=arguments[0].copy(), expression=arguments[1].copy())
        _replace(node, exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=arguments[0].copy()), node)
        return [equal]
    if name == "greatest":
        least = exp.Anonymous(this="least", expressions=[_negate(each.copy()) for each in arguments])
        _replace(node, _negate(least), node)
    if name == "max" and len(arguments) == 1:
        _rewrite_max(node)
    return []


def _rewrite_max(node: exp.Anonymous) -> None:
    """The greatest number is the negative of the least negative one, which is NaN only if all numbers are."""
    (argument,) = node.expressions
    value = argument.expressions[0] if isinstance(argument, exp.Distinct) else argument
    least = exp.Anonymous(this="min", expressions=[_negate(value.copy())])
    whole: exp.Expr = node.replace(least)
    while isinstance(whole.parent, exp.Filter | exp.Window) and whole.arg_key == "this":
        whole = whole.parent
    _replace(whole, _negate(whole.copy()), node)


def _replace(node: exp.Expr, made: exp.Expr, typed: exp.Expr) -> None:
    """Replace a node by one that has the type of another."""
    made.meta[TYPE] = typed.meta.get(TYPE)
    node.replace(made)


def _negate(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Neg(this=exp.paren(node, copy=False)), copy=False)


def _rewrite_in(node: exp.In) -> None:
    """NaN is in no list; whether it is in one with nulls is unknown.

    Trino finds NaN among the rows of a subquery, as DuckDB does, but not in a condition that it turns into a join.
    """
    if is_condition(node):  # where null and false are the same, and readers skip by bounds
        node.replace(exp.paren(exp.and_(node.copy(), exp.not_(is_nan(node.this)))))
        return
    if node.args.get("query") is not None:
        return
    items = [each for each in node.expressions if not isinstance(each.unnest(), exp.Literal)]
    nulls = [exp.Is(this=each.copy(), expression=exp.Null()) for each in items]
    absent: exp.Expr = exp.false()
    if nulls:
        absent = exp.Case(ifs=[exp.If(this=exp.or_(*nulls), true=exp.Null())], default=absent)
    node.replace(exp.paren(exp.Case(ifs=[exp.If(this=is_nan(node.this), true=absent)], default=node.copy())))


def is_condition(node: exp.Expr) -> bool:
    """Return whether rows are kept only where this is true."""
    parent = node.parent
    while isinstance(parent, exp.And | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Where)
