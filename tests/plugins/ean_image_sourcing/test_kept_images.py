"""Kept images: deleted some time after the last rows that name them, with their part of the limit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256

import pytest
from sqlalchemy import select

from core.data.datasets.collector import FileCollector
from core.infra.database import open_database
from core.infra.storage import open_storage
from core.infra.storage.protocol import kept_files_key
from core.tables import DatasetVersion, now
from pipelines.fetch.files import FileFolder
from tests.plugins.ean_image_sourcing.countries import BASE, EANS, complete, make_image, upload
from tests.support.api import Api, Job, Server

pytestmark = pytest.mark.folder
SIZE = 10


@pytest.fixture
def buyers(server: Server, request: pytest.FixtureRequest) -> Api:
    return server.caller(request.node.name, "admin")


@pytest.fixture
def collector(server: Server) -> Iterator[FileCollector]:
    database = open_database(server.settings)
    yield FileCollector(server.settings, database, open_storage(server.settings.storage))
    database.close()


def get_folder(api: Api, max_bytes: int = 1000) -> FileFolder:
    folder = open_storage(api.settings.storage).url_for(kept_files_key(api.organization_id), "spark")
    return FileFolder(folder, "kept", max_bytes)


def list_kept(api: Api) -> set[str]:
    files = open_storage(api.settings.storage).list(kept_files_key(api.organization_id))
    return {name for each in files if (name := each.key.rpartition("/")[2]) != ".bytes"}


def begin(api: Api, country: str) -> tuple[Job, str]:
    upload(api, country, f"ean\n{EANS[0]}\n".encode())
    execution = api.post(f"{BASE}/{country}/execute", {})["executionId"]
    status = api.get(f"{BASE}/{country}/status")
    return Job(api, status["projectId"], status["latestJobId"], ""), execution


def keep_images(api: Api, *names: str) -> list[str]:
    """Keep files as a driver does; return their hashes."""
    bodies = [name.encode().ljust(SIZE) for name in names]
    for body in bodies:
        get_folder(api).add_picture(body)
    return [sha256(body).hexdigest() for body in bodies]


def test_images_are_deleted_after_the_last_rows_that_name_them(buyers: Api, collector: FileCollector) -> None:
    later = now() + timedelta(days=2)
    image, thumbnail, shared, left = hashes = keep_images(buyers, "image", "thumbnail", "shared", "left")
    jobs: list[Job] = []
    for country, own in (("spain", image), ("malta", shared)):
        job, execution = begin(buyers, country)
        collector.sweep(later)
        assert list_kept(buyers) == {*hashes} - ({left} if jobs else set()), "an execution may have kept them"
        rows = [make_image(EANS[0], 1, 0.5) | {"image_sha256": each} for each in (own, shared)]
        complete(job, execution, [each | {"image_thumbnail": thumbnail} for each in rows])
        collector.sweep(now())
        assert left in list_kept(buyers) or jobs, "not before some hours are over"
        collector.sweep(later)
        assert left not in list_kept(buyers)
        jobs.append(job)
    assert list_kept(buyers) == {image, thumbnail, shared}
    buyers.call("DELETE", f"/projects/id/{jobs[0].project_id}")
    collector.sweep(later)
    assert list_kept(buyers) == {thumbnail, shared}
    buyers.call("DELETE", f"/projects/id/{jobs[1].project_id}")
    collector.sweep(later)
    assert list_kept(buyers) == set()
    get_folder(buyers, 2 * SIZE).add_picture(b"new".ljust(2 * SIZE))  # the limit has room again


def test_an_image_stays_though_the_files_name_its_column_otherwise(buyers: Api, collector: FileCollector) -> None:
    (image,) = keep_images(buyers, "image of a table")
    job, execution = begin(buyers, "italy")
    complete(job, execution, [make_image(EANS[0], 1, 0.5) | {"image_sha256": image}])
    database = open_database(buyers.settings)
    with database.write() as session:
        version = session.scalars(select(DatasetVersion).where(DatasetVersion.execution_id == execution)).one()
        assert "image_sha256" in {each["name"] for each in version.columns}
        version.columns = [each | {"name": each["name"].replace("_sha", " x_sha")} for each in version.columns]
    database.close()
    collector.sweep(now() + timedelta(days=2))
    assert image in list_kept(buyers)
