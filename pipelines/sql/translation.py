"""Trino's meaning of a statement in DuckDB's terms, where sqlglot's translation would give other rows or types.

Every rule replaces one node of the tree; most of them by a macro of macros.sql. What DuckDB cannot do as Trino does is
refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql import casts, nested
from pipelines.sql.floats import TYPE
from pipelines.sql.syntax import call, refuse

MAX_NESTED = 6  # divisions within others repeat their operands
TYPES = {
    "TINYINT": exp.DType.TINYINT,
    "INTEGER": exp.DType.INT,
    "BIGINT": exp.DType.BIGINT,
    "DOUBLE": exp.DType.DOUBLE,
    "TIMESTAMPTZ": exp.DType.TIMESTAMPTZ,
}
MAX_INTEGER, MAX_BIGINT = 2**31 - 1, 2**63 - 1
FIELDS = {  # of EXTRACT, by Trino's names
    "DOW": "ISODOW",
    "DAY_OF_WEEK": "ISODOW",
    "DOY": "DOY",
    "DAY_OF_YEAR": "DOY",
    "DAY_OF_MONTH": "DAY",
    "YEAR_OF_WEEK": "ISOYEAR",
    "YOW": "ISOYEAR",
}
RENAMED = {  # functions of another name and the same meaning
    "is_finite": "isfinite",
    "is_infinite": "isinf",
    "codepoint": "ord",
    "arrays_overlap": "trino_arrays_overlap",
    "array_union": "trino_array_union",
    "trim_array": "trino_trim_array",
    "json_size": "trino_json_size",
    "map_agg": "trino_map_agg",
    "json_array_length": "trino_json_array_length",
    "to_base": "trino_to_base",
    "every": "bool_and",
    "yow": "isoyear",
}
OPTIONAL_GROUP = re.compile(r"\||\)[?*]|\)\{0")
GROUP = re.compile(r"\\(.)|\$(\d+)|\$(\{)?", re.DOTALL)
MEDIAN = (exp.Literal.string("quantile_cont"), exp.Literal.number("0.5"))  # of the type of an average
Rule = Callable[[Any], exp.Expr | None]


def translate(tree: exp.Expr) -> None:
    """Rewrite a checked tree of Trino's dialect in place. Raises SqlError where DuckDB has no equivalent."""
    if any(isinstance(window.this, exp.Filter) for window in tree.find_all(exp.Window)):
        raise refuse("FILTER of a window function; use CASE in its argument")
    for node in reversed(list(tree.dfs())):
        rule = RULES.get(node.__class__)
        if rule is not None and (node.parent is not None or node is tree):
            made = rule(node)
            if made is not None and made is not node:
                if (type := node.meta_get(TYPE)) is not None:
                    made.meta[TYPE] = type
                node.replace(made)


def _cast(node: exp.Expr, type: str) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType(this=TYPES[type]))


def _type_literals(node: exp.Expr) -> None:
    """Give integers in arithmetic Trino's type: DuckDB takes the smallest that fits.

    The smallest integer has no positive one: `-2147483648` is an integer.
    """
    for key in ("this", "expression"):
        operand = node.args.get(key)
        literal = operand.this if isinstance(operand, exp.Neg) else operand
        if operand is not None and isinstance(literal, exp.Literal) and literal.name.isdecimal():
            value = int(literal.name)
            is_negative = literal is not operand
            if value <= MAX_BIGINT + is_negative:
                node.set(key, _cast(operand, "INTEGER" if value <= MAX_INTEGER + is_negative else "BIGINT"))


def _type_negated(node: exp.Neg) -> None:
    """Give an integer in parentheses its type: `-(-2147483648)` has no integer."""
    if isinstance(node.this, exp.Paren):
        _type_literals(node.this)


def _is_number(node: exp.Expr | None) -> bool:
    """Whether this is a number other than zero."""
    bare = node.unnest() if node is not None else None
    while isinstance(bare, exp.Neg | exp.Cast):
        bare = bare.this
    return isinstance(bare, exp.Literal) and not bare.is_string and float(bare.name) != 0


