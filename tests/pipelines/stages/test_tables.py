"""Stages on whole tables."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipelines.columns.types import get_columns as pass_columns
from pipelines.contract.context import RunContext
from pipelines.errors import ArgumentError, PipelineError, RunError
from pipelines.language.arguments import bind_list
from pipelines.language.nodes import to_node
from pipelines.pipeline import check_yaml
from pipelines.spark.tasks import get_columns
from pipelines.sql.expressions import REFUSED, check_expression, check_query, is_row_wise
from pipelines.stages.sql_query import SqlQuery
from pipelines.stages.tables import Filter, Sort
from tests.support.cases import each_case
from tests.support.pipelines import TITLE, Run, crawl, find_problem, load_table
from tests.support.site import Site

JOIN = "{stage: wgetJoin, args: [a]}"
CSV = "name,shop,price\nlamp,b,3\ncup,a,1\nlamp,a,2\nrug,,9\nrug,,8\n"


@pytest.fixture
def load(tmp_path: Path) -> str:
    return load_table(tmp_path, CSV, "").replace("[", "[{path: ").replace("]", ", inferSchema: true}]")


@pytest.mark.parametrize(
    ("args", "prices"),
    [("[name]", [3, 1, 9]), ("[$name, shop]", [3, 1, 2, 9]), ("[]", [3, 1, 2, 9, 8]), ("{columns: [shop]}", [3, 1, 9])],
)
def test_dedup_keeps_the_first_row_in_order(run: Run, load: str, args: str, prices: list[int]) -> None:
    rows = run(load + f"- {{stage: dedup, args: {args}}}")
    assert [row["price"] for row in rows] == prices
    assert list(rows[0]) == ["name", "shop", "price"]


def test_the_first_row_of_a_file_that_is_read_in_parts(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    rows = [(n, n * 7919 % 500) for n in range(5000)]
    (tmp_path / "in.csv").write_text("n,key\n" + "".join(f"{n},{key}\n" for n, key in rows))
    spark.conf.set("spark.sql.files.maxPartitionBytes", 5000)
    try:
        found = run(f"pipeline:\n- {{stage: load_csv, args: [{tmp_path}/in.csv]}}\n- {{stage: dedup, args: [key]}}\n")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [(row["n"], row["key"]) for row in found] == [(str(n), str(key)) for n, key in rows[:500]]


def test_filter_keeps_rows_for_which_the_expression_is_true(run: Run, load: str) -> None:
    rows = run(load + "- {stage: filter, args: [\"price > 1 and shop like '%a%'\"]}")
    assert rows == [{"name": "lamp", "shop": "a", "price": 2}]


def test_the_pages_of_the_rows_that_are_left_are_not_fetched_again(run: Run, site: Site) -> None:
    base = site.serve(
        {"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>One</h1><p>1</p>", "/3": "<h1>Three</h1><p>3</p>"}
    )
    site.redirects["/2"] = "/3"
    stages = JOIN, TITLE, "{stage: filter, args: [title = 'Three']}", "{stage: wget, args: [$_requestedUrl]}"
    rows = run(crawl(f"{base}/", *stages, "{stage: extract, args: [{selector: p, as: text}]}"))
    assert rows == [{"title": "Three", "text": "3"}]
    assert site.requests == {"/": 1, "/1": 1, "/2": 1, "/3": 1}


def test_filter_by_an_engine_column(run: Run, site: Site) -> None:
    base = site.serve({"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>One</h1>"})
    assert run(crawl(f"{base}/", JOIN, TITLE, "{stage: filter, args: [_status = 200]}")) == [{"title": "One"}]


def test_sql_query_sees_the_rows_and_gives_its_own_order(run: Run, load: str) -> None:
    query = "SELECT name, sum(price) AS total FROM rows GROUP BY name ORDER BY total DESC; "
    rows = run(load + f"- {{stage: sql_query, args: ['{query}']}}\n- {{stage: limit, args: [2]}}")
    assert rows == [{"name": "rug", "total": 17}, {"name": "lamp", "total": 5}]


ORDERS = [
    ("SELECT * FROM rows ORDER BY price DESC, name", 3, [9, 8, 3]),
    ("SELECT name, price FROM rows ORDER BY price", 2, [1, 2]),
    ("SELECT upper(name) AS name, price FROM rows", 3, [3, 1, 2]),
    ("SELECT price FROM rows WHERE price <> 1 LIMIT 3", 3, [3, 2, 9]),
    ("SELECT price, row_number() OVER (ORDER BY price DESC) AS place, _ordinal FROM rows", 2, [3, 1]),
    ("SELECT extract(YEAR FROM date'2020-01-01') AS year, price FROM rows", 2, [3, 1]),
    ("SELECT explode(array(price, -price)) AS price FROM rows", 5, [3, -3, 1, -1, 2]),
    ("SELECT *, price AS again FROM rows", 2, [3, 1]),
    ("(SELECT price FROM rows ORDER BY price LIMIT 3)", 2, [1, 2]),
]


@pytest.mark.long
@pytest.mark.parametrize(("query", "limit", "prices"), ORDERS)
def test_a_limit_after_sql_query_keeps_the_first_rows(
    run: Run, spark: SparkSession, load: str, query: str, limit: int, prices: list[int]
) -> None:

    text = f'{load}- {{stage: sql_query, args: ["{query}"]}}\n- {{stage: limit, args: [{limit}]}}'
    assert check_yaml(text).check() == ()
    assert [row["price"] for row in run(text)] == prices


def test_a_query_that_works_row_by_row_keeps_an_earlier_order(run: Run, load: str) -> None:
    stages = """
