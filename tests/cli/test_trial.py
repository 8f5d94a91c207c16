"""`spindle try`: a page or the first rows of a pipeline, without Spark."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import main
from pipelines.planning.draft import find_selectors, replace_selector
from tests.support.service import CLONE
from tests.support.site import Site, serve_site

PAGES = {
    "/": "<title>Shop</title><h1>Shop</h1><a class=next href=/2>2</a><a class=item href=/a>A</a>",
    "/2": "<a class=next href=/3>3</a><a class=item href=/b>B</a><a class=item href=/gone>C</a>",
    "/3": "<a class=next href=/>1</a><a class=item href=/a>A</a>",
    "/a": "<h1>Apple</h1><b>2.50 EUR</b>",
    "/b": "<h1>Beet</h1>",
    "/robots.txt": "User-agent: *\nDisallow: /private\n",
}
PIPELINE = """\
fetch: {url: "${SITE}/"}
pipeline:
  - stage: wgetExplore   # every page once
    args: [a.next, {depth: 5}]
  - {stage: wgetJoin, args: [a.item]}
  - stage: extract
    args: [{selector: h1, as: name}, {selector: b, method: price}]
  - {stage: "python_row_transform:shout"}
  - {stage: dedup, args: [name]}
"""
SHOUT = """\
def shout(row) -> {'name': str, 'price': float}:
    return {**row, 'name': row['name'] and row['name'].upper()}
