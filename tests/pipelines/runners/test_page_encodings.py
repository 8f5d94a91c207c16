"""Pages in other encodings than UTF-8 on both runners and in a trial."""

from __future__ import annotations

from pathlib import Path

from pipelines.engine.options import make_fetch_options
from pipelines.trial import Trial
from tests.support.fetching import LOOPBACK
from tests.support.runners import Runners
from tests.support.site import Site

LINK = "?q=%EB%E0%EC%EF%E0"  # лампа in windows-1251
SHOP = "<head><title>Лампы</title>{}<meta charset=windows-1251></head><a href='/find?q=лампа'>лампа</a>"
ABOUT = "<meta name=description content='Ask for charset=windows-1251'><h1>Über</h1>"
PAGES = {
    "/shop": SHOP.format(" " * 2000).encode("windows-1251"),
    f"/find{LINK}": "<h1>Lamp</h1>",
    "/about": ABOUT.encode(),
    "/api": '{"name": "Über"}'.encode(),
    "/rows.csv": "id,name\n1,Über\n".encode("utf-16"),
    "/robots.txt": "\ufeffUser-agent: *\nDisallow: /no".encode("utf-16-le"),
    "/no": "<h1>no</h1>",
}
TYPES = {"/api": "application/json; charset=windows-1252", "/rows.csv": "text/csv; charset=iso-8859-1"}


def test_pages_are_read_in_their_encoding(runners: Runners, site: Site) -> None:
    base = site.serve(PAGES, TYPES)
    plan = runners.plan(
        f"""
fetch: {{url: [{base}/shop, {base}/about, {base}/api, {base}/no]}}
pipeline:
- stage: extract
  args:
  - {{selector: "title, h1", as: title}}
  - {{selector: $.name, as: name, method: text}}
- {{stage: join, args: [a]}}
- {{stage: extract, args: [{{selector: h1, as: linked}}]}}
spindle: {{keepColumns: [_url], maxFailureRatio: 1}}
"""
    )
    wanted = [
        {"title": "Лампы", "name": None, "linked": "Lamp", "_url": f"{base}/find{LINK}"},
        {"title": "Über", "name": None, "linked": None, "_url": None},
        {"title": None, "name": "Über", "linked": None, "_url": None},
    ]
    outcome = runners.assert_equal(plan)
    assert [row for row in outcome.preview if row["title"] or row["name"]] == wanted
    assert "/no" not in (outcome.requests or {})
    with Trial(plan, make_fetch_options(plan.options, LOOPBACK), 100) as trial:
        tried = [{**row.values, "_url": row.fetched.url} for row in trial.iter_rows()]
    assert [row for row in tried if row["title"] or row["name"]] == wanted


def test_the_byte_order_mark_of_a_csv_page_wins(runners: Runners, site: Site, tmp_path: Path) -> None:
    base = site.serve(PAGES, TYPES)
    plan = runners.plan(f"pipeline: [{{stage: load_csv, args: ['{base}/rows.csv']}}]")
    assert runners.run_on_spark(plan).preview == [{"id": "1", "name": "Über"}]
