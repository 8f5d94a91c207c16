"""`spindle record` and `spindle test`: rows from recorded pages, without a network."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.recording import get_archive, get_rows_file, record
from cli.recording import test as run_test  # pytest collects functions named test
from cli.trial import TrialOptions
from pipelines.pipeline import Pipeline
from tests.support.scripted_site import serve_scripted_site
from tests.support.site import Site, serve_site
from tests.support.trials import try_rows

PAGES: dict[str, str | int] = {
    "/": "<a class=item href='/a?token=abc'>A</a><a class=item href=/moved>B</a><a class=item href=/gone>C</a>",
    "/a?token=abc": "<h1>Apple</h1><b>2.50</b>",
    "/b": "<h1>Beet k3y-of-shop</h1><b>1.20</b>",
    "/gone": 404,
    "/sitemap.xml": "<urlset><url><loc>${SITE}/b</loc></url></urlset>",
}
PIPELINE = """\
fetch: {url: "${SITE}/", headers: {X-Key: "${KEY}"}}
pipeline:
  - {stage: join, args: [a.item]}
  - {stage: extract, args: [{selector: h1, as: name}, {selector: b, method: price, as: price}]}
"""


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.serve(PAGES)
        site.redirects["/moved"] = "/b"
        yield site


def make_options(pages: int = 30, key: str = "k3y-of-shop", guard: bool = False) -> TrialOptions:
    return TrialOptions({"KEY": key} if key else {}, guard, 0, pages, None)


def write_pipeline(folder: Path, site: Site, text: str = PIPELINE) -> Path:
    file = folder / "shop.yaml"
    file.write_text(text.replace("${SITE}", site.url))
    return file


def test_recorded_pages_give_the_same_rows_without_a_request(site: Site, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, site)
    assert record(file, make_options()) == 0
    rows = [json.loads(line) for line in get_rows_file(file).read_text().splitlines()]
    assert [(row["name"], row["price"]) for row in rows] == [("Apple", 2.5), ("Beet ********", 1.2)]
    archive = gzip.decompress(get_archive(file).read_bytes()).decode()
    assert "k3y-of-shop" not in archive
    assert "token=abc" not in archive.replace("href='/a?token=abc'", "")  # a link of the page, which the run follows
    site.serve({})
    assert run_test(file, make_options(key="another, as in CI"), update=False) == 0
    assert not site.requests


def test_a_changed_selector_is_a_readable_difference(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_pipeline(tmp_path, site)
    record(file, make_options())
    file.write_text(file.read_text().replace("selector: b,", "selector: strong,").replace("as: name", "as: title"))
    capsys.readouterr()
    assert run_test(file, make_options(), update=False) == 1
    shown = capsys.readouterr()
    assert '~ row 1: no column name, which was "Apple"; price 2.5 -> null; new column title = "Apple"' in shown.out
    assert "--update" in shown.err
    assert run_test(file, make_options(), update=True) == 0
    assert run_test(file, make_options(), update=False) == 0


def test_a_page_that_was_not_recorded_is_named(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_pipeline(tmp_path, site)
    record(file, make_options(pages=2))
    file.write_text(file.read_text().replace("a.item", "a.item:nth-of-type(2)"))
    assert run_test(file, make_options(), update=False) == 1
    assert f"{site.url}/moved: it is not among the recorded pages" in capsys.readouterr().err
    site.pages.clear()


def test_a_cut_or_missing_archive_is_an_error(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_pipeline(tmp_path, site)
    assert run_test(file, make_options(), update=False) == 1
    assert "shop.warc.gz cannot be read" in capsys.readouterr().err
    record(file, make_options())
    content = get_archive(file).read_bytes()
    get_archive(file).write_bytes(content[: len(content) // 2])
    assert run_test(file, make_options(), update=True) == 1
    assert "shop.warc.gz cannot be used: it was cut" in capsys.readouterr().err


def test_nothing_is_kept_where_no_page_came(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_pipeline(tmp_path, site)
    assert record(file, make_options(guard=True)) == 1
    assert "no page was recorded: all have failed" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["shop.yaml"]


def test_a_sitemap_is_recorded_too(site: Site, tmp_path: Path) -> None:
    site.serve({**PAGES, "/sitemap.xml": str(PAGES["/sitemap.xml"]).replace("${SITE}", site.url)})
    text = (
        "pipeline: [{stage: sitemap, args: ['${SITE}/sitemap.xml']}, {stage: extract, args: [{selector: h1, as: n}]}]"
    )
    file = write_pipeline(tmp_path, site, text)
    assert record(file, make_options(key="")) == 0
    site.serve({})
    assert run_test(file, make_options(key=""), update=False) == 0
    assert not site.requests


PAGE = "{selector: $.page, as: page}"
LISTING = Path(__file__).parents[2] / "examples/json-listing.yaml"


def test_captured_answers_are_recorded_and_replayed_without_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "listing.yaml"
    file.write_text(LISTING.read_text())
    with serve_scripted_site() as site:
        options = TrialOptions({"SHOP": site.url}, False, 0, 30, None)
        assert record(file, options) == 0
        site.requests.clear()
        monkeypatch.setenv("SPINDLE_CHROMIUM", "/nowhere")
        assert run_test(file, TrialOptions({"SHOP": site.url}, False, 0, 30, None), update=False) == 0
        # a trace that has changed, as by a secret that CI lacks, has the answers of the recorded visit
        file.write_text(file.read_text().replace("items: 1000", "items: 999"))
        assert run_test(file, TrialOptions({"SHOP": site.url}, False, 0, 30, None), update=False) == 0
        assert not site.requests
    rows = [json.loads(line) for line in get_rows_file(file).read_text().splitlines()]
    assert [row["name"] for row in rows] == [f"item {number}" for number in range(1, 31)]
    loaded = f"pipeline: [{{stage: load_warc, args: ['{get_archive(file)}']}}, {{stage: extract, args: [{PAGE}]}}]"
    assert sorted(row["page"] for row in try_rows(Pipeline.from_yaml(loaded).plan({}))) == [1, 2, 3]


VALUES = """\
fetch:
  url: "${SHOP}/"
  traces:
    - {action: evaluate, params: {script: "({title: 'Ä ' + document.title, key: '${API_KEY}'})", as: state}}
    - {action: screenshot, params: {as: picture}}
    - {action: snapshot}
    - {action: evaluate, params: {script: "7", as: number}}
    - {action: snapshot}
