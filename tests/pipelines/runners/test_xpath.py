"""XPath on pages of HTML on both runners and in a trial."""

from __future__ import annotations

from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

ITEM = """<li><a href=/{name}><div>{name}</div></a><picture><source srcset=x><img src=/{name}.png></picture>
<table><form><tr><td>size<td>{size}</table>"""
SHOP = f"<main><ul>{ITEM.format(name='lamp', size=3)}{ITEM.format(name='cup', size=1)}</ul></main>"


def test_an_xpath_reads_the_tree_of_html(runners: Runners, site: Site) -> None:
    base = site.serve({"/": SHOP})
    plan = runners.plan(
        f"""
fetch: {{url: "{base}/"}}
pipeline:
- {{stage: extract, args: [{{xpath: "//picture/img/@src", all: true, as: images}}]}}
- stage: flatSelect
  args:
  - li
  - {{xpath: ".//a/div", as: name}}
  - {{xpath: "./picture/img", method: src, as: image}}
  - {{xpath: "table/tbody/tr/td[.='size']/following-sibling::td", cast: int, as: size}}
"""
    )
    outcome = runners.assert_equal(plan)
    assert try_rows(plan) == outcome.preview
    images = ["/lamp.png", "/cup.png"]
    assert outcome.preview == [
        {"images": images, "name": "lamp", "image": f"{base}/lamp.png", "size": 3},
        {"images": images, "name": "cup", "image": f"{base}/cup.png", "size": 1},
    ]
