"""Packages of row functions, and uploaded plugins, in whole executions of a service, with Spark and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import Handler, serve
from tests.support.service import Job, Service
from tests.support.wheels import build_wheel, write_library

STAGE = '''
import adder
from spindle import Action, Columns, Method, Plugin, Row, RowStage, register_action, register_method, register_stage

plugin = Plugin(description="Sums.")


def read_degrees(text):
    return float(text.rstrip("°C"))


degrees = Method("double", lambda element, _: read_degrees(element.text()), lambda value, _: read_degrees(value))
register_method("priceDegrees", method=degrees)


@register_action("acmeAdd")
class Add(Action):
    """Add a place."""

    text: str

    async def perform(self, visit):
        script = "text => { document.querySelector('i').textContent = text }"
        await visit.page.evaluate(script, self.text)


@register_stage("acmeSum")
class Sum(RowStage):
    """Add a number to a column."""

    positional = ("column",)
    column: str

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns((("sum", "int"),))

    def work(self, tools):
        return lambda row: [row.with_values({"sum": adder.add(int(row.value(self.column)))})]
'''
WEATHER = """
  - stage: flatSelect
    args: [li, {selector: b, as: place}, {selector: i, method: price_degrees, as: degrees}, {selector: i, as: text}]
  - {stage: extract, args: [{field: text, method: PriceDegrees, as: again}]}
"""
ACTS = "traces: [{action: acme_add, params: {text: '-4.5°C'}}]"
PAGES = {  # one form for each engine
    "local": f"fetch: {{url: 'URL', {ACTS}}}\npipeline:",
    "spark": f"fetch: {{url: 'URL'}}\npipeline:\n  - {{stage: visit, args: [{{url: 'URL', {ACTS}}}]}}",
}
ADD = "import adder\ndef add(row) -> {'sum': int}:\n    return {'sum': adder.add(int(row['a']))}\n"


class WeatherPage(Handler):
    def do_GET(self) -> None:
        self.respond(body="<ul><li><b>Oslo</b><i>1.5°C</i></li></ul>", content_type="text/html; charset=utf-8")


@pytest.fixture(scope="module")
def packaged(customized: Service) -> Iterator[Service]:
    """The service whose index is a folder of wheels, with one in it, and rows to read."""
    write_library(customized.data.parent / "index", "adder", "def add(n): return n + 1\n")
    (customized.files / "rows.csv").write_text("a\n1\n41\n")
    yield customized
    with customized.client() as client:  # or all later executions would have the plugins
        for each in customized.get("/admin/plugin-installations"):
            client.delete(f"/admin/plugin-installations/{each['id']}").raise_for_status()


def list_installed(service: Service) -> set[str]:
    """Return the modules in folders of installed packages, by their names and folders."""
    return {f"{path.parent.name}/{path.name}" for path in (service.data / "packages").glob("*/*.py")}


@pytest.mark.long
def test_functions_have_their_packages_with_spark_and_without(packaged: Service) -> None:
    before = list_installed(packaged)
    for engine in ("local", "spark"):
        text = (
            f"pipeline:\n  - {{stage: load_csv, args: ['{packaged.files}/rows.csv']}}\n"
            f"  - {{stage: 'python_row_transform:add'}}\nspindle: {{packages: [adder==1.0], engine: {engine}}}\n"
        )
        project = packaged.post("/projects", {"name": engine})["id"]
        agent = packaged.post("/agents", {"name": engine, "pipelineYaml": text})["id"]
        packaged.post(f"/agents/{agent}/python-extensions", {"name": "add", "function": ADD})
        job = Job(project, packaged.post(f"/projects/id/{project}/jobs", {"name": "sums", "agentId": agent})["id"])
        status = packaged.wait(job, packaged.execute(job))
        assert status["status"] == "COMPLETED", status
        answer = packaged.post("/datasets/query", {"sql": f'SELECT sum FROM "{engine}".sums ORDER BY sum'})
        assert "2" in str(answer)
        assert "42" in str(answer)
    (installed,) = list_installed(packaged) - before
    assert installed.endswith("/adder.py")


@pytest.mark.long
def test_uploaded_plugins_run_in_drivers_of_their_own(packaged: Service) -> None:
    before = list_installed(packaged)
    wheel = build_wheel("acme-sum", STAGE, metadata="Requires-Dist: adder\nRequires-Dist: pyarrow\n")
    form = {"pluginId": "acme-sum", "buildType": "release", "buildNumber": "1"}
    name = "acme_sum-1.0-py3-none-any.whl"
    with packaged.client() as client:
        uploaded = client.post("/admin/plugins/upload", data=form, files={"file": (name, wheel)})
    assert uploaded.status_code == 200, uploaded.text
    for engine in ("local", "spark"):
        for column, end in (("a", "COMPLETED"), ("b", "FAILED")):
            text = (
                f"pipeline:\n  - {{stage: load_csv, args: ['{packaged.files}/rows.csv']}}\n"
                f"  - {{stage: acme_sum, args: [{column}]}}\nspindle: {{engine: {engine}}}\n"
            )
            job = packaged.make_job(text)
            execution = packaged.execute(job)
            status = packaged.wait(job, execution)
            assert status["status"] == end, status
            if end == "COMPLETED":
                dataset = packaged.get(f"{job.path}/executions/{execution}")["datasetId"]
                answer = packaged.post("/datasets/query", {"sql": "SELECT sum FROM dataset", "datasetId": dataset})
                assert sorted(row["sum"] for row in answer["results"]) == [2, 42]
    with serve(WeatherPage) as url:
        for engine, pages in PAGES.items():
            job = packaged.make_job(f"{pages.replace('URL', url)}{WEATHER}spindle: {{engine: {engine}}}\n")
            execution = packaged.complete(job)
            dataset = packaged.get(f"{job.path}/executions/{execution}")["datasetId"]
            answer = packaged.post("/datasets/query", {"sql": "SELECT * FROM dataset", "datasetId": dataset})
            assert answer["results"] == [{"place": "Oslo", "degrees": -4.5, "text": "-4.5°C", "again": -4.5}]
    installed = sorted(each.rpartition("/")[2] for each in list_installed(packaged) - before)
    assert installed == ["acme_module.py", "adder.py"]