def _divide(node: exp.Div) -> exp.Expr:
    _check_nesting(node)
    _type_literals(node)
    name = "trino_divide_by_number" if _is_number(node.expression) else "trino_divide"
    return call(name, node.this, node.expression)


def _take_remainder(node: exp.Mod) -> exp.Expr | None:
    if _is_number(node.expression):
        _type_literals(node)
        return None
    _check_nesting(node)
    _type_literals(node)
    return call("trino_remainder", node.this, node.expression)


def _check_nesting(node: exp.Expr) -> None:
    depth, parent = 0, node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        depth += isinstance(parent, exp.Div | exp.Mod)
        parent = parent.parent
    if depth > MAX_NESTED:
        raise refuse(f"more than {MAX_NESTED} divisions within each other")


def _add(node: exp.Add | exp.Sub) -> exp.Expr | None:
    """A date plus days stays a date."""
    left, right = node.this, node.expression
    if isinstance(right.unnest(), exp.Interval) and not isinstance(left.unnest(), exp.Interval):
        return call("trino_like", node, left)
    if isinstance(left.unnest(), exp.Interval) and not isinstance(right.unnest(), exp.Interval):
        return call("trino_like", node, right)
    if all(_is_date(each) for each in (left, right)):
        day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
        return exp.Mul(this=exp.paren(node.copy()), expression=day)
    _type_literals(node)
    return None


