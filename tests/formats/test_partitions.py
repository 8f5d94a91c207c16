"""Partitions of a table in a whole service: replaced two at a time and under a reader, and read by a job downstream."""

from __future__ import annotations

from threading import Event, Thread
from uuid import uuid4

import pytest

from tests.support.libraries import needs_libraries
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until

pytestmark = [needs_libraries, pytest.mark.long]
MONTH = {"by": "day", "start": "2026-06-01", "end": "2026-06-04", "parameter": "DAY"}
FIRST, SECOND, THIRD, LAST = (f"2026-06-0{day}" for day in (1, 2, 3, 4))
QUERY = "SELECT id, day FROM dataset ORDER BY id"


class Days:
    """A job that makes a table of the rows of days, each in a file."""

    def __init__(self, service: Service, format_: str) -> None:
        self.service, self.folder = service, service.files / uuid4().hex
        self.folder.mkdir()
        pipeline = f"pipeline: [{{stage: load_csv, args: ['{self.folder}/${{DAY}}.csv']}}]\n"
        self.job = self.split(service.make_job(f"{pipeline}output: {{format: {format_}}}\n"))

    def split(self, job: Job) -> Job:
        with self.service.client() as client:
            assert client.put(job.path, json={"partitions": MONTH}).is_success
        return job

    def write(self, day: str, *ids: str) -> None:
        (self.folder / f"{day}.csv").write_text("\n".join(["id", *ids]))

    def finish(self, *days: str, job: Job | None = None, state: str = "COMPLETED") -> None:
        """Execute days at once."""
        job = job or self.job
        begun = [self.service.execute(job, {"partition": day}) for day in days]
        ended = [self.service.wait(job, each, seconds=600) for each in begun]
        assert [each["status"] for each in ended] == [state] * len(days), [each["errorMessage"] for each in ended]

    def find_dataset(self, job: Job | None = None) -> Json:
        (dataset,) = self.service.get(f"/datasets?projectId={(job or self.job).project_id}")
        return dataset

    def query(self, sql: str = QUERY, job: Job | None = None, **more: object) -> list[tuple[str, ...]]:
        body = {"sql": sql, "datasetId": self.find_dataset(job)["id"], **more}
        return [tuple(row.values()) for row in self.service.post("/datasets/query", body)["results"]]

    def list_states(self) -> dict[str, tuple[str, int | None]]:
        found = self.service.get(f"{self.job.path}/partitions")
        return {each["key"]: (each["state"], each["rows"]) for each in found}


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_partitions_of_a_table_are_replaced_alone_and_whole(service: Service, format_: str) -> None:
    days = Days(service, format_)
    for day, ids in ((FIRST, "ab"), (SECOND, "cd"), (THIRD, "ef")):
        days.write(day, *ids)
    days.finish(FIRST, SECOND)
    days.finish(THIRD)
    days.finish(LAST, state="FAILED")
    before = [("a", FIRST), ("b", FIRST), ("c", SECOND), ("d", SECOND), ("e", THIRD), ("f", THIRD)]
    after = [("a", FIRST), ("b", FIRST), ("e", THIRD), ("f", THIRD), ("g", SECOND)]
    assert days.query() == before
    days.write(SECOND, "g")
    seen: list[list[tuple[str, ...]]] = [[*before]]
    is_over = Event()

    def count() -> None:
        while not is_over.wait(POLL_SECONDS):
            seen.append(days.query())

    reader = Thread(target=count)
    reader.start()
    try:
        days.finish(SECOND)
        wait_until(lambda: seen[-1] == after, PATIENCE_SECONDS, every=POLL_SECONDS)
    finally:
        is_over.set()
        reader.join()
    assert all(rows in (before, after) for rows in seen)
    assert days.query(version=3) == before
    assert days.query(f"SELECT count(*) FROM dataset WHERE day = '{SECOND}'") == [(1,)]
    states = {FIRST: ("PRESENT", 2), SECOND: ("PRESENT", 1), THIRD: ("PRESENT", 2), LAST: ("FAILED", None)}
    assert days.list_states() == states
    _read_downstream(days, format_)
    dataset = days.find_dataset()
    service.post(f"/datasets/{dataset['id']}/versions/1/restore", {})
    assert {key: state for key, (state, _) in days.list_states().items()}[THIRD] == "MISSING"
    days.finish(THIRD)
    assert {day for _, day in days.query()} >= {THIRD}


def _read_downstream(days: Days, format_: str) -> None:
    """Read the table by path in Spark and by name without it: of each only the day that the job makes."""
    dataset, service = days.find_dataset(), days.service
    name = f"{dataset['schema']}.{dataset['tableName']}"
    query = "SELECT id, day AS made FROM days"
    spark = f"{{stage: load_{format_}, args: ['{dataset['storagePath']}']}}, "
    spark += "{stage: sql_query, args: ['SELECT id, day AS made FROM rows']}"
    local = f"{{stage: sql_query, args: [{{query: '{query}', tables: {{days: {name}}}, dialect: trino}}]}}"
    for stages in (spark, local):
        text = f"pipeline: [{stages}]\nspindle: {{userAgent: '${{DAY}}'}}\n"
        job = days.split(service.make_job(text))
        days.finish(SECOND, job=job)
        assert days.query("SELECT id, made, day FROM dataset", job) == [("g", SECOND, SECOND)]
        with service.client() as client:
            answer = client.post(f"{job.path}/execute", json={"partition": LAST})
        assert (answer.status_code, answer.json()["details"][0]["code"]) == (409, "partition-missing")
    whole = service.make_job(f"pipeline: [{{stage: load_{format_}, args: ['{dataset['storagePath']}']}}]")
    assert service.wait(whole, service.execute(whole), seconds=600)["status"] == "COMPLETED"
    assert days.query("SELECT count(*) FROM dataset", whole) == [(5,)]
