"""Walks through the pages where people work: the editor with its trial, the guide, schedules, rows and versions."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import httpx
import pyarrow as pa
import pytest
from playwright.sync_api import expect

from core.infra.storage import open_storage
from core.infra.storage.protocol import selectors_key
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading
from tests.support.api import Api, Server
from tests.support.site import Site, serve_site
from tests.support.walk import Walk

SHELF = """<html><body><h1 id="shelf">Shelf</h1><ul>
<li class="item"><b class="title">kettle</b> <span class="price">19.50</span></li>
<li class="item"><b class="title">mug</b> <span class="price">4</span></li></ul></body></html>"""
HOSTILE = """<html><head><base href="http://evil.test/"><style>*{display:none}</style>
<meta http-equiv=refresh content="900;url=/away">
<script>top.document.title='ran'</script></head><body onload="top.document.title='ran'">
<img src=x onerror="top.document.title='ran'" name="querySelectorAll"><img name="elementFromPoint">
<svg onload="top.document.title='ran'"><script>top.document.title='ran'</script></svg>
<a href="javascript:top.document.title='ran'" target=_top id=link>press</a>
<form action="/away" target=_top><input name=getAttribute><input name=setAttribute><button id=send>send</button></form>
<iframe srcdoc="<script>top.document.title='ran'</script>"></iframe>
<noscript><p title="</noscript><img src=x onerror=top.document.title='ran'>"></noscript>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=top.document.title='ran'&gt;">
</table></math><xmp></xmp><script>top.document.title='ran'</script>
<template><script>top.document.title='ran'</script></template>
<p class='x"onmouseover="top.document.title=1' data-a="'><script>top.document.title='ran'</script>">text</p>
<textarea></textarea><img src=x onerror="top.document.title='ran'"></textarea></body></html>"""
PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - stage: extract
    args:
      - {{selector: h1, method: text, as: headline}}
"""
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def workers(server: Server) -> Api:
    return server.caller("console work", "admin")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


def url_of(server: Server) -> str:
    return str(server.client.base_url).rstrip("/")


