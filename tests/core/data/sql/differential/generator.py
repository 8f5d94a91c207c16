"""Statements made from the registry of functions, casts and operators, the same for each seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from pipelines.sql.operators import CASTS
from pipelines.sql.signatures import ARGUMENTS, GROUPS, Signature, load_signatures
from pipelines.sql.types import Type

# values at the edges of each type
VALUES: Mapping[str, tuple[str, ...]] = {
    "boolean": ("true", "false", "CAST(NULL AS boolean)"),
    "tinyint": ("TINYINT '127'", "TINYINT '-128'", "TINYINT '0'"),
    "smallint": ("SMALLINT '32767'", "SMALLINT '-1'", "CAST(NULL AS smallint)"),
    "integer": ("0", "1", "2", "3", "-1", "7", "2147483647", "CAST(NULL AS integer)"),
    "bigint": ("BIGINT '0'", "BIGINT '3'", "BIGINT '-5'", "9223372036854775807", "CAST(NULL AS bigint)"),
    "decimal": ("0.00", "1.005", "-2.50", "12345678901234567.89", "DECIMAL '0.000000001'"),
    "decimal(9, 2)": ("DECIMAL '1.05'", "DECIMAL '-2.50'", "DECIMAL '0.00'", "CAST(NULL AS decimal(9, 2))"),
    "real": ("REAL '0.1'", "REAL '-1.5'", "CAST(NULL AS real)"),
    "double": ("0e0", "1.5e0", "-2.25e0", "1e300", "nan()", "infinity()", "-infinity()", "CAST(NULL AS double)"),
    "varchar": (
        *("''", "'a'", "'abc'", "'12'", "'Ünïcode ☃'", "'😎y😀'", "' a b '", "'a,b,,c'", "'a_%b'", "'é'"),
        "CAST(NULL AS varchar)",
    ),
    "varbinary": ("X'00ff41'", "X''", "to_utf8('☃')", "CAST(NULL AS varbinary)"),
    "date": ("DATE '2024-02-29'", "DATE '1969-12-31'", "DATE '1000-01-01'", "DATE '2023-12-31'", "CAST(NULL AS date)"),
    "time": ("TIME '00:00:00'", "TIME '23:59:59'"),
    "timestamp": (
        *(
            "TIMESTAMP '2024-02-29 23:59:59.123456'",
            "TIMESTAMP '2024-10-27 02:30:00'",
            "TIMESTAMP '2024-03-31 02:30:00'",
        ),
        *("TIMESTAMP '1969-12-31 23:59:59.999'", "TIMESTAMP '2000-01-01 00:00:00'", "CAST(NULL AS timestamp)"),
    ),
    "timestamp with time zone": ("TIMESTAMP '2024-10-27 00:30:00 UTC'", "TIMESTAMP '2024-10-27 01:30:00 UTC'"),
    "interval day to second": ("INTERVAL '1' DAY", "INTERVAL '-2' HOUR"),
    "interval year to month": ("INTERVAL '1' MONTH", "INTERVAL '-1' YEAR"),
    "json": ('json_parse(\'{"a": [1, null, "x"], "b": 1.5}\')', "json_parse('[]')", "json_parse('null')"),
    "uuid": ("CAST('12151fd2-7586-11e9-8f9e-2a86e4085a59' AS uuid)",),
}
SCALARS = ("boolean", "integer", "bigint", "decimal(9, 2)", "double", "varchar", "date", "timestamp")
SUITABLE: Mapping[tuple[str, int], tuple[str, ...]] = {  # arguments that must be literals of a kind
    ("date_add", 0): ("'day'", "'month'", "'year'", "'week'", "'quarter'"),
    ("date_diff", 0): ("'day'", "'month'", "'year'", "'week'", "'quarter'", "'hour'", "'second'"),
    ("date_trunc", 0): ("'day'", "'month'", "'year'", "'week'", "'quarter'"),
    ("date_format", 1): ("'%Y-%m-%d %H:%i:%s'", "'%d/%m/%y'", "'%M %W'", "'%j %f'"),
    ("date_parse", 0): ("'2024-02-29'", "'2023-12-31'"),
    ("date_parse", 1): ("'%Y-%m-%d'",),
    ("date", 0): ("'2024-02-29'", "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 23:59:59'"),
    ("from_iso8601_date", 0): ("'2024-02-29'", "'2024-12-31'"),
    ("from_hex", 0): ("'00FF'", "''", "'a0'"),
    ("from_base64", 0): ("'YWJj'", "''"),
    ("from_utf8", 0): ("to_utf8('☃')", "X'41'"),
    ("json_parse", 0): ("'{\"a\": 1}'", "'[1, 2]'", "'null'"),
    ("json_array_length", 0): ("'[1, 2]'", "'{}'", "'x'"),
    ("json_extract", 1): ("'$.a'", "'$.a[0]'", "'$.b'", "'$[0]'"),
    ("json_extract_scalar", 1): ("'$.a'", "'$.a[0]'", "'$.a[2]'", "'$.b'", "'$[0]'"),
    ("json_size", 1): ("'$.a'", "'$'", "'$.b'"),
    ("regexp_extract", 1): ("'[a-z]+'", "'(a)(b)'", "'^a'"),
    ("regexp_extract", 2): ("0",),
    ("regexp_extract_all", 1): ("'[a-z]'", "'a.'"),
    ("regexp_extract_all", 2): ("0",),
    ("regexp_like", 1): ("'[a-z]+'", "'^a'", "'☃'"),
    ("regexp_replace", 1): ("'[a-z]'", "'a'", "'x*y'"),
    ("regexp_replace", 2): ("'-'", "''", "'<$0>'"),
    ("regexp_split", 1): ("','", "'[ab]'"),
    ("repeat", 1): ("0", "1", "3"),
    ("lpad", 1): ("0", "2", "5"),
    ("rpad", 1): ("0", "2", "5"),
    ("lpad", 2): ("'x'", "'ab'"),
    ("rpad", 2): ("'x'", "'ab'"),
    ("round", 1): ("0", "1", "2"),
    ("truncate", 1): ("0", "1", "2"),
    ("split", 1): ("','", "'b'"),
    ("split_part", 1): ("','", "'b'"),
    ("split_part", 2): ("1", "2", "9"),
    ("chr", 0): ("65", "9731", "128512"),
    ("codepoint", 0): ("'a'", "'☃'", "'😀'"),
    ("to_base", 1): ("2", "16", "36"),
    ("trim_array", 1): ("0", "1"),
    ("slice", 1): ("1", "2", "-1"),
    ("slice", 2): ("0", "1", "5"),
    ("element_at", 1): ("1", "2", "-1"),
    ("sequence", 0): ("1", "0", "-3"),
    ("sequence", 1): ("1", "4"),
    ("sequence", 2): ("1", "2"),
    ("approx_percentile", 1): ("0.5",),
    ("lag", 1): ("0", "1", "2"),
    ("lead", 1): ("0", "1", "2"),
    ("ntile", 0): ("1", "3"),
    ("nth_value", 1): ("1", "3"),
    ("bit_count", 1): ("64",),
    ("array_join", 1): ("','", "''"),
    ("array_join", 2): ("'-'", "''"),
    ("concat_ws", 0): ("','", "''"),
}
UNSTABLE = (
    "random",
    "now",
    "uuid",
    "approx_distinct",
    "approx_percentile",
    "any_value",
    "arbitrary",
    "histogram",
    "row",
    "grouping",
)
ORDERED = ("greatest", "least")  # of NaN these differ
WINDOWS = ("cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank",
           "rank", "row_number")  # fmt: skip
AGGREGATES = (
    *("array_agg", "avg", "bitwise_and_agg", "bitwise_or_agg", "bitwise_xor_agg", "bool_and", "bool_or", "count"),
    *("count_if", "covar_pop", "covar_samp", "every", "geometric_mean", "map_agg", "max", "max_by", "min", "min_by"),
    *("stddev", "stddev_pop", "stddev_samp", "sum", "var_pop", "var_samp", "variance"),
)
OPERATORS = ("+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
COMPARED = ("boolean", "integer", "decimal", "double", "varchar", "date", "timestamp", "bigint")


class StatementGenerator:
    """Makes statements of one expression; `seed` decides all of them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def iterate(self, number: int) -> Iterator[str]:
        """Yield statements that use each signature, cast and operator in turn."""
        calls = [each for name, found in load_signatures().items() for each in found if name not in UNSTABLE]
        casts = [(source, target) for source in CASTS for target in sorted(CASTS[source]) if _is_plain(source, target)]
        kinds: list[Signature | tuple[str, str]] = [*calls, *casts, *((each, "") for each in OPERATORS * 3)]
        for position in range(number):
            kind = kinds[position % len(kinds)]
            yield self._make_call(kind) if isinstance(kind, Signature) else self._make_other(*kind)

    def iterate_joins(self, number: int) -> Iterator[str]:
        """Yield statements that join two tables of a few rows, or look rows of one up in the other."""
        for position in range(number):
            type = SCALARS[position % len(SCALARS)]
            one, other = (self._write_table(type, name) for name in "tu")
            operator = self._random.choice(("=", "=", "<", ">=", "<>", "IS NOT DISTINCT FROM"))
            both = f"SELECT t.n AS n, u.n AS m, t.k AS k, u.k AS l FROM {one}"
            looked_up = f"SELECT n, k FROM {one} WHERE"
            yield self._random.choice(
                (
                    *(f"{both} {join} {other} ON t.k {operator} u.k ORDER BY n, m" for join in JOINS),
                    f"{both} {self._random.choice(JOINS)} {other} ON t.k = u.k AND u.n > 1 ORDER BY n, m",
                    f"{both} CROSS JOIN {other} WHERE t.k {operator} u.k ORDER BY n, m",
                    f"SELECT k, t.n AS n, u.n AS m FROM {one} {self._random.choice(JOINS)} {other} USING (k) "
                    "ORDER BY n, m",
                    f"{looked_up} k IN (SELECT u.k FROM {other}) ORDER BY n",
                    f"{looked_up} k NOT IN (SELECT u.k FROM {other} WHERE u.n < 3) ORDER BY n",
                    f"{looked_up} EXISTS (SELECT 1 FROM {other} WHERE u.k {operator} t.k) ORDER BY n",
                    f"{looked_up} NOT EXISTS (SELECT 1 FROM {other} WHERE u.k {operator} t.k) ORDER BY n",
                    f"SELECT count(*) AS c, count(u.k) AS d FROM {one} LEFT JOIN {other} ON t.k {operator} u.k",
                )
            )

    def iterate_lambdas(self, number: int) -> Iterator[str]:
        """Yield statements with lambdas that compute, that are nested, and that use columns of their row."""
        for position in range(number):
            type = SCALARS[position % len(SCALARS)]
            values, other = self._choose_type(Type("array", (Type(type),))), self._choose(type)
            body, condition = self._write_body(type, "x"), self._write_condition(type, "x")
            call = self._random.choice(
                (
                    f"transform({values}, x -> {body})",
                    f"filter({values}, x -> {condition})",
                    *(f"{name}({values}, x -> {condition})" for name in ("any_match", "all_match", "none_match")),
                    f"transform(filter({values}, x -> {condition}), x -> {body})",
                    f"transform({values}, x -> filter(ARRAY[x, {other}], y -> y = x))",
                    f"cardinality(filter({values}, x -> x IS DISTINCT FROM {other}))",
                    f"reduce({values}, 0, (s, x) -> IF({condition}, s + 1, s), s -> s * 2)",
                    f"reduce({values}, {other}, (s, x) -> coalesce(x, s), s -> s)",
                    f"array_sort(transform({values}, x -> {body}))",
                )
            )
            if self._random.random() < 0.3:
                call = call.replace("x ->", "x -> n > 1 AND", 1) if "match" in call or "filter(" in call[:7] else call
                yield f"SELECT n, {call} AS v FROM (VALUES 1, 2) AS t(n) ORDER BY n"
            else:
                yield f"SELECT {call} AS v"

    def _write_table(self, type: str, name: str) -> str:
        rows = ", ".join(f"({self._choose(type)}, {row})" for row in range(1, 5))
        return f"(VALUES {rows}) AS {name}(k, n)"

    def _write_body(self, type: str, name: str) -> str:
        """Return an expression of this type, in a variable of this type."""
        own = (f"coalesce({name}, {self._choose(type)})", f"IF({name} IS NULL, {self._choose(type)}, {name})",
               f"CASE WHEN {self._write_condition(type, name)} THEN {name} END")  # fmt: skip
        more = (f"{name} + {self._choose(type)}", f"-{name}", f"{name} * 2") if type in ("double",) else ()
        text = (f"upper({name})", f"{name} || 'z'", f"substr({name}, 2)") if type == "varchar" else ()
        days = (f"{name} + INTERVAL '1' DAY",) if type in ("date", "timestamp") else ()
        return self._random.choice((*own, *more, *text, *days))

    def _write_condition(self, type: str, name: str) -> str:
        value = self._choose(type)
        operator = self._random.choice(("=", "<>", "<", ">=", "IS DISTINCT FROM"))
        between = f"{name} {self._random.choice(('', 'NOT '))}BETWEEN {value} AND {self._choose(type)}"
        listed = f"{name} {self._random.choice(('', 'NOT '))}IN ({value}, {self._choose(type)})"
        return self._random.choice((f"{name} {operator} {value}", f"{name} IS NULL", between, listed))

    def _make_other(self, one: str, other: str) -> str:
        if one not in OPERATORS:
            cast = self._random.choice(("CAST", "TRY_CAST"))
            return f"SELECT {cast}({self._choose(one)} AS {other}) AS v"
        names = COMPARED if OPERATORS.index(one) > 4 else ("integer", "bigint", "decimal", "double", "real")
        left = self._random.choice(names)
        return f"SELECT {self._choose(left)} {one} {self._choose(left)} AS v"

    def _make_call(self, signature: Signature) -> str:
        name = signature.text.partition("(")[0]
        if name in AGGREGATES:
            types = [self._make_concrete(each, {}) for each in signature.arguments]
            rows = ", ".join(f"({', '.join(map(self._choose_type, types)) or '1'}, {row})" for row in range(4))
            columns = [f"c{position}" for position in range(len(types) or 1)]
            order = " ORDER BY n" if name == "array_agg" else ""
            arguments = "*" if name == "count" and not types else ", ".join(columns) + order
            return f"SELECT {name}({arguments}) AS v FROM (VALUES {rows}) AS t({', '.join(columns)}, n)"
        call = self._write_call(name, signature, {})
        if name in WINDOWS:
            return f"SELECT {call} OVER (ORDER BY n) AS v FROM (VALUES 1, 2, 2, 3) AS t(n) ORDER BY n"
        return f"SELECT {call} AS v"

    def _write_call(self, name: str, signature: Signature, bound: dict[str, Type]) -> str:
        arguments = list(signature.arguments)
        if signature.repeats:
            arguments += [arguments[-1]] * self._random.randrange(3)
        written = [
            self._random.choice(SUITABLE[name, position])
            if (name, position) in SUITABLE and not (each.name == "K" or each.name.startswith("datetime"))
            else self._write(each, bound).replace("nan()", "1e0" if name in ORDERED else "nan()")
            for position, each in enumerate(arguments)
        ]
        return f"{name}({', '.join(written)})"

    def _write(self, pattern: Type, bound: dict[str, Type]) -> str:
        if pattern.name == "function":
            return self._write_lambda(pattern, bound)
        return self._choose_type(self._make_concrete(pattern, bound))

    def _write_lambda(self, pattern: Type, bound: dict[str, Type]) -> str:
        names = ["x", "y"][: len(pattern.items) - 1]
        result = pattern.items[-1]
        head = f"({', '.join(names)})" if len(names) > 1 else names[0]
        body = f"{names[-1]} IS NOT NULL" if result is not None and result.name == "boolean" else names[0]
        return f"{head} -> {body}"

    def _make_concrete(self, pattern: Type, bound: dict[str, Type]) -> Type:
        """Return a type that the pattern takes."""
        if len(pattern.name) == 1:
            return bound.setdefault(pattern.name.upper(), Type(self._random.choice(SCALARS)))
        if pattern.name == "any" or pattern.name in ARGUMENTS:
            return Type(self._random.choice(SCALARS))
        names = GROUPS.get(pattern.name)
        if names is not None:
            return Type(self._random.choice(names if self._random.random() < 0.5 else names[-1:]))
        return Type(pattern.name, tuple(self._make_concrete(each, bound) for each in pattern.items if each is not None))

    def _choose_type(self, type: Type) -> str:
        if type.name == "array":
            item = type.items[0] or Type("integer")
            cells = [self._choose_type(item) for _ in range(self._random.randrange(4))]
            return f"ARRAY[{', '.join(cells)}]" if cells else f"CAST(ARRAY[] AS {type})"
        if type.name == "map":
            key, value = (each or Type("integer") for each in type.items)
            keys = list(dict.fromkeys(each for each in VALUES[key.name] if "NULL" not in each and "nan" not in each))[
                :2
            ]
            values = ", ".join(self._choose_type(value) for _ in keys)
            return f"map(ARRAY[{', '.join(keys)}], ARRAY[{values}])"
        return self._choose(type.name)

    def _choose(self, name: str) -> str:
        return self._random.choice(VALUES[name])


def _is_plain(source: str, target: str) -> bool:
    return source in VALUES and target in VALUES and not {source, target} & {"json", "uuid", "time"}
