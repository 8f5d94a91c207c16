"""The examples of recorded pages and of prices that a script makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.recording import test as run_test  # pytest collects functions named test
from cli.trial import TrialOptions, try_file
from tests.support.site import Site

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = "<script>document.querySelector('section').innerHTML += '<b class=price>2.50</b>'</script>"
PAGES: dict[str, str | int] = {
    "/": "<a href=/lamp>lamp</a><a href=/note>note</a><a href=/cup>cup</a>",
    "/lamp": f"<main><section><h1>Lamp</h1></section></main>{SCRIPT}",
    "/note": "<article><p>text</p><h1>Note</h1><table><tr><td>x</td></tr></table></article>",
    "/cup": "<div><div><ul><li>c</li></ul><h1>Cup</h1><b class=price>1.20</b></div></div>",
}


def test_the_recorded_test_passes() -> None:
    file = EXAMPLES / "recorded-test/shop.yaml"
    assert run_test(file, TrialOptions({}, guard=False, max_rows=0, max_pages=0, transforms=None), update=False) == 0


def test_the_browser_is_used_for_the_prices_alone(capsys: pytest.CaptureFixture[str], web: Site) -> None:
    options = TrialOptions({"SHOP": web.serve(PAGES)}, guard=False, max_rows=10, max_pages=20, transforms=None)
    assert try_file(EXAMPLES / "scripted-prices.yaml", options) == 0
    shown = capsys.readouterr()
    prices = {row["name"]: row["price"] for row in map(json.loads, shown.out.splitlines())}
    assert prices == {"Lamp": "2.50", "Note": None, "Cup": "1.20"}
    assert "browser: 1 of 3 templates, because .price is made by script" in shown.err
