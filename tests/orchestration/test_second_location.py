"""Engineers' own assets: the code location of docs/dagster.md runs beside Spindle's, and reads what jobs published."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.dagster import SpindleDatasets
from tests.support.servers import Handler, serve
from tests.support.service import CLONE, PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until

PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: flatSelect, args: [li, [{{selector: b, as: title}}, {{selector: i, method: price, as: price}}]]}}
  - {{stage: extract, args: [{{selector: u, as: currency}}]}}
"""
BOOKS = "<ul>" + "".join(f"<li><b>Book {n}</b> <i>{n}.50</i></li>" for n in range(1, 6)) + "</ul><u>EUR</u>"
ASSETS = """{ assetNodes {
  assetKey { path } repository { location { name } } dependencyKeys { path } dependedByKeys { path } } }"""
LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
RUN = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
FINISHED = ("SUCCESS", "FAILURE", "CANCELED")
METADATA = """query ($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset {
  assetMaterializations { metadataEntries { label ... on IntMetadataEntry { intValue } } } } } }"""
START_SENSOR = """mutation ($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) {
  __typename ... on PythonError { message } } }"""
TICKS = """query ($sensor: SensorSelector!) { sensorOrError(sensorSelector: $sensor) {
  ... on Sensor { sensorState { ticks(statuses: [SKIPPED, SUCCESS]) { id } } } } }"""
OF_REPORTS = {"repositoryLocationName": "reports", "repositoryName": "__repository__"}

pytestmark = pytest.mark.long


class Shelf(Handler):
    """A page with five books."""

    def do_GET(self) -> None:
        self.respond(404) if self.path == "/robots.txt" else self.respond(body=BOOKS)


@pytest.fixture
def folder(customized: Service) -> Path:
    """The files of the page."""
    return customized.data.parent / "reports"


@pytest.fixture(scope="module")
def job(customized: Service) -> Iterator[Job]:
    """The job first/books, executed once over REST."""
    with serve(Shelf) as url:
        project = customized.post("/projects", {"name": "First"})["id"]
        agent = customized.post("/agents", {"name": "Crawler", "pipelineYaml": PIPELINE.format(url=url)})["id"]
        made = customized.post(f"/projects/id/{project}/jobs", {"name": "books", "agentId": agent})
        job = Job(project, made["id"])
        execute(customized, job)
        yield job


def test_lineage_crosses_locations(customized: Service, job: Job) -> None:
    def load() -> dict[tuple[str, ...], Any]:
        return {tuple(node["assetKey"]["path"]): node for node in customized.graphql(ASSETS)["assetNodes"]}

    def locate() -> dict[tuple[str, ...], str]:
        return {key: node["repository"]["location"]["name"] for key, node in load().items()}

    # until `spindle` is loaded again, `reports` shows the other location's asset as one without definition
    places = {("first", "books"): "spindle", ("cheapest",): "reports"}
    wait_until(lambda: places.items() <= locate().items(), PATIENCE_SECONDS, every=POLL_SECONDS)
    nodes = load()
    books, cheapest = nodes["first", "books"], nodes["cheapest",]
    assert cheapest["dependencyKeys"] == [{"path": ["first", "books"]}]
    assert {"path": ["cheapest"]} in books["dependedByKeys"]


def test_assets_read_the_rows_with_duckdb_and_spark(customized: Service, job: Job, folder: Path) -> None:
    assert materialize(customized, "cheapest", "currencies") == "SUCCESS"
    assert (folder / "output" / "cheapest.csv").read_text() == "title,price\nBook 1,1.5\nBook 2,2.5\nBook 3,3.5\n"
    assert load_figures(customized, "cheapest")[0] == {"dagster/row_count": 3, "books": 5}
    assert load_figures(customized, "currencies")[0] == {"dagster/row_count": 1}


def test_an_asset_follows_each_execution(customized: Service, job: Job) -> None:
    sensor = {"sensorName": "default_automation_condition_sensor", **OF_REPORTS}
    started = customized.graphql(START_SENSOR, sensor=sensor)["startSensor"]
    assert started["__typename"] == "Sensor", started
    # what was published before the sensor's first tick is its baseline, and nothing follows it
    wait_until(
        lambda: customized.graphql(TICKS, sensor=sensor)["sensorOrError"]["sensorState"]["ticks"],
        240,
        every=POLL_SECONDS,
    )
    before = len(load_figures(customized, "cheapest"))
    execute(customized, job)
    wait_until(lambda: len(load_figures(customized, "cheapest")) > before, 2 * PATIENCE_SECONDS, every=POLL_SECONDS)


