"""Packages over HTTP: out of one organization, through links without a key, into another."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from core.infra.database import open_database
from core.infra.storage import open_storage
from core.integrations.packages import service
from core.integrations.packages.service import PackageService
from tests.support.api import PIPELINE, Api, Server, read_code


@pytest.fixture(scope="module")
def source(server: Server) -> Api:
    """An organization with two projects."""
    api = server.caller("source", "admin")
    api.job("Shop")
    category = api.post("/categories", {"name": "Crawlers", "visibility": "PRIVATE"})["id"]
    agent = api.post("/agents", {"name": "Books", "categoryId": category, "pipelineYaml": PIPELINE})["id"]
    library = api.post("/projects", {"name": "Library", "parameters": {"CITY": "Bern"}})["id"]
    job = api.post(f"/projects/id/{library}/jobs", {"name": "books", "agentId": agent, "enabled": False})["id"]
    nightly = {"name": "nightly", "cronSchedule": "0 2 * * *", "jobId": job, "parameters": {"CITY": "Rome"}}
    api.post(f"/projects/id/{library}/schedules", nightly)
    return api


def package_of(api: Api, **params: str) -> bytes:
    return httpx.get(api.get("/package/download", **params)["url"]).raise_for_status().content


def bring(api: Api, content: bytes, **headers: str) -> httpx.Response:
    return httpx.put(api.get("/package/upload")["url"], content=content, headers=headers)


def test_an_export_comes_through_its_link_and_round_trips(server: Server, source: Api):
    exported = source.get("/package/export/all")
    link = source.get("/package/download", exportId=exported["exportId"])
    assert link["exportId"] == exported["exportId"]
    response = httpx.get(exported["url"])
    assert httpx.get(link["url"]).content == response.content
    assert response.status_code == 200
    disposition = response.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="spindle-')
    assert disposition.endswith('.zip"')
    target = server.caller("target", "admin")
    assert bring(target, response.content).status_code == 200
    report = target.get("/package/import/all")
    assert {(each["kind"], each["name"]) for each in report["created"]} == {
        ("category", "Crawlers"),
        ("agent", "Shop"),
        ("agent", "Crawlers/Books"),
        ("project", "Shop"),
        ("project", "Library"),
        ("job", "Shop/Shop"),
        ("job", "Library/books"),
        ("schedule", "Library/nightly"),
    }
    assert (report["changed"], report["unchanged"], report["warnings"]) == ([], 0, [])
    library = target.get("/projects/Library")
    assert library["parameters"] == {"CITY": "Bern"}
    assert target.get(f"/projects/id/{library['id']}/jobs")[0]["enabled"] is False
    target.get("/package/export/all")
    assert package_of(target) == response.content
    again = target.get("/package/import/all")
    assert again["importId"] == report["importId"]
    assert (again["created"], again["changed"], again["unchanged"]) == ([], [], 8)


def test_a_package_is_read_in_parts(source: Api):
    link = source.get("/package/export/all")["url"]
    whole = httpx.get(link)
    assert whole.headers["Accept-Ranges"] == "bytes"
    etag, size = whole.headers["ETag"], len(whole.content)
    rest = httpx.get(link, headers={"Range": "bytes=10-", "If-Range": etag})
    assert (rest.status_code, rest.headers["Content-Range"]) == (206, f"bytes 10-{size - 1}/{size}")
    assert rest.content == whole.content[10:]
    beyond = httpx.get(link, headers={"Range": f"bytes={size}-"})
    assert read_code(beyond) == (416, "invalid-range")
    head = httpx.head(link)
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(size), b"")


def test_an_export_is_the_same_until_something_changes(source: Api):
    first = source.get("/package/export/all")["exportId"]
    content = package_of(source, exportId=first)
    assert source.get("/package/export/all")["exportId"] == first
    project = source.project("Later")
    second = source.get("/package/export/all")["exportId"]
    assert second != first
    assert package_of(source) == package_of(source, exportId=second) != content
    source.call("DELETE", f"/projects/id/{project}")
    assert source.get("/package/export/all")["exportId"] == first


def test_one_project_is_exported_with_only_its_own_references(source: Api):
    project = source.get("/projects/Library")["id"]
    exported = source.get(f"/package/export/id/{project}")["exportId"]
    with zipfile.ZipFile(io.BytesIO(package_of(source, exportId=exported))) as package:
        assert b"Crawlers/Books" in package.read("declaration.json")
        assert b"Shop" not in b"".join(package.read(name) for name in package.namelist())


def test_one_project_of_a_package_is_restored_by_its_name(server: Server, source: Api):
    content = package_of(source, exportId=source.get("/package/export/all")["exportId"])
    target = server.caller("restored", "admin")
    project = target.project("Library")
    assert bring(target, content).status_code == 200
    report = target.get(f"/package/import/id/{project}")
    assert [each["name"] for each in report["changed"]] == ["Library"]
    assert {each["name"] for each in report["created"]} == {
        "Crawlers",
        "Crawlers/Books",
        "Library/books",
        "Library/nightly",
    }
    assert [each["name"] for each in target.get("/projects")] == ["Library"]
    other = target.project("Not in it")
    refused = target.call("GET", f"/package/import/id/{other}")
    assert (refused.status_code, "no project 'Not in it'" in refused.json()["error"]) == (400, True)


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}, {"Content-Type": "x/y"}], ids=str)
def test_an_upload_needs_no_key_and_no_type(source: Api, headers: dict[str, str]):
    content = package_of(source)
    link = source.get("/package/upload")
    response = httpx.put(link["url"], content=content, headers=headers)
    assert response.json()["uploadId"] == link["uploadId"]
    assert response.json()["sizeBytes"] == len(content)


def test_after_a_rejected_upload_the_one_before_it_is_not_imported(server: Server, source: Api):
    def too_much() -> Iterator[bytes]:
        for _ in range(65):
            yield bytes(2**20)

    api = server.caller("rejected", "admin")
    content = package_of(source)
    for rejected, status in ((b"no package", 400), (too_much(), 413), (bytes(64 * 2**20 + 1), 413)):
        accepted = api.get("/package/upload")
        assert httpx.put(accepted["url"], content=content).status_code == 200
        link = api.get("/package/upload")
        assert httpx.put(link["url"], content=rejected).status_code == status
        assert api.call("GET", "/package/import/all").status_code == 409
        assert api.call("GET", "/package/import/all", params={"uploadId": link["uploadId"]}).status_code == 409
        assert api.call("GET", "/package/import/all", params={"uploadId": accepted["uploadId"]}).status_code == 200
        assert httpx.put(link["url"], content=content).status_code == 200
        assert api.call("GET", "/package/import/all").status_code == 200


def test_links_do_not_follow_the_host_header(source: Api):
    for path in ("/package/upload", "/package/export/all"):
        url = source.call("GET", path, headers={"Host": "evil.example"}).json()["url"]
        assert url.startswith(str(source.client.base_url)), url


def test_a_link_takes_one_package_and_the_same_again(source: Api, rival: Api):
    first, second = package_of(source), package_of(rival)
    link = source.get("/package/upload")
    answers = [httpx.put(link["url"], content=content).status_code for content in (b"x", first, first, second)]
    assert answers == [400, 200, 200, 409]


def test_a_link_opens_one_package_to_one_method_until_it_expires(
    server: Server, source: Api, monkeypatch: pytest.MonkeyPatch
):
    asked_at = int(time.time())
    url = source.get("/package/download")["url"]
    upload = source.get("/package/upload")["url"]
    query = parse_qs(urlsplit(url).query)
    assert asked_at + 3600 <= int(query["expires"][0]) <= time.time() + 3600
    package = urlsplit(url).path.rpartition("/")[2]
    base = url.partition("?")[0]
    other = server.caller("other exporter", "admin")
    theirs = other.get("/package/download")["exportId"]
    with monkeypatch.context() as patch:
        patch.setattr(service, "LINK_LIFETIME", timedelta(hours=-1))
        database = open_database(server.settings)
        packages = PackageService(server.settings, database, open_storage(server.settings.storage))
        expired = packages.sign_link("GET", package)
        database.close()
    refused = [
        httpx.get(base),
        httpx.get(url.replace("signature=", "signature=0")),
        httpx.get(url[:-1]),
        httpx.get(url.replace("expires=", "expires=1")),
        httpx.get(url.replace(package, theirs)),
        httpx.get(f"{base}?{expired}"),
        httpx.get(upload),
        httpx.put(url, content=b""),
    ]
    assert {response.status_code for response in refused} == {401}
    assert httpx.get(url).status_code == 200


def test_links_reveal_nothing_about_organizations(server: Server, source: Api):
    for kind in ("download", "upload"):
        url = source.get(f"/package/{kind}")["url"]
        assert url.startswith("http://")
        assert "source" not in url
        assert source.organization_id not in url


def test_anothers_exports_and_uploads_are_unknown(source: Api, rival: Api):
    export, upload = rival.get("/package/download")["exportId"], rival.get("/package/upload")["uploadId"]
    assert source.call("GET", "/package/download", params={"exportId": export}).status_code == 404
    assert source.call("GET", "/package/import/all", params={"uploadId": upload}).status_code == 404


def test_packages_are_for_admins(server: Server, source: Api):
    plain = server.caller(source.organization_id)
    assert plain.call("GET", "/package/export/all").status_code == 403


def test_jobs_of_one_name_are_matched_by_their_slugs(server: Server):
    origin, target = server.caller("twins", "admin"), server.caller("other twins", "admin")
    project = origin.project("Twins")
    for text in ("first", "second"):
        origin.post(f"/projects/id/{project}/jobs", {"name": "twin", "description": text})
    origin.get("/package/export/all")
    content = package_of(origin)
    bring(target, content)
    target.get("/package/import/all")
    path = f"/projects/id/{target.get('/projects/Twins')['id']}/jobs"
    first, second = target.get(path)
    assert target.call("DELETE", f"{path}/{first['id']}").status_code == 200
    target.put(f"{path}/{second['id']}", {"description": "changed"})
    target.get("/package/import/all")
    jobs = {each["id"]: each["description"] for each in target.get(path)}
    assert jobs.pop(second["id"]) == "second"
    assert list(jobs.values()) == ["first"]
    target.get("/package/export/all")
    assert package_of(target) == content