def _is_date(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.is_type("date")


def _aggregate(node: exp.Expr) -> tuple[exp.Expr, bool]:
    """Return the whole expression of an aggregate, with FILTER and OVER, and whether it has OVER."""
    whole, windowed = node, False
    while (
        isinstance(whole.parent, exp.Filter | exp.Window | exp.IgnoreNulls | exp.RespectNulls)
        and whole.arg_key == "this"
    ):
        whole = whole.parent
        windowed = windowed or isinstance(whole, exp.Window)
    return whole, windowed


def _sum(node: exp.Sum) -> None:
    """The sum of integers is a bigint, not DuckDB's wider type."""
    whole, windowed = _aggregate(node)
    argument = _strip_distinct(node.this)
    example = exp.Add(this=_example(argument, windowed), expression=_cast(exp.Literal.number(0), "BIGINT"))
    whole.replace(call("trino_like", whole, example))


def _avg(node: exp.Avg) -> None:
    """The average of decimals is a decimal of the same scale, computed without doubles."""
    whole, windowed = _aggregate(node)
    argument = _strip_distinct(node.this)
    example = _example(argument, windowed)
    average = call("trino_like", whole, call("list_aggregate", exp.Array(expressions=[example]), *MEDIAN))
    total, number = (_replace_aggregate(whole, node, kind(this=node.this.copy())) for kind in (exp.Sum, exp.Count))
    decimal = call("trino_decimal_average", total, number, example)
    is_decimal = exp.Like(this=call("typeof", example), expression=exp.Literal.string("DECIMAL%"))
    whole.replace(exp.Case(ifs=[exp.If(this=is_decimal, true=decimal)], default=average))


def _replace_aggregate(whole: exp.Expr, node: exp.Expr, other: exp.Expr) -> exp.Expr:
    """Return the expression with another aggregate in the place of the node."""
    if whole is node:
        return other
    path: list[str] = []
    inner = node
    while inner is not whole:
        path.append(str(inner.arg_key))
        inner = cast(exp.Expr, inner.parent)
    made = whole.copy()
    place = made
    for key in reversed(path):
        place = place.args[key]
    place.replace(other)
    return made


def _strip_distinct(node: exp.Expr) -> exp.Expr:
    return node.expressions[0] if isinstance(node, exp.Distinct) else node


def _example(argument: exp.Expr, windowed: bool) -> exp.Expr:
    return argument.copy() if windowed else exp.AnyValue(this=argument.copy())


def _extract(node: exp.Extract) -> exp.Expr | None:
    field = node.name.upper()
    return exp.Extract(this=exp.var(FIELDS[field]), expression=node.expression.copy()) if field in FIELDS else None


def _diff(node: exp.DateDiff) -> exp.Expr:
    """Whole units that have passed, not boundaries that were crossed."""
    unit = exp.Literal.string(node.unit.name.lower() if node.unit else "day")
    return call("date_sub", unit, node.expression, node.this)


def _keep_type(node: exp.DateAdd | exp.TimestampTrunc) -> exp.Expr:
    return call("trino_like", node, node.this)


def _add_units(node: exp.DateAdd) -> exp.Expr:
    number = node.expression.unnest()
    if isinstance(number, exp.Literal) and not number.is_string and float(number.name) > MAX_INTEGER:
        raise refuse(f"date_add of more than {MAX_INTEGER} units")
    return _keep_type(node)


def _replace_pattern(node: exp.RegexpReplace) -> exp.Expr | None:
    replacement = node.args.get("replacement")
    if replacement is None:
        return None
    if not (isinstance(replacement, exp.Literal) and replacement.is_string):
        raise refuse("regexp_replace with a replacement that is not a text")
    node.set("replacement", exp.Literal.string(_translate_groups(replacement.name)))
    return None


def _translate_groups(text: str) -> str:
    """Turn `$1` into `\\1`, and a backslash before another character into that character."""

    def turn(match: re.Match[str]) -> str:
        escaped, group, named = match.groups()
        if group is not None:
            return f"\\{group}" if len(group) == 1 else _raise_group()
        if escaped is None or named:
            return _raise_group()
        return "\\\\" if escaped == "\\" else escaped

    return GROUP.sub(turn, text)


def _raise_group() -> str:
    raise refuse("regexp_replace with groups other than $0 to $9")


def _extract_pattern(node: exp.RegexpExtract) -> exp.Expr:
    group, pattern = node.args.get("group") or exp.Literal.number(0), node.expression
    if group.name != "0" and (not isinstance(pattern, exp.Literal) or OPTIONAL_GROUP.search(pattern.name)):
        raise refuse("regexp_extract of a group that may take no part in a match")
    if group.name.isdecimal() and (count := _count_groups(pattern.name)) is not None and int(group.name) > count:
        sentence = f"Pattern has {count} groups. Cannot access group {group.name}."
        raise SqlError(sentence, path="sql", code="INVALID_FUNCTION_ARGUMENT")
    return call("trino_regexp_extract", node.this, node.expression, group)


def _count_groups(pattern: str) -> int | None:
    """Return the number of groups; null for a pattern that Python does not know."""
    try:
        return re.compile(pattern).groups
    except re.error:
        return None


def _split(node: exp.Split) -> None:
    if node.args.get("limit") is not None:
        raise refuse("split with a limit")


def _substring(node: exp.Substring) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    return (
        call("trino_substr", node.this, start)
        if length is None
        else call("trino_substr_part", node.this, start, length)
    )


def _find_extreme(node: exp.Max | exp.Min | exp.ArgMax | exp.ArgMin) -> None:
    if node.expressions or node.args.get("count") is not None:
        raise refuse("max, min, max_by and min_by of several values")


def _find_row_of_extreme(name: str) -> Rule:
    """The value may be null, as long as what it is chosen by is not."""

    def rule(node: exp.ArgMax | exp.ArgMin) -> exp.Expr:
        _find_extreme(node)
        return call(name, node.this, node.expression)

    return rule


def _count_if(node: exp.CountIf) -> exp.Expr:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=node.this.copy(), true=exp.Literal.number(1))]))


def _fetch(node: exp.Fetch) -> None:
    options = node.args.get("limit_options")
    if options is not None and options.args.get("with_ties"):
        raise refuse("FETCH FIRST … WITH TIES; use rank() in a subquery")