- {stage: sort, args: [{column: price, desc: true}]}
- {stage: sql_query, args: ["SELECT name, price + 1 AS more FROM rows WHERE price > 1"]}
- {stage: filter, args: ["more > 3"]}
- {stage: limit, args: [2]}
"""
    assert run(load + stages) == [{"name": "rug", "more": 10}, {"name": "rug", "more": 9}]


def test_a_dedup_after_an_order_keeps_the_first_of_it(run: Run, load: str) -> None:
    stages = "- {stage: sql_query, args: [SELECT * FROM rows ORDER BY price]}\n- {stage: dedup, args: [name]}"
    assert [(row["name"], row["price"]) for row in run(load + stages)] == [("cup", 1), ("lamp", 2), ("rug", 8)]


SORTED = pa.table(
    {
        "place": pa.array(range(6)),
        "string": ["b", None, "\ufffd", "\U0001f600", "B", "b"],
        "bigint": pa.array([2, -1, None, 2**60, 2, 0], pa.int64()),
        "double": [math.nan, -0.0, 0.0, None, -math.inf, math.inf],
        "boolean": [True, None, False, True, False, None],
        "date": pa.array([0, -700_000, 5, None, 0, 20_000], pa.date32()),
        "timestamp": pa.array([1, -6 * 10**16, 5, None, 1, 10**15], pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal("2.50"), None, Decimal("-1"), Decimal("10"), Decimal("2.5"), None]),
        "_ordinal": [[0], [0, 1], [1], [1, 1], [2], [10]],
    }
)


@pytest.mark.long
@pytest.mark.parametrize("descends", [False, True])
@pytest.mark.parametrize("columns", [*([name] for name in SORTED.column_names[1:-1]), ["boolean", "double"]])
def test_both_runners_sort_alike(spark: SparkSession, columns: list[str], descends: bool) -> None:
    stage = bind_list(Sort, to_node([{"column": name, "desc": descends} for name in columns]), (), Sort.rest)
    assert not stage.needs_spark(pass_columns(SORTED.schema))
    local = stage.apply_locally(SORTED, RunContext()).column("place").to_pylist()
    scattered = spark.createDataFrame(SORTED).repartition(3)
    assert [row["place"] for row in stage.apply(scattered, RunContext()).orderBy("_ordinal").collect()] == local


@pytest.mark.long
def test_rows_that_are_equal_keep_their_order_in_a_sort(run: Run, load: str) -> None:
    rows = run(load + "- {stage: sort, args: [{column: $name, desc: true}]}\n- {stage: limit, args: [4]}")
    assert [(row["name"], row["price"]) for row in rows] == [("rug", 9), ("rug", 8), ("lamp", 3), ("lamp", 2)]
    by_two = run(load + "- {stage: sort, args: [shop, {column: price}]}")
    assert [row["price"] for row in by_two] == [8, 9, 1, 2, 3]


def test_pages_of_sorted_rows_follow_in_their_order(run: Run, site: Site) -> None:
    pages = {f"/{n}": f"<p>{n}</p><p>{n}{n}</p>" for n in (1, 2)}
    base = site.serve({"/": "<a href=/1>b</a><a href=/2>a</a>", **pages})
    text = crawl(
        f"{base}/",
        "{stage: flatSelect, args: [a, {method: text, as: name}, {method: href, as: link}]}",
        "{stage: sort, args: [name]}",
        "{stage: wget, args: [$link]}",
        "{stage: flatSelect, args: [p, {method: text, as: text}]}",
    )
    assert [row["text"] for row in run(text)] == ["2", "22", "1", "11"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [("[]", "'columns' is missing"), ("[nmae]", "there is no column 'nmae'"), ("[{column: name, down: true}]", "down")],
)
def test_a_sort_needs_columns(args: str, sentence: str) -> None:
    assert sentence in str(find_problem(crawl("http://a/", TITLE, f"{{stage: sort, args: {args}}}")))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name, count(*) AS n FROM rows GROUP BY name",
        "SELECT DISTINCT name FROM rows",
        "SELECT one.name FROM rows one JOIN rows two ON one.name = two.name",
        "SELECT name, rank() OVER (ORDER BY price) AS place FROM rows",
        "SELECT try_sum(price) AS total FROM rows",
        "SELECT name FROM (SELECT * FROM rows ORDER BY price)",
        "SELECT name FROM rows UNION ALL SELECT name FROM rows",
    ],
)
def test_check_warns_of_a_limit_where_rows_have_no_order(load: str, query: str) -> None:
    text = f'{load}- {{stage: sql_query, args: ["{query}"]}}\n- {{stage: filter, args: ["true"]}}\n'
    limit = "- {stage: limit, args: [5]}"
    (warning,) = check_yaml(text + limit).check()
    assert (warning.code, warning.line) == ("no-order", 5)
    assert "limit keeps any 5 rows: they have no order after sql_query (line 3)" in str(warning)
    assert check_yaml(f"{text}- {{stage: sort, args: [name]}}\n{limit}").check() == ()
    assert check_yaml(f'{load}- {{stage: sql_query, args: ["{query} ORDER BY 1"]}}\n{limit}').check() == ()


def test_all_aggregates_of_spark_are_known(spark: SparkSession) -> None:
    registry: Any = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry  # pyright: ignore
    names = registry.functionSet().iterator()
    found: set[str] = set()
    while names.hasNext():
        name = names.next()
        info = registry.builtin().lookupFunction(name)
        if info.isDefined() and info.get().getGroup() == "agg_funcs":
            found.add(name.funcName())
    assert len(found) > 50
    for name in found:
        accepted: list[bool] = []
        for arguments in ("", "x", "x, 1", "x, 1, 2"):
            with suppress(ArgumentError):
                accepted.append(is_row_wise(f"SELECT {name}({arguments}) AS q FROM rows"))
        assert not any(accepted), name


def test_sql_query_that_names_an_engine_column_puts_it_out(run: Run, site: Site) -> None:
    base = site.serve({"/": "<h1>Home</h1>"})
    for columns, more in (("title, _status, _url", {"_status": 200, "_url": f"{base}/"}), ("*", {})):
        rows = run(crawl(f"{base}/", TITLE, f"{{stage: sql_query, args: ['SELECT {columns} FROM rows']}}"))
        assert rows == [{"title": "Home", **more}]


@pytest.mark.long
def test_stored_rows_are_appended_by_name(run: Run, load: str, site: Site) -> None:
    base = site.serve({"/": "<p>vase</p><p>pot</p>"})
    stored = "- {stage: limit, args: [2]}\n- {stage: store, args: [known]}\n- {stage: reset, args: []}\n"
    select = "- {stage: flatSelect, args: [p, {method: text, as: name}]}\n- {stage: union_with, args: [known]}\n"
    rows = run(f"{load}{stored}- {{stage: wget, args: ['{base}/']}}\n{select}")
    assert [tuple(row.values()) for row in rows] == [
        ("vase", None, None),
        ("pot", None, None),
        ("lamp", "b", 3),
        ("cup", "a", 1),
    ]


def test_rows_go_on_after_they_were_stored_and_a_union_can_be_all_there_is(run: Run, load: str) -> None:
    stages = "- {stage: limit, args: [1]}\n- {stage: store, args: [x]}\n- {stage: unionWith, args: [x]}\n- stage: cache"
    assert [row["name"] for row in run(load + stages)] == ["lamp", "lamp"]
    assert len(run(load + "- {stage: store, args: [x]}\n- stage: reset\n- {stage: union_with, args: [x]}")) == 5


@pytest.mark.parametrize(
    "stages",
    [
        "- {stage: sql_query, args: ['SELECT *, 1 AS one FROM rows']}",
        "- {stage: sql_query, args: ['SELECT name, _requestedUrl FROM rows']}",
        "- {stage: sql_query, args: ['${QUERY}']}",
        "- {stage: store, args: [a]}\n- {stage: sql_query, args: [SELECT name FROM rows]}\n"
        "- {stage: union_with, args: [a]}",
    ],
)
def test_a_wget_returns_to_pages_whose_url_column_remains(load: str, stages: str) -> None:
    check_yaml(f"{load}{stages}\n- {{stage: wget, args: [$_requestedUrl]}}\n- {{stage: filter, args: [_depth = 0]}}")


ERRORS = {
    "- {stage: store, args: [a1]}\n- {stage: union_with, args: [b]}": "unknown label 'b'; known are a1",
    "- {stage: sql_query, args: [SELECT name FROM rows]}\n- {stage: wget, args: [$_requestedUrl]}":
        "_requestedUrl is null here: it is not in the result of sql_query SELECT name FROM rows (line ",
    "- {stage: sentiment_monthly, args: [name]}\n- {stage: join, args: [$_url]}":
        "_url is null here: it is not in the result of sentiment_monthly name (line ",
    "- {stage: union_with, args: [b]}": "nothing is stored as 'b' by a stage before this",
    "- stage: reset": "the pipeline has no rows",
    "- stage: reset\n- {stage: dedup}": "dedup has no rows to work on",
    "- {stage: filter, args: ['price >']}": "filter: not SQL: something is missing after 'price >'",
    "- {stage: sql_query, args: ['SELECT a FORM rows b']}": " / Unexpected token after 'SELECT a FORM'",
    "- {stage: sql_query, args: ['SELECT * FROM other']}": "sql_query: there is no table 'other'",
}  # fmt: skip


@pytest.mark.parametrize(("stages", "message"), ERRORS.items())
def test_errors_are_found_when_the_pipeline_is_read(load: str, stages: str, message: str) -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml(load + stages)
    assert message in error.value.problems[0].message
    assert error.value.problems[0].line


def test_a_missing_column_is_an_error_with_its_line(run: Run, load: str) -> None:
    told = "line 3: filter prise > 1: there is no column 'prise' here; did you mean price? There are name, shop, price"
    with pytest.raises(RunError) as error:
        run(load + "- {stage: filter, args: ['prise > 1']}\n- {stage: wget, args: [$name]}")
    assert str(error.value) == told


def test_a_column_missing_in_sql_is_an_error_before_the_run() -> None:
    with pytest.raises(PipelineError) as error:
        check_yaml("""