def test_a_click_on_the_page_writes_the_pipeline(
    server: Server, workers: Api, site: Site, open_walk: Callable[..., Walk]
) -> None:
    url = site.serve({"/": SHELF}) + "/"
    walk = open_walk()
    page = walk.page
    walk.sign_in(url_of(server), workers.key)
    page.goto(f"{url_of(server)}/console/agents/new")
    walk.look("new_agent")
    page.get_by_label("Page", exact=True).fill(url)
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_text("Click an element")).to_be_visible()
    frame = page.frame_locator("#frame")
    expect(frame.locator("h1")).to_have_text("Shelf")
    box = frame.locator(".price").first.bounding_box()
    assert box
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    expect(page.get_by_role("button", name="span.price", exact=True)).to_be_visible()
    expect(page.locator("#proposals li").filter(has_text="span.price").first.locator("ol li")).to_have_text(["19.50"])
    page.get_by_role("button", name="span.price", exact=True).hover()
    expect(frame.locator("[spindle-mark=found]")).to_have_count(2)
    walk.look("proposals")
    page.get_by_role("button", name="span.price", exact=True).click()
    expect(page.get_by_role("group", name="Rows of the trial")).to_contain_text("19.50")
    text = page.get_by_label("Pipeline in YAML")
    assert "{selector: span.price, method: text, as: price}" in text.input_value()
    expect(page.get_by_role("status").first).to_have_text("The pipeline is valid.")
    page.locator("#cover").focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="b.title", exact=True).click()
    expect(page.get_by_role("group", name="Rows of the trial")).to_contain_text("kettle")
    box = text.bounding_box()
    assert box
    line = next(number for number, each in enumerate(text.input_value().split("\n")) if "span.price" in each)
    page.mouse.move(box["x"] + 100, box["y"] + 6 + 21.6 * (line + 0.5))
    expect(frame.locator(".price[spindle-mark=found]")).to_have_count(2)
    walk.look("trial")
    page.set_viewport_size({"width": 360, "height": 740})
    walk.look("trial_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_label("Name", exact=True).fill("clicked")
    page.get_by_role("button", name="Save and run for 20 rows").click()
    page.wait_for_url("**/executions/*")
    (agent,) = [each for each in workers.get("/agents") if each["name"] == "clicked"]
    assert "b.title" in agent["pipelineYaml"]


def test_the_editor_completes_what_is_written_and_explains_it(
    server: Server, workers: Api, open_walk: Callable[..., Walk]
) -> None:
    walk = open_walk()
    page = walk.page
    walk.sign_in(url_of(server), workers.key)
    page.goto(f"{url_of(server)}/console/agents/new")
    text, options = page.get_by_label("Pipeline in YAML"), page.get_by_role("listbox", name="Stages, arguments")
    text.fill("fetch: {url: https://x.test/}\npipeline:\n  # 🍒\n  - ")
    text.press("End")
    text.press("Control+Space")
    expect(options.get_by_role("option", name="stage:")).to_have_attribute("aria-selected", "true")
    assert text.get_attribute("aria-activedescendant") == "suggestion-0"
    text.press("Escape")
    expect(options).to_be_hidden()
    text.press_sequentially("{stage: wgetj")
    expect(options.get_by_role("option")).to_contain_text(["wgetJoin"])
    expect(page.locator("#count")).to_contain_text("1 suggestion")
    walk.look("completion")
    text.press("ArrowDown")
    text.press("Tab")
    text.press_sequentially(", args: [a, ")
    options.get_by_role("option", name="joinType:").wait_for()
    text.press_sequentially("{joinT")
    text.press("Control+Space")
    expect(options.get_by_role("option", name="joinType:")).to_have_attribute("aria-selected", "true")
    text.press("Enter")
    expect(options.get_by_role("option")).to_contain_text(["Inner", "LeftOuter"])  # the values of the accepted argument
    text.press("ArrowUp")
    text.press("ArrowUp")
    text.press("Enter")
    text.press_sequentially("}]}")
    assert text.input_value().endswith("\n  - {stage: wgetJoin, args: [a, {joinType: Inner}]}")
    expect(page.get_by_role("status").first).to_have_text("The pipeline is valid.")
    box = text.bounding_box()
    assert box
    page.mouse.move(box["x"] + 120, box["y"] + 6 + 21.6 * 3.5)
    expect(page.locator("#help")).to_contain_text("Follow every link of the page")
    page.set_viewport_size({"width": 360, "height": 740})
    text.press("End")
    text.press_sequentially("\n  - {stage: ext")
    options.get_by_role("option", name="extract").first.wait_for()
    walk.look("completion_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_fetched_page_runs_nothing_and_leads_nowhere(
    server: Server, workers: Api, site: Site, open_walk: Callable[..., Walk]
) -> None:
    url = site.serve({"/": HOSTILE}) + "/"
    agent = workers.post("/agents", {"name": "hostile", "pipelineYaml": PIPELINE.format(url=url)})["id"]
    walk = open_walk(color_scheme="dark")
    page = walk.page
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    walk.sign_in(url_of(server), workers.key)
    page.goto(f"{url_of(server)}/console/agents/{agent}")
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_text("Click an element")).to_be_visible()
    frame = page.frame_locator("#frame")
    for place in ("#link", "#send"):
        box = frame.locator(place).bounding_box()
        assert box
        page.mouse.click(box["x"] + 4, box["y"] + 4)
        expect(page.locator("#proposals button").first).to_be_visible()
    assert page.locator("#frame").get_attribute("sandbox") == "allow-same-origin"
    assert frame.locator("script, style, iframe, svg, base, meta[http-equiv=refresh], [onload], [onerror]").count() == 0
    assert frame.locator("[href]:not(link), [src], [action], [style]").count() == 0
    walk.look("hostile_trial")
    assert page.title() != "ran"
    assert all(each.startswith((url_of(server), "about:")) for each in asked)


def test_the_guide_leads_to_an_execution(server: Server, workers: Api, open_walk: Callable[..., Walk]) -> None:
    import threading
    from http.server import ThreadingHTTPServer

    from examples.shop.site import Handler

    novice = server.caller("novices", "etl:read", "etl:write", "etl:execute", "datasets:read")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as shop:
        threading.Thread(target=shop.serve_forever).start()
        walk = open_walk()
        page = walk.page
        walk.sign_in(url_of(server), novice.key)
        walk.look("first_home")
        page.get_by_role("link", name="Crawl a small shop in three steps").click()
        page.get_by_label("Where is the shop?").fill(f"http://127.0.0.1:{shop.server_address[1]}/")
        page.get_by_role("button", name="Look at its first rows").click()
        expect(page.get_by_role("group", name="First rows")).to_contain_text("KI-1001")
        walk.look("guide")
        page.get_by_role("button", name="Crawl all of it").click()
        page.wait_for_url("**/executions/*")
        shop.shutdown()
    (project,) = novice.get("/projects")
    (job,) = novice.get(f"/projects/id/{project['id']}/jobs")
    assert project["name"] == "Shop crawler"
    page.goto(f"{url_of(server)}/console/agents/{job['agentId']}")
    expect(page.get_by_label("Values, one a line")).to_have_value(f"SHOP_URL={job['parameters']['SHOP_URL']}\n")


