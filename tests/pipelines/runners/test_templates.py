"""Templates, shadow trees and selectors of CSS on both runners and in a trial."""

from __future__ import annotations

from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

ITEM = """<shop-item><template shadowrootmode=open><h2>{name}</h2><p lang={lang}><b>{price} €</b></p></template>
<p lang=fr>light</p></shop-item>"""
SHOP = f"""<ul><li>{ITEM.format(name="Lamp", lang="en-GB", price=12)}
<li>{ITEM.format(name="Cup", lang="EN", price=7)}</ul>
<template><h1>Title</h1></template>"""


def test_selectors_find_the_content_of_templates(runners: Runners, site: Site) -> None:
    base = site.serve({"/": SHOP})
    plan = runners.plan(
        f"""
fetch: {{url: "{base}/"}}
pipeline:
- {{stage: extract, args: [{{selector: "template > h1", as: title}}]}}
- stage: flatSelect
  args:
  - li
  - {{selector: h2, as: name}}
  - {{selector: "[lang|=en] b", method: price, as: price}}
  - {{selector: ":scope > shop-item", as: text}}
  - {{selector: ":scope > p", as: none}}
"""
    )
    outcome = runners.assert_equal(plan)
    assert try_rows(plan) == outcome.preview
    assert outcome.preview == [
        {"title": "Title", "name": "Lamp", "price": 12.0, "text": "Lamp 12 € light", "none": None},
        {"title": "Title", "name": "Cup", "price": 7.0, "text": "Cup 7 € light", "none": None},
    ]
