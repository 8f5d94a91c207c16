"""Partitions of jobs in Dagster: the same keys, and runs of the UI for some of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from core.definitions.jobs.partitions import read_partitions
from orchestration.partitions import build_partitions
from tests.support.cases import each_case
from tests.support.days import DaySite, serve_days
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Json, Service, wait_until

ZONES = ("UTC", "Europe/Rome", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia")
TIMES = (datetime(2026, 3, 29, 1, 0, tzinfo=UTC), datetime(2026, 10, 2, 3, 30, tzinfo=UTC))
MONTH = {"by": "day", "start": "2026-06-01", "end": "2026-06-30", "parameter": "DAY"}
NODE = """query ($key: [String!]!) { assetNodeOrError(assetKey: {path: $key}) { ... on AssetNode {
  isMaterializable isPartitioned partitionKeys partitionStats { numMaterialized numFailed numPartitions } } } }"""
BACKFILL = """mutation ($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
STATUS = "query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
RUN = """query ($run: ID!) { runOrError(runId: $run) { ... on Run { status tags { key value } } } }"""
CHECKS = """query ($key: AssetKeyInput!) { assetCheckExecutions(assetKey: $key, checkName: "row_count", limit: 5) {
  partition evaluation { success } } }"""


@each_case(("by", "end"), [(by, end) for by in ("hour", "day", "week", "month") for end in (None, "2026-05-20")])
def test_keys_are_those_of_dagster(by: str, end: str | None) -> None:
    for zone in ZONES if by != "hour" else ("UTC",):
        stored = [{"by": by, "start": "2025-09-03", "end": end, "timezone": zone, "parameter": "DAY"}]
        stored.append({"values": ["it", "fr"], "parameter": "COUNTRY"})
        for partitions in (read_partitions(stored[:1]), read_partitions(stored)):
            definition = build_partitions(partitions)
            assert definition is not None
            for at in TIMES:
                assert partitions.list_keys(at) == [*map(str, definition.get_partition_keys(current_time=at))]


@pytest.fixture
def site() -> Iterator[DaySite]:
    with serve_days() as site:
        yield site


class Shop:
    """A job with a partition for each day of a month, and its asset."""

    def __init__(self, service: Service, pipeline: str, partitions: Any = MONTH) -> None:
        self.service = service
        self.job = service.make_job(pipeline)
        with service.client() as client:
            assert client.put(self.job.path, json={"partitions": partitions}).is_success
        project = service.get(f"/projects/id/{self.job.project_id}")["name"].replace(" ", "_")
        self.key = [project, "rows"]
        wait_until(lambda: self.node().get("isPartitioned"), PATIENCE_SECONDS, every=POLL_SECONDS)

    def node(self) -> Json:
        return self.service.graphql(NODE, key=self.key)["assetNodeOrError"]

    def list_present(self) -> list[str]:
        return [each["key"] for each in self.service.get(f"{self.job.path}/partitions?state=present")]


def test_an_execution_is_a_partition_of_its_asset(service: Service, site: DaySite) -> None:
    shop = Shop(service, f"{site.pipeline}checks: [{{check: row_count, min: 2}}]\n")
    assert shop.node()["partitionKeys"][:2] == ["2026-06-01", "2026-06-02"]
    execution = service.execute(shop.job, {"partition": "2026-06-02"})
    assert service.wait(shop.job, execution)["status"] == "COMPLETED"
    wait_until(lambda: shop.node()["partitionStats"]["numMaterialized"] == 1, PATIENCE_SECONDS, every=POLL_SECONDS)
    run = service.get(f"{shop.job.path}/executions/{execution}")["dagsterRunId"]
    tags = {each["key"]: each["value"] for each in service.graphql(RUN, run=run)["runOrError"]["tags"]}
    assert tags["dagster/partition"] == "2026-06-02"
    site.rows = 1
    execution = service.execute(shop.job, {"partition": "2026-06-03"})
    assert service.wait(shop.job, execution)["status"] == "FAILED"

    def list_checked() -> list[tuple[str, bool]]:
        found = service.graphql(CHECKS, key={"path": shop.key})["assetCheckExecutions"]
        return [(each["partition"], each["evaluation"]["success"]) for each in found if each["evaluation"]]

    checked = [("2026-06-03", False), ("2026-06-02", True)]
    wait_until(lambda: list_checked() == checked, PATIENCE_SECONDS, every=POLL_SECONDS)


@pytest.mark.long
def test_a_backfill_of_the_ui_executes_each_partition_once(service: Service, site: DaySite) -> None:
    pipeline = site.pipeline.replace("${DAY}", "${DAY}&of=${COUNTRY}")
    shop = Shop(service, pipeline, [MONTH | {"end": "2026-06-03"}, {"values": ["it", "fr"], "parameter": "COUNTRY"}])
    keys = shop.node()["partitionKeys"]
    assert len(keys) == 6
    params = {"partitionNames": keys, "assetSelection": [{"path": shop.key}]}
    launched = service.graphql(BACKFILL, params=params)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def get_status() -> str:
        return service.graphql(STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"]

    wait_until(lambda: get_status() not in ("REQUESTED", "CANCELING"), 3 * PATIENCE_SECONDS, every=1)
    assert get_status() == "COMPLETED_SUCCESS"
    assert sorted(shop.list_present()) == sorted(keys)
    executions = service.get(f"{shop.job.path}/executions")
    assert sorted(each["partition"] for each in executions) == sorted(keys)
    assert shop.node()["partitionStats"] == {"numMaterialized": 6, "numFailed": 0, "numPartitions": 6}
