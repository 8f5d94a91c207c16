"""Queries in Trino's SQL in this process: what they may read, and what a check, a trial and a run say of them."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.contract.context import RunContext
from pipelines.duckdb.views import View
from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.fetch import CrawlOptions
from pipelines.language.engines import EngineName
from pipelines.local import arrow_query
from pipelines.local.arrow_query import run_statement
from pipelines.local.engine_choice import choose_engine, find_engine_conflict
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.trial import Trial

ROWS = pa.table({"n": [1, 2, None], "f": [1.0, math.nan, None]})


def write_pipeline(folder: Path, statement: str, after: str = "", tables: str = "") -> str:
    (folder / "rows.csv").write_text("name,size\nLamp,3\nBed,1\nLamp,2\n")
    options = f"{{dialect: trino{tables}}}"
    load = f"- {{stage: load_csv, args: ['{folder}/rows.csv']}}\n"
    return f'pipeline:\n{load}- stage: sql_query\n  args:\n  - "{statement}"\n  - {options}\n{after}'


def collect(text: str) -> list[dict[str, object]]:
    with Run(Pipeline.from_yaml(text).plan({}), RunContext()) as run:
        return LocalRunner(run).collect().to_pylist()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
        "SELECT * FROM other",
        "SELECT * FROM information_schema.tables",
        "SELECT getenv('HOME') FROM rows",
        "SELECT read_text('/etc/passwd') FROM rows",
        "COPY rows TO '/tmp/x'",
        "SET memory_limit = '9GB'",
        "ATTACH '/tmp/x'",
        "SELECT 1; SELECT 2",
        'SELECT "$path" FROM rows',
        "SELECT rlike(name, 'a') FROM rows",
        "SELECT * EXCEPT (name) FROM rows",
    ],
)
def test_a_check_refuses_what_a_query_may_not_do(statement: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError):
        Pipeline.from_yaml(write_pipeline(tmp_path, statement.replace('"', '\\"')))
    with pytest.raises(RunError):
        run_statement(statement, {"rows": ROWS}, is_sorted=False)


def test_a_query_reads_the_files_of_its_tables_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        pq.write_table(ROWS, tmp_path / f"{name}.parquet")
    one = View("one", [str(tmp_path / "one.parquet")], ())
    tables = {"rows": ROWS, "one": one}
    found = run_statement(
        "SELECT count(*) AS n FROM rows a JOIN one b ON a.f = b.f AND a.f > 0", tables, is_sorted=True
    )
    assert found.column("n").to_pylist() == [1]  # NaN is equal to nothing, and not larger
    for source in (f'"{tmp_path}/two.parquet"', f"TABLE(read_parquet('{tmp_path}/two.parquet'))"):
        with pytest.raises(RunError):
            run_statement(f"SELECT * FROM {source}", tables, is_sorted=False)


def test_memory_and_results_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    series = {"rows": pa.table({"n": range(200_000)})}
    monkeypatch.setattr(arrow_query, "MOST_BYTES", 2**20)
    with pytest.raises(RunError, match=r"the result has more than 1 MiB; .*dialect: spark"):
        run_statement("SELECT n FROM rows", series, is_sorted=False)
    monkeypatch.setattr(arrow_query, "MEMORY", "8MB")
    with pytest.raises(RunError, match=r"more than 8MB of memory; .*dialect: spark"):
        run_statement("SELECT array_agg(a.n) AS x FROM rows a, rows b WHERE b.n < 20", series, is_sorted=False)


def test_the_columns_of_a_query_are_known_and_run_without_spark(tmp_path: Path) -> None:
    more = "- {stage: filter, args: [n > 1]}\n- {stage: sort, args: [name]}\n"
    text = write_pipeline(tmp_path, "SELECT name, count(*) AS n, max(size) FROM rows GROUP BY name", more)
    plan = Pipeline.from_yaml(text).plan({})
    assert [*plan.columns] == ["name", "n", "_col2"]
    assert not choose_engine(plan).runs_on_spark
    assert find_engine_conflict(plan, EngineName.LOCAL) is None
    assert collect(text) == [{"name": "Lamp", "n": 2, "_col2": "3"}]
    with pytest.raises(PipelineError, match="nope"):
        Pipeline.from_yaml(text.replace("args: [name]", "args: [nope]")).plan({})


def test_the_dialect_is_sparks_unless_a_stage_says_so(tmp_path: Path) -> None:
    text = write_pipeline(tmp_path, "SELECT nvl(name, 'x') AS name FROM rows")
    with pytest.raises(PipelineError, match="this is Trino's SQL, and dialect: spark is Spark's"):
        Pipeline.from_yaml(text)
    plan = Pipeline.from_yaml(text.replace("dialect: trino", "tables: {}")).plan({})
    assert choose_engine(plan).reason == "sql_query in line 3"


def test_a_trial_shows_the_rows_of_a_query_over_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["Lamp"], "kind": ["light"]}), tmp_path / "more.parquet")
    text = write_pipeline(
        tmp_path,
        "SELECT name, kind, count(*) AS n FROM rows JOIN more USING (name) GROUP BY name, kind",
        tables=f", tables: {{more: '{tmp_path}/more.parquet'}}",
    )
    with Trial(Pipeline.from_yaml(text).plan({}), CrawlOptions(), 5) as trial:
        assert trial.next_step is None
        assert [row.values for row in trial.iter_shown_rows()] == [{"name": "Lamp", "kind": "light", "n": 2}]
