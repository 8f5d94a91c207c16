"""Amounts and currencies of prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import REVIEWS, Run, find_problem, load_table


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("{stage: priceNormalize, args: [price]}", ["EUR", "GBP", "USD", None, None, None, "AUD", "EUR"]),
        (
            "{stage: price_normalize, args: {column: $price, currency: cad}}",
            ["EUR", "GBP", "CAD", "CAD", None, None, "AUD", "EUR"],
        ),
    ],
)
def test_prices_become_amounts_and_currencies(run: Run, tmp_path: Path, call: str, found: list[str | None]) -> None:
    csv = 'price\n"1.299,00 €"\n"£1,09 incl. 20% VAT"\n$5\n12.5\n100 kr\nsold out\n'
    csv += '"$1,190.00 AUD"\n"SKU 4711: 12,00 € ($13)"\n'
    rows = run(load_table(tmp_path, csv, f"- {call}"))
    assert [row["price_amount"] for row in rows] == [1299.0, 1.09, 5.0, 12.5, 100.0, None, 1190.0, 12.0]
    assert [row["price_currency"] for row in rows] == found


def test_prices_in_long_texts(run: Run, tmp_path: Path) -> None:
    words = "Lorem ipsum dolor sit amet. " * 40
    csv = f"price\n{words} only CHF 12.50! {words}\n{'1' * 4000}x\n"
    rows = run(load_table(tmp_path, csv, "- {stage: priceNormalize, args: [price]}"))
    assert [(row["price_amount"], row["price_currency"]) for row in rows] == [(12.5, "CHF"), (None, None)]


def test_an_unknown_currency_is_a_problem(tmp_path: Path) -> None:
    problem = find_problem(load_table(tmp_path, REVIEWS, "- {stage: priceNormalize, args: [p, EURO]}"))
    assert problem.line == 3
    assert problem.message.startswith("priceNormalize: unknown currency 'EURO'; did you mean EUR")


def test_numbers_are_amounts_and_the_currency_decides_on_decimals(run: Run, tmp_path: Path) -> None:
    text = "- {stage: sql_query, args: ['SELECT 1.599 AS a, 1.599e0 AS b, ''12.500'' AS c FROM rows']}\n"
    stages = text + "".join(f"- {{stage: priceNormalize, args: [{name}, KWD]}}\n" for name in "abc")
    (row,) = run(load_table(tmp_path, "x\n1\n", stages))
    assert [row[f"{name}_amount"] for name in "abc"] == [1.599, 1.599, 12.5]