def test_a_schedule_is_made_paused_and_mended_at_its_field(
    server: Server, workers: Api, open_walk: Callable[..., Walk]
) -> None:
    job = workers.job("scheduled")
    walk = open_walk(timezone_id="America/New_York")
    page = walk.page
    walk.sign_in(url_of(server), workers.key)
    page.get_by_role("link", name="Schedules").click()
    page.get_by_role("link", name="to scheduled").click()
    expect(page.get_by_label("Timezone")).to_have_value("America/New_York")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label("Times", exact=True).fill("99 2 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#e-cronSchedule")).not_to_be_empty()
    walk.look("schedule_problem")
    page.get_by_label("Times", exact=True).fill("30 2 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Next ticks")).to_be_visible()
    next_tick = page.locator("time").first
    expect(next_tick).to_contain_text("2:30:00 AM")
    walk.look("schedule")
    workers.put(f"/projects/id/{job.project_id}/schedules/nightly", {"enabled": False})
    expect(page.get_by_text("It does not fire: it is paused.")).to_be_visible()  # the page follows by itself
    workers.put(f"/projects/id/{job.project_id}/schedules/nightly", {"enabled": True})
    page.get_by_role("link", name="Schedules").first.click()
    page.get_by_role("row", name="nightly").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("row", name="nightly").get_by_role("button", name="Resume")).to_be_visible()
    assert workers.get(f"/projects/id/{job.project_id}/schedules/nightly")["enabled"] is False
    page.get_by_role("link", name="New cron job").click()
    page.get_by_label("Name", exact=True).fill("caller")
    page.get_by_label("Times", exact=True).fill("0 * * * *")
    page.get_by_label("Address").fill("ftp://x.test/")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#e-webhookUrl")).not_to_be_empty()
    walk.look("cron_job_problem")
    page.get_by_label("Address").fill("https://x.test/hook")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="caller").click()
    expect(page.get_by_text("It has not called yet.")).to_be_visible()
    page.get_by_label("Times", exact=True).fill("30 7 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("It calls next at")).to_contain_text(":30:00")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("It is paused.")).to_be_visible()
    walk.look("cron_job")
    page.get_by_role("link", name="Schedules").first.click()
    page.get_by_role("row", name="caller").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("row", name="caller").get_by_role("button", name="Pause")).to_be_visible()
    walk.look("schedules")
    walk.page.set_viewport_size({"width": 360, "height": 740})
    walk.look("schedules_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_rows_are_filtered_compared_and_restored(server: Server, workers: Api, open_walk: Callable[..., Walk]) -> None:
    job = workers.job("versions")
    job.complete(job.execute(), pa.table({"title": ["kettle", "mug", "o'clock"], "price": [19.5, None, 3.0]}))
    dataset = job.complete(job.execute(), pa.table({"title": ["kettle", "cup"], "price": [21.0, 2.0]}))
    walk = open_walk()
    page = walk.page
    walk.sign_in(url_of(server), workers.key)
    page.goto(f"{url_of(server)}/console/datasets/{dataset}?version=1")
    page.get_by_label("Only where").select_option("title")
    page.get_by_label("Value").fill("O'CL")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("group", name="Rows")).to_contain_text("o'clock")
    expect(page.get_by_role("group", name="Rows")).not_to_contain_text("kettle")
    page.get_by_label("Only where").select_option("price")
    page.get_by_label("Comparison").select_option(">")
    page.get_by_label("Value").fill("1")
    page.get_by_label("Sorted by").select_option("price")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("group", name="Rows").locator("tbody tr td:first-child")).to_have_text(
        ["o'clock", "kettle"]
    )
    walk.look("rows")
    page.get_by_label("Value").fill("no number")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#rows .problem")).to_be_visible()
    page.goto(f"{url_of(server)}/console/datasets/{dataset}")
    statement = page.get_by_label("One statement")
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    statement.fill("SELECT nothing FROM output")
    statement.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("nothing")
    statement.fill("")
    statement.press_sequentially("SELECT count(*) AS n FROM output WHERE pri")
    page.locator("#suggestions").get_by_role("option", name="price").wait_for()
    expect(page.get_by_role("alert")).to_contain_text("nothing")  # what was asked for meanwhile leaves it
    statement.press("ArrowDown")
    statement.press("Enter")
    expect(statement).to_have_value("SELECT count(*) AS n FROM output WHERE price")
    statement.press_sequentially(" > 1")
    statement.press("Control+Enter")
    expect(page.get_by_role("group", name="Answer")).to_contain_text("2")
    page.reload()
    page.get_by_label("Earlier statements").select_option("SELECT count(*) AS n FROM output WHERE price > 1")
    expect(statement).to_have_value("SELECT count(*) AS n FROM output WHERE price > 1")
    page.get_by_role("link", name="with 2").click()
    page.get_by_label("Columns that tell rows apart").fill("title")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("group", name="Rows that differ")).to_contain_text("21")
    walk.look("differences")
    page.go_back()
    page.goto(f"{url_of(server)}/console/datasets/{dataset}")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("(rows of 1)")).to_be_visible()
    walk.look("versions")
    page.set_viewport_size({"width": 360, "height": 740})
    walk.look("versions_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_proven_selectors_are_accepted_and_refused(
    server: Server, workers: Api, open_walk: Callable[..., Walk]
) -> None:
    best = Candidate(reading=Reading(selector=".price"), stability=60, agreed=4)
    field = ProvenField(name="price", candidates=(best,), known={"http://x.test/1": "<b>19.50</b>"})
    proven = ProvenSelectors(
        host="x.test",
        template="t",
        prompt="the price",
        prompt_key="price",
        fields=(field,),
        proven_at=datetime.now(UTC),
    )
    store_selectors(server, workers, proven)
    walk = open_walk()
    page = walk.page
    walk.sign_in(url_of(server), workers.key)
    page.goto(f"{url_of(server)}/console/agents")
    page.get_by_role("link", name="Proven selectors").click()
    expect(page.get_by_role("group", name="Selectors of x.test")).to_contain_text("<b>19.50</b>")
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("button", name="Let runs replace it")).to_be_visible()
    walk.look("selectors")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_text("No prompt was proven yet.")).to_be_visible()


