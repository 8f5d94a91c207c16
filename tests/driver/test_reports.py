"""Whole runs of a driver: what it reports of its engines, failed pages and saves."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.driver import run_driver, spec
from tests.support.site import Site
from tests.support.webhook_receiver import Receiver

PAGES = {"/": "".join(f"<a href=/{each}>{each}</a>" for each in range(12))}
PAGES |= {f"/{each}": f"<h1>{each}</h1>" for each in range(12)}


@pytest.mark.long
@pytest.mark.parametrize("stage", ["{stage: wgetJoin, args: [a]}", "{stage: wgetExplore, args: [a, 2]}"])
def test_a_driver_grows_over_and_reports_both_engines(
    tmp_path: Path, site: Site, receiver: Receiver, stage: str
) -> None:
    base = site.serve(PAGES)
    pipeline = f"""
fetch: {{url: "${{BASE}}/"}}
pipeline:
  - {stage}
  - {{stage: extract, args: [{{selector: h1, as: title}}]}}
"""
    content = spec(tmp_path, receiver.url, pipelineYaml=pipeline, parameters={"BASE": base}, growth={"pages": 5})
    log = run_driver(tmp_path, content)
    report = receiver.take()[-1].payload
    titles = {row["title"] for row in pq.read_table(tmp_path / "out").to_pylist()}
    assert titles - {None} == {str(each) for each in range(12)}
    assert set(site.requests.values()) == {1}
    assert report["additionalMetrics"]["engine"] == "local, then spark"
    assert report["executorCount"] == 1
    assert [line["event"] for line in log].count("goes on with Spark") == 1


BLOCKED = "<title>Just a moment...</title><script src='/cdn-cgi/challenge-platform/x.js'></script>"
FAILING_PAGES: dict[str, str | int] = {
    "/list?key=ge%20heim%20nis": "".join(f"<a href='/{n}?key=ge%20heim%20nis'>x</a>" for n in range(8)),
    **{f"/{n}?key=ge%20heim%20nis": f"<h1>{n}</h1>" for n in range(3)},
    **{f"/{n}?key=ge%20heim%20nis": BLOCKED for n in range(3, 6)},
    "/6?key=ge%20heim%20nis": 404,
    "/7?key=ge%20heim%20nis": 500,
}
TEXT = """
fetch: {{url: "${{BASE}}/list?key=${{SHOP_KEY}}"}}
pipeline:
  - {{stage: join, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: title}}]}}
spindle: {{robots: ignore, backoff: 0.1, maxFailureRatio: {ratio}}}
"""


@pytest.mark.long
@pytest.mark.parametrize(("ratio", "state", "code"), [(1, "COMPLETED", 0), (0.1, "FAILED", 1)])
def test_failures_are_named_by_status_and_reason_and_listed_without_secrets(
    tmp_path: Path, site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, ratio: float, state: str, code: int
) -> None:
    base = site.serve(FAILING_PAGES)
    monkeypatch.setenv("SHOP_KEY", "ge heim nis")
    content = spec(
        tmp_path,
        receiver.url,
        pipelineYaml=TEXT.format(ratio=ratio),
        parameters={"BASE": base, "SHOP_KEY": "${SHOP_KEY}"},
        credentials={"SHOP_KEY": "c1"},
        output={"path": str(tmp_path / "out"), "failures": str(tmp_path / "failures.jsonl")},
    )
    log = run_driver(tmp_path, content, code)
    payload = receiver.take()[-1].payload
    assert payload["status"] == state
    requests = payload["additionalMetrics"]["progress"]["requests"]
    kinds = {(each["status"], each["reason"]): each for each in requests}
    assert {kind: each["pages"] for kind, each in kinds.items()} == {
        (200, None): 4,
        (200, "blocked"): 3,
        (404, "http-status"): 1,
        (500, "http-status"): 1,
    }
    assert kinds[500, "http-status"]["retries"] == 1
    assert kinds[404, "http-status"]["addresses"] == [f"{base}/6?key=********"]
    assert all(each["bytes"] > 0 for each in requests)
    counts, *pages = map(json.loads, (tmp_path / "failures.jsonl").read_text().splitlines())
    assert [each["pages"] for each in counts["counts"]] == [3, 1, 1]
    listed = {page["url"]: page for page in pages}
    assert sorted(listed) == [f"{base}/{n}?key=********" for n in range(3, 8)]
    assert listed[f"{base}/7?key=********"] == {
        "url": f"{base}/7?key=********",
        "status": 500,
        "reason": "http-status",
        "message": "the server answered 500",
        "stage": "s02_wgetJoin",
        "line": 4,
        "attempts": 2,
    }
    named = [line for line in log if line["event"] == "pages failed"]
    assert [(line["status"], line["reason"], line["pages"]) for line in named] == [
        (each["status"], each["reason"], each["pages"]) for each in counts["counts"]
    ]
    assert all(line["addresses"] for line in named)
    blocks = [line["event"] for line in log if "blocks requests" in line["event"]]
    assert len(blocks) == 1
    assert "a longer spindle.delay, a spindle.userAgent with your contact or the site's permission" in blocks[0]
    assert "ge heim nis" not in str(log)
    assert "ge%20heim" not in str(log) + (tmp_path / "failures.jsonl").read_text() + json.dumps(payload)


PIPELINE = """
pipeline:
  - {{stage: load_csv, args: ["{tmp}/in.csv"]}}
  - {{stage: filter, args: ["a <> '2'"]}}
  - {{stage: save_parquet, args: [kept, append]}}
  - {{stage: echo, args: [1, look]}}
  - {{stage: save_csv, args: ["spindle://shop/as csv"]}}
  - {{stage: save_csv, args: ["{tmp}/local"]}}
  - {{stage: limit, args: [1]}}
"""


@pytest.mark.long
def test_saves_and_rows_are_reported_with_completion(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "in.csv").write_text("a\n1\n2\n3\n")
    content = spec(tmp_path, receiver.url, pipelineYaml=PIPELINE.format(tmp=tmp_path), localFolders=[str(tmp_path)])
    content["output"]["saves"] = str(tmp_path / "saves")
    log = run_driver(tmp_path, content)
    metrics = receiver.take()[-1].payload["additionalMetrics"]
    written = {"columns": [{"name": "a", "type": "string"}], "rows": 2, "files": 1}
    assert [{name: value for name, value in each.items() if name != "bytes"} for each in metrics["saves"]] == [
        {**written, "path": "kept", "mode": "append", "format": "parquet", "folder": "1"},
        {**written, "path": "spindle://shop/as csv", "mode": "overwrite", "format": "csv", "folder": "2"},
    ]
    assert pq.read_table(tmp_path / "saves" / "1").column("a").to_pylist() == ["1", "3"]
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "saves" / "2").iterdir()} == {0o444}
    assert [file.suffix for file in (tmp_path / "local").iterdir()] == [".csv"]
    assert [stage["rows"] for stage in metrics["progress"]["stages"]] == [3, 2, 2, 2, 2, 2, 1, 1]
    (echoed,) = (line for line in log if line["event"] == "echo")
    assert (echoed["label"], echoed["number"], echoed["row"]) == ("look", 1, {"a": "1"})
