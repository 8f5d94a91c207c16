"""Stages that ask services while pages are fetched: searchEngine against servers of its three providers."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import PipelineError
from tests.support.runners import Runners
from tests.support.search_engines import KEY, SearchServer, serve_search
from tests.support.site import Site
from tests.support.turns import record_turns

Give = Callable[[str], None]
NAMES = ("google", "bing", "searxng")
LIST = "<ul>{}</ul>".format("".join(f"<li><b>query {n % 3}</b></li>" for n in range(9)))
TEXT = """
fetch: {{url: '${{B}}/'}}
pipeline:
- {{stage: flatSelect, args: [li, [{{selector: b, as: words}}]]}}
- {{stage: searchEngine, args: [{arguments}]}}
spindle: {{keepColumns: [_error], backoff: 0.01}}
"""


@pytest.fixture
def server() -> Generator[SearchServer]:
    with serve_search() as server:
        yield server


def search(runners: Runners, site: Site, arguments: str, page: str = LIST, *, on_spark: bool = False) -> list[Any]:
    """Return the rows of a search, which both runners give alike."""
    plan = runners.plan(TEXT.format(arguments=arguments), B=site.serve({"/": page}))
    return [dict(row) for row in (runners.assert_equal if on_spark else runners.run_locally)(plan).preview]


@pytest.fixture
def give_credential(runners: Runners, server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> Give:
    """Give a credential of a provider to the tasks of both runners."""

    def give(provider: str) -> None:
        runners.environment = server.get_variables(provider)
        for name, value in runners.environment.items():
            monkeypatch.setenv(name, value)

    return give


def fill(server: SearchServer, count: int) -> None:
    for query in range(3):
        links = [
            (f"http://r/{query}/{n}", f"title {n}", f"snippet {n}", f"http://i/{query}/{n}.png") for n in range(count)
        ]
        server.results[f"query {query}"] = links


@pytest.mark.parametrize("provider", NAMES)
def test_each_result_is_a_row_in_the_order_of_the_page(
    provider: str, runners: Runners, site: Site, server: SearchServer, give_credential: Give
) -> None:
    give_credential(provider)
    fill(server, 2)
    rows = search(
        runners, site, f"{{provider: {provider}, query: $words, num_results: 5}}", on_spark=provider == "google"
    )
    assert [(row["words"], row["result_link"], row["result_rank"]) for row in rows] == [
        (f"query {n % 3}", f"http://r/{n % 3}/{rank - 1}", rank) for n in range(9) for rank in (1, 2)
    ]
    assert {(row["result_title"], row["result_snippet"], row["_error"]) for row in rows} == {
        ("title 0", "snippet 0", None),
        ("title 1", "snippet 1", None),
    }
    asked = [each for each in server.requests if "query+0" in each]
    assert len(asked) <= 2 * 2  # equal queries of a run are sent once: each page of answers, on both runners
    assert not any(KEY in each for each in server.requests)


@pytest.mark.parametrize("provider", NAMES)
def test_images_and_many_results(
    provider: str, runners: Runners, site: Site, server: SearchServer, give_credential: Give
) -> None:
    give_credential(provider)
    fill(server, 25)
    arguments = f"{{provider: {provider}, query: query 1, num_results: 13, image_search: true}}"
    rows = search(runners, site, arguments, "<li><b>one</b></li>")
    assert [row["image_url"] for row in rows] == [f"http://i/1/{n}.png" for n in range(13)]
    assert [row["result_rank"] for row in rows] == [*range(1, 14)]
    assert rows[12]["result_link"] == "http://r/1/12"


def test_results_as_json_in_one_column(
    runners: Runners, site: Site, server: SearchServer, give_credential: Give
) -> None:
    give_credential("searxng")
    fill(server, 1)
    first, *others = search(runners, site, "{query: $words, as: found}", "<li><b>query 2</b></li><li><b>none</b></li>")
    (found,) = json.loads(first["found"])
    assert (found["result_link"], found["result_rank"]) == ("http://r/2/0", 1)
    assert [row["found"] for row in others] == ["[]"]


def test_enrich_reads_the_metadata_of_the_results_and_obeys_robots(
    runners: Runners, site: Site, server: SearchServer, give_credential: Give
) -> None:
    give_credential("google")
    data = {"@type": "Product", "name": "Kettle", "gtin13": "4006381333931", "image": "http://i/k.png"}
    offers = {"price": "12.50", "priceCurrency": "EUR"}
    page = f'<script type="application/ld+json">{json.dumps(data | {"offers": offers})}</script>'
    base = site.url
    links = ("/kettle", "/secret", "/gone")
    server.results["query 0"] = [(f"{base}{path}", "t", "s", "") for path in links]
    text = TEXT.replace("backoff: 0.01", "backoff: 0.01, maxFailureRatio: 0")  # of the page that must not fail
    plan = runners.plan(text.format(arguments="{ean: query 0, enrich: true}"), B=base)
    pages: dict[str, str | bytes | int] = {"/": "<li><b>x</b></li>", "/kettle": page, "/secret": page}
    site.serve(pages | {"/robots.txt": "User-agent: *\nDisallow: /secret"}, {"/robots.txt": "text/plain"})
    outcome = runners.run_locally(plan)
    kettle, secret, gone = outcome.preview
    names = ("page_title", "page_price", "page_currency", "page_image", "page_ean")
    assert [kettle[name] for name in names] == ["Kettle", "12.50", "EUR", "http://i/k.png", "4006381333931"]
    assert {row[name] for row in (secret, gone) for name in names} == {None}
    assert (outcome.requests.get("/kettle"), outcome.requests.get("/secret")) == (1, None)
    assert (outcome.failure, outcome.counts and outcome.counts["s03_searchEngine"]) == (None, (3, 3, 2))
    assert outcome.failed_pages == [
        (f"{base}/gone", "the server answered 404"),
        (f"{base}/secret", f"{base}/robots.txt forbids this address to Spindle"),
    ]


def test_a_busy_service_is_asked_again_and_a_failed_search_is_an_error_of_its_row(
    runners: Runners, site: Site, server: SearchServer, monkeypatch: pytest.MonkeyPatch, give_credential: Give
) -> None:
    plan = runners.plan(
        TEXT.format(arguments="{provider: bing, query: $words}"), B=site.serve({"/": "<li><b>query 0</b></li>"})
    )
    (row,) = runners.run_locally(plan).preview
    assert "add a cloud credential of BING_SEARCH" in row["_error"]
    give_credential("bing")
    fill(server, 1)
    server.statuses[:] = [429, 503]
    (row,) = runners.run_locally(plan).preview
    assert (row["result_link"], row["_error"]) == ("http://r/0/0", None)
    runners.environment = None
    monkeypatch.setenv("BING_SEARCH_API_KEY", "wrong\nkey")
    (row,) = runners.run_locally(plan).preview
    assert "header" in row["_error"]
    assert "wrong" not in row["_error"]
    monkeypatch.setenv("BING_SEARCH_API_KEY", "wrong")
    (row,) = runners.run_locally(plan).preview
    assert row["_error"] == f"searchEngine: {server.url} gave no answer: it answered 401"
    assert row["result_link"] is None


def test_the_guard_holds_for_services(monkeypatch: pytest.MonkeyPatch, runners: Runners, site: Site) -> None:
    monkeypatch.setenv("SEARXNG_BASE_URL", "http://10.255.255.1")
    plan = runners.plan(TEXT.format(arguments="{query: $words}"), B=site.serve({"/": "<li><b>query 0</b></li>"}))
    (row,) = runners.run_locally(plan).preview
    assert "http://10.255.255.1 gave no answer" in str(row["_error"])
    assert "private" in str(row["_error"])


def test_a_search_is_the_first_stage_and_enriches_through_the_page_cache(
    runners: Runners, site: Site, server: SearchServer, give_credential: Give, tmp_path: Path
) -> None:
    give_credential("google")
    base = site.serve({"/lamp": '<meta property="og:title" content="Lamp">'})
    server.results["4006381333931"] = [(f"{base}/lamp", "Lamp", "s", ""), (f"{base}/lamp?again", "Lamp", "s", "")]
    text = "pipeline:\n- {stage: searchEngine, args: [{ean: '4006381333931', enrich: true}]}"
    outcome = runners.run_locally(runners.plan(text))
    assert [(row["result_rank"], row["page_title"]) for row in outcome.preview] == [(1, "Lamp"), (2, None)]
    runners.pages = str(tmp_path)
    plan = runners.plan(f"{text}\nspindle: {{cache: 3600}}")
    first, again = (runners.run_locally(plan) for _ in range(2))
    assert (first.preview, again.preview) == (outcome.preview, outcome.preview)
    assert (first.requests or {}).get("/lamp") == 1
    assert [each.counts and each.counts["s02_searchEngine"] for each in (first, again)] == [(2, 2, 1)] * 2
    assert "/lamp" not in (again.requests or {})
    with pytest.raises(PipelineError, match="has no rows to work on"):
        runners.plan(text.replace("'4006381333931'", "$ean"))


def test_searches_keep_the_delay_between_requests(
    runners: Runners, site: Site, server: SearchServer, monkeypatch: pytest.MonkeyPatch, give_credential: Give
) -> None:
    give_credential("google")
    fill(server, 1)
    text = TEXT.replace("backoff: 0.01", "backoff: 0.01, delay: 0.3").format(arguments="{query: $words}")
    turns = record_turns(monkeypatch)
    runners.run_locally(runners.plan(text, B=site.serve({"/": LIST})))
    assert len(server.requests) == 3
    services = {origin: delay for origin, delay in turns.delays.items() if origin.endswith(server.url)}
    assert (services, turns.started[next(iter(services))]) == ({next(iter(services)): 0.3}, 3)
