"""The operations of ean-image-sourcing: from a CSV file to its images, of one organization."""

from __future__ import annotations

import io
import sys
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from core.infra.storage import open_storage
from core.infra.storage.protocol import kept_files_key
from plugins.ean_image_sourcing import pipelines
from plugins.ean_image_sourcing.ean_files import is_valid_ean
from tests.plugins.ean_image_sourcing.countries import BASE, EANS, complete, make_image, upload
from tests.plugins.ean_image_sourcing.images import make_photo
from tests.support.api import Api, Job, Server
from tests.support.pipelines import Run
from tests.support.search_engines import serve_search
from tests.support.site import Site

PAGE = (
    "<html><h1>Pen</h1><script type='application/ld+json'>"
    '{"@type": "Product", "name": "Pen", "brand": "Stabilo"}</script></html>'
)


def get_code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["details"][0]["code"]


@pytest.fixture(scope="module")
def acme(server: Server) -> Api:
    return server.caller("picture buyers", "admin")


def test_a_country_goes_from_a_file_to_images(acme: Api, server: Server) -> None:
    assert acme.get(f"{BASE}/france/status")["hasJobs"] is False
    assert get_code(acme.call("POST", f"{BASE}/france/execute", json={})) == (404, "not-found")
    lines = f"Name;EAN code\nPen;{EANS[0]}\nCup;{EANS[1]}\n\nBad;4006381333932\nWord;pencil\nBox;9638-5074\n"
    stored = upload(acme, "france", lines.encode("utf-16")).json()
    assert (stored["rowCount"], stored["invalidCount"], stored["columns"]) == (3, 2, ["Name", "ean"])
    assert [each["value"] for each in stored["invalidRows"]] == ["4006381333932", "pencil"]
    again = upload(acme, "france", lines.encode()).json()
    assert again["datasetId"] == stored["datasetId"]
    rows = acme.post("/datasets/query", {"sql": "SELECT ean FROM dataset", "datasetId": stored["datasetId"]})
    assert [each["ean"] for each in rows["results"]] == [*EANS]

    once = {"json": {"limit": 5}, "headers": {"Idempotency-Key": "one execution"}}
    submitted, repeated = (acme.call("POST", f"{BASE}/france/execute", **once).json() for _ in range(2))
    assert repeated == submitted
    status = acme.get(f"{BASE}/france/status")
    followed = f"/projects/id/{submitted['projectId']}/jobs/{submitted['jobId']}/executions/{submitted['executionId']}"
    assert acme.get(f"{followed}/status")["executionId"] == submitted["executionId"]
    assert (submitted["status"], status["latestExecution"]["executionId"]) == ("SUBMITTED", submitted["executionId"])
    assert get_code(acme.call("POST", f"{BASE}/france/images", json={"eans": [EANS[0]]})) == (404, "not-found")
    job = Job(acme, status["projectId"], status["latestJobId"], "")
    found = [make_image(EANS[0], 1, 0.5), make_image(EANS[0], 2, 0.9), make_image(EANS[0], 3, None)]
    complete(job, submitted["executionId"], [*found, make_image(EANS[1], 4, 0.7)])

    images = acme.post(f"{BASE}/france/images", {"eanCodes": [*EANS], "includeBase64": True})["results"]
    assert [(each["ean"], each["score"], each["base64"]) for each in images] == [
        (EANS[0], 0.9, None),
        (EANS[1], 0.7, None),
        (EANS[0], 0.5, None),
    ]
    assert images[0]["url"] == f"http://shop.test/{EANS[0]}/2.jpg"
    for row, text in ((found[1], b"image"), (found[0], b"another")):
        key = f"{kept_files_key(acme.organization_id)}/{row['image_thumbnail']}"
        open_storage(server.settings.storage).put(key, io.BytesIO(text))
    best = acme.post(f"{BASE}/france/images", {"eans": [*EANS], "limit": 1, "includeThumbnails": True})["results"]
    assert [(each["ean"], each["thumbnail"]) for each in best] == [(EANS[0], "aW1hZ2U="), (EANS[1], None)]
    filters = {"image_score": {"op": ">=", "value": 0.6}, "ean": [EANS[0], "it's"]}
    body = {"filters": filters, "columns": ["result_rank"]}
    assert acme.post(f"{BASE}/france/query", body) == {
        "results": [{"result_rank": 2}],
        "columns": ["result_rank"],
        "rowCount": 1,
    }
    assert acme.post(f"{BASE}/france/query", {"sql": "SELECT count(*) AS n FROM output"})["results"] == [{"n": 4}]
    for period, ranks in (
        ({"dateFrom": "2026-01-03", "dateTo": "2026-01-04"}, [2, 3]),
        ({"dateFrom": "2026-01-03T13:00:00+01:00", "dateTo": "2026-01-04T11:59:59Z"}, [2]),
        ({"dateTo": "2026-01-02"}, [1]),
        ({"dateFrom": "2026-02-01"}, []),
    ):
        rows = acme.post(f"{BASE}/france/query", {"columns": ["result_rank"], **period})["results"]
        assert sorted(each["result_rank"] for each in rows) == ranks
    images = acme.post(f"{BASE}/france/images", {"eans": [*EANS], "dateFrom": "2026-01-03T12:00:01Z"})["results"]
    assert [each["ean"] for each in images] == [EANS[1]]
    unknown = acme.call("POST", f"{BASE}/france/query", json={"filters": {"no": 1}})
    assert unknown.status_code == 400
    other = server.caller("picture thieves", "admin")
    assert other.get(f"{BASE}/france/status")["hasJobs"] is False
    assert get_code(other.call("POST", f"{BASE}/france/query", json={})) == (404, "not-found")


