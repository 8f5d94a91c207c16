"""Clean text and its chunks on both runners and in a trial: ids that stay, and merges that remove former chunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.extract.clean_text import html_to_article, html_to_markdown
from pipelines.extract.patterns import SelectorFailed
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from tests.support.fetching import LOOPBACK
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import open_trial

WORDS = "which says enough about its subject to be taken for the text of a page by all that look for one. " * 3
PAGE = f"""<html lang=de><head><title>Guide</title><meta name=author content="Ann Lee">
<meta property="article:published_time" content="2026-03-01"></head><body>
<nav><ul><li><a href=/>Home</a><li><a href=/all>All of it</a></ul></nav><div id=cookie-banner>We use cookies</div>
<main><h1>Guide</h1><p>A paragraph, {WORDS} <a href="b.html?x=1">More</a> <img src=/a.png alt=A></p>
<h2>Install</h2><pre><code class=language-sh># not a heading
make all</code></pre><ul><li>one<ol><li>two<li>three</ol><li>four</ul>
<h2>Use</h2><table><tr><th colspan=2>Name<th>Price<tr><td rowspan=2>a<td>b<td>1<tr><td>c<td>2</table>
<p dir=rtl>שלום עולם</p></main><aside>Related pages</aside><footer>Imprint</footer><script>alert(1)</script></body>"""
PIPELINE = """
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: extract, args: [{{method: markdown, as: text}}]}}
  - {{stage: chunk, args: [$text, {{by: headings, size: {size}}}]}}
spindle: {{maxFailureRatio: 1, robots: ignore}}
"""
MARKDOWN = """## Install

```sh
# not a heading
make all
```

- one
  1. two
  2. three
- four"""


def read(runners: Runners, text: str) -> list[dict[str, Any]]:
    """Return the rows that both runners and a trial give."""
    plan = runners.plan(text)
    outcome = runners.assert_equal(plan)
    with open_trial(plan) as trial:
        rows = [row.values for row in trial.iter_rows() if row.fetched.error is None]
    assert [row.get("id") for row in rows] == [row.get("id") for row in outcome.preview]
    return rows


def test_sections_are_chunks_with_ids_that_stay(runners: Runners, site: Site) -> None:
    url = site.serve({"/guide": PAGE}) + "/guide"
    rows = read(runners, PIPELINE.format(url=url, size=500))
    assert [row["id"] for row in rows] == [f"{url}#guide", f"{url}#guide/install", f"{url}#guide/use"]
    assert [row["headings"] for row in rows] == [["Guide"], ["Guide", "Install"], ["Guide", "Use"]]
    assert {row["document"] for row in rows} == {url}
    first, install, use = (row["text"] for row in rows)
    assert f"[More]({site.url}/b.html?x=1) ![A]({site.url}/a.png)" in first
    assert install == MARKDOWN
    assert [" ".join(line.split()) for line in use.splitlines()][2:] == [
        "| Name | | Price |",
        "| ---- | --- | ----- |",
        "| a | b | 1 |",
        "| | c | 2 |",
        "",
        "שלום עולם",
    ]
    assert not any(word in first + install + use for word in ("Home", "cookies", "Related", "Imprint", "alert"))
    site.serve({"/guide": PAGE.replace("<h2>Install", "<h2>Before</h2><p>New.</p><h2>Install")})
    again = {row["id"]: row["text"] for row in read(runners, PIPELINE.format(url=url, size=500))}
    assert again.pop(f"{url}#guide/before") == "## Before\n\nNew."
    assert again == {row["id"]: row["text"] for row in rows}
    parts = read(runners, PIPELINE.format(url=url, size=40))
    assert [row["id"] for row in parts][:2] == [f"{url}#guide", f"{url}#guide.2"]
    assert max(len(row["text"].encode()) for row in parts) <= 160


def test_an_article_and_columns_of_html_and_columns_made_above(runners: Runners, site: Site) -> None:
    url = site.serve({"/guide": PAGE})
    (row,) = read(
        runners,
        f"""
fetch: {{url: "{url}/guide"}}
pipeline:
  - stage: extract
    args:
      - {{method: article, as: article}}
      - {{selector: ul, method: code, as: html, xpath: null}}
      - {{field: html, method: markdown, as: list}}
      - {{selector: "td:last-child", as: raw}}
      - {{field: raw, method: price, as: price}}
spindle: {{robots: ignore}}
""".replace(", xpath: null", ""),
    )
    article = row["article"]
    assert (article["title"], article["author"], article["language"]) == ("Guide", "Ann Lee", "de")
    assert str(article["date"]) == "2026-03-01"
    assert "A paragraph, which says" in article["text"]
    assert "cookies" not in article["text"]
    assert row["list"] == f"- [Home]({url}/)\n- [All of it]({url}/all)"
    assert (row["raw"], row["price"]) == ("1", 1.0)


def test_a_page_that_fails_has_no_chunk(runners: Runners, site: Site) -> None:
    text = PIPELINE.format(url=site.serve({"/": "", "/b": 500}) + "/", size=50)
    assert read(runners, text) == []
    assert runners.assert_equal(runners.plan(text.replace(site.url + "/", site.url + "/b"))).stored == {}


@pytest.mark.long
def test_a_page_of_one_endless_line_is_a_sentence_and_others_go_on(runners: Runners, site: Site) -> None:
    line = "<p>word " + "and more words " * (50 << 20 >> 4)  # 47 MiB
    url = site.serve({"/": "<a href=/line>1</a><a href=/b>2</a>", "/line": line, "/b": PAGE})
    plan = runners.plan(f"""
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: join, args: [a]}}
  - {{stage: extract, args: [{{method: markdown, as: text}}, {{method: article, as: article}}]}}
