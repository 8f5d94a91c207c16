"""Operators by the types of their operands: the types that Trino mixes, and the type of the result.

DuckDB casts text to the type of the other side where Trino refuses, takes numbers for conditions, and compares nested
values without regard to the nulls in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MOMENT,
    NUMBERS,
    TIMES,
    TIMESTAMP,
    UNKNOWN,
    VARCHAR,
    Type,
    add_interval,
    convert_type,
    find_common,
    name_interval,
)

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
SIGNS: Mapping[type[exp.Expr], str] = {
    **{exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="},
    **{exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM"},
    **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||"},
}
MAX_INTEGER = 2**31 - 1
SIGNED = (*NUMBERS, "unknown", "interval day to second", "interval year to month")
# the types that a value may be cast to
CASTS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(NUMBERS, frozenset({*NUMBERS, "boolean", "varchar", "json"})),
    "boolean": frozenset({*NUMBERS, "boolean", "varchar", "json"}) - {"decimal"},
    "varchar": frozenset({*NUMBERS, *TIMES, "boolean", "varchar", "json", "time", "uuid"}),
    "date": frozenset({*TIMES, "varchar", "json"}),
    "timestamp": frozenset({*TIMES, "varchar", "time", "json"}),
    "timestamp with time zone": frozenset({*TIMES, "time"}),
    "time": frozenset({"time", "varchar"}),
    "json": frozenset({*NUMBERS, "boolean", "varchar", "json", "array", "map", "row"}),
    "array": frozenset({"array", "json"}),
    "map": frozenset({"map", "json"}),
    "row": frozenset({"row", "json"}),
    "varbinary": frozenset({"varbinary"}),
    "uuid": frozenset({"uuid", "varchar"}),
    "interval day to second": frozenset({"interval day to second"}),
    "interval year to month": frozenset({"interval year to month"}),
}


class Operators:
    """The checks and the results of operators. Raises SqlError for types that Trino does not mix."""

    def __init__(self, find_type: Callable[[exp.Expr | None], Type | None]) -> None:
        self._find_type = find_type

    def find_result(self, node: exp.Expr) -> Type | None:
        """Check an operator whose operands have types, and return the type of its result."""
        match node:
            case exp.Literal():
                return VARCHAR if node.is_string else _name_number(node.name)
            case exp.Null():
                return UNKNOWN
            case exp.Boolean():
                return BOOLEAN
            case exp.HexString():
                return Type("varbinary")
            case exp.Paren() | exp.Alias() | exp.Neg() | exp.Filter() | exp.IgnoreNulls() | exp.RespectNulls():
                return self._find_unary(node)
            case exp.Distinct():
                return self._find_type(node.expressions[0])
            case exp.Order() | exp.Ordered() | exp.Window() | exp.WithinGroup():
                return self._find_type(node.this)
            case exp.And() | exp.Or() | exp.Not():
                for each in node.iter_expressions():
                    self.require_boolean(self._find_type(each), "operand of " + node.key.upper())
                return BOOLEAN
            case exp.If():
                return self._find_if(node)
            case exp.Case():
                return self._find_case(node)
            case exp.Between():
                self._check_pairs(node.this, (node.args["low"], node.args["high"]), "BETWEEN")
                return BOOLEAN
            case exp.In():
                self._check_pairs(node.this, node.expressions, "IN")
                return BOOLEAN
            case exp.Like() | exp.Is() | exp.Escape():
                return BOOLEAN
            case exp.DPipe():
                return self._find_concatenation(node)
            case exp.Array():
                return Type("array", (self.require_common(map(self._find_type, node.expressions), "elements"),))
            case exp.Tuple():
                return Type("row", tuple(map(self._find_type, node.expressions)), ("",) * len(node.expressions))
            case exp.Bracket():
                return self._find_element(node)
            case exp.Interval():
                return name_interval(node.unit.name if node.unit else "")
            case exp.AtTimeZone():
                return MOMENT
            case exp.CurrentDate():
                return DATE
            case exp.CurrentTimestamp():
                return MOMENT
            case exp.Localtimestamp():
                return TIMESTAMP
            case exp.Extract() | exp.StrPosition():
                return BIGINT
            case exp.Trim() | exp.Substring() | exp.GroupConcat():
                return VARCHAR
            case _ if isinstance(node, COMPARISONS):
                self._check_comparison(node)
                return BOOLEAN
            case _ if isinstance(node, ARITHMETIC):
                return self._find_arithmetic(node)
            case _:
                return None

    def require_boolean(self, type: Type | None, what: str) -> None:
        if type not in (None, UNKNOWN, BOOLEAN):
            raise SqlError(f"{what} must evaluate to a boolean (actual: {type}).", code="TYPE_MISMATCH")

    def require_common(self, types: Iterable[Type | None], what: str) -> Type | None:
        given = list(types)
        fits, common = find_common(given)
        if not fits:
            names = " and ".join(dict.fromkeys(str(each) for each in given if each is not None))
            sentence = f"All {what} must be the same type or coercible to a common type; here are {names}."
            raise SqlError(sentence, code="TYPE_MISMATCH")
        return common

    def check_cast(self, node: exp.Cast) -> None:
        """Refuse casts between types that Trino does not have, and those that the embedded engine does not have."""
        source, target = self._find_type(node.this), convert_type(node.to)
        if target is None or source in (None, UNKNOWN):
            return
        if target.name not in CASTS.get(source.name, frozenset()):
            raise SqlError(f"Cannot cast {source} to {target} here.", code="TYPE_MISMATCH")

    def check_order(self, node: exp.Select) -> None:
        """Refuse expressions of ORDER BY that Trino does not take."""
        order = node.args.get("order")
        if order is None:
            return
        outputs = {each.alias_or_name.lower(): each.unalias() for each in node.expressions}
        sources = {each.name.lower() for each in node.find_all(exp.Column)}
        for each in order.expressions:
            item = each.this
            if node.args.get("distinct") is not None and not _is_output(item, node):
                sentence = "For SELECT DISTINCT, ORDER BY expressions must appear in select list."
                raise SqlError(sentence, code="EXPRESSION_NOT_IN_DISTINCT")
            if isinstance(item, exp.Column | exp.Literal):
                continue
            names = {column.name.lower() for column in item.find_all(exp.Column) if not column.table}
            if _has_grouping(item) and names & outputs.keys():
                sentence = "Invalid reference to output of SELECT clause from grouping() expression in ORDER BY."
                raise SqlError(sentence, code="INVALID_ARGUMENTS")
            for name in names & outputs.keys() & sources:
                if not isinstance(outputs[name], exp.Column):
                    sentence = f"This engine does not have ORDER BY of an expression with {name}, which is both a"
                    raise SqlError(f"{sentence} column and an alias; name them apart.", code="unsupported-sql")

    def _find_unary(self, node: exp.Expr) -> Type | None:
        type = self._find_type(node.this)
        if isinstance(node, exp.Neg) and type is not None and type.name not in SIGNED:
            raise SqlError(f"Cannot negate {type}.", code="TYPE_MISMATCH")
        if isinstance(node, exp.Filter):
            self.require_boolean(self._find_type(node.expression.this), "FILTER clause")
        return type

    def _find_if(self, node: exp.If) -> Type | None:
        if not isinstance(node.parent, exp.Case) or node.parent.this is None:
            self.require_boolean(self._find_type(node.this), "Condition")
        if isinstance(node.parent, exp.Case):
            return self._find_type(node.args["true"])
        return self.require_common(map(self._find_type, (node.args["true"], node.args.get("false"))), "IF results")

    def _find_case(self, node: exp.Case) -> Type | None:
        ifs: list[exp.Expr] = node.args["ifs"]
        if node.this is not None:
            self._check_pairs(node.this, [each.this for each in ifs], "=")
        results = [*(each.args["true"] for each in ifs), node.args.get("default")]
        return self.require_common(map(self._find_type, results), "CASE results")

    def _check_pairs(self, left: exp.Expr, others: Iterable[exp.Expr], sign: str) -> None:
        for each in others:
            self._check_pair(left, each, sign)

    def _check_pair(self, left: exp.Expr, right: exp.Expr, sign: str) -> None:
        one, other = self._find_type(left), self._find_type(right)
        if find_common([one, other])[0]:
            return
        hint = ""
        bare = right.unnest()
        if other == VARCHAR and one is not None and one.name in TIMES and isinstance(bare, exp.Literal):
            hint = f"; write {one.name.partition(' ')[0].upper()} '{bare.name[:40]}'"
        raise SqlError(f"Cannot apply operator: {one} {sign} {other}{hint}.", code="TYPE_MISMATCH")

    def _check_comparison(self, node: exp.Expr) -> None:
        left, right = node.this, node.expression
        if isinstance(right, exp.Any | exp.All) or isinstance(right.unnest(), exp.Query | exp.Values):
            return
        self._check_pair(left, right, SIGNS[type(node)])

    def _find_concatenation(self, node: exp.DPipe) -> Type | None:
        one, other = self._find_type(node.this), self._find_type(node.expression)
        if one is None or other is None:
            return None
        if "array" in (one.name, other.name):
            return self._find_array(one, other)
        fits, common = find_common([one, other])
        if not fits or (common is not None and common.name not in ("varchar", "varbinary", "unknown")):
            sentence = f"Cannot apply operator: {one} || {other}; write CAST(value AS varchar)."
            raise SqlError(sentence, code="TYPE_MISMATCH")
        return common

    def _find_array(self, one: Type, other: Type) -> Type:
        """Return the type of an array with another array or with an element before or after it."""
        if UNKNOWN in (one, other):
            sentence = "It is not clear whether NULL is an array or an element here; write CAST(NULL AS type)."
            raise SqlError(sentence, code="AMBIGUOUS_FUNCTION_CALL")
        pairs = [(one, other)]
        pairs += [(one.items[0], other)] if one.name == "array" and one.items else []
        pairs += [(one, other.items[0])] if other.name == "array" and other.items else []
        for place, pair in enumerate(pairs):
            fits, common = find_common(pair)
            if fits:
                return (common or one) if place == 0 else Type("array", (common,))
        sentence = f"Unexpected parameters ({one}, {other}) for function concat."
        raise SqlError(sentence, code="FUNCTION_NOT_FOUND")

    def _find_element(self, node: exp.Bracket) -> Type | None:
        type = self._find_type(node.this)
        if type is None or type.name not in ("array", "map") or not type.items:
            if type is not None and type != UNKNOWN and type.name not in ("array", "map"):
                raise SqlError(f"Cannot use [] on {type}.", code="TYPE_MISMATCH")
            return None
        return type.items[-1]

    def _find_arithmetic(self, node: exp.Expr) -> Type | None:
        one, other = self._find_type(node.this), self._find_type(node.expression)
        if VARCHAR in (one, other):
            self._refuse_arithmetic(node, one, other)
        if one is None or other is None:
            return None
        names = (one.name, other.name)
        fits, common = find_common([one, other])
        if fits and common is not None and common.name in (*NUMBERS, "unknown"):
            return common
        intervals = [each.name.startswith("interval") for each in (one, other)]
        if isinstance(node, exp.Add | exp.Sub):
            if fits and isinstance(node, exp.Sub) and common is not None and common.name in TIMES:
                return INTERVAL
            if fits and all(intervals):
                return common
            if intervals[1] and names[0] in (*TIMES, "time"):
                return add_interval(one)
            if intervals[0] and names[1] in (*TIMES, "time") and isinstance(node, exp.Add):
                return add_interval(other)
        elif any(intervals) and isinstance(node, exp.Div):
            raise SqlError("This engine does not have / of an interval.", code="unsupported-sql")
        elif any(intervals) and isinstance(node, exp.Mul) and {*names} & {*NUMBERS}:
            return one if intervals[0] else other
        self._refuse_arithmetic(node, one, other)

    def _refuse_arithmetic(self, node: exp.Expr, one: Type | None, other: Type | None) -> None:
        sentence = f"Cannot apply operator: {one or 'value'} {SIGNS[type(node)]} {other or 'value'}."
        raise SqlError(sentence, code="TYPE_MISMATCH")


def _name_number(text: str) -> Type:
    if "e" in text.lower():
        return DOUBLE
    if "." in text:
        return Type("decimal")
    return INTEGER if int(text) <= MAX_INTEGER else BIGINT


def _is_output(item: exp.Expr, node: exp.Select) -> bool:
    """Whether an item of ORDER BY is one of the columns of its SELECT."""
    if isinstance(item, exp.Literal) or any(each.is_star for each in node.expressions):
        return True
    return any(
        item == each.unalias().unnest()
        or (isinstance(item, exp.Column) and item.name.lower() == each.unnest().alias_or_name.lower())
        for each in node.expressions
    )


def _has_grouping(node: exp.Expr) -> bool:
    return any(each.name.lower() == "grouping" for each in node.find_all(exp.Anonymous))
