"""Templates, shadow trees and selectors of CSS on both runners and in a trial."""

from __future__ import annotations

from pipelines.engine.options import make_fetch_options
from pipelines.trial import Trial
from tests.support.fetching import LOOPBACK
from tests.support.runners import Runners
from tests.support.site import Site

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
    with Trial(plan, make_fetch_options(plan.options, LOOPBACK), 100) as trial:
        assert [row.values for row in trial.iter_rows()] == outcome.preview
    assert outcome.preview == [
        {"title": "Title", "name": "Lamp", "price": 12.0, "text": "Lamp 12 € light", "none": None},
        {"title": "Title", "name": "Cup", "price": 7.0, "text": "Cup 7 € light", "none": None},
    ]
