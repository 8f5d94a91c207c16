"""Old executions whose details a cleanup removed: what the answers and pages have then."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from api.console.rendering import NOTHING
from core.infra.database import open_database
from core.lifecycle.executions.leftovers import remove_details
from core.tables import now
from tests.api.test_console_sessions import sign_in
from tests.support.api import ROWS, start_server

GONE = {"progress", "detailsRemovedAt", "driver", "driverSource", "waitedSeconds"}
STAGE = {"key": "s01_load", "state": "COMPLETED", "rows": 2}


@pytest.mark.long
def test_an_old_execution_answers_the_fields_of_the_specification(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        job = server.caller("acme").job("books")
        old, newest = job.execute(), job.execute()
        for each in (old, newest):
            metrics = {"attempt": 1, "engine": "local", "progress": {"fraction": 1.0, "stages": [STAGE]}}
            job.report(each, "RUNNING", additionalMetrics=metrics)
            job.complete(each, ROWS, errorCount=0, driverMemoryUsedBytes=2**40)
        task = job.api.get(f"{job.path}/executions/{old}")["taskId"]
        paths = [
            *(f"{job.path}/executions/{old}{part}" for part in ("", "/status", "/attempts", "/metrics", "/costs")),
            *(f"{job.path}/tasks/{task}{part}" for part in ("", "/metrics")),
        ]
        before = [job.api.get(path) for path in paths]
        database = open_database(server.settings)
        with database.write() as session:
            assert remove_details(session, now() + timedelta(days=1), 10) == 1
        database.close()
        after = [job.api.get(path) for path in paths]
        for path, was, is_now in zip(paths, before, after, strict=True):
            same = GONE & set(was) if isinstance(was, dict) else set[str]()
            if same:
                assert is_now["detailsRemovedAt"]
                assert (is_now["progress"]["fraction"], is_now["progress"]["stages"]) == (1.0, [])
                was, is_now = ({name: each[name] for name in each.keys() - same} for each in (was, is_now))
            assert is_now == was, path
        assert job.api.get(f"{job.path}/executions/{newest}")["detailsRemovedAt"] is None
        assert job.api.get(f"{job.path}/executions/{newest}")["progress"]["stages"]
        sign_in(server.client, job.api)
        console = f"/console/projects/{job.project_id}/jobs/{job.id}"
        page = server.client.get(f"{console}/executions/{old}")
        assert (page.status_code, "Its stages were removed by a cleanup" in page.text) == (200, True)
        page = server.client.get(console)
        bars = Counter(title.split(": ")[1] for title in re.findall("<title>(.*?)</title></rect>", page.text))
        assert (bars["2"], bars["0"]) == (2, 1)  # rows of both, and the failed pages of the newest
        cells = re.findall('<td class="n">(.*?)</td>', page.text)
        assert (cells[:3], cells[4:7]) == (["2", "0", "0"], ["2", NOTHING, NOTHING])