"""


@pytest.fixture
def shop() -> Iterator[Site]:
    with serve_site() as site:
        site.serve(PAGES)
        yield site


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    (tmp_path / "shout.py").write_text(SHOUT)
    return path


def run_try(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["try", *map(str, arguments)])


@pytest.mark.long
def test_a_file_gives_its_first_rows_up_to_a_stage_for_whole_tables(shop: Site, file: Path) -> None:
    tried = run_try(file, "-p", f"SITE={shop.url}", "--transforms", file.parent / "shout.py")
    assert tried.exit_code == 0, tried.stderr
    rows = [json.loads(line) for line in tried.stdout.splitlines()]
    assert [row["name"] for row in rows] == ["APPLE", "BEET", "APPLE"]
    assert rows[0]["price"] == 2.5
    assert "line 9: dedup name" in tried.stderr
    assert "/gone: the server answered 404" in tried.stderr
    assert shop.requests == dict.fromkeys(("/", "/2", "/3", "/a", "/b", "/gone", "/robots.txt"), 1)


@pytest.mark.long
def test_no_more_rows_and_pages_are_taken_than_wanted(shop: Site, file: Path) -> None:
    text = file.read_text()
    file.write_text(text[: text.index("  - {stage: dedup")].replace("python_row_transform:shout", "echo"))
    first = run_try(file, "-p", f"SITE={shop.url}", "--limit", 1)
    assert [json.loads(line)["name"] for line in first.stdout.splitlines()] == ["Apple"]
    assert "/3" not in shop.requests
    shop.serve(PAGES)
    assert run_try(file, "-p", f"SITE={shop.url}", "--pages", 2).stderr.startswith("the first ")
    assert sum(shop.requests.values()) <= 3


@pytest.mark.long
def test_an_address_gives_the_page_and_what_selectors_find(shop: Site) -> None:
    page = run_try(f"{shop.url}/")
    assert (page.exit_code, page.stdout) == (0, f"{PAGES['/']}\n")
    assert "200 text/html" in page.stderr
    found = run_try(f"{shop.url}/2", "a.item", "{selector: a, method: href, as: link}", ".none")
    assert found.exit_code == 3
    assert f"a.item: 2 elements\n  B -> {shop.url}/b\n  C -> {shop.url}/gone\n" in found.stdout
    assert f'link = "{shop.url}/3"' in found.stdout
    assert ".none: nothing" in found.stdout
    xpath = run_try(f"{shop.url}/2", "//a[@class='item']")
    assert (xpath.exit_code, xpath.stdout.splitlines()[0]) == (0, "//a[@class='item']: 2 elements")


@pytest.mark.long
def test_values_of_a_json_page_are_printed_as_they_are(shop: Site) -> None:
    page = '{"items": [{"n": 1.5, "tags": ["a"], "id": "007"}, {"n": 2}], "next": "/2"}'
    shop.serve({"/api": page}, {"/api": "application/json"})
    assert run_try(f"{shop.url}/api").stdout == f"{page}\n"
    selectors = ("$.items[*].n", "$.next", "$.items[0].tags", "$.items[0].id", "$.items[1]", "$.none")
    tried = run_try(f"{shop.url}/api", *selectors)
    assert tried.stdout.splitlines() == [
        *("$.items[*].n: 2 elements", "  1.5", "  2", "$.next: 1 element", '  "/2"'),
        *("$.items[0].tags: 1 element", '  "a"', "$.items[0].id: 1 element", '  "007"'),
        *("$.items[1]: 1 element", '  {"n": 2}', "$.none: nothing"),
        *("n = 1.5", 'next = "/2"', 'tags = ["a"]', 'id = "007"', 'items = {"n": 2}', "none = null"),
    ]


def test_a_csv_of_addresses_gives_its_first_rows(shop: Site, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"page,n\n{shop.url}/a,1\n{shop.url}/b,2\n{shop.url}/3,3\n")
    (tmp_path / "p.yaml").write_text(f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/in.csv']}}]")
    tried = run_try(tmp_path / "p.yaml", "--limit", 2)
    assert [json.loads(line)["n"] for line in tried.stdout.splitlines()] == ["1", "2"]
    text = f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/in.csv']}}, {{stage: wget, args: [$page]}}]"
    (tmp_path / "p.yaml").write_text(text)
    tried = run_try(tmp_path / "p.yaml", "--pages", 1)
    assert [json.loads(line) for line in tried.stdout.splitlines()] == [
        {"page": f"{shop.url}/a", "n": "1", "_requestedUrl": f"{shop.url}/a", "_status": 200}
    ]


@pytest.mark.long
def test_failures_are_sentences(shop: Site, file: Path) -> None:
    for arguments, said in {
        (f"{shop.url}/gone",): "the server answered 404",
        (f"{shop.url}/", "a["): "not a selector",
        (f"{shop.url}/private",): "robots.txt",
        ("nowhere.yaml",): "neither an address",
        (file,): "SITE",
        ("--guard", f"{shop.url}/"): "127.0.0.1",
    }.items():
        tried = run_try(*arguments)
        assert tried.exit_code in (1, 2), tried
        assert said in tried.stderr, tried.stderr
        assert "Traceback" not in tried.stderr
    file.write_text(PIPELINE.replace("[a.item]", "[a.item, Inner]"))
    tried = run_try(file, "-p", f"SITE={shop.url}/private", "--transforms", file.parent / "shout.py")
    assert (tried.exit_code, tried.stdout) == (1, "")
    assert "robots.txt" in tried.stderr


def test_rows_have_the_engine_columns_that_the_pipeline_keeps(shop: Site, file: Path) -> None:
    file.write_text(
        f"fetch: {{url: '{shop.url}/a'}}\nspindle: {{keepColumns: [_url]}}\n"
        "pipeline: [{stage: extract, args: [{selector: h1, as: name}]}]"
    )
    assert json.loads(run_try(file).stdout) == {"name": "Apple", "_url": f"{shop.url}/a"}


def test_a_changed_selector_shows_its_rows_and_is_saved(shop: Site, file: Path) -> None:
    before = PIPELINE.replace("${SITE}", shop.url).replace('  - {stage: "python_row_transform:shout"}\n', "")
    file.write_text(before)
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [CLONE / ".venv/bin/spindle", "try", file], stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
    ) as process:
        os.close(terminal)
        os.write(main, b"4 title\n4 h1[\n3 h1, h2\nsave\nquit\n")
        printed = b""
        try:
            while data := os.read(main, 65536):
                printed += data
        except OSError:  # the other end is closed
            pass
        os.close(main)
        assert process.wait(60) == 0
    assert b"not a selector" in printed
    assert b"price is empty in all of them" in printed
    assert file.read_text() == before.replace("selector: h1,", 'selector: "h1, h2",').replace(
        "selector: b,", "selector: title,"
    )
    assert shop.requests["/a"] == 1


def test_selectors_are_found_and_changed_in_place() -> None:
    found = find_selectors(PIPELINE)
    assert [(each.stage, each.line, each.text) for each in found] == [
        ("wgetExplore", 4, "a.next"),
        ("wgetJoin", 5, "a.item"),
        ("extract", 7, "h1"),
        ("extract", 7, "b"),
    ]
    changed = replace_selector(PIPELINE, found[1], "a[href='x']")
    assert find_selectors(changed)[1].text == "a[href='x']"
    assert changed.splitlines()[2] == PIPELINE.splitlines()[2]


def test_it_loads_neither_spark_nor_arrow() -> None:
    code = "import sys, cli.trial; print([*{'pyspark', 'pyarrow', 'pandas', 'dagster'} & sys.modules.keys()])"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=CLONE, capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
