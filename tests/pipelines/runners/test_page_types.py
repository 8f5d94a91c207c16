"""Types of pages as servers spell them, on both runners and in a trial."""

from __future__ import annotations

from pipelines.engine.options import make_fetch_options
from pipelines.trial import Trial
from tests.support.fetching import LOOPBACK
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

HTML = b"<!DOCTYPE html><meta charset=utf-8><h1>One</h1>"
XHTML = b"<html xmlns='http://www.w3.org/1999/xhtml'><head><script src='x'/></head><body><h1>One</h1></body></html>"
HTML_TYPES = ("text/html, text/html; charset=utf-8", "text/html charset=utf-8", "html", "*/*", "unknown/unknown")


def test_pages_are_read_by_their_type_or_their_beginning(runners: Runners, site: Site) -> None:
    types = {f"/{number}": each for number, each in enumerate(HTML_TYPES)} | {"/x": "application/xhtml+xml"}
    base = site.serve({path: XHTML if path == "/x" else HTML for path in types}, types)
    urls = ", ".join(f"{base}{path}" for path in types)
    plan = runners.plan(
        f"fetch: {{url: [{urls}]}}\npipeline: [{{stage: extract, args: [{{selector: h1, as: title}}]}}]"
    )
    outcome = runners.assert_equal(plan)
    assert outcome.preview == [{"title": "One"}] * len(types)
    assert not outcome.malformed
    assert try_rows(plan) == outcome.preview


def test_lines_of_json_are_rows_and_broken_json_is_an_error(runners: Runners, site: Site) -> None:
    pages = {"/lines": '{"n": 1}\n{"n": 2}\n', "/cut": '{"n": 1}\n{"n'}
    base = site.serve(pages, dict.fromkeys(pages, "application/x-ndjson"))
    plan = runners.plan(
        f"""
fetch: {{url: [{base}/lines, {base}/cut]}}
pipeline: [{{stage: flatSelect, args: ["$[*]", {{selector: $.n, as: n}}]}}]
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
"""
    )
    outcome = runners.assert_equal(plan)
    assert [row["n"] for row in outcome.preview] == [1, 2, None]
    assert "its JSON cannot be read: line 2" in str(outcome.preview[2]["_error"])


def test_a_file_that_is_not_of_its_type_is_downloaded_with_a_warning(runners: Runners, site: Site) -> None:
    base = site.serve({"/cut.json": '{"n'}, {"/cut.json": "application/json"})
    plan = runners.plan(
        f"""
pipeline:
- {{stage: download, args: ["{base}/cut.json"]}}
- {{stage: extract, args: [{{selector: $.n, as: n}}]}}
spindle: {{keepColumns: [_error]}}
"""
    )
    outcome = runners.assert_equal(plan)
    assert [(row["_bytes"], row["n"], row["_error"]) for row in outcome.preview] == [(3, None, None)]
    assert [first.partition(" line")[0] for _, first in outcome.malformed] == [
        f"{base}/cut.json: its JSON cannot be read: Unterminated string starting at:"
    ]
    with Trial(plan, make_fetch_options(plan.options, LOOPBACK), 100) as trial:
        assert [(row.values["_bytes"], row.values["n"]) for row in trial.iter_rows()] == [(3, None)]
