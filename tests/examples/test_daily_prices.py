"""examples/daily-prices: a table that SQL alone makes of the tables of two crawls, in a running service."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import main
from tests.support.service import Job, Json, Service, wait_until
from tests.support.site import Site

FOLDER = Path(__file__).parents[2] / "examples/daily-prices"
PRODUCT = "<li class=product><i class=sku>%s</i><h2>%s</h2><b class=price data-currency=%s>%s</b></li>"
RATE = "<tr class=rate><th>%s</th><td>%s</td></tr>"
ASSETS = "{ assetNodes { assetKey { path } dependencyKeys { path } } }"
ROWS = "SELECT sku, price, euros FROM output ORDER BY day, sku, price"


def execute(service: Service, job: Job, state: str = "COMPLETED") -> Json:
    execution = service.execute(job)
    ended = service.wait(job, execution, seconds=120)
    assert ended["status"] == state, ended
    return service.get(f"{job.path}/executions/{execution}")


@pytest.mark.long
def test_two_crawls_and_a_query_make_a_table(service: Service, web: Site) -> None:
    products = PRODUCT % ("a1", "Lamp", "USD", "10.00") + PRODUCT % ("b2", "Rug", "EUR", "99.50")
    rates = f"<table>{RATE % ('USD', '0.90')}{RATE % ('EUR', '1.00')}</table>"
    base = web.serve({"/": f"<ul>{products}</ul>", "/rates": rates})
    applied = CliRunner().invoke(
        main, ["apply", "-f", str(FOLDER / "spindle.yaml"), "--url", service.base_url, "--key", service.key]
    )
    assert applied.exit_code == 0, applied.output
    assert "warning" not in applied.output
    (project,) = (each for each in service.get("/projects") if each["name"] == "Daily prices")
    with service.client() as client:
        parameters = {"SHOP": f"{base}/", "RATES": f"{base}/rates"}
        client.put(f"/projects/id/{project['id']}", json={"parameters": parameters}).raise_for_status()
        jobs = {
            each["name"]: Job(project["id"], each["id"]) for each in service.get(f"/projects/id/{project['id']}/jobs")
        }
        refused = client.post(f"{jobs['daily'].path}/execute", json={})
        assert (refused.status_code, refused.json()["details"][0]["code"]) == (400, "unpublished-dataset")

    def is_downstream() -> bool:
        nodes = {
            tuple(each["assetKey"]["path"]): each["dependencyKeys"] for each in service.graphql(ASSETS)["assetNodes"]
        }
        upstream = nodes.get(("daily_prices", "daily"), ())
        return sorted(each["path"][-1] for each in upstream) == ["prices", "rates"]

    wait_until(is_downstream, 60, every=1)
    first = [execute(service, jobs[name]) for name in ("prices", "rates")]
    daily = execute(service, jobs["daily"])
    read = {each["name"]: (each["datasetId"], each["version"]) for each in daily["inputVersions"]}
    assert read == {"daily_prices.prices": (first[0]["datasetId"], 1), "rates": (first[1]["datasetId"], 1)}
    web.pages["/"] = f"<ul>{PRODUCT % ('a1', 'Lamp', 'USD', '8.00')}</ul>"
    execute(service, jobs["prices"])
    again = execute(service, jobs["daily"])
    assert {each["name"]: each["version"] for each in again["inputVersions"]} == {"daily_prices.prices": 2, "rates": 1}
    rows = service.post(f"{jobs['daily'].path}/datasets/{daily['datasetId']}/query", {"sql": ROWS})["rows"]
    assert [(each["sku"], each["price"], each["euros"]) for each in rows] == [
        ("a1", 8.0, 7.2),
        ("a1", 10.0, 9.0),
        ("b2", 99.5, 99.5),
    ]
    lineage = service.get(f"/datasets/{first[0]['datasetId']}/lineage")
    assert [(each["jobName"], each["version"]) for each in lineage["readBy"]] == [("daily", 2)]
    log = service.get(f"{jobs['daily'].path}/executions/{again['executionId']}/logs")["logs"]
    (line,) = (each for each in log if "reads datasets" in each)
    assert "daily_prices.prices" in line
