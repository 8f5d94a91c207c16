"""docs/stages.md is what the registry says, and its first pipelines run; runners/test_examples.py runs the others."""

from __future__ import annotations

from pathlib import Path

from pipelines.reference import build_reference
from tests.support.pipelines import Run
from tests.support.site import Site

SHOP = {
    "/": "<li class=product><a href=/lamp><b itemprop=name>Lamp</b></a></li><a class=next href=/2>next</a>",
    "/2": "<li class=product><a href=/cup>Cup</a></li>",
    "/lamp": "<h1 itemprop=name>Lamp</h1>",
    "/cup": "<h1>Cup</h1>",
}


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "stages.md"
    assert page.read_text() == build_reference(), "run: python -m pipelines.reference > docs/stages.md"


def test_the_first_pipelines_of_the_page_give_their_rows(run: Run, site: Site) -> None:
    shop = site.serve(SHOP)
    blocks = build_reference().replace("https://shop.example.com", shop).split("```yaml\n")[1:3]
    short, whole = (block.split("```")[0] for block in blocks)
    assert run(short) == [{"title": "Lamp", "price": None}, {"title": "Cup", "price": None}]
    assert run(whole, OUTPUT_PRODUCTS="spindle://shop/products") == [
        {"name": "Lamp", "title": "Lamp", "price": None, "_url": f"{shop}/lamp", "_error": None},
        {"name": "Cup", "title": "Cup", "price": None, "_url": f"{shop}/cup", "_error": None},
    ]
