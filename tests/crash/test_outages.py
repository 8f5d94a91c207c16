"""The API and the database are away for longer than a driver may be silent; its execution goes on all the same."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.service import PATIENCE_SECONDS, Job, Service, wait_until
from tests.support.site import serve_site

pytestmark = pytest.mark.long

LOST_AFTER_SECONDS = 10
AWAY_SECONDS = LOST_AFTER_SECONDS + 3
PIPELINE = """\
fetch: {{url: "{url}/"}}
spindle: {{timeout: 600}}
pipeline:
  - {{stage: wgetJoin, args: ["li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""


def test_drivers_that_cannot_report_are_not_lost(tmp_path: Path) -> None:
    with serve_site() as site, postgres.cluster() as cluster:
        site.serve({"/": "<li><a href=/1>page</a></li>", "/1": "<h1>Page</h1>"})
        site.hold({"/1"})
        settings = {
            "SPINDLE_DATABASE_URL": cluster.url,
            "SPINDLE_LOST_AFTER_SECONDS": str(LOST_AFTER_SECONDS),
            "SPINDLE_HEARTBEAT_SECONDS": "1",
        }
        service = Service(tmp_path / "data", settings).start()
        try:
            job = service.make_job(PIPELINE.format(url=site.url))
            execution = service.execute(job)
            wait_until(lambda: site.requests["/1"], PATIENCE_SECONDS)
            api = service.pid("api")
            assert api is not None
            os.kill(api, signal.SIGSTOP)
            time.sleep(AWAY_SECONDS)
            os.kill(api, signal.SIGCONT)
            wait_until(lambda: is_heard(service, job, execution), PATIENCE_SECONDS)
            cluster.kill()
            time.sleep(AWAY_SECONDS)
            cluster.start_again()
            site.hold(())
            status = service.wait(job, execution, seconds=PATIENCE_SECONDS)
            assert status["status"] == "COMPLETED", status
        finally:
            exit_code = service.stop()
        assert exit_code == 0


def is_heard(service: Service, job: Job, execution_id: str) -> bool:
    status = service.status(job, execution_id)
    assert status["status"] == "RUNNING", status
    return True
