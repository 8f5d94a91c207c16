"""Incremental crawls: which pages the second execution of a job asks for, and which rows it writes, on both runners.

The default suite runs them without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.request import OUTPUT, KnownPagesPlace, Target
from pipelines.engine.options import make_cache_options
from pipelines.engine.run import Run
from pipelines.incremental.known_pages import load_known_pages
from pipelines.incremental.selection import PageCounts
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import crawl, make_context
from tests.support.site import Site

LISTING = """
spindle: {incremental: %s}
fetch: {url: "${B}/"}
pipeline:
- {stage: wgetJoin, args: [a, Inner]}
- {stage: extract, args: [{selector: h1, as: name}, {selector: b, as: price}]}"""
KEYS = "{keys: [name]}"
NOW = "{keys: [name], recheck: PT0.000001S}"


@dataclass
class Job:
    """A job with one dataset, whose executions are published as the service does."""

    spark: SparkSession | None
    folder: Path
    known: str | None = None
    versions: list[str] = field(default_factory=list[str])
    columns: tuple[tuple[str, str], ...] = ()
    counts: PageCounts | None = None
    number: int = 0

    def run(self, text: str, limit: int | None = None, publish: bool = True, **parameters: str) -> list[dict[str, Any]]:
        """Run once; return the rows that were written."""
        self.number += 1
        plan = Pipeline.from_yaml(text).plan(parameters)
        place = KnownPagesPlace("job", str(self.folder / f"known{self.number}"), self.known)
        exists = bool(self.versions)
        target = Target(exists=exists, format="parquet", columns=self.columns, paths=tuple(self.versions), version="v")
        targets = {OUTPUT: target if exists else Target()}
        context = make_context(plan, known=place, limit=limit, targets=targets)
        context = replace(context, cache=make_cache_options(plan.options, context.cache))
        path = str(self.folder / f"output{self.number}")
        with Run(plan, context, 20) as run:
            runner = SparkRunner(run, self.spark) if self.spark else LocalRunner(run)
            result = runner.write(path)
            self.counts = run.page_counts
        if result.output is None:
            rows = list[dict[str, Any]]()
        else:
            rows = _read([path])
            assert [*result.preview] == rows or result.output.total_rows
            assert result.output.rows <= len(rows)
        if publish:
            if run.has_new_pages:
                self.known = place.folder
            if result.output:
                self.versions = [path] if plan.output.mode == "merge" else [*self.versions, path]
                self.columns = result.output.columns
        return rows

    def read(self) -> list[dict[str, Any]]:
        """Return the rows of the dataset."""
        return _read(self.versions)


def _read(folders: list[str]) -> list[dict[str, Any]]:
    tables = [pq.ParquetFile(file).read() for folder in folders for file in sorted(Path(folder).glob("*.parquet"))]
    rows = pa.concat_tables(tables, promote_options="default").to_pylist()
    return sorted(rows, key=lambda row: str(row.get("name")))


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.long)])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    spark: SparkSession | None = request.getfixturevalue("spark") if request.param == "spark" else None
    return Job(spark, tmp_path)


def show(names: str) -> str:
    return "".join(f"<a href=/{name}>x</a>" for name in names)


def page(name: str, price: str = "1") -> str:
    return f"<h1>{name}</h1><b>{price}</b>"


def row(name: str, price: str | None = "1") -> dict[str, Any]:
    return {"name": name, "price": price}


def test_pages_of_earlier_executions_are_left_out(job: Job, site: Site) -> None:
    base = site.serve({"/": show("ab"), "/a": page("a"), "/b": page("b"), "/c": page("c"), "/d": 500})
    text = LISTING % "true"
    assert job.run(text, B=base) == [row("a"), row("b")]
    assert job.counts == PageCounts(new=2)
    site.pages |= {"/": show("abcd"), "/a": page("a", "2")}
    site.requests.clear()
    assert job.run(text, B=base) == [row("c")]
    assert dict(site.requests) == {"/": 1, "/c": 1, "/d": 2}
    assert job.counts == PageCounts(new=1, left_out=2)
    site.pages["/d"] = page("d")
    assert job.run(text, B=base) == [row("d")]
    assert job.run(text, B=base) == []
    assert job.counts == PageCounts(left_out=4)
    assert job.read() == [row("a"), row("b"), row("c"), row("d")]


def test_tracking_parameters_make_no_page_new(job: Job, site: Site) -> None:
    link, text = "<a href='/a%s'>x</a>", LISTING % "true"
    base = site.serve({"/": link % "?utm_source=1", "/a": page("a"), "/a?utm_source=3": page("a", "2")})
    assert job.run(text, B=base) == [row("a")]
    site.pages["/"] = link % "?utm_source=2" + link % ";jsessionid=7"
    assert job.run(text, B=base) == []
    site.pages["/"] = link % "?utm_source=3&gclid=1"
    significant = text.replace("Inner]", "Inner, {significantQuery: [utm_source]}]")
    assert job.run(significant, B=base) == [row("a", "2")]


def test_a_required_selector_may_have_no_new_page(job: Job, site: Site) -> None:
    base = site.serve({"/": show("a"), "/a": page("a")})
    text = LISTING.replace("as: name", "as: name, required: true") % "true"
    assert job.run(text, B=base) == [row("a")]
    assert job.run(text, B=base) == []


def test_what_was_not_published_is_not_known(job: Job, site: Site) -> None:
    base = site.serve({"/": show("abc"), "/a": page("a"), "/b": page("b"), "/c": page("c")})
    text = LISTING % "true" + "\n- {stage: filter, args: [\"name <> 'c'\"]}"
    assert job.run(text, B=base, publish=False) == [row("a"), row("b")]
    assert job.run(text, limit=1, B=base) == [row("a")]
    assert job.run(text, limit=1, B=base) == [row("b")]
    site.requests.clear()
    assert job.run(text, B=base) == []
    assert dict(site.requests) == {"/": 1, "/c": 1}


def test_an_explore_asks_again_for_the_pages_whose_links_it_follows(job: Job, site: Site) -> None:
    base = site.serve({"/": page("0") + show("a"), "/a": page("a") + show("b"), "/b": page("b") + show("c")})
    text = LISTING.replace("wgetJoin, args: [a, Inner]", "wgetExplore, args: [a, 2]") % "true"
    assert [each["name"] for each in job.run(text, B=base)] == ["0", "a", "b"]
    site.pages |= {"/a": page("a") + show("bd"), "/d": page("d")}
    site.requests.clear()
    assert job.run(text, B=base) == [row("d")]
    assert dict(site.requests) == {"/": 1, "/a": 1, "/d": 1}
    assert job.counts == PageCounts(new=1, left_out=3)


def test_pages_are_asked_for_again_with_their_validators(job: Job, site: Site) -> None:
    base = site.serve({"/": show("abc"), "/a": page("a"), "/b": page("b"), "/c": page("c")})
    site.has_etags = True
    text = LISTING % NOW
    assert job.run(text, B=base) == [row("a"), row("b"), row("c")]
    assert job.run(LISTING % KEYS, B=base) == []
    assert job.counts == PageCounts(left_out=3)
    site.pages |= {"/b": page("b", "2"), "/c": 410}
    site.requests.clear()
    assert job.run(text, B=base) == [row("a"), row("b", "2"), row("c")]
    assert dict(site.requests) == {"/": 1, "/a": 1, "/b": 1, "/c": 1}
    assert site.unchanged == {"/a": 1}
    assert job.counts == PageCounts(changed=1, unchanged=1, gone=1)
    assert job.run(text, B=base) == []
    assert job.counts == PageCounts(unchanged=2, gone=1)
    known = load_known_pages(job.known).table
    assert known.num_rows == 3
    assert sum(each is not None for each in known.column("etag").to_pylist()) == 3


def test_addresses_of_a_column_are_asked_about(job: Job, site: Site, tmp_path: Path) -> None:
    base = site.serve({"/a": page("a")})
    site.has_etags = True
    for header, rows, answers in (("link", f"{base}/a", 1), ("link,note", f"{base}/a,x", 0)):
        (tmp_path / "links.csv").write_text(f"{header}\n{rows}\n")
        text = f"""
