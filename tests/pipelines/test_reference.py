"""docs/stages.md is what the registry says, and its examples run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.pipeline import Pipeline
from pipelines.planning.stage import STAGES, Stage
from pipelines.reference import build_reference
from pipelines.registry import Entry
from tests.support.libraries import has_libraries
from tests.support.pipelines import Run
from tests.support.site import Site

SHOP = {
    "/": "<h1>S</h1><p class=price>£2</p><li class=product><a href=/lamp><b itemprop=name>Lamp</b></a></li>"
    "<table><tr><th>Size</th><th>Price</th></tr><tr><td>S</td><td>5</td></tr></table><a class=next href=/2>next</a>",
    "/2": "<li class=product><a href=/cup>Cup</a></li>",
    "/lamp": "<h1 itemprop=name>Lamp</h1>",
    "/cup": "<h1>Cup</h1>",
}

SHOUT = STAGES.find("python_row_transform").doc.split("```python\n")[1].split("```")[0]
REVIEWS = """product,country,text,date,price,ean,found_ean,found_product
Lamp,Germany,I love this lamp,2026-01-05,"€ 12,50",4006381333931,4006381333931,Lamp
Lamp,US,The worst lamp ever,2026-02-11,$9,4006381333931,,lamp green
"""


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "stages.md"
    assert page.read_text() == build_reference(), "run: python -m pipelines.reference > docs/stages.md"


@pytest.mark.parametrize("entry", tuple(STAGES), ids=lambda entry: entry.name)
def test_every_example_gives_rows(entry: Entry[type[Stage]], run: Run, site: Site, tmp_path: Path) -> None:
    if entry.name == "load_jdbc":
        pytest.skip("its database is in test_load_formats.py")
    libraries = Pipeline.from_yaml(entry.thing.example).plan_open().libraries
    if libraries and not has_libraries():
        pytest.skip("SPINDLE_TEST_JARS names no folder of Java libraries")
    shop = site.serve(SHOP)
    locations = "".join(f"<url><loc>{shop}{path}</loc></url>" for path in ("/2", "/lamp", "/cup"))
    site.pages["/sitemap.xml"] = f"<urlset>{locations}</urlset>"
    csv = f"name,page\nLamp,{shop}/lamp\nCup,{shop}/cup\nLamp,{shop}/lamp\n"
    (tmp_path / "products.csv").write_text(csv)
    (tmp_path / "more.csv").write_text(csv)
    (tmp_path / "reviews.csv").write_text(REVIEWS)
    (tmp_path / "prices.csv").write_text("product,price\nLamp,12.50\n")
    (tmp_path / "products.xml").write_text("<all><product><name>Lamp</name></product></all>")
    if libraries and entry.name.startswith("load_"):
        stage = f"{{stage: {entry.name.replace('load', 'save')}, args: ['{tmp_path}/products.{min(libraries)}']}}"
        run(f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/products.csv']}}, {stage}]")
    (tmp_path / "products.json").write_text('{"name": "Lamp"}')
    pq.write_table(pa.table({"name": ["Lamp"]}), tmp_path / "products.parquet")
    assert entry.doc
    assert run(entry.thing.example, transforms={"shout": SHOUT}, SHOP=shop, FOLDER=str(tmp_path))


def test_the_first_pipelines_of_the_page_give_their_rows(run: Run, site: Site) -> None:
    shop = site.serve(SHOP)
    blocks = build_reference().replace("https://shop.example.com", shop).split("```yaml\n")[1:3]
    short, whole = (block.split("```")[0] for block in blocks)
    assert run(short) == [{"title": "Lamp", "price": None}, {"title": "Cup", "price": None}]
    assert run(whole, OUTPUT_PRODUCTS="spindle://shop/products") == [
        {"name": "Lamp", "title": "Lamp", "price": None, "_url": f"{shop}/lamp", "_error": None},
        {"name": "Cup", "title": "Cup", "price": None, "_url": f"{shop}/cup", "_error": None},
    ]