def _trim(node: exp.Trim) -> exp.Expr | None:
    """Without characters, all white space is removed, not only blanks."""
    if node.args.get("expression") is not None:
        return None
    names = {"LEADING": "trino_ltrim", "TRAILING": "trino_rtrim"}
    return call(names.get(str(node.args.get("position") or ""), "trino_trim"), node.this)


def _replace_text(node: exp.Replace) -> exp.Expr | None:
    searched = node.expression
    if isinstance(searched, exp.Literal) and searched.name:
        return None
    return call("trino_replace", node.this, searched, node.args.get("replacement") or exp.Literal.string(""))


def _match_pattern(node: exp.RegexpLike) -> exp.Expr | None:
    """`$` is also before the last end of a line."""
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and "$" not in pattern.name:
        return None
    return call("trino_regexp_like", node.this, pattern)


def _format_time(node: exp.TimeToStr) -> None:
    """Times are rounded to milliseconds."""
    node.set("this", call("trino_cast_timestamp", node.this))


def _intersect(node: exp.ArrayIntersect) -> exp.Expr:
    if len(node.expressions) != 2:
        raise refuse("array_intersect of more than two arrays")
    return call("trino_array_intersect", *node.expressions)


def _scalar_of_json(node: exp.JSONExtractScalar) -> exp.Expr:
    return call("trino_json_scalar", node.this, _get_path(node))


def _extract_json(node: exp.JSONExtract) -> exp.Expr:
    return call("trino_json_extract", node.this, _get_path(node))


def _get_path(node: exp.Expr) -> exp.Expr:
    path = node.args["expression"]
    if not isinstance(path, exp.JSONPath):
        raise refuse("JSON paths that are no literal")
    if any(not isinstance(part, exp.JSONPathRoot) and not _is_plain_part(part) for part in path.expressions):
        raise refuse("JSON paths with anything but names and positions")
    return exp.Literal.string(path.sql("duckdb").strip("'"))


def _is_plain_part(part: exp.Expr) -> bool:
    return isinstance(part, exp.JSONPathKey | exp.JSONPathSubscript) and isinstance(part.this, str | int)


def _reduce(node: exp.Reduce) -> exp.Expr:
    """The final function is applied to the result of the steps."""
    finish, steps = node.args.get("finish"), node.copy()
    steps.set("finish", None)
    if not isinstance(finish, exp.Lambda) or len(finish.expressions) != 1:
        return steps
    name, body = finish.expressions[0].name, finish.this.copy()
    result = exp.Array(expressions=[steps])
    if isinstance(body, exp.Column | exp.Identifier) and body.name == name:
        return steps
    applied = exp.Anonymous(
        this="list_transform", expressions=[result, exp.Lambda(this=body, expressions=[exp.to_identifier(name)])]
    )
    return exp.Bracket(this=applied, expressions=[exp.Literal.number(1)], offset=1, safe=True)


def _match(name: str, negate: bool = False) -> Callable[[exp.Anonymous], exp.Expr]:
    """Return the rule of a function that applies a condition to the elements of an array."""

    def rule(node: exp.Anonymous) -> exp.Expr:
        found = call(name, call("list_transform", *node.expressions))
        return exp.paren(exp.Not(this=found)) if negate else found

    return rule


def _count_bits(node: exp.Anonymous) -> exp.Expr:
    if node.expressions[1].name != "64":
        raise refuse("bit_count of other than 64 bits")
    value = _cast(node.expressions[0], "BIGINT")
    return _cast(call("bit_count", value), "BIGINT")


def _name_constant(value: str) -> Rule:
    return lambda _node: _cast(exp.Literal.string(value), "DOUBLE")


def _millisecond(node: exp.Anonymous) -> exp.Expr:
    return exp.paren(exp.Mod(this=call("millisecond", *node.expressions), expression=exp.Literal.number(1000)))


def _call(node: exp.Anonymous) -> exp.Expr | None:
    name = node.name.lower()
    rule = FUNCTIONS.get(name)
    if rule is not None:
        return rule(node)
    return call(RENAMED[name], *node.expressions) if RENAMED.get(name) else None


