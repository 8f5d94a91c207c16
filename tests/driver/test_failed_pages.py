"""Failed pages in the driver's log, its reports and the file of the execution."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.driver import driver, finish, spec
from tests.support.site import Site
from tests.support.webhook_receiver import Receiver

BLOCKED = "<title>Just a moment...</title><script src='/cdn-cgi/challenge-platform/x.js'></script>"
PAGES: dict[str, str | int] = {
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
    tmp_path: Path,
    site: Site,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    ratio: float,
    state: str,
    code: int,
) -> None:
    base = site.serve(PAGES)
    monkeypatch.setenv("SHOP_KEY", "ge heim nis")
    content = spec(
        tmp_path,
        receiver.url,
        pipelineYaml=TEXT.format(ratio=ratio),
        parameters={"BASE": base, "SHOP_KEY": "${SHOP_KEY}"},
        credentials={"SHOP_KEY": "c1"},
        output={"path": str(tmp_path / "out"), "failures": str(tmp_path / "failures.jsonl")},
    )
    with driver(tmp_path, content) as process:
        log = finish(process, code)
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