pipeline: [{stage: extract, args: [{selector: h1, as: name}]}]
"""


@pytest.mark.long
def test_values_of_scripts_and_pictures_are_recorded_and_replayed_without_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(VALUES)
    with serve_scripted_site() as site:
        site.pages["/"] = "<title>Shop</title><h1>Lamps</h1>"
        assert record(file, TrialOptions({"SHOP": site.url, "API_KEY": "s3cret-key"}, False, 0, 30, None)) == 0
        site.requests.clear()
        monkeypatch.setenv("SPINDLE_CHROMIUM", "/nowhere")
        assert run_test(file, TrialOptions({"SHOP": site.url, "API_KEY": "x"}, False, 0, 30, None), update=False) == 0
        assert not site.requests
    rows = [json.loads(line) for line in get_rows_file(file).read_text().splitlines()]
    assert [(row["name"], row["state"]["title"], row["number"]) for row in rows] == [
        ("Lamps", "Ä Shop", None),
        ("Lamps", "Ä Shop", 7),
    ]
    archive = gzip.decompress(get_archive(file).read_bytes()).decode()
    assert "s3cret-key" not in archive
    loaded = (
        f"pipeline: [{{stage: load_warc, args: ['{get_archive(file)}']}}, {{stage: extract, args: [{{selector: h1}}]}}]"
    )
    assert [row["text"] for row in try_rows(Pipeline.from_yaml(loaded).plan({}))] == ["Lamps"]


def test_the_command_loads_neither_spark_nor_arrow(site: Site, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, site)
    record(file, make_options())
    code = (
        "import sys\nfrom pathlib import Path\nfrom cli.recording import test\nfrom cli.trial import TrialOptions\n"
        f"code = test(Path({str(file)!r}), TrialOptions({{'KEY': 'x'}}, False, 0, 0, None), False)\n"
        "print(code, [each for each in ('pyspark', 'pyarrow', 'playwright', 'dagster') if each in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "0 []\n"
