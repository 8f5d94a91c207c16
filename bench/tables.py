"""Tables that are joined and remembered, compared with bare PySpark: `python -m bench.tables [ROWS]`.

A join of 5,000,000 rows with 100,000 by sql_query, in Spark's SQL and, without Spark, in Trino's, ten runs of a history
of 1,000,000 rows of which 1 % change in each, and the differences of two versions of such rows beside the same full
outer join. Both sides read the same Parquet files
and write Parquet in one session, in turn. Spindle runs its plans as an execution does: it counts and checks, and
collects the first rows for the preview. Differences are asked for as by the API, until their rows are stored. A result
is the median of the ratios within a round, without the first one, which warms the JVM.
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from api.kit.services import open_services
from bench.service import describe_machine
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.organizations import create_organization
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.infra.storage.protocol import output_key
from core.tables import Dataset, DatasetVersion, StoredQuery, new_id
from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.spark.runner import SparkRunner
from pipelines.spark.session import start_session

ROWS, KEYS, REMEMBERED, CHANGED = 5_000_000, 100_000, 1_000_000, 100  # one row of so many changes in a run
ROUNDS, RUNS = 5, 10
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SELECTED = "SELECT o.id, o.price, p.title, p.category, o.price * p.rate AS euros"
QUERY = f"{SELECTED} FROM offers o JOIN products p ON p.sku = o.sku"
JOIN = f"""
pipeline:
  - stage: sql_query
    args: ["{QUERY}", {{dialect: DIALECT, tables: {{offers: "${{OFFERS}}", products: "${{PRODUCTS}}"}}}}]
"""
HISTORY = """
pipeline: [{stage: load_parquet, args: ["${ROWS}"]}]
output: {mode: history, keys: [sku]}
"""
STATES = """
WITH joined AS (
  SELECT o.sku AS old_sku, o.price AS old_price, o.title AS old_title, o.valid_from, n.*,
    o.sku IS NOT NULL AND n.sku IS NOT NULL AND NOT (o.price <=> n.price AND o.title <=> n.title) AS is_changed
  FROM (SELECT * FROM history WHERE valid_to IS NULL) o FULL OUTER JOIN run n ON o.sku = n.sku
)
SELECT inline(CASE
  WHEN old_sku IS NULL THEN array({new})
  WHEN is_changed THEN array({closed}, {new})
  WHEN sku IS NULL THEN array({closed})
  ELSE array({kept}) END)
FROM (SELECT *, TIMESTAMP '{at}' AS now, CAST(NULL AS TIMESTAMP) AS none FROM joined)
UNION ALL SELECT * FROM history WHERE valid_to IS NOT NULL
"""
DIFFERING = """
SELECT CASE WHEN o.sku IS NULL THEN 'added' WHEN n.sku IS NULL THEN 'removed' ELSE 'changed' END AS kind,
  coalesce(o.sku, n.sku) AS sku, struct(o.*) AS before, struct(n.*) AS after
FROM version_1 o FULL OUTER JOIN version_2 n ON o.sku = n.sku
WHERE o.sku IS NULL OR n.sku IS NULL OR NOT (o.price <=> n.price AND o.title <=> n.title)
ORDER BY sku
"""
Contenders = Mapping[str, Callable[[], object]]


def main(rows: int) -> None:
    print(describe_machine(), flush=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        spark = start_session("local[*]", "tables", {"spark.driver.memory": "2g"})
        write_offers(spark, folder, rows)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            rounds = [take_turn(spark, join(spark, folder, alone)) for _ in range(ROUNDS)]
            peak = alone.submit(measure_peak).result()
        title = f"join of {rows:,} rows with {KEYS:,}"
        report(title, rounds)
        report(f"{title} without Spark, {peak:,.0f} MB", [{**each, "spindle": each["local"]} for each in rounds])
        report(f"history of {REMEMBERED:,} rows", Histories(spark, folder).measure())
        report(f"differences of {REMEMBERED:,} rows", Differences(spark, folder).measure())
        spark.stop()


def measure_peak() -> float:
    """Return the most MB of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def join_locally(folder: Path) -> None:
    shutil.rmtree(folder / "local", ignore_errors=True)
    with Run(plan_join(folder, "trino"), RunContext()) as run:
        LocalRunner(run).write(str(folder / "local"))


