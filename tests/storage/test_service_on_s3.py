"""A whole service whose storage is a bucket: nothing that it keeps is in a folder of its machine."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.plugins.ean_image_sourcing.images import make_photo
from tests.support.libraries import needs_libraries
from tests.support.s3 import Bucket, delete_bucket
from tests.support.service import POLL_SECONDS, Service, wait_until
from tests.support.site import Site
from tests.support.versions import write_and_read

PIPELINE = """
fetch: {{url: "{site}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
  - {{stage: store, args: [titles]}}
  - {{stage: save_parquet, args: [titles]}}
  - {{stage: save_csv, args: [listed]}}
  - {{stage: load_parquet, args: [titles]}}
"""
PAGES = {"/": "<a href=1>1</a><a href=2>2</a>", "/1": "<h1>one</h1>", "/2": "<h1>two</h1>"}
TABLE = """
pipeline:
  - {{stage: load_csv, args: [{{path: "{site}/rows.csv", header: true, inferSchema: true}}]}}
output: {{format: {format}, mode: merge, keys: [id]}}
"""
RUN_SECONDS = 300  # with the libraries of a format and of S3
DOWNLOADS = """
pipeline:
  - {{stage: load_csv, args: ["{site}/list.csv"]}}
  - {{stage: cache, args: []}}
  - {{stage: download, args: [$page]}}
"""
IMAGES = """
pipeline:
  - {{stage: load_csv, args: ["{site}/images.csv"]}}
  - {{stage: imageSimilarity, args: [{{keep: true}}]}}
"""
OF_A_USER = """
pipeline:
  - {{stage: load_csv, args: ["s3a://{name}/mine/in.csv"]}}
  - {{stage: save_csv, args: ["s3n://{name}/mine/saved", append]}}
output: {{path: "s3://{name}/mine/published"}}
"""
BY_NAME = """
pipeline:
  - {{stage: load_csv, args: [{{path: "s3://{name}/mine/in.csv", credential: warehouse}}]}}
  - {{stage: save_csv, args: ["s3://{name}/mine/named"]}}
"""
REFUSED = (
    ("service's own storage", "s3://{own}/x/in.csv"),
    ("does not exist", "s3://{name}-none/in.csv"),
    ("Path does not exist", "s3://{name}/mine/none.csv"),
)


@pytest.fixture(scope="module")
def mine(bucket: Bucket, on_s3: Service) -> Iterator[Bucket]:
    """A bucket of a user, which the organization's AWS credential reaches."""
    mine = bucket.create_other()
    credential = on_s3.post("/cloud-credentials", mine.credential)["id"]
    yield mine
    with on_s3.client() as client:
        client.delete(f"/cloud-credentials/id/{credential}")
    delete_bucket(mine)


def list_local_files(service: Service) -> list[Path]:
    return [path for path in (service.data / "storage").rglob("*") if path.is_file()]


def find_secret(service: Service, bucket: Bucket) -> list[str]:
    """Return the files of this machine in which the storage's secret key is readable."""
    return [path for path, content in service.read_files().items() if bucket.secret_key.encode() in content]


def test_an_execution_keeps_all_its_files_in_the_bucket(on_s3: Service, bucket: Bucket, web: Site) -> None:
    url = web.serve(PAGES)
    job = on_s3.make_job(PIPELINE.format(site=url))
    execution = on_s3.complete(job)
    assert {path: web.requests[path] for path in PAGES} == {"/": 1, "/1": 1, "/2": 1}
    found = {each["name"]: each for each in on_s3.get(f"/datasets?projectId={job.project_id}&storageType=S3")}
    assert {name: each["rowCount"] for name, each in found.items()} == {"rows": 2, "titles": 2, "listed": 2}
    table = f"{found['rows']['schema']}.{found['rows']['tableName']}"
    answer = on_s3.post("/datasets/query", {"sql": f"SELECT title FROM {table} ORDER BY 1"})
    assert [row["title"] for row in answer["results"]] == ["one", "two"]
    for name in found:
        with on_s3.client() as client:
            content = client.get(f"/datasets/{found[name]['id']}/download?format=csv")
        assert sorted(content.text.split()) == ["one", "title", "two"]
    folders = {key.split("/executions/")[1].split("/")[2] for key in bucket.list() if f"/{execution}/" in key}
    assert folders >= {"output", "saves", "driver.log"}
    assert any("/pages/" in key for key in bucket.list())
    wait_until(lambda: not list_local_files(on_s3), 60)
    assert on_s3.get(f"{job.path}/executions/{execution}/logs")["logs"]
    assert find_secret(on_s3, bucket) == []


@needs_libraries
@pytest.mark.long
@pytest.mark.parametrize("format_", ["delta", pytest.param("iceberg", marks=pytest.mark.variant)])
def test_tables_are_in_the_bucket(on_s3: Service, format_: str, web: Site) -> None:
    job = on_s3.make_job(TABLE.format(site=web.url, format=format_))
    for rows in ("id,name\n1,a\n2,b\n", "id,name\n2,B\n3,c\n"):
        web.serve({"/rows.csv": rows})
        status = on_s3.wait(job, on_s3.execute(job), seconds=RUN_SECONDS)
        assert status["status"] == "COMPLETED", status
    (dataset,) = on_s3.get(f"/datasets?projectId={job.project_id}")
    query = {"sql": "SELECT id, name FROM dataset ORDER BY id", "datasetId": dataset["id"]}
    rows = [(row["id"], row["name"]) for row in on_s3.post("/datasets/query", query)["results"]]
    assert rows == [(1, "a"), (2, "B"), (3, "c")]
    before = on_s3.post("/datasets/query", {**query, "version": 1})["results"]
    assert [(row["id"], row["name"]) for row in before] == [(1, "a"), (2, "b")]
    with on_s3.client() as client:
        content = client.get(f"/datasets/{dataset['id']}/download?format=csv")
    assert sorted(content.text.split()) == ["1,a", "2,B", "3,c", "id,name"]


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_two_readers_see_whole_versions_in_a_bucket_only(on_s3: Service) -> None:
    write_and_read(on_s3, "parquet", "append")


@pytest.mark.long
def test_downloaded_files_are_in_the_bucket(on_s3: Service, bucket: Bucket, web: Site) -> None:
    content = "<h1>one</h1>"
    url = web.serve({"/list.csv": "", "/1": content})
    web.pages["/list.csv"] = f"page\n{url}/1\n{url}/1?again\n"
    web.pages["/1?again"] = content
    job = on_s3.make_job(DOWNLOADS.format(site=url))
    execution = on_s3.complete(job)
    digest = sha256(content.encode()).hexdigest()
    with on_s3.client() as client:
        assert client.get(f"{job.path}/executions/{execution}/files/{digest}").text == content
    kept = [key.rpartition("/")[2] for key in bucket.list() if f"/{execution}/files/" in key]
    assert kept == [digest]
    assert not any(f"/{execution}/1/checkpoints/" in key for key in bucket.list())  # they are deleted at the end


@pytest.mark.long
def test_images_of_all_executions_are_once_in_the_bucket(on_s3: Service, bucket: Bucket, web: Site) -> None:
    url = web.serve({"/images.csv": "", "/1.jpg": make_photo(1), "/2.jpg": make_photo(2)})
    web.pages["/images.csv"] = f"ean,image_url\n96385074,{url}/1.jpg\n96385074,{url}/2.jpg\n"
    job = on_s3.make_job(IMAGES.format(site=url))
    for _ in range(2):
        execution = on_s3.complete(job)
    (dataset,) = on_s3.get(f"/datasets?projectId={job.project_id}")
    query = {"sql": "SELECT image_sha256, image_thumbnail FROM dataset", "datasetId": dataset["id"]}
    named = {name for row in on_s3.post("/datasets/query", query)["results"] for name in row.values()}
    kept = [key.rpartition("/")[2] for key in bucket.list() if key.split("/")[-2:-1] == ["files"]]
    assert len(named) == 4
    assert sorted(name for name in kept if name in named) == sorted(named)
    with on_s3.client() as client:
        for each in (1, 2):
            content = make_photo(each)
            path = f"{job.path}/executions/{execution}/files/{sha256(content).hexdigest()}"
            assert client.get(path).content == content


@pytest.mark.long
def test_uploads_queries_and_packages_are_in_the_bucket(on_s3: Service, bucket: Bucket) -> None:
    with on_s3.client() as client:
        made = client.post("/datasets/upload", files={"file": ("prices.csv", b"n,price\na,1.5\nb,2\n")}).json()
        table = f"{made['schema']}.{made['tableName']}"
        for format_ in ("csv", "jsonl", "parquet"):
            assert client.get(f"/datasets/{made['id']}/download?format={format_}").is_success
        bucket.put(f"{made['id']}.parquet", b"not a file of the dataset")
        sql = f"SELECT sum(price) AS total FROM {table}"
        assert client.post("/datasets/query", json={"sql": sql}).json()["results"] == [{"total": 3.5}]
        query = client.post("/datasets/query?async=true", json={"sql": sql}).json()["queryId"]
        wait_until(
            lambda: client.get(f"/datasets/queries/{query}").json()["status"] == "COMPLETED", 60, every=POLL_SECONDS
        )
        assert client.get(f"/datasets/queries/{query}/results?format=csv").text.split() == ["total", "3.5"]
    assert not list_local_files(on_s3)


@pytest.mark.long
def test_a_pipeline_reads_and_writes_a_bucket_of_the_user(on_s3: Service, mine: Bucket, tmp_path: Path) -> None:
    mine.put("in.csv", b"title\none\ntwo\n")
    mine.put("published/part-old.parquet", b"an earlier output")
    job = on_s3.make_job(OF_A_USER.format(name=mine.name))
    for _ in range(2):
        status = on_s3.wait(job, on_s3.execute(job))
        assert status["status"] == "COMPLETED", status
    saved = [mine.get(key).decode() for key in mine.list("saved")]
    assert sorted("".join(saved).split()) == ["one", "one", "title", "title", "two", "two"]
    published = mine.list("published")
    assert len(published) == 1
    (tmp_path / "rows.parquet").write_bytes(mine.get(published[0]))
    assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == {"title": ["one", "two"]}
    assert [each["rowCount"] for each in on_s3.get(f"/datasets?projectId={job.project_id}")] == [2]
    assert find_secret(on_s3, mine) == []


@pytest.mark.long
def test_a_pipeline_names_the_credential_for_a_bucket(on_s3: Service, mine: Bucket) -> None:
    mine.put("in.csv", b"title\none\ntwo\n")
    wrong = on_s3.post("/cloud-credentials", mine.credential | {"secretAccessKey": "not the key"})["id"]
    on_s3.post("/cloud-credentials", mine.credential | {"name": "warehouse"})
    job = on_s3.make_job(BY_NAME.format(name=mine.name))
    execution = on_s3.execute(job, {"cloudCredentialIds": [wrong]})
    status = on_s3.wait(job, execution)
    assert status["status"] == "COMPLETED", status
    assert sorted("".join(mine.get(key).decode() for key in mine.list("named")).split()) == ["one", "title", "two"]
    assert find_secret(on_s3, mine) == []


@pytest.mark.long
def test_a_bucket_that_cannot_be_read_tells_why(on_s3: Service, mine: Bucket, bucket: Bucket) -> None:
    addresses = [path.format(name=mine.name, own=bucket.name) for _, path in REFUSED]
    jobs = [on_s3.make_job(f"pipeline:\n  - {{stage: load_csv, args: ['{address}']}}\n") for address in addresses]
    executions = [on_s3.execute(job) for job in jobs]
    wrong = on_s3.post("/cloud-credentials", mine.credential | {"secretAccessKey": "not the key"})["id"]
    jobs.append(on_s3.make_job(f"pipeline:\n  - {{stage: load_csv, args: ['{mine.address}/in.csv']}}\n"))
    executions.append(on_s3.execute(jobs[-1], {"cloudCredentialIds": [wrong]}))
    reasons = [*(reason for reason, _ in REFUSED), "secret key"]
    for job, execution, reason in zip(jobs, executions, reasons, strict=True):
        status = on_s3.wait(job, execution)
        assert status["status"] == "FAILED"
        assert reason in status["errorMessage"]
