"""Crawls that are polite, and that fetch nothing twice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.contract.context import RunContext
from pipelines.errors import RunError
from pipelines.page_cache.options import CacheOptions
from tests.support.pipelines import TITLE, Run, crawl
from tests.support.site import Site
from tests.support.turns import Turns, record_turns

PAGES = {"/": "".join(f"<a href=/{each}>{each}</a>" for each in range(12))} | {
    f"/{each}": f"<h1>{each}</h1><a href=/{each}>again</a>" for each in range(12)
}
LINKS, NAME = "{stage: wgetJoin, args: [a]}", "{stage: extract, args: [{selector: h1, as: name}]}"
JOIN = crawl("${B}/", LINKS, NAME, options="keepColumns: [_status, _error]%s")


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return record_turns(monkeypatch)


class TestRobots:
    RULES = "User-agent: *\nDisallow: /3\nDisallow: /4"

    def test_a_forbidden_page_is_a_row_with_the_reason(self, run: Run, site: Site) -> None:
        base = site.serve({**PAGES, "/robots.txt": self.RULES})
        rows = run(JOIN % "", B=base)
        assert [row["name"] for row in rows] == [None if each in (3, 4) else str(each) for each in range(12)]
        error = f"{base}/robots.txt forbids this address to Spindle"
        assert [(row["_status"], row["_error"]) for row in rows if row["name"] is None] == [(None, error)] * 2
        assert site.requests == {path: 1 for path in (*PAGES, "/robots.txt") if path not in ("/3", "/4")}

    def test_are_ignored_where_the_pipeline_says_so(self, run: Run, site: Site) -> None:
        base = site.serve({**PAGES, "/robots.txt": self.RULES})
        rows = run(JOIN % ", robots: ignore", B=base)
        assert all(row["_error"] is None for row in rows)
        assert site.requests["/robots.txt"] == 0

    def test_are_those_for_the_name_in_the_pipelines_user_agent(self, run: Run, site: Site) -> None:
        rules = "User-agent: acmebot\nCrawl-delay: 0\nUser-agent: other\nDisallow: /1\n\nUser-agent: *\nDisallow: /2"
        base = site.serve({"/robots.txt": rules, "/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "", "/2": ""})
        rows = run(JOIN % ', userAgent: "Mozilla/5.0 (compatible; acmebot/1.0; +http://x)"', B=base)
        assert [row["_error"] for row in rows] == [f"{base}/robots.txt forbids this address to acmebot", None]

    @pytest.mark.parametrize("rules", ["User-agent: *\nDisallow: /", 503])
    def test_that_forbid_the_start_end_the_run(self, rules: str | int, run: Run, site: Site) -> None:
        base = site.serve({**PAGES, "/robots.txt": rules})
        with pytest.raises(RunError, match=r"robots\.txt forbids all 1 addresses"):
            run(JOIN % "", B=base)
        assert site.requests["/"] == 0

    def test_of_a_site_that_is_not_there_are_no_rules(self, run: Run) -> None:
        with pytest.raises(RunError, match=r"1 of 1 addresses could not be fetched.*could not connect"):
            run(JOIN % "", B="http://127.0.0.1:1")

    def test_do_not_count_as_failures(self, run: Run, site: Site) -> None:
        rules = "User-agent: *\nDisallow: /\nAllow: /$\nAllow: /1$"
        base = site.serve({**PAGES, "/robots.txt": rules})
        assert sum(row["_error"] is not None for row in run(JOIN % ", maxFailureRatio: 0", B=base)) == 11


class TestRedirects:
    def test_lead_only_where_the_rules_of_their_target_let_them(self, run: Run, site: Site, other: Site) -> None:
        target = other.serve(
            {"/open": "<h1>open</h1>", "/secret": "<h1>secret</h1>", "/robots.txt": "User-agent: *\nDisallow: /secret"}
        )
        base = site.serve({"/": "<a href=/1>1</a><a href=/2>2</a>"})
        site.redirects |= {"/1": f"{target}/open", "/2": f"{target}/secret"}
        error = f"redirects to {target}/secret: {target}/robots.txt forbids this address to Spindle"
        assert [(row["name"], row["_error"]) for row in run(JOIN % "", B=base)] == [("open", None), (None, error)]
        assert other.requests["/secret"] == 0

    def test_wait_for_the_turn_of_the_host_that_they_lead_to(
        self, run: Run, site: Site, other: Site, turns: Turns
    ) -> None:
        target = other.serve({**PAGES, "/robots.txt": "User-agent: *\nCrawl-delay: 0.1"})
        base = site.serve(PAGES)
        site.redirects |= {f"/{each}": f"{target}/{each}" for each in range(12)}
        assert [row["name"] for row in run(JOIN % "", B=base)] == [str(each) for each in range(12)]
        assert (turns.delays[base], turns.delays[target]) == (0, 0.1)
        assert turns.started[target] == 12

    def test_bring_a_page_that_is_not_fetched_again_under_its_own_address(self, run: Run, site: Site) -> None:
        base = site.serve({"/": "<a href=/old>", "/new": "<h1>new</h1><a href=/new>", "/old": ""})
        site.redirects["/old"] = "/new"
        explore, kept = "{stage: wgetExplore, args: [a, 2]}", "keepColumns: [_requestedUrl, _url]"
        rows = run(crawl(f"{base}/", explore, NAME, options=kept))
        assert [tuple(row.values()) for row in rows[1:]] == [("new", f"{base}/old", f"{base}/new")]
        assert (site.requests["/"], site.requests["/old"]) == (1, 1)

    @pytest.mark.parametrize("seconds", [0.0, 0.05])
    def test_lead_to_pages_that_are_linked_as_well(self, seconds: float, run: Run, site: Site) -> None:
        """In both directions, in chains of which each link is linked, and many to one; some lead to what fails."""
        pages: dict[str, str | int] = {
            f"/{name}{each}": f"<h1>{name}{each}</h1>" for name in "abcde" for each in range(20)
        }
        moved = {f"/a{each}": f"/{'cb'[each % 2]}{each}" for each in range(20)}
        moved |= {f"/d{each}": f"/{'ae'[each % 2]}{each}" for each in range(20)}
        moved |= {f"/b{each}": "/e0" for each in range(1, 20, 2)}
        pages["/c4"] = 404
        base = site.serve({"/": "".join(f"<a href={path}>" for path in pages), **pages})
        site.redirects |= moved
        site.delay = seconds

        def end(path: str) -> str:
            return end(moved[path]) if path in moved else path

        rows = run(JOIN.replace("[_status", "[_requestedUrl, _url, _status") % "", B=base)
        missing = (None, 404, "the server answered 404")
        found = {path: missing if pages[end(path)] == 404 else (end(path)[1:], 200, None) for path in pages}
        assert [tuple(row.values()) for row in rows] == [
            (name, f"{base}{path}", f"{base}{end(path)}", status, error)
            for path, (name, status, error) in found.items()
        ]
        assert max(site.requests.values()) <= 2  # once by each task


class TestPoliteness:
    @pytest.mark.parametrize(("option", "robots"), [(", delay: 0.1", ""), ("", "User-agent: *\nCrawl-delay: 0.1")])
    def test_a_delay_of_the_pipeline_or_the_site_holds_over_all_tasks(
        self, option: str, robots: str, run: Run, site: Site, turns: Turns
    ) -> None:
        base = site.serve({**PAGES, "/robots.txt": robots})
        run(JOIN % option, B=base)
        assert turns.delays == {base: 0.1}
        assert turns.started == {base: 13}

    def test_no_more_are_asked_for_at_a_time_than_the_pipeline_says(self, run: Run, site: Site) -> None:
        base = site.serve(PAGES)
        site.delay = 0.1
        assert all(row["_error"] is None for row in run(JOIN % ", concurrency: 3", B=base))
        assert 2 <= site.most_running <= 3


class TestPages:
    def test_are_fetched_once_for_all_stages(self, run: Run, site: Site) -> None:
        base = site.serve(PAGES)
        rows = run(crawl(f"{base}/", "{stage: wgetExplore, args: [a, 1]}", NAME, LINKS, TITLE, LINKS))
        assert [row["title"] for row in rows][-1] == "11"
        assert site.requests == dict.fromkeys(PAGES, 1)

    def test_are_fetched_once_by_parts_of_a_pipeline_that_could_run_side_by_side(self, run: Run, site: Site) -> None:
        base = site.serve(PAGES)
        site.delay = 0.3
        part = f"{{stage: wget, args: ['{base}/']}}, {LINKS}, {NAME}"
        stored = f"{part}, {{stage: store, args: [%s]}}, {{stage: reset}}"
        parts = f"{stored % 'one'}, {stored % 'two'}, {part}, {{stage: union_with, args: [one, two]}}"
        assert len(run(f"pipeline: [{parts}]")) == 36
        assert site.requests == dict.fromkeys(PAGES, 1)

    @pytest.mark.parametrize(
        "query",
        [
            "SELECT * FROM rows ORDER BY name",
            "SELECT name FROM rows UNION ALL SELECT name FROM rows WHERE name = '1'",
            "SELECT name FROM rows WHERE name <= (SELECT max(name) FROM rows)",
        ],
    )
    def test_are_fetched_once_however_often_a_query_reads_the_rows(self, query: str, run: Run, site: Site) -> None:
        base = site.serve(PAGES)
        nothing_kept = RunContext(cache=CacheOptions(secrets=(base,)))
        text = crawl(f"{base}/", LINKS, NAME, f'{{stage: sql_query, args: ["{query}"]}}')
        assert len(run(text, nothing_kept)) in (12, 13)
        assert site.requests == dict.fromkeys(PAGES, 1)

    def test_are_not_fetched_by_a_second_run(self, run: Run, site: Site, tmp_path: Path) -> None:
        base = site.serve(PAGES)
        context = RunContext(cache=CacheOptions(shared=str(tmp_path)))
        first = run(JOIN % ", cache: 60", context, B=base)
        for seconds, requests in ((60, 1), (0, 2)):
            assert run(JOIN % f", cache: {seconds}", context, B=base) == first
            assert site.requests == dict.fromkeys(PAGES, requests)
        assert len(list(tmp_path.glob("*.pages"))) <= 6

    def test_without_cache_headers_are_revalidated_by_the_next_run(self, run: Run, site: Site, tmp_path: Path) -> None:
        pages = {"/": "<li><a href=/1>1</a></li>", "/1": "<h1>1</h1>", "/2": "<h1>2</h1>"}
        base = site.serve(pages)
        site.has_etags = True
        context = RunContext(cache=CacheOptions(shared=str(tmp_path)))
        assert [row["name"] for row in run(JOIN % "", context, B=base)] == ["1"]
        site.pages["/"] += "<li><a href=/2>2</a></li>"
        assert [row["name"] for row in run(JOIN % "", context, B=base)] == ["1", "2"]
        assert (site.requests, site.unchanged) == ({"/": 2, "/1": 2, "/2": 1}, {"/1": 1})

    @pytest.mark.parametrize("seconds", [0, 60])
    def test_are_fresh_as_long_as_their_stage_says(self, run: Run, site: Site, tmp_path: Path, seconds: float) -> None:
        base = site.serve({"/": "<li><a href=/1>1</a></li>", "/1": "<h1>1</h1><a href=/2>2</a>", "/2": "<h1>2</h1>"})
        context = RunContext(cache=CacheOptions(shared=str(tmp_path)))
        text = f"""
spindle: {{cache: {60 - seconds}}}
fetch: {{url: "${{B}}/", cache: 60}}
pipeline:
- {{stage: wgetJoin, args: [{{selector: li a, cache: 0}}]}}
- {{stage: wgetExplore, args: [{{selector: a, cache: {seconds}}}]}}
- {{stage: extract, args: [{{selector: h1, as: name}}]}}"""
        for _ in range(2):
            assert run(text, context, B=base) == [{"name": "1"}, {"name": "2"}]
        assert site.requests == {"/": 1, "/1": 2, "/2": 1 if seconds else 2}

    def test_are_trusted_since_the_execution_began(self, run: Run, site: Site, tmp_path: Path) -> None:
        base = site.serve(PAGES)
        context = RunContext(cache=CacheOptions(shared=str(tmp_path), lifetime_seconds=0, since=datetime.now(UTC)))
        for _ in range(2):
            run(JOIN % "", context, B=base)
        assert site.requests == dict.fromkeys(PAGES, 1)