spindle: {{incremental: {NOW}}}
pipeline:
- {{stage: load_csv, args: [{tmp_path}/links.csv]}}
- {{stage: wget, args: [$link]}}
- {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: b, as: price}}]}}"""
        one = replace(job, folder=tmp_path / header, versions=[], known=None)
        assert len(one.run(text)) == 1
        site.unchanged.clear()
        assert one.run(text) == []
        assert sum(site.unchanged.values()) == answers


def test_a_column_from_before_an_unchanged_page_is_new(job: Job, site: Site) -> None:
    listing = "<i><a href=/a>a</a><u>{}</u></i>"
    base = site.serve({"/": listing.format(1), "/a": "<h1>a</h1>"})
    site.has_etags = True
    stages = "{stage: flatSelect, args: [i, {selector: u, as: price}]}", "{stage: wgetJoin, args: [a, Inner]}"
    name = "{stage: extract, args: [{selector: h1, as: name}]}"
    text = crawl("${B}/", *stages, name, options=f"incremental: {NOW}")
    assert job.run(text, B=base) == [row("a")]
    assert job.run(text, B=base) == []
    assert job.counts == PageCounts(unchanged=1)
    site.pages["/"] = listing.format(2)
    assert job.run(text, B=base) == [row("a", "2")]


@pytest.mark.long
def test_pages_without_validators_are_compared_by_their_rows(job: Job, site: Site) -> None:
    base = site.serve({"/": show("ab"), "/a": page("a"), "/b": page("b")})
    text = LISTING % NOW
    job.run(text, B=base)
    site.pages |= {"/a": page("a") + "<p>seen 7 times</p>", "/b": 503}
    assert job.run(text + "\n", B=base) == []
    assert job.counts == PageCounts(unchanged=1)
    site.pages |= {"/a": page("z", "9"), "/b": page("b", "3")}
    assert job.run(text, B=base) == job.read() == [row("a"), row("b", "3"), row("z", "9")]
    assert job.counts == PageCounts(changed=2)


def test_rows_of_a_listing_itself_are_merged(job: Job, site: Site) -> None:
    base = site.serve({"/": "<i><h1>a</h1><b>1</b></i><i><h1>b</h1><b>1</b></i>"})
    select = "{stage: flatSelect, args: [i, {selector: h1, as: name}, {selector: b, as: price}]}"
    text = crawl("${B}/", select, options=f"incremental: {NOW}")
    assert job.run(text, B=base) == [row("a"), row("b")]
    assert job.run(text, B=base) == []
    site.pages["/"] = "<i><h1>b</h1><b>2</b></i><i><h1>c</h1><b>1</b></i>"
    assert job.run(text, B=base) == [row("a"), row("b", "2"), row("c")]


def test_columns_that_later_rows_lack_are_kept(job: Job, site: Site) -> None:
    base = site.serve({"/": "<i><h1>a</h1><b>1</b></i><i><h1>b</h1><b>2</b></i>"})
    select = "{stage: flatSelect, args: [i, {selector: h1, as: name}, {selector: %s, as: %s}]}"
    text = crawl("${B}/", select, options=f"incremental: {NOW}")
    assert job.run(text % ("b", "price"), B=base) == [row("a"), row("b", "2")]
    site.pages["/"] = "<i><h1>b</h1><u>new</u></i><i><h1>c</h1><u>old</u></i>"
    assert job.run(text % ("u", "state"), B=base) == [
        {**row("a"), "state": None}, {**row("b", "2"), "state": "new"}, {**row("c", None), "state": "old"},
    ]  # fmt: skip


def test_rows_without_a_page_are_known_by_their_values(job: Job, site: Site) -> None:
    base = site.serve({"/": "<i><h1>a</h1></i><i><h1>b</h1><a href=/b>x</a></i>", "/b": page("b", "4")})
    stages = "{stage: flatSelect, args: [i, {selector: h1, as: name}]}", "{stage: wgetJoin, args: [a]}"
    price = "{stage: extract, args: [{selector: b, as: price}]}"
    text = crawl("${B}/", *stages, price, options="incremental: true")
    assert job.run(text, B=base) == [row("a", None), row("b", "4")]
    assert job.run(text, B=base) == []