""")
    rows = runners.assert_equal(plan).preview
    assert [bool(row["text"]) for row in rows] == [False, True]
    assert "larger" in rows[0]["_error"]


@pytest.mark.parametrize("size", [(20 << 20) + 1, 50 << 20])
def test_a_text_above_the_limit_is_a_sentence(size: int) -> None:
    for read_text in (html_to_article, html_to_markdown):
        with pytest.raises(SelectorFailed, match="it has more than 20 MiB"):
            read_text("<p>" + "x" * size, "")


@pytest.mark.parametrize("kind", ["local", "spark"])
def test_a_merge_removes_the_chunks_of_sections_that_are_gone(
    kind: str, request: pytest.FixtureRequest, site: Site, tmp_path: Path
) -> None:
    pages = {"/": "<a href=/a>a</a><a href=/b>b</a>", "/a": PAGE, "/b": PAGE}
    url = site.serve(pages)
    text = (
        f'pipeline:\n  - {{stage: wget, args: [["{url}/a", "{url}/b"]]}}\n'
        + PIPELINE.format(url=url, size=500).partition("pipeline:\n")[2]
        + "output: {mode: merge, keys: [id]}"
    )
    merge = start_merges(kind, request, tmp_path)
    merge(text)
    site.serve({"/a": PAGE.replace("<h2>Use</h2>", "<h2>Usage</h2>"), "/b": 500})
    places = ("#guide", "#guide/install", "#guide/usage"), ("#guide", "#guide/install", "#guide/use")
    wanted = [f"{url}/{name}{place}" for name, each in zip("ab", places, strict=True) for place in each]
    assert sorted(merge(text).column("id").to_pylist()) == wanted, kind


@pytest.mark.parametrize("kind", ["local", pytest.param("spark", marks=pytest.mark.long)])
def test_a_merge_keeps_the_order_of_columns_and_takes_any_column(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("k,doc,text\n1,x,a\n2,x,b\n3,y,c\n")
    load = f"pipeline:\n- {{stage: load_csv, args: [{tmp_path}/rows.csv]}}\n"
    cut = load + "- {stage: chunk, args: [$text, {of: $k}]}\n"
    merge = start_merges(kind, request, tmp_path)
    merge(f"{load}output: {{mode: merge, keys: [k]}}")
    (tmp_path / "rows.csv").write_text("doc,text,k\nx,A,1\n")
    merged = merge(f"{load}output: {{mode: merge, keys: [K], within: Doc}}")
    assert merged.column_names == ["k", "doc", "text"]
    assert sorted(map(str, merged.column("k").to_pylist())) == ["1", "3"]
    added = merge(f"{cut}output: {{mode: merge, keys: [headings], within: document}}")
    assert added.column_names == ["k", "doc", "text", "id", "document", "headings", "position"]
    again = merge(f"{cut}output: {{mode: merge, keys: [id], within: headings}}")
    assert (again.num_rows, added.num_rows) == (3, 3)
    with pytest.raises(RunError, match="the rows have no column 'nope', by which the output merges them"):
        merge(f"{load}output: {{mode: merge, keys: [k], within: nope}}")


def start_merges(kind: str, request: pytest.FixtureRequest, folder: Path) -> Callable[[str], pa.Table]:
    """Return a function that runs a pipeline over the output of the run before, and returns the new output."""
    spark: SparkSession | None = request.getfixturevalue("spark") if kind == "spark" else None
    targets = [Target()]

    def merge(text: str) -> pa.Table:
        plan = Pipeline.from_yaml(text).plan()
        context = RunContext(targets={OUTPUT: targets[-1]}, fetch=make_fetch_options(plan.options, LOOPBACK))
        path = str(folder / f"{kind}{len(targets)}")
        with Run(plan, context) as run:
            written = (SparkRunner(run, spark) if spark else LocalRunner(run)).write(path).output
        assert written is not None
        targets.append(Target(exists=True, format="parquet", columns=written.columns, paths=(path,), version="v"))
        return pq.read_table(path)

    return merge


def test_arguments_that_do_not_fit_are_refused() -> None:
    for stage, output, code in (
        ("[$text, {size: 5, overlap: 5}]", "", "conflicting-arguments"),
        ("[$other]", "", "unknown-column"),
        ("[$text]", "output: {within: document}", "conflicting-arguments"),
        ("[$text]", "output: {mode: merge, keys: [id], within: nothing}", "unknown-column"),
    ):
        text = f"pipeline: [{{stage: extract, args: [{{as: text}}]}}, {{stage: chunk, args: {stage}}}]\n{output}"
        with pytest.raises(PipelineError) as caught:
            Pipeline.from_yaml('fetch: {url: "http://127.0.0.1/"}\n' + text).plan()
        assert [each.code for each in caught.value.problems] == [code], stage
