"""The API and the database are away for longer than a driver may be silent; its execution goes on all the same."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

from tests.support.postgres import Cluster
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

AWAY_SECONDS = 37  # drivers are lost after 35
PIPELINE = """\
fetch: {{url: "{url}/"}}
spindle: {{timeout: 600}}
pipeline:
  - {{stage: wgetJoin, args: ["li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""


def test_drivers_that_cannot_report_are_not_lost(on_postgresql: tuple[Service, Cluster], web: Site) -> None:
    service, cluster = on_postgresql
    web.serve({"/": "<li><a href=/1>page</a></li>", "/1": "<h1>Page</h1>"})
    web.hold({"/1"})
    job = service.make_job(PIPELINE.format(url=web.url))
    execution = service.execute(job)
    wait_until(lambda: web.requests["/1"], PATIENCE_SECONDS)
    api = service.pid("api")
    assert api is not None
    os.kill(api, signal.SIGSTOP)
    time.sleep(AWAY_SECONDS)
    with suppress(ProcessLookupError):  # it has been started again
        os.kill(api, signal.SIGCONT)
    wait_until(lambda: is_heard(service, job, execution), PATIENCE_SECONDS, every=POLL_SECONDS)
    cluster.kill()
    time.sleep(AWAY_SECONDS)
    cluster.start_again()
    web.hold(())
    status = service.wait(job, execution, seconds=PATIENCE_SECONDS)
    assert status["status"] == "COMPLETED", status
    wait_until(lambda: finds_runs(service, execution), PATIENCE_SECONDS, every=POLL_SECONDS)


def finds_runs(service: Service, execution_id: str) -> bool:
    """Ask the UI, whose connections from before the outage end with an error each."""
    try:
        return bool(service.runs(execution_id))
    except AssertionError:
        return False


def is_heard(service: Service, job: Job, execution_id: str) -> bool:
    status = service.status(job, execution_id)
    assert status["status"] == "RUNNING", status
    return True