def test_another_organization_and_a_reader_see_no_page_and_no_button(server: Server, workers: Api) -> None:
    job = workers.job("private")
    kept = {"name": "kept", "schedule": "@daily", "webhookUrl": "https://x.test/hook"}
    workers.post("/api/svc/cloud/scheduler/cronjobs", kept)
    stranger, reader = server.caller("strangers"), server.caller(workers.organization_id, "etl:read")
    paths = (
        f"/console/projects/{job.project_id}/schedule",
        f"/console/projects/{job.project_id}/schedule/new",
        f"/console/agents/{job.agent_id}",
        "/console/cron-jobs/of/kept",
    )
    for caller, path, status in [(stranger, path, 404) for path in paths]:
        assert open_page(server, caller, path).status_code == status, path
    for path in (*paths, "/console/schedules", "/console/selectors", "/console/guide", "/console/cron-jobs/new"):
        shown = open_page(server, reader, path)
        assert shown.status_code == 200, path
        for button in ("data-action", 'id="try"', 'id="store"', 'id="crawl"', ">Save<", ">Create<"):
            assert button not in shown.text, (path, button)
    body = {"pipelineYaml": PIPELINE.format(url="http://127.0.0.1/"), "url": "http://127.0.0.1/"}
    assert reader.call("POST", "/agents/try", json=body).status_code == 403
    assert stranger.call("POST", "/agents/try", json=body | {"agentId": job.agent_id}).status_code == 404


def open_page(server: Server, caller: Api, path: str) -> httpx.Response:
    with httpx.Client(base_url=server.client.base_url, timeout=60) as browser:
        browser.post("/console/sign-in", data={"key": caller.key}, headers={"Origin": url_of(server)})
        return browser.get(path)


def store_selectors(server: Server, api: Api, proven: ProvenSelectors) -> None:
    key = f"{selectors_key(api.organization_id)}/{proven.host}/{proven.key}.json"
    open_storage(server.settings.storage).put(key, io.BytesIO(proven.to_json().encode()))