def test_a_schedule_sets_a_country_up_once(acme: Api) -> None:
    body = {"cronSchedule": "0 3 * * *", "timezone": "Europe/Berlin"}
    refused = acme.call("POST", f"{BASE}/new-zealand/schedule", json=body, headers={"X-Encryption-Key": "k"})
    assert get_code(refused) == (400, "invalid-value")
    first, second = (acme.post(f"{BASE}/new-zealand/schedule", body) for _ in range(2))
    assert first["jobId"] == second["jobId"]
    assert first["nextTicks"]
    told = acme.get(f"{BASE}/bootstrap/status")
    (place,) = [each for each in told["countries"] if each["country"] == "new-zealand"]
    assert (place["jobId"], place["ready"], told["ready"]) == (first["jobId"], True, True)
    assert "new-zealand" in acme.get(f"{BASE}/info")["countries"]


def test_pages_are_visited_or_fetched_where_no_browser_can_be_started(
    acme: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_stage(country: str) -> str:
        acme.post(f"{BASE}/{country}/schedule", {"cronSchedule": "0 3 * * *", "enabled": False})
        places = acme.get(f"{BASE}/bootstrap/status")["countries"]
        agent = next(each["agentId"] for each in places if each["country"] == country)
        text = next(each["pipelineYaml"] for each in acme.get("/agents") if each["id"] == agent)
        return text.partition(", args: [$result_link]")[0].rpartition("stage: ")[2]

    monkeypatch.setenv("SPINDLE_CHROMIUM", "/no/such/program")
    assert read_stage("norway") == "wget"
    told = acme.get(f"{BASE}/bootstrap/status")
    assert (told["ready"], told["browser"]) == (True, False)
    assert "SPINDLE_CHROMIUM names '/no/such/program', which is not a program. Until then" in told["problem"]
    monkeypatch.setenv("SPINDLE_CHROMIUM", sys.executable)
    assert read_stage("norway") == "visit"
    told = acme.get(f"{BASE}/bootstrap/status")
    assert (told["browser"], told["problem"]) == (True, None)


def test_bad_files_and_countries_are_refused(acme: Api) -> None:
    lacking = upload(acme, "spain", b"id,name\n1,Pen\n")
    assert get_code(lacking) == (400, "missing-field")
    assert "its columns are id, name" in lacking.json()["error"]
    assert get_code(upload(acme, "spain", b"ean\nABC\n")) == (400, "invalid-value")
    assert get_code(upload(acme, "spain", b"ean,\xff\n1,2\n")) == (400, "invalid-encoding")
    assert get_code(upload(acme, "spain", b"ean,EAN\n1,2\n")) == (400, "invalid-header")
    assert upload(acme, "Spain", b"ean\n96385074\n").status_code == 400
    assert upload(acme, "a%2Fb", b"ean\n96385074\n").status_code == 400
    assert acme.get(f"{BASE}/spain/status")["hasJobs"] is False
    large = b"ean\n" + b"1\n" * 3_000_000  # more than other bodies may have
    assert "None of the 3,000,000 rows" in upload(acme, "spain", large).json()["error"]
    assert acme.call("POST", f"{BASE}/spain/query", content=large).status_code == 413


def test_check_digits() -> None:
    assert [is_valid_ean(each) for each in (*EANS, "036000291452", "4006381333930", "40063813339", "٤٠٠٦٣٨١٣")] == [
        *[True] * 4,
        *[False] * 3,
    ]


def test_the_pipeline_finds_and_scores_images(
    run: Run, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = site.serve(
        {
            **{f"/{at}.jpg": make_photo(1, quality=50 + 10 * at) for at in range(3)},
            "/3.jpg": make_photo(2),
            **{f"/page?{at}": PAGE for at in range(4)},
        }
    )
    (tmp_path / "eans.csv").write_text(f"ean\n{EANS[0]}\n")
    with serve_search() as search:
        variables = search.get_variables("google")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        search.results[EANS[0]] = [(f"{base}/page?{at}", "Pen", "A pen", f"{base}/{at}.jpg") for at in range(4)]
        text = files(pipelines).joinpath("images.yaml").read_text()
        rows = run(text, environment=variables, INPUT_PATH=str(tmp_path / "eans.csv"))
    assert [row["image_url"].removeprefix(base) for row in rows][-1] == "/3.jpg"
    assert min(row["image_score"] for row in rows[:3]) > 0.9 > rows[3]["image_score"]
    assert {row["image_thumbnail"] is not None for row in rows} == {True}
    assert {(row["page_product_name"], row["page_brand"]) for row in rows} == {("Pen", "Stabilo")}
