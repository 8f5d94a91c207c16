"""load and save: formats with stages of their own, and data sources that a setting allows."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from cli.jars import fetch
from pipelines.errors import PipelineError, RunError
from pipelines.language.data_sources import VARIABLE, parse_data_sources
from pipelines.pipeline import Pipeline
from pipelines.planning.context import RunContext
from tests.support.pipelines import Run

PAGES = sorted((Path(__file__).parents[3] / "docs" / "sources").glob("*.md"))
SERVER = "kafka.bootstrap.servers: 'k:1'"
KEY = {"type": "service_account", "token_uri": "https://oauth2.googleapis.com/token"}


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "kafka; mongodb; bigquery; weather=org.example:weather:1.0")


def build(stage: str, args: str) -> str:
    before = "" if stage == "load" else "{stage: load_csv, args: [in.csv]}, "
    return f"pipeline: [{before}{{stage: {stage}, args: [{args}]}}]"


def find_code(stage: str, args: str) -> str:
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(build(stage, args)).plan()
    (problem,) = error.value.problems
    assert problem.line == 1
    return problem.code


def test_formats_with_stages_need_no_setting(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id;name\n1;a\n")
    source = f"{{stage: load, args: [csv, '{tmp_path}/in.csv', {{options: {{sep: ';', inferSchema: true}}}}]}}"
    sinks = [f"{{stage: save, args: [{name}, '{tmp_path}/{name}', overwrite]}}" for name in ("json", "parquet")]
    assert run(f"pipeline: [{source}, {', '.join(sinks)}]") == [{"id": 1, "name": "a"}]
    for name in ("json", "parquet"):
        assert run(build("load", f"{name}, '{tmp_path}/{name}'")) == [{"id": 1, "name": "a"}]
    assert run(build("load", f"text, '{tmp_path}/in.csv'")) == [{"value": "id;name"}, {"value": "1;a"}]


@pytest.mark.parametrize("stage", ["load", "save"])
def test_a_data_source_that_no_setting_allows_is_a_problem(stage: str) -> None:
    assert find_code(stage, "{format: kafka, options: {}}") == "source-not-allowed"


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("stage", "args"),
    [
        ("load", "{format: kafka, options: {kafka.metric.reporters: x}}"),
        ("load", "{format: kafka, options: {kafka.ssl.truststore.location: /etc/passwd}}"),
        ("load", "{format: kafka, options: {kafka.sasl.jaas.config: 'com.sun.JndiLoginModule required;'}}"),
        ("load", "{format: mongodb, options: {connection.uri: 'mongodb+srv://h/'}}"),
        ("load", "{format: mongodb, options: {connection.uri: 'mongodb://h/?proxyHost=p'}}"),
        ("load", "{format: mongodb, options: {partitioner: com.example.Evil}}"),
        ("load", "{format: bigquery, options: {credentialsFile: /etc/key}}"),
        ("load", "{format: bigquery, options: {credentials: 'eyJ0eXBlIjogImV4dGVybmFsX2FjY291bnQifQ=='}}"),
        ("load", "{format: weather, options: {path: /etc/passwd}}"),
        ("load", "{format: weather, options: {a: [1]}}"),
        ("load", "{format: jdbc, options: {url: 'jdbc:h2:mem'}}"),
        ("save", "{format: kafka, path: there, options: {}}"),
        ("save", "{format: kafka, mode: merge, options: {}}"),
    ],
)  # fmt: skip
def test_options_that_reach_the_machine_are_problems(stage: str, args: str) -> None:
    assert find_code(stage, args) != "source-not-allowed"


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    "args",
    [
        f"{{format: kafka, options: {{{SERVER}, subscribe: t, startingOffsets: earliest}}}}",
        "{format: mongodb, options: {connection.uri: 'mongodb://u:p@h:1,i:2/d?tls=true', database: d}}",
        f"{{format: bigquery, options: {{credentials: '{base64.b64encode(json.dumps(KEY).encode()).decode()}'}}}}",
        "{format: Weather, options: {city: Oslo, days: 3}}",
        "{format: '${FORMAT}', options: {city: Oslo}}",
    ],
)
def test_other_options_are_accepted(args: str) -> None:
    plan = Pipeline.from_yaml(build("load", args)).plan_open()
    assert plan.libraries <= {"kafka", "mongodb", "bigquery", "weather"}


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    "options",
    [
        "{format: kafka, options: {kafka.bootstrap.servers: '127.0.0.1:9092', subscribe: t}}",
        "{format: mongodb, options: {connection.uri: 'mongodb://u:p@10.0.0.1:1/'}}",
        "{format: weather, options: {server: 'jdbc:weather://169.254.169.254/latest'}}",
        "{format: weather, options: {servers: '127.0.0.1:80'}}",
        "{format: weather, options: {key: /etc/passwd}}",
        "{format: weather, options: {key: 'file:///etc/passwd'}}",
    ],
)
def test_addresses_and_files_in_options_are_guarded(options: str) -> None:
    stage = Pipeline.from_yaml(build("load", options)).plan().steps[0].stage
    with pytest.raises(RunError, match="cannot be re"):
        stage.load(None, RunContext(local_folders=()))  # type: ignore[union-attr]


def test_a_malformed_setting_is_refused() -> None:
    for text in ("=x", "kafka=x", "kafka=relative/of.jar", "delta=org.example:delta:1.0"):
        with pytest.raises(ValueError, match=VARIABLE):
            parse_data_sources(text)
    assert parse_data_sources(" a=/x.jar,g:a:1 ;b ") == {"a": ("/x.jar", "g:a:1"), "b": ()}


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_the_pages_are_valid(page: Path) -> None:
    blocks = [block.split("```")[0] for block in page.read_text().split("```yaml\n")[1:]]
    for block in blocks:
        if block.startswith("pipeline:"):
            Pipeline.from_yaml(block).plan_open()


@pytest.fixture
def notes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a data source `notes`, which keeps texts and is on Spark's class path."""

    class Reader(DataSourceReader):
        def __init__(self, file: str) -> None:
            self.file = file

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
            with open(self.file) as lines:
                yield from ((line.strip(),) for line in lines)

    class Writer(DataSourceWriter):
        def __init__(self, file: str) -> None:
            self.file = file

        def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
            with open(self.file, "a") as lines:
                lines.writelines(f"{row[0]}\n" for row in iterator)
            return WriterCommitMessage()

    class Notes(DataSource):
        @classmethod
        def name(cls) -> str:
            return "notes"

        def schema(self) -> str:
            return "note STRING"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(self.options["store"])

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return Writer(self.options["store"])

    spark.dataSource.register(Notes)
    monkeypatch.setenv(VARIABLE, "notes")
    (tmp_path / "store").write_text("first\n")
    return tmp_path / "store"


def test_rows_are_written_as_the_last_act_of_a_run(run: Run, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("note\nsecond\n")
    stage = f"{{format: notes, options: {{store: '{notes}'}}}}"
    write = build("save", stage).replace("in.csv", f"{tmp_path}/in.csv")
    with pytest.raises(RunError, match="row_count"):
        run(f"{write}\nchecks: [{{check: row_count, min: 2}}]")
    assert notes.read_text() == "first\n"
    assert run(write) == [{"note": "second"}]
    assert notes.read_text() == "first\nsecond\n"
    assert run(build("load", stage)) == [{"note": "first"}, {"note": "second"}]


def test_files_of_a_data_source_are_those_that_the_run_may_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "binaryFile")
    (tmp_path / "in.bin").write_bytes(b"abc")
    text = build("load", f"binaryfile, '{tmp_path}/in.bin'")
    assert [row["length"] for row in run(text)] == [3]
    with pytest.raises(RunError, match="cannot be read"):
        run(text, RunContext(local_folders=()))


def test_the_command_for_jars_tells_what_is_wrong_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "kafka=nowhere")
    assert fetch(["kafka"]) == 1
    assert VARIABLE in capsys.readouterr().err
