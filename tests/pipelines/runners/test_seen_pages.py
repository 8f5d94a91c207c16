"""Pages as people see them, on both runners and in a trial: texts, images, graphs and dates."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

PAGE = """<h1>Lamp<span hidden> (old)</span></h1><p class=price><i style="display:none">99 €</i>1<ins>2</ins>,50 €</p>
<select><option>S<option>M</select>
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" srcset="/s.jpg 320w, /l.jpg 640w">
<script type="application/ld+json">{"@graph": [{"@type": "Brand", "@id": "#b", "name": "Acme"},
{"@type": "Product", "name": "Lamp", "brand": {"@id": "#b"}}]}</script>"""
FEED = "<rss><channel><item><pubDate>Wed, 02 Oct 02 08:00:00 EST</pubDate></item></channel></rss>"


def test_pages_are_read_as_people_see_them(runners: Runners, site: Site) -> None:
    base = site.serve({"/": PAGE, "/feed": FEED}, {"/feed": "application/rss+xml"})
    plan = runners.plan(f"""
fetch: {{url: "{base}/"}}
pipeline:
- stage: extract
  args:
  - {{selector: h1, as: title}}
  - {{selector: .price, method: price}}
  - {{xpath: "//p[@class='price']", as: shown}}
  - {{selector: select, as: sizes}}
  - {{selector: img, method: src, as: image}}
  - {{xpath: //img, method: src, as: same_image}}
  - {{method: jsonld, type: Product, path: brand.name, as: brand}}
- {{stage: fetch, args: ["{base}/feed"]}}
- {{stage: extract, args: [{{selector: pubDate, cast: timestamp, as: published}}]}}
""")
    wanted = {
        "title": "Lamp",
        "price": 12.5,
        "shown": "12,50 €",
        "sizes": "S M",
        "image": f"{base}/l.jpg",
        "same_image": f"{base}/l.jpg",
        "brand": "Acme",
        "published": datetime(2002, 10, 2, 13, tzinfo=UTC),
    }
    (found,) = runners.assert_equal(plan).preview
    assert {**found, "published": wanted["published"]} == wanted
    assert str(found["published"]).startswith("2002-10-02")
    assert try_rows(plan) == [wanted]


def test_a_prompt_reads_the_graph_and_the_image_that_people_see(runners: Runners, site: Site) -> None:
    base = site.serve({"/": f"<div itemscope itemtype=x/Thing>{PAGE.replace('<img', '<img itemprop=image')}</div>"})
    text = f"fetch: {{url: '{base}/'}}\npipeline:\n- {{stage: iextract, args: ['Extract: name, brand, image']}}"
    assert runners.assert_equal(runners.plan(text)).preview == [
        {"name": "Lamp", "brand": "Acme", "image": f"{base}/l.jpg"}
    ]
