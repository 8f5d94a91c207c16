"""An execution of the rows that its request gives: their number is in the run, and not their content."""

from __future__ import annotations

import pytest

from tests.orchestration.test_materializations import load_asset, read_metadata
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Service, wait_until
from tests.support.site import Site

PIPELINE = """\
pipeline:
  - {stage: load_rows}
  - {stage: wget, args: [$url]}
  - {stage: extract, args: [{selector: h1, as: name}]}
"""


@pytest.mark.long
def test_an_execution_has_the_rows_of_its_request(service: Service, web: Site) -> None:
    url = web.serve({"/a": "<h1>Apple</h1>", "/b": "<h1>Beet</h1>"})
    job = service.make_job(PIPELINE)
    execution = service.execute(job, {"rows": [f"{url}/b", {"url": f"{url}/a", "sku": 7}]})
    assert service.wait(job, execution, seconds=120)["status"] == "COMPLETED"
    record = service.get(f"{job.path}/executions/{execution}")
    assert record["givenRows"] == 2
    query = {"sql": "SELECT sku, name FROM output ORDER BY name"}
    rows = service.post(f"{job.path}/datasets/{record['datasetId']}/query", query)["rows"]
    assert rows == [{"sku": 7, "name": "Apple"}, {"sku": None, "name": "Beet"}]
    log = "\n".join(service.get(f"{job.path}/executions/{execution}/logs")["logs"])
    assert f"{url}/a" not in log
    wait_until(lambda: service.runs(execution)[0]["status"] == "SUCCESS", PATIENCE_SECONDS, every=POLL_SECONDS)
    metadata = read_metadata(load_asset(service, job)["assetMaterializations"][0])
    assert metadata["given rows"]["intValue"] == 2
