"""The examples of docs/from-scrapy.md, each run as `spindle run` does, against one site whose content is known."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cli.main import main
from pipelines.browser.chromium import close_chromium
from pipelines.local.engine_choice import choose_engine
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.transforms.transform import Transforms
from tests.support.crawl_site import CrawlSite, draw_picture, serve_crawl_site
from tests.support.pipelines import make_runner

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/from-scrapy"
FILES = sorted(FOLDER.glob("[0-9]*.yaml"))
Rows = list[dict[str, Any]]
RunExample = Callable[..., Rows]


@pytest.fixture(scope="module")
def crawl_site() -> Iterator[CrawlSite]:
    with serve_crawl_site() as site:
        yield site
    close_chromium()


@pytest.fixture
def run_example(crawl_site: CrawlSite, tmp_path: Path) -> RunExample:
    """Run an example with the command, which `shows` a text, and return the rows that it writes."""

    def run(number: str, *options: str, code: int = 0, shows: str = "", **parameters: str) -> Rows:
        (file,) = FOLDER.glob(f"{number}-*.yaml")
        given = {"SITE": crawl_site.url, "FOLDER": str(tmp_path), **parameters}
        names = Pipeline.from_yaml(file.read_text()).parameters & given.keys()
        arguments = [part for name in sorted(names) for part in ("-p", f"{name}={given[name]}")]
        output = tmp_path / "rows.jsonl"
        command = ["run", str(file), *arguments, "--transforms", str(FOLDER / "functions.py"), "-o", str(output)]
        crawl_site.requests.clear()
        done = CliRunner().invoke(main, [*command, *options])
        told = " ".join(done.output.split())  # lines are broken at the width of the terminal
        assert done.exit_code == code, told
        assert shows in told
        return [json.loads(line) for line in output.read_text().splitlines()] if code == 0 else [{"told": told}]

    return run


@pytest.fixture
def run_on_spark(spark: SparkSession, crawl_site: CrawlSite, tmp_path: Path) -> RunExample:
    """Run an example that needs Spark on the session that tests share."""
    run = make_runner(lambda: spark, tmp_path)

    def run_file(number: str, **parameters: str) -> Rows:
        (file,) = FOLDER.glob(f"{number}-*.yaml")
        return run(file.read_text(), **{"SITE": crawl_site.url, "FOLDER": str(tmp_path), **parameters})

    return run_file


def plan_example(file: Path) -> Plan:
    parameters = {"SITE": "http://127.0.0.1:1", "FOLDER": "/none", "PASSWORD": ""}
    return Pipeline.from_yaml(file.read_text()).plan(
        parameters, Transforms.from_text((FOLDER / "functions.py").read_text())
    )


PRICES = [("Lamp", 1299.0), ("Cup", 4.5), ("Sticker", None), ("Chair", 89.9), ("Bowl", 12.0)]
LISTED = [{"name": name, "price": price} for name, price in PRICES]
ROWS: dict[str, Rows] = {
    "01": [{"sku": f"S{number}", **row} for number, row in enumerate(LISTED, 1)],
    "02": [
        {"lastmod": "2025-03-01", "name": "Sticker"},
        {"lastmod": "2025-04-01", "name": "Chair"},
        {"lastmod": "2025-05-01", "name": "Bowl"},
    ],
    "03": [
        {
            "text": f"{name} news",
            "published": f"2025-09-0{day}T08:00:00+00:00",
            "address": f"SITE/news/{page}",
            "heading": f"{name} news",
        }
        for day, page, name in ((1, "one", "First"), (2, "two", "Second"))
    ],
    "04": [
        {"sku": f"S{number + 1}", "name": name, "rating": 4.5 - number, "reviews": number, "new": number == 0}
        for number, (name, _) in enumerate(PRICES)
    ],
    "06": [
        {"sku": "S1", "name": "Lamp", "size": "S", "price": 1299.0},
        {"sku": "S2", "name": "Cup", "size": "S", "price": 4.5},
        {"sku": "S2", "name": "Cup", "size": "L", "price": 6.0},
        {"sku": "S4", "name": "Chair", "size": "M", "price": 89.9},
    ],
    "07": [{"number": f"S{number}", **row} for number, row in enumerate(LISTED[:3], 1)],
    "09": [
        {"sku": "S1", "review": "Bright"},
        {"sku": "S2", "review": "Solid"},
        {"sku": "S2", "review": "Holds coffee"},
    ],
    "13": [
        {"sku": "S1", "net": 1091.60},
        {"sku": "S2", "net": 3.78},
        {"sku": "S4", "net": 75.55},
        {"sku": "S5", "net": 10.08},
    ],
    "14": [
        {"sku": sku, "price": price, "listed": listed, "released": released, "weight": weight, "ean": ean}
        for sku, price, listed, released, weight, ean in (
            ("S1", 1299.00, "€ 1.299,00", "2024-03-05", 1.5, 4006381333931),
            ("S2", 4.50, "€ 4,50", "2023-11-17", 0.25, 4006381333948),
            ("S3", None, "Free", "2025-01-01", 0.01, 4006381333955),
            ("S4", 89.90, "€ 89,90", "2022-06-30", 4.0, 4006381333962),
            ("S5", 12.00, "€ 12,00", None, 0.75, 4006381333979),
        )
    ],
    "15": [{"name": "Chair", "price": 89.9}, {"name": "Bowl", "price": 12.0}],
    "16": [
        {"ean": "4006381333931", "kilos": 1, "kind": "light"},
        {"ean": "4006381333948", "kilos": 0, "kind": "other"},
    ],
    "17": LISTED,
    "18": [{"name": name} for name in ("Lamp", "Cup", "Sticker", "Chair")],
    "19": [{"title": "Page 1"}, {"title": "Page 2"}],
    "20": [
        {
            "agent": "shop-watch (+https://example.com/contact)",
            "language": "de",
            "version": "2",
            "cookie": "currency=EUR",
        }
    ],
    "21": [{"title": title} for title in ("Shop", "Catalogue", "News", "Flaky")],
    "22": [{"greeting": greeting} for greeting in ("Café", "Привет", "茶碗", "Größe")],
}


SHOWN = {"14": "ean: released has 1 value that does not fit its cast"}
REQUESTS = {
    "19": {"/flaky": 1, "/flaky/1": 4, "/flaky/2": 1},  # a page is asked for until it answers
    "21": {"/": 1, "/catalogue": 1, "/news": 1, "/flaky": 1},  # and those of the host alone
}


@pytest.mark.parametrize("number", ROWS)
def test_an_example_gives_exactly_the_rows_of_the_site(
    run_example: RunExample, crawl_site: CrawlSite, number: str
) -> None:
    crawl_site.failures["/flaky/1"] = 3
    expected = json.loads(json.dumps(ROWS[number]).replace("SITE", crawl_site.url))
    assert run_example(number, shows=SHOWN.get(number, "")) == expected
    assert crawl_site.requests == REQUESTS.get(number, crawl_site.requests)


def test_only_new_pages_are_asked_for(run_example: RunExample, crawl_site: CrawlSite, tmp_path: Path) -> None:
    options = ("--cache", str(tmp_path / "cache"))
    assert run_example("10", *options) == [{"title": "First news"}, {"title": "Second news"}]
    crawl_site.news["three"] = "Third news"
    try:
        assert run_example("10", *options) == [{"title": "Third news"}]
        assert crawl_site.requests == {"/news": 1, "/news/three": 1}
    finally:
        del crawl_site.news["three"]


def test_files_are_downloaded(run_example: RunExample, tmp_path: Path) -> None:
    for row in run_example("11"):
        assert row["_type"] == "application/pdf"
        assert Path(row["_path"]) == tmp_path / "rows_files" / f"{row['sku']}.pdf"
        assert Path(row["_path"]).read_text() == f"%PDF-1.4 /sheets/{row['sku']}.pdf"
        assert row["_bytes"] == Path(row["_path"]).stat().st_size


def test_equal_pictures_are_kept_once(run_example: RunExample, tmp_path: Path) -> None:
    rows = run_example("12")
    names = [name for sku in ("S1", "S2") for name in (sku, "back")]
    assert [Path(row["_path"]).read_bytes() for row in rows] == [draw_picture(f"/images/{name}.png") for name in names]
    assert len({row["_path"] for row in rows}) == 3


def test_a_login_gives_the_orders_of_its_user(run_example: RunExample, crawl_site: CrawlSite) -> None:
    rows = run_example("05", PASSWORD="s3cret")
    assert [(row["order"], row["total"]) for row in rows] == [("Order 7", 7.5), ("Order 8", 8.5)]
    assert crawl_site.requests == {"/login": 2, "/orders": 1, "/orders/7": 1, "/orders/8": 1}


def test_a_wrong_password_fails_the_run(run_example: RunExample) -> None:
    (failed,) = run_example("05", code=1, PASSWORD="guess")
    assert "line 7: flatSelect: selector a.order found nothing on 1 of 1 page" in failed["told"]
    assert "guess" not in failed["told"]


def test_checks_fail_the_run_of_a_site_that_has_changed(run_example: RunExample, crawl_site: CrawlSite) -> None:
    products, crawl_site.products = crawl_site.products, crawl_site.products[:2]
    (failed,) = run_example("17", code=1)
    crawl_site.products = ()
    (empty,) = run_example("17", code=1)
    crawl_site.products = products
    assert "the output has 2 rows, and should have at least 5" in failed["told"]
    assert "line 5: flatSelect: selector li.product found nothing on 1 of 1 page" in empty["told"]


@pytest.mark.long
def test_the_rows_of_a_file_are_joined_with_pages(run_on_spark: RunExample) -> None:
    assert run_on_spark("08", FOLDER=str(FOLDER)) == [
        {"sku": "S1", "stock": 3, "name": "Lamp", "price": 1299.0},
        {"sku": "S2", "stock": 0, "name": "Cup", "price": 4.5},
        {"sku": "S9", "stock": 5, "name": None, "price": None},
    ]


@pytest.mark.long
def test_rows_are_written_in_three_formats(run_on_spark: RunExample, tmp_path: Path) -> None:
    run_on_spark("23")
    assert (tmp_path / "rows.csv").read_text() == "name,price\nLamp,1299.0\nCup,4.5\n"
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == LISTED[:2]
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == LISTED[:2]


@pytest.mark.long
def test_rows_are_appended(run_on_spark: RunExample, tmp_path: Path) -> None:
    run_on_spark("24")
    run_on_spark("24")
    lines = (tmp_path / "prices.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == LISTED[:2] * 2


def test_rows_with_equal_keys_are_replaced(run_example: RunExample, crawl_site: CrawlSite, tmp_path: Path) -> None:
    run_example("25")
    products = crawl_site.products
    crawl_site.products = (replace(products[1], price="€ 5,00"), products[2])
    run_example("25")
    crawl_site.products = products
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        rows = connection.execute("SELECT name, price FROM prices ORDER BY name").fetchall()
    assert rows == [("Cup", 5.0), ("Lamp", 1299.0), ("Sticker", None)]


def test_every_example_is_on_the_page_and_the_page_in_the_reference() -> None:
    page = (ROOT / "docs/from-scrapy.md").read_text()
    linked = re.findall(r"\]\(\.\./examples/from-scrapy/([^)]+)\)", page)
    assert sorted({*linked} - {"functions.py", "stock.csv"}) == [file.name for file in FILES]
    assert "(from-scrapy.md)" in (ROOT / "docs/stages.md").read_text()
    assert "docs/from-scrapy.md" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_has_no_warnings(file: Path) -> None:
    plan = plan_example(file)
    assert {warning.code for warning in plan.warnings} <= {"changes-not-seen"}
    assert choose_engine(plan)
