"""Prices of pages and columns on both runners and in a trial."""

from __future__ import annotations

from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

PRICES = {
    "CHF 1\u2019299.00": (1299.0, "CHF"),
    "$0.005": (0.005, "USD"),
    "\u22125,00 €": (-5.0, "EUR"),
    "SKU 4711: 12,00 € ($13)": (12.0, "EUR"),
    "\u0661\u0662\u066b\u0665\u0660 USD": (12.5, "USD"),
    "19<sup>99</sup> €": (19.99, "EUR"),
    "12,00 €<sup>1</sup>": (12.0, "EUR"),
    "$1,190.00 AUD": (1190.0, "AUD"),
}


def test_prices(runners: Runners, site: Site) -> None:
    items = "".join(f"<li><b>{text}</b></li>" for text in PRICES)
    plan = runners.plan(
        f"""
fetch: {{url: "{site.serve({"/": f"<ul>{items}</ul>"})}/"}}
pipeline:
- stage: flatSelect
  args: [li, {{selector: b, method: price, as: price}}, {{selector: b, as: text}}]
- {{stage: priceNormalize, args: [text]}}
"""
    )
    outcome = runners.assert_equal(plan)
    tried = try_rows(plan)
    assert outcome.preview == tried
    assert [(row["price"], row["text_currency"]) for row in tried] == [*PRICES.values()]
    whole = [row for row in tried if row["text"] not in ("1999 €", "12,00 €1")]  # the text of raised digits
    assert [row["text_amount"] for row in whole] == [row["price"] for row in whole]
