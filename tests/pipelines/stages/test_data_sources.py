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
from pipelines.contract.context import RunContext
from pipelines.errors import PipelineError, RunError
from pipelines.language.formats import VARIABLE, parse_data_sources
from pipelines.pipeline import Pipeline
from pipelines.stages.data_sources import Load, Save
from tests.support.pipelines import Run

DOCS = Path(__file__).parents[3] / "docs" / "sources"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name != "README.md"]
SERVER = "kafka.bootstrap.servers: 'k:1'"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


def encode_key(type_: str, tokens: str) -> str:
    return base64.b64encode(json.dumps({"type": type_, "token_uri": tokens}).encode()).decode()


KEY = encode_key("service_account", "https://oauth2.googleapis.com/token")
FOREIGN_KEY = encode_key("external_account", "https://oauth2.googleapis.com/token")
LED_AWAY = encode_key("service_account", "https://tokens.example.org/token")


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
    ("code", "stage", "args"),
    [
        ("unknown-argument", "load", "{format: kafka, options: {kafka.metric.reporters: x}}"),
        ("unknown-argument", "load", "{format: kafka, options: {kafka.ssl.truststore.location: /etc/passwd}}"),
        ("invalid-argument", "load", "{format: kafka, options: {kafka.sasl.jaas.config: 'com.sun.Jndi required;'}}"),
        ("invalid-argument", "load", f"{{format: kafka, options: {{kafka.sasl.jaas.config: '{LOGIN} com.Evil;'}}}}"),
        ("invalid-argument", "load", "{format: mongodb, options: {connection.uri: 'mongodb+srv://h/'}}"),
        ("invalid-argument", "load", "{format: mongodb, options: {connection.uri: 'mongodb://h/?proxyHost=p'}}"),
        ("unknown-argument", "load", "{format: mongodb, options: {partitioner: com.example.Evil}}"),
        ("unknown-argument", "load", "{format: bigquery, options: {credentialsFile: /etc/key}}"),
        ("invalid-argument", "load", f"{{format: bigquery, options: {{credentials: {FOREIGN_KEY}}}}}"),
        ("invalid-argument", "load", f"{{format: bigquery, options: {{credentials: {LED_AWAY}}}}}"),
        ("invalid-argument", "load", "{format: weather, options: {path: /etc/passwd}}"),
        ("invalid-argument", "load", "{format: weather, options: {a: [1]}}"),
        ("invalid-argument", "load", "{format: jdbc, options: {url: 'jdbc:h2:mem'}}"),
        ("conflicting-arguments", "save", "{format: kafka, path: there, options: {}}"),
        ("unsupported-mode", "save", "{format: kafka, mode: merge, options: {}}"),
    ],
)  # fmt: skip
def test_options_that_reach_the_machine_are_problems(code: str, stage: str, args: str) -> None:
    assert find_code(stage, args) == code


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("library", "args"),
    [
        ("kafka", f"{{format: kafka, options: {{{SERVER}, subscribe: t, startingOffsets: earliest}}}}"),
        ("kafka", f"{{format: kafka, options: {{{SERVER}, kafka.sasl.jaas.config: '{LOGIN}'}}}}"),
        ("mongodb", "{format: mongodb, options: {connection.uri: 'mongodb://u:p@h:1,i:2/d?tls=true', database: d}}"),
        ("bigquery", f"{{format: bigquery, options: {{credentials: {KEY}}}}}"),
        ("weather", "{format: Weather, options: {city: Oslo, days: 3}}"),
        (None, "{format: '${FORMAT}', options: {city: Oslo}}"),
    ],
)
def test_other_options_are_accepted(library: str | None, args: str) -> None:
    plan = Pipeline.from_yaml(build("load", args)).plan_open()
    assert plan.libraries == ({library} if library else set())


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
def test_addresses_and_files_in_options_are_guarded(spark: SparkSession, options: str) -> None:
    source = Pipeline.from_yaml(build("load", options)).plan().steps[0].stage
    export = Pipeline.from_yaml(build("save", options)).plan().steps[1].stage
    assert isinstance(source, Load)
    assert isinstance(export, Save)
    context = RunContext(local_folders=())
    with pytest.raises(RunError, match="cannot be re"):
        source.load(spark, context)
    with pytest.raises(RunError, match="cannot be re"):
        export.prepare(context)


def test_a_malformed_setting_is_refused() -> None:
    for text in ("=x", "kafka=x", "kafka=relative/of.jar", "delta=org.example:delta:1.0"):
        with pytest.raises(ValueError, match=VARIABLE):
            parse_data_sources(text)
    assert parse_data_sources(" a=/x.jar,g:a:1 ;b ") == {"a": ("/x.jar", "g:a:1"), "b": ()}


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_the_pages_are_valid(page: Path) -> None:
    blocks = [block.split("```")[0] for block in page.read_text().split("```yaml\n")[1:]]
    pipelines = [block for block in blocks if block.startswith("pipeline:")]
    assert pipelines
    for pipeline in pipelines:
        Pipeline.from_yaml(pipeline).plan_open()


@pytest.fixture
def notes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a data source `notes`, which keeps texts and is on Spark's class path."""

    class Reader(DataSourceReader):
        def __init__(self, file: str) -> None:
            self.file = file

        def partitions(self) -> list[InputPartition]:
            if not Path(self.file).stat().st_size:
                raise ConnectionError("the notes are away")
            return [InputPartition(0)]

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


@pytest.mark.long
def test_rows_are_written_as_the_last_act_of_a_run(run: Run, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "in.csv").write_text("note\nsecond\n")
    stage = f"{{format: notes, options: {{store: '{notes}'}}}}"
    write = build("save", stage).replace("in.csv", f"{tmp_path}/given/in.csv")
    with pytest.raises(RunError, match=r"store' cannot be read"):
        run(write, RunContext(local_folders=(f"{tmp_path}/given",)))
    with pytest.raises(RunError, match="row_count"):
        run(f"{write}\nchecks: [{{check: row_count, min: 2}}]")
    assert notes.read_text() == "first\n"
    assert run(write) == [{"note": "second"}]
    assert notes.read_text() == "first\nsecond\n"
    assert run(build("load", stage)) == [{"note": "first"}, {"note": "second"}]


def test_a_data_source_that_cannot_be_reached_is_found_at_its_stage(run: Run, notes: Path) -> None:
    notes.write_text("")
    with pytest.raises(
        RunError, match=r"^line 1: load notes: the data source notes cannot be read: .*the notes are away$"
    ):
        run(build("load", f"{{format: notes, options: {{store: '{notes}'}}}}"))


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