def _macro(name: str, *keys: str) -> Rule:
    """Return the rule that calls a macro with these arguments of the node."""
    return lambda node: call(name, *(node.args.get(key) for key in keys))


def _widen(node: exp.Binary | exp.Unary) -> None:
    """Operations on bits give a bigint."""
    for key in ("this", "expression"):
        if node.args.get(key) is not None:
            node.set(key, _cast(node.args[key], "BIGINT"))


def _widen_aggregate(node: exp.Expr) -> None:
    """Counts by a condition and aggregates of bits give a bigint."""
    whole, _ = _aggregate(node)
    whole.replace(_cast(whole, "BIGINT"))


def _round(node: exp.Round) -> exp.Expr | None:
    """A rounded decimal keeps its scale."""
    places = node.args.get("decimals")
    if places is None:
        return None
    if isinstance(places, exp.Neg):
        return call("trino_round_whole", node.this, places)
    _type_literals(node)
    return call("trino_like", node, exp.Add(this=node.this.copy(), expression=_cast(exp.Literal.number(0), "TINYINT")))


def _join_array(node: exp.ArrayToString) -> exp.Expr | None:
    """An array of nulls gives an empty text."""
    return None if node.args.get("null") is not None else call("trino_array_join", node.this, node.expression)


def _make_series(node: exp.GenerateSeries) -> exp.Expr | None:
    """A sequence of dates has dates; none is empty."""
    if node.args.get("step") is None:  # up or down
        ends = {"this": node.args["end"].copy(), "expression": node.args["start"].copy()}
        up = exp.If(this=exp.GTE(**ends), true=exp.Literal.number(1))
        node.set("step", exp.Case(ifs=[up], default=exp.Literal.number(-1)))
    series = call("trino_sequence", node)
    if not isinstance(node.args.get("step"), exp.Interval):
        return series
    return call("trino_like", series, exp.Array(expressions=[node.args["start"].copy()]))


def _pad(node: exp.Pad) -> exp.Expr:
    name = "trino_lpad" if node.args.get("is_left") else "trino_rpad"
    return call(name, node.this, node.expression, node.args["fill_pattern"])


def _check_offset(least: int) -> Rule:
    def rule(node: exp.Lag | exp.Lead | exp.NthValue) -> None:
        if (offset := node.args.get("offset")) is not None:
            node.set("offset", call("trino_offset", offset, exp.Literal.number(least)))

    return rule


def _refuse(what: str) -> Rule:
    def rule(_node: exp.Expr) -> exp.Expr:
        raise refuse(what)

    return rule