def plan_join(folder: Path, dialect: str, format_: str = "parquet") -> Plan:
    places = {"OFFERS": str(folder / "offers"), "PRODUCTS": str(folder / "products")}
    return Pipeline.from_yaml(f"{JOIN.replace('DIALECT', dialect)}output: {{format: {format_}}}\n").plan(places)


def read_join(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the joined rows as bare Spark computes them."""
    for name in ("offers", "products"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return spark.sql(QUERY)


def join(spark: SparkSession, folder: Path, alone: ProcessPoolExecutor) -> Contenders:
    def run_bare() -> None:
        read_join(spark, folder).write.mode("overwrite").parquet(str(folder / "bare"))

    def run_ours() -> None:
        shutil.rmtree(folder / "ours", ignore_errors=True)
        with Run(plan_join(folder, "spark"), RunContext()) as run:
            SparkRunner(run, spark).write(str(folder / "ours"))

    return {"bare": run_bare, "spindle": run_ours, "local": lambda: alone.submit(join_locally, folder).result()}


class Histories:
    """The same history written by both sides, version after version."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._target = Target()

    def measure(self) -> list[Mapping[str, float]]:
        """Return the seconds of each run after the first, which begins both histories."""
        self._write_rows(0)
        self._run_ours(0)
        shutil.copytree(self._folder / "history-0", self._folder / "bare-0")
        rounds: list[Mapping[str, float]] = []
        for number in range(1, RUNS + 1):
            self._write_rows(number)
            runs = {"bare": partial(self._run_bare, number), "spindle": partial(self._run_ours, number)}
            rounds.append(take_turn(self._spark, runs))
        bare, ours = (self._read(f"{name}-{RUNS}").count() for name in ("bare", "history"))
        if bare != ours:
            raise SystemExit(f"the histories have {bare:,} and {ours:,} rows")
        return rounds

    def _write_rows(self, number: int) -> None:
        write_remembered(self._spark, number, str(self._folder / "run"))

    def _run_ours(self, number: int) -> None:
        path, at = str(self._folder / f"history-{number}"), FIRST + timedelta(days=number)
        context = RunContext(targets={OUTPUT: self._target}, accepted_at=at, saves_folder=str(self._folder / "saves"))
        with Run(Pipeline.from_yaml(HISTORY).plan({"ROWS": str(self._folder / "run")}), context) as run:
            output = SparkRunner(run, self._spark).write(path).output
        assert output is not None
        self._target = Target(exists=True, format="parquet", columns=output.columns, paths=(path,))

    def _run_bare(self, number: int) -> None:
        self._read(f"bare-{number - 1}").createOrReplaceTempView("history")
        self._read("run").createOrReplaceTempView("run")
        at = FIRST + timedelta(days=number)
        self._spark.sql(self._build_states(at)).write.parquet(str(self._folder / f"bare-{number}"))

    def _build_states(self, at: datetime) -> str:
        row = "{0}sku AS sku, {0}price AS price, {0}title AS title"
        state = f"struct({row}, {{1}} AS valid_from, {{2}} AS valid_to, {{3}} AS is_current)"
        return STATES.format(
            at=f"{at:%Y-%m-%d}",
            new=state.format("", "now", "none", "true"),
            closed=state.format("old_", "valid_from", "now", "false"),
            kept=state.format("old_", "valid_from", "none", "true"),
        )

    def _read(self, name: str) -> DataFrame:
        return self._spark.read.parquet(str(self._folder / name))


class Differences:
    """Two versions of a dataset, compared by the service on DuckDB and by Spark."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        settings = Settings(data=folder / "data")
        migrate(settings)
        self._spark = spark
        self._output = str(folder / "differences")
        self._services = open_services(settings)
        with self._services.database.write() as session:
            owner = create_organization(session, "bench").id
            self._dataset = Dataset(id=new_id(), organization_id=owner, name="rows", schema_slug="bench", slug="rows")
            session.add(self._dataset)
        self._caller = Identity(owner, "key", frozenset({"datasets:read"}))
        for number in (1, 2):
            self._publish(number)

    def measure(self) -> list[Mapping[str, float]]:
        self._services.query_runner.start()
        contenders = {"bare": self._run_bare, "spindle": self._run_ours}
        rounds = [take_turn(self._spark, contenders) for _ in range(ROUNDS)]
        self._services.close()
        return rounds

    def _publish(self, number: int) -> None:
        key = output_key(self._caller.organization_id, new_id(), 1)
        address = self._services.storage.url_for(key, "spark")
        write_remembered(self._spark, number - 1, address)
        self._spark.read.parquet(address).createOrReplaceTempView(f"version_{number}")
        columns = [{"name": name, "type": type_} for name, type_ in self._spark.read.parquet(address).dtypes]
        with self._services.database.write() as session:
            version = DatasetVersion(
                id=new_id(), dataset_id=self._dataset.id, number=number, locations=[key], columns=columns,
                row_count=REMEMBERED,
            )  # fmt: skip
            session.add(version)
            session.flush()
            session.get_one(Dataset, self._dataset.id).current_version_id = version.id

    def _run_ours(self) -> None:
        stored = self._services.stored_queries
        found = stored.compare(self._caller, self._dataset.id, "1", "2", ["sku"])
        while self._get_query(found.query_id).state != "COMPLETED":
            time.sleep(0.01)
        stored.cancel(self._caller, found.query_id)  # otherwise the next round would use it again
        if found.counts != {"added": 0, "removed": 0, "changed": REMEMBERED // CHANGED}:
            raise SystemExit(f"the differences are {found.counts}")

    def _get_query(self, query_id: str) -> StoredQuery:
        with self._services.database.read() as session:
            return self._services.stored_queries.get(session, self._caller, query_id)

    def _run_bare(self) -> None:
        self._spark.sql(DIFFERING).write.mode("overwrite").parquet(self._output)


def write_remembered(spark: SparkSession, number: int, address: str) -> None:
    """Write the rows of a run, of which other ones have a price in each run."""
    changed = f"CASE WHEN id % {CHANGED} = {number} THEN {number} ELSE 0 END"
    columns = ("concat('sku-', id) AS sku", f"cast({changed} AS double) AS price", "concat('product ', id) AS title")
    spark.range(REMEMBERED).selectExpr(*columns).write.mode("overwrite").parquet(address)


def take_turn(spark: SparkSession, contenders: Contenders) -> Mapping[str, float]:
    seconds: dict[str, float] = {}
    for name, run in contenders.items():
        began = time.perf_counter()
        run()
        seconds[name] = time.perf_counter() - began
        spark.catalog.clearCache()
    return seconds


def report(title: str, rounds: list[Mapping[str, float]]) -> None:
    ratios = [each["spindle"] / each["bare"] for each in rounds[1:]]
    bare, ours = (statistics.median(each[name] for each in rounds[1:]) for name in ("bare", "spindle"))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    ratio = f"{statistics.median(ratios):.2f} ({spread})"
    print(f"{title}: bare {bare:.2f} s, spindle {ours:.2f} s, ratio {ratio}", flush=True)


def write_offers(spark: SparkSession, folder: Path, rows: int) -> None:
    sku = f"concat('sku-', (id * 7919) % {KEYS})"
    offers = spark.range(rows).selectExpr("id", f"{sku} AS sku", "cast(id % 1000 AS double) AS price")
    offers.repartition(8).write.parquet(str(folder / "offers"))
    titles = ("concat('product ', id) AS title", "concat('category ', id % 50) AS category", "0.9D AS rate")
    spark.range(KEYS).selectExpr("concat('sku-', id) AS sku", *titles).write.parquet(str(folder / "products"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
