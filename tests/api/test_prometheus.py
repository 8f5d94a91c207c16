"""GET /metrics, as Prometheus reads it."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import ROWS, Api, Server


@pytest.fixture(scope="module")
def operator(server: Server) -> Api:
    return server.caller("watchers", "super_admin")


def read_samples(operator: Api) -> dict[tuple[str, ...], float]:
    """Return the values of samples by their names and labels, apart from the worker's."""
    answer = operator.call("GET", f"{operator.client.base_url}/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "worker")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_executions_and_requests_are_counted(operator: Api) -> None:
    before = read_samples(operator)
    job = operator.job("metrics")
    finished, _ = job.execute(), job.execute()
    during = read_samples(operator)
    job.complete(finished, ROWS)
    after = read_samples(operator)
    key = ("spindle_executions", "PENDING")
    assert during[key] - before[key] == 2
    assert after[key] - before[key] == 1
    assert after["spindle_executions_ended_total",] - before["spindle_executions_ended_total",] == 1
    assert after["spindle_rows_written_total",] >= 0
    route = "/api/svc/api/projects/id/{projectId}/jobs/{jobId}/execute"
    posted = ("spindle_requests_total", "POST", route, "200")
    assert after[posted] - before.get(posted, 0) == 2
    assert after["spindle_request_seconds_count", "POST", route] >= 2
    assert after["spindle_launches_waiting",] >= 1
    assert after["spindle_disk_free_bytes",] > 0


def test_addresses_of_clients_are_no_labels(operator: Api) -> None:
    operator.call("GET", f"{operator.client.base_url}/no/such/{'x' * 50}")
    samples = read_samples(operator)
    assert samples["spindle_requests_total", "GET", "other", "404"] >= 1
    operator.call("GET", f"/stages/{'x' * 50}")
    operator.call("GET", f"/datasets/download/{'x' * 50}%2Fy")
    samples = read_samples(operator)
    assert not any("xxxxx" in part for key in samples for part in key)


@pytest.mark.parametrize("scopes", [("admin",), ("etl:read",)])
def test_a_key_of_an_organization_reads_none(server: Server, scopes: tuple[str, ...]) -> None:
    caller = server.caller(f"not watchers but {scopes[0]}", *scopes)
    assert caller.call("GET", f"{caller.client.base_url}/metrics").status_code == 403
    assert caller.client.get("/metrics").status_code == 401