FUNCTIONS: dict[str, Rule] = {
    "any_match": _match("trino_any_match"),
    "all_match": _match("trino_all_match"),
    "none_match": _match("trino_any_match", negate=True),
    "bit_count": _count_bits,
    "map_concat": nested.join_maps,
    "nan": _name_constant("nan"),
    "infinity": _name_constant("infinity"),
    "e": lambda _node: call("exp", exp.Literal.number(1)),
    "millisecond": _millisecond,
    "zip_with": _refuse("zip_with"),
    "url_encode": _refuse("url_encode"),
    "url_decode": _refuse("url_decode"),
    "json_array": _refuse("json_array"),
    "map_entries": _refuse("map_entries"),
    "typeof": _refuse("typeof"),
    "json_value": _refuse("json_value; use json_extract_scalar"),
    "json_query": _refuse("json_query; use json_extract"),
    "json_exists": _refuse("json_exists; use json_extract"),
}
RULES: dict[type[exp.Expr], Rule] = {
    exp.Div: _divide,
    exp.Mod: _take_remainder,
    exp.Add: _add,
    exp.Sub: _add,
    exp.Mul: _type_literals,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.CountIf: _count_if,
    exp.Cast: casts.convert,
    exp.TryCast: casts.convert,
    exp.AtTimeZone: casts.move_to_zone,
    exp.Extract: _extract,
    exp.DateDiff: _diff,
    exp.DateAdd: _add_units,
    exp.TimestampTrunc: _keep_type,
    exp.DateTrunc: _keep_type,
    exp.RegexpReplace: _replace_pattern,
    exp.RegexpExtract: _extract_pattern,
    exp.Split: _split,
    exp.SplitPart: _macro("trino_split_part", "this", "delimiter", "part_index"),
    exp.Substring: _substring,
    exp.Max: _find_extreme,
    exp.Min: _find_extreme,
    exp.ArgMax: _find_row_of_extreme("arg_max_null"),
    exp.ArgMin: _find_row_of_extreme("arg_min_null"),
    exp.Skewness: _refuse("skewness"),
    exp.Kurtosis: _refuse("kurtosis"),
    exp.Fetch: _fetch,
    exp.Trim: _trim,
    exp.Replace: _replace_text,
    exp.RegexpLike: _match_pattern,
    exp.TimeToStr: _format_time,
    exp.ArrayRemove: _macro("trino_array_remove", "this", "expression"),
    exp.ArrayExcept: _macro("trino_array_except", "this", "expression"),
    exp.ArrayIntersect: _intersect,
    exp.JSONExtractScalar: _scalar_of_json,
    exp.JSONExtract: _extract_json,
    exp.JSONValue: _refuse("json_value; use json_extract_scalar"),
    exp.JSONExists: _refuse("json_exists; use json_extract"),
    exp.Reduce: _reduce,
    exp.Length: _macro("trino_length", "this"),
    exp.Ceil: _macro("trino_ceil", "this"),
    exp.Floor: _macro("trino_floor", "this"),
    exp.Repeat: _macro("trino_repeat", "this", "times"),
    exp.ArrayDistinct: _macro("trino_array_distinct", "this"),
    exp.ArrayPosition: _macro("trino_array_position", "this", "expression"),
    exp.ArrayContains: _macro("trino_contains", "this", "expression"),
    exp.ArraySlice: _macro("trino_slice", "this", "start", "end"),
    exp.Log: _macro("trino_log", "this", "expression"),
    exp.Sign: _macro("trino_sign", "this"),
    exp.Grouping: lambda node: _cast(node, "INTEGER"),
    exp.ArrayToString: _join_array,
    exp.GenerateSeries: _make_series,
    exp.Pad: _pad,
    exp.Lag: _check_offset(0),
    exp.Lead: _check_offset(0),
    exp.NthValue: _check_offset(1),
    exp.Abs: _type_literals,
    exp.Neg: _type_negated,
    exp.SHA: lambda node: call("unhex", call("sha1", node.this)),
    exp.JSONObject: _refuse("json_object"),
    exp.ParseDatetime: _refuse("parse_datetime; use date_parse"),
    exp.Round: _round,
    exp.BitwiseAnd: _widen,
    exp.BitwiseOr: _widen,
    exp.BitwiseXor: _widen,
    exp.BitwiseNot: _widen,
    exp.BitwiseAndAgg: _widen_aggregate,
    exp.BitwiseOrAgg: _widen_aggregate,
    exp.BitwiseXorAgg: _widen_aggregate,
    exp.ArrayMax: _macro("trino_array_max", "this"),
    exp.ArrayMin: _macro("trino_array_min", "this"),
    exp.Unnest: nested.unnest,
    exp.DPipe: nested.concatenate,
    exp.Concat: nested.concatenate_all,
    exp.ArraySize: nested.count_entries,
    exp.Bracket: nested.find_element,
    exp.Ln: _macro("trino_ln", "this"),
    exp.Cbrt: _macro("trino_cbrt", "this"),
    exp.Sqrt: _macro("trino_sqrt", "this"),
    exp.Acos: _macro("trino_acos", "this"),
    exp.Asin: _macro("trino_asin", "this"),
    exp.ArraySort: _macro("trino_array_sort", "this"),
    exp.Typeof: _refuse("typeof"),
    exp.Anonymous: _call,
}
