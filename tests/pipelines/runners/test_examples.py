"""Examples of the documentation, golden plans and the pipelines of examples/ are equal on both runners."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.contract.request import GIVEN_ROWS, Files
from pipelines.local.engine_choice import find_spark_need
from pipelines.planning.stage import STAGES, Stage
from pipelines.registry import Entry
from tests.support.archives import write_archive
from tests.support.documents import make_pdf
from tests.support.libraries import has_libraries
from tests.support.runners import Runners
from tests.support.site import Site

SHOP = {
    "/": "<h1>S</h1><p class=price>£2</p><li class=product><a href=/lamp><b itemprop=name>Lamp</b></a></li>"
    "<table><tr><th>Size</th><th>Price</th></tr><tr><td>S</td><td>5</td></tr></table><a class=next href=/2>next</a>",
    "/2": "<li class=product><a href=/cup>Cup</a></li><article><h2>A</h2><a href=/cup>c</a><a href=/no>n</a></article>",
    "/lamp": "<h1 itemprop=name>Lamp</h1>",
    "/cup": "<h1>Cup</h1><img src=/i.png alt=i>",
    "/list": "<a class=next href=/2>next</a><a class=item href=/lamp>l</a><a class=item href=/cup>c</a>",
    "/catalogue": "<li class=next><a href=/catalogue2>n</a></li><article class=product_pod><h3><a href=/book>b</a></h3>"
    "</article>",
    "/catalogue2": "<article class=product_pod><h3><a href=/book>b</a></h3><h3><a href=/none>n</a></h3></article>",
    "/book": "<div class=product_main><h1>Book</h1><p class=price_color>£51.77</p></div><p class=star-rating></p>",
}
SHOUT = STAGES.find("python_row_transform").doc.split("```python\n")[1].split("```")[0]
REVIEWS = """product,country,text,date,price,ean,found_ean,found_product
Lamp,Germany,I love this lamp,2026-01-05,€ 12.50,4006381333931,4006381333931,Lamp
Lamp,US,The worst lamp ever,2026-02-11,$9,4006381333931,,lamp green
"""
ROOT = Path(__file__).parents[3]
PLANS = sorted((ROOT / "tests/pipelines/planning/plans").glob("*.yaml"))


EXAMPLES = [entry for entry in STAGES if entry.name != "load_jdbc"]  # whose database is in test_load_formats.py


@pytest.mark.parametrize("on_both", [False, pytest.param(True, marks=pytest.mark.long)], ids=["alone", "on both"])
@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: entry.name)
def test_examples_of_the_documentation_give_rows(
    entry: Entry[type[Stage]], on_both: bool, runners: Runners, site: Site, tmp_path: Path
) -> None:
    assert entry.doc
    shop = serve_shop(site, tmp_path)
    (tmp_path / "rows.txt").write_text(f"{shop}/lamp")
    runners.inputs = {GIVEN_ROWS: Files((f"{tmp_path}/rows.txt",))} if entry.thing.reads_given_rows else {}
    plan = runners.plan(entry.thing.example, {"shout": SHOUT}, SHOP=shop, FOLDER=str(tmp_path))
    needs_spark = find_spark_need(plan) is not None
    if on_both and (needs_spark or plan.uses_browser):
        pytest.skip("it is for one runner alone")
    if plan.libraries and not has_libraries():
        pytest.skip("SPINDLE_TEST_JARS names no folder of Java libraries")
    if plan.libraries and entry.name.startswith("load_"):
        stage = f"{{stage: {entry.name.replace('load', 'save')}, args: ['{tmp_path}/products.{min(plan.libraries)}']}}"
        runners.run_on_spark(
            runners.plan(f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/products.csv']}}, {stage}]")
        )
    run = runners.assert_equal if on_both else runners.run_on_spark if needs_spark else runners.run_locally
    assert run(plan).stored


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_golden_plans_are_equal(file: Path, runners: Runners, site: Site, tmp_path: Path) -> None:
    shop = serve_shop(site, tmp_path)
    (tmp_path / "titles.csv").write_text(f"product page;n\n{shop}/lamp;1\n;2\n{shop}/no;3\n{shop}/lamp;4\n")
    text = file.read_text().replace("http://shop.example", shop).replace("path: titles", f"path: {tmp_path}/titles")
    plan = runners.plan(text, SHOP=shop, DEPTH="3", INPUT_PATH=f"{tmp_path}/titles.csv")
    if need := find_spark_need(plan):
        pytest.skip(f"{need} needs Spark")
    assert runners.assert_equal(plan).stored


def test_the_pipeline_of_the_practice_site_is_equal(runners: Runners, site: Site, tmp_path: Path) -> None:
    shop = serve_shop(site, tmp_path)
    text = (ROOT / "examples/books.yaml").read_text().replace("https://books.toscrape.com/", f"{shop}/catalogue")
    assert runners.assert_equal(runners.plan(text)).stored


def serve_shop(site: Site, folder: Path) -> str:
    shop = site.serve(SHOP)
    locations = "".join(f"<url><loc>{shop}{path}</loc></url>" for path in ("/2", "/lamp", "/cup"))
    site.pages["/sitemap.xml"] = f"<urlset>{locations}</urlset>"
    site.pages["/manual.pdf"] = make_pdf("How to", "use it")
    (folder / "invoices").mkdir(exist_ok=True)
    (folder / "invoices" / "a.pdf").write_bytes(make_pdf("Invoice"))
    (folder / "reviews.csv").write_text(REVIEWS)
    (folder / "products.csv").write_text(f"name,page\nLamp,{shop}/lamp\nCup,{shop}/cup\nLamp,{shop}/lamp\n")
    (folder / "prices.csv").write_text("product,price\nLamp,12.50\nRug,80\n")
    write_archive(folder / "pages.warc.gz", {"/": "<h1>Shop</h1>"}, shop)
    (folder / "more.csv").write_text((folder / "products.csv").read_text())
    (folder / "products.xml").write_text("<all><product><name>Lamp</name></product></all>")
    (folder / "products.json").write_text('{"name": "Lamp"}')
    pq.write_table(pa.table({"name": ["Lamp"]}), folder / "products.parquet")
    return shop