def test_a_script_reads_over_rest_with_a_key(customized: Service, job: Job, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{customized.port}"
    table = spindle.read("first.books", url=address, key=customized.key)
    assert table.to_pandas()["title"].tolist() == [f"Book {n}" for n in range(1, 6)]
    assert table.schema.names == ["title", "price", "currency"]
    assert spindle.read("first.books", version=1, url=customized.base_url, key=customized.key).equals(table)
    query = "duckdb.sql('SELECT sum(price) FROM t').fetchone()"
    code = f"import spindle, duckdb; t = spindle.read('First.books'); print({query})"
    for environment in (
        {"SPINDLE_URL": address, "SPINDLE_KEY": customized.key},
        {"SPINDLE_DATA": str(customized.data)},
    ):
        env = {**os.environ, **environment, "PYTHONPATH": str(CLONE)}
        done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "(17.5,)\n", done.stderr
    resource = SpindleDatasets(url=address, api_key=customized.key)
    assert resource.read(["acme", "first", "books"]).equals(table)


def test_what_cannot_be_read_is_a_sentence(
    customized: Service, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{customized.port}"
    with pytest.raises(spindle.DatasetError, match=r"no dataset first\.toys .*: first\.books"):
        spindle.read("first.toys", url=address, key=customized.key)
    with pytest.raises(spindle.DatasetError, match=r"no dataset nobody\.books"):
        spindle.read("nobody.books", url=address, key=customized.key)
    with pytest.raises(spindle.DatasetError, match="SPINDLE_KEY"):
        spindle.download("first.books", tmp_path / "rows.parquet", url=address, key="sk-wrong")
    with pytest.raises(spindle.DatasetError, match="version"):
        spindle.download("first.books", tmp_path / "rows.parquet", version=99, url=address, key=customized.key)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("SPINDLE_DATA", str(customized.data))
    monkeypatch.delenv("SPINDLE_KEY", raising=False)
    with pytest.raises(spindle.DatasetError, match="no API key"):  # the folder's key goes to no other address
        spindle.read("first.books", url="http://127.0.0.1:9")
    monkeypatch.setenv("SPINDLE_DATA", str(tmp_path))
    with pytest.raises(spindle.DatasetError, match="SPINDLE_URL"):
        spindle.read("first.books")
    with pytest.raises(spindle.DatasetError, match="did not answer"):
        spindle.read("first.books", url="http://127.0.0.1:9", key="sk")


def test_a_workspace_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace.yaml"
    for text, reason in (
        ("load_from: 3", "is not a workspace.yaml"),
        ("load_from: [{python_file: {relative_path: a.py, location_name: spindle}}]", "location_name"),
    ):
        workspace.write_text(text)
        command = [
            sys.executable,
            "-m",
            "cli.main",
            "up",
            "--data",
            str(tmp_path / "data"),
            "--workspace",
            str(workspace),
        ]
        done = subprocess.run([*command, "--port", "0", "--ui-port", "0"], cwd=CLONE, capture_output=True, text=True)
        assert done.returncode == 1, done.stderr
        assert reason in done.stderr


def execute(service: Service, job: Job) -> None:
    ended = service.wait(job, service.execute(job))
    assert ended["status"] == "COMPLETED", ended


def materialize(service: Service, *assets: str) -> str:
    """Materialize assets of the second location; return the status of the run."""
    run = launch(service, *assets)
    wait_until(lambda: load_status(service, run) in FINISHED, 2 * PATIENCE_SECONDS, every=POLL_SECONDS)
    return load_status(service, run)


def launch(service: Service, *assets: str) -> str:
    """Launch a run as the UI does, and return its id."""
    selector = {
        **OF_REPORTS,
        "pipelineName": "__ASSET_JOB",
        "assetSelection": [{"path": [name]} for name in assets],
    }
    return service.graphql(LAUNCH, params={"selector": selector, "mode": "default"})["launchRun"]["run"]["runId"]


def load_status(service: Service, run: str) -> str:
    return service.graphql(RUN, run=run)["runOrError"]["status"]


def load_figures(service: Service, asset: str) -> list[dict[str, int]]:
    """The numbers of the asset's materializations, newest first."""
    found = service.graphql(METADATA, key={"path": [asset]})["assetOrError"]["assetMaterializations"]
    return [{each["label"]: each["intValue"] for each in one["metadataEntries"] if "intValue" in each} for one in found]