fetch: {url: "http://a/"}
pipeline:
  - {stage: extract, args: [{selector: h1, as: name}, {selector: i, method: attrs, as: attrs}]}
  - stage: filter
    args:
      - exists(map_keys(ATTRS), k -> k = names) AND attrs.width > 1 AND _Status = 200 AND PRISE > 1
  - {stage: filter, args: ["size.width > 1 AND size.height > 1"]}
  - stage: sql_query
    args:
      query: SELECT Name AS title, count(*) AS n FROM rows WHERE shop = 'a' GROUP BY title ORDER BY n, prise
  - {stage: filter, args: ["who_knows = 1"]}
""")
    assert [str(problem) for problem in error.value.problems] == [
        "line 7: there is no column 'names' here; did you mean name? There are name, attrs",
        "line 7: there is no column 'PRISE' here; known are name, attrs",
        "line 8: there is no column 'size' here; known are name, attrs",
        "line 11: there is no column 'shop' here; known are name, attrs",
        "line 11: there is no column 'prise' here; known are name, attrs",
    ]


ACCEPTED = """
NAME = 'n' AND `EAN number` = 5 AND `a.b` = 6
s.a = 1 AND S.p.q = 2 AND arr.price[0] = 1 AND m.k = m['k']
exists(xs, Z -> z > 1) OR aggregate(xs, 0, (acc, x) -> acc + x, acc -> acc * 10) > a
transform(arr, each -> each.price)[0] = array_sort(xs, (l, r) -> l - r)[0]
dateadd(DAY, a, d) > d AND timestampadd(QUARTER, 1, ts) > ts AND timediff(WEEK, ts, ts) = 0
extract(YEAROFWEEK FROM d) = 2020 AND d < current_date - interval 1 day AND ts < localtimestamp()
current_time IS NOT NULL AND current_catalog() <> 'a' AND current_timezone() = 'UTC' AND '_metadata' <> "_metadata"
name COLLATE utf8_lcase = 'N' AND mask(name, lowerChar => 'q') = 'q' AND trim(BOTH 'x' FROM name) = 'n'
struct(a AS zz).zz = 1 AND cast(s AS struct<b: int, p: struct<q: int>>).b = 1
a = 10L - 9Y AND 1.5BD > a AND x'1F' = X'1F' AND date'2020-01-01' = d AND name = "n"
SELECT * EXCEPT (a), a + 1 AS q, q * 2 AS q2 FROM rows WHERE b > 0 ORDER BY q2
SELECT s.p.q, s.a FROM rows AS r WHERE r.b > 1 ORDER BY q, a
SELECT a, b AS q FROM rows ORDER BY ALL
SELECT a, s.* FROM rows ORDER BY p
SELECT posexplode(tags) AS (p, tag), name FROM rows ORDER BY p, tag
SELECT explode(tags), a AS q FROM rows ORDER BY col
SELECT a, grouping__id AS g FROM rows GROUP BY CUBE(a, b)
SELECT a, sum(b) OVER w AS q FROM rows WINDOW w AS (PARTITION BY a ORDER BY d)
SELECT two AS q FROM rows PIVOT (count(1) FOR b IN (2 AS two))
SELECT col AS q FROM rows LATERAL VIEW explode(tags) each
SELECT x AS q FROM (SELECT a AS x FROM rows) ORDER BY x
WITH t AS (SELECT a AS x FROM rows) SELECT x AS q FROM t
FROM rows |> EXTEND a + 1 AS q |> WHERE q > 0
"""


def test_a_path_that_spark_accepts_is_not_refused(spark: SparkSession) -> None:
    values = (
        "1 AS a, 2 AS b, date'2020-01-01' AS d, timestamp'2020-01-01' AS ts, 'n' AS name, array('x') AS tags, "
        "array(1, 2) AS xs, named_struct('a', 1, 'p', named_struct('q', 2)) AS s, map('k', 1) AS m, "
        "array(named_struct('price', 1)) AS arr, 5 AS `EAN number`, 6 AS `a.b`"
    )
    rows = spark.sql(f"SELECT {values}")
    rows.createOrReplaceTempView("rows")
    columns = get_columns(rows.schema)
    for text in ACCEPTED.strip().splitlines():
        if text.startswith(("SELECT", "WITH", "FROM")):
            spark.sql(check_query(text))
            unknown = SqlQuery(query=text).find_unknown_columns(columns)
        else:
            rows.where(check_expression(text))
            unknown = Filter(expression=text).find_unknown_columns(columns)
        assert not list(unknown), text


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'getenv', 'HOME')",
        "`java_method`('java.lang.System', 'exit', 0)",
        "system.builtin.reflect('a', 'b')",
        "try_reflect('a', 'b')",
        "price in (SELECT 1)",
        "1) UNION SELECT (2",
        "price; DROP TABLE rows",
        "'",
        "reflect('a', 'b') = '${'",
        "from_xml(name, 'a STRING', map('rowValidationXSDPath', '/etc/passwd')) is null",
        "\uff52eflect('a', 'b')",
        "(" * 3000 + "1" + ")" * 3000,
        "NOT " * 4000 + "true",
        "CASE WHEN a THEN " * 500 + "1" + " END" * 500,
        "1 + " * 10_000 + "1",
    ],
)
def test_expressions_only_compute(text: str) -> None:
    with pytest.raises(ValueError, match=r"not allowed|not SQL|must be|at most"):
        check_expression(text)


@each_case("name", sorted(REFUSED))
@each_case("call", ["{}()", "{} (name) = 'a'", "`{}`(name)", "system.builtin.{}(name) OR name"])
def test_no_spelling_of_a_function_that_is_refused_is_let_through(name: str, call: str) -> None:
    for spelt in (name, name.upper()):
        with pytest.raises(ValueError, match=r"not allowed|number of provided arguments"):
            check_expression(call.format(spelt))


@pytest.mark.parametrize("text", ["current_user = 'a'", "SESSION_USER LIKE 'a%'"])
def test_the_account_of_the_server_is_not_revealed(text: str) -> None:
    with pytest.raises(ValueError, match="_USER is not allowed"):
        check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "_metadata.file_path LIKE 'file:/tmp/%'",
        "`_METADATA`.file_name = 'a'",
        "rows._metadata IS NULL",
        "exists(xs, x -> x = __metadata.file_path)",  # where a column of the file is called _metadata
        "IDENTIFIER('_meta' || 'data.file_path') = 'a'",
    ],
)
def test_paths_of_files_are_not_revealed(text: str) -> None:
    for refused in (lambda: check_expression(text), lambda: check_query(f"SELECT {text} AS a FROM rows")):
        with pytest.raises(ValueError, match="is not allowed"):
            refused()


def test_a_map_without_its_last_value_is_no_sql() -> None:
    with pytest.raises(ValueError, match="not SQL: map takes pairs of a key and a value"):
        check_expression("map(name) IS NULL")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM parquet.`/x` AS rows",
        "SELECT TRANSFORM(name) USING 'sh' FROM rows",
        "SELECT * FROM rows WHERE name IN (SELECT name FROM other.rows)",
        "SELECT * FROM range(5)",
        "SELECT java_method('a', 'b') FROM rows",
        "SELECT * FROM rows, LATERAL python_worker_logs()",
        "INSERT INTO rows SELECT 1",
        "CREATE TABLE x AS SELECT 1",
        "DROP TABLE rows",
        "SET spark.x = 1",
        "DESCRIBE rows",
        "SELECT 1; SELECT 2",
    ],
)
def test_queries_only_read_the_rows(text: str) -> None:
    with pytest.raises(ValueError, match=r"not allowed|not SQL|must be one|must only read|there is no table"):
        check_query(text)


# comments that end in one place for the check and in another one for Spark
@pytest.mark.parametrize(
    "comment", ["-- \\\n/*\n{}\n-- \\\n*/", "/* /*+ */ {} -- */", "-- \r{}", "-- \f{}", "{{# {} #}}"]
)
def test_no_comment_hides_code_from_the_check(comment: str) -> None:
    for hidden in ("UNION ALL SELECT value FROM text.`/etc/passwd`", "WHERE reflect('a', 'b') = 1"):
        with pytest.raises(ValueError, match="comments are not allowed"):
            check_query("SELECT name FROM rows " + comment.format(hidden))


@pytest.mark.parametrize(
    "stage",
    [
        "{stage: sql_query, args: [\"SELECT '${A}' AS a, reflect('java.lang.System', 'nanoTime') AS b FROM rows\"]}",
        "{stage: filter, args: [\"'${A}' = reflect('java.lang.System', 'nanoTime')\"]}",
        "{stage: sql_query, args: [\"SELECT '${A}' AS a FROM text.`/etc/passwd`\"]}",
    ],
)
def test_the_value_of_a_parameter_ends_no_check(run: Run, load: str, stage: str) -> None:
    with pytest.raises(RunError, match=r"not allowed|there is no table"):
        run(load + f"- {stage}", A="${B}")


def test_a_text_may_hold_a_dollar_and_a_brace_and_spark_reads_no_environment_into_it(run: Run, load: str) -> None:
    rows = run(
        load + "- {stage: sql_query, args: [\"SELECT '${' AS a, '${A}' AS b FROM rows LIMIT 1\"]}", A="${env:HOME}"
    )
    assert rows == [{"a": "${", "b": "${env:HOME}"}]


@pytest.mark.long
@each_case("name", sorted(REFUSED - {"identifier", "table_changes", "table_changes_by_path"}))
def test_a_function_that_comes_past_the_check_is_not_there_in_spark(spark: SparkSession, name: str) -> None:
    for session in (spark, spark.newSession()):
        for query in (f"SELECT {name}('<a/>', 'a')", f"SELECT * FROM {name}('<a/>', 'a')"):
            with pytest.raises(AnalysisException, match=r"UNRESOLVED_ROUTINE|UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
                session.sql(query)


def test_files_and_users_that_come_past_the_check_are_not_there_in_spark(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM text.`/etc/hosts`")
    assert spark.sql("SELECT user, `current_user`").first() == ("spindle", "spindle"), "the same everywhere"


def test_xml_makes_java_open_nothing(spark: SparkSession, site: Site) -> None:
    base = site.serve({"/a.dtd": ""})
    java: Any = spark
    xpath = java._jvm.org.apache.spark.sql.catalyst.expressions.xml.UDFXPathUtil()
    assert xpath.evalString("<a>1</a>", "a") == "1"
    for address in (f"{base}/a.dtd", "file:///etc/hostname"):
        with pytest.raises(Py4JJavaError) as error:
            xpath.evalString(f'<!DOCTYPE a SYSTEM "{address}"><a>1</a>', "a")
        assert "accessExternalDTD" in str(error.value)
    assert not site.requests


def test_executors_have_the_same_lock_as_the_driver(spark: SparkSession) -> None:
    for options in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        assert "-Djavax.xml.accessExternalDTD=" in spark.sparkContext.getConf().get(options, "").split()
