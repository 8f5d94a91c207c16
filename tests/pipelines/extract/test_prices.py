"""Prices in texts and elements: amounts as price-parser reads them, and where it reads another number."""

from __future__ import annotations

import json
import time
from decimal import Decimal

import pytest
from price_parser.parser import Price

from pipelines.extract.extractors import Extractor
from pipelines.extract.prices import convert_price, find_price, parse_price
from pipelines.extract.rows import Row
from tests.support.pages import document


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("£1,09 incl. 20% VAT", 1.09),
        ("1.234,56 €", 1234.56),
        ("1,234.56 USD", 1234.56),
        ("$1,234", 1234.0),
        ("12,5", 12.5),
        ("1 234,50 zł", 1234.5),
        ("CHF 1'234.50", 1234.5),
        ("¥1,200", 1200.0),
        ("Now only £0.99!", 0.99),
        ("20% off: $12", 12.0),
        ("35€ 99", 35.99),
        ("559. 99 instead of 600", 559.99),
        ("From 26 to 50 €", 26.0),
        ("£6.95 - £9.95", 6.95),
        ("$.750.30", 750.3),
        ("call us", None),
        ("", None),
    ],
)
def test_prices_are_as_price_parser_reads_them(text: str, price: float | None) -> None:
    assert parse_price(text) == price == Price.fromstring(text).amount_float


@pytest.mark.parametrize(
    ("text", "price"),
    [
        *((f"CHF 1{apostrophe}299.00", 1299.0) for apostrophe in "\u2019\u2018\u02bc\u00b4'"),
        ("$0.005", 0.005),
        ("0,005 €", 0.005),
        ("1,234.567 USD", 1234.567),
        ("1234,567", 1234.567),
        ("1 234.567", 1234.567),
        ("1.000", 1000.0),
        ("-5,00 €", -5.0),
        ("\u22125.00 USD", -5.0),
        ("\u2212 5,00 €", -5.0),
        ("\u20135,00 €", -5.0),
        ("€ -5,00", -5.0),
        ("-$5", -5.0),
        ("CHF-5.00", -5.0),
        ("\u200f-5,00 €", -5.0),
        ("SKU-5", 5.0),
        ("10-20 €", 10.0),
        ("Rebate - 5,00 €", 5.0),
        ("\u0661\u0662\u066b\u0665\u0660 ر.س.\u200f", 12.5),
        ("\u06f1\u06f2\u066c\u06f3\u06f4\u06f5 تومان", 12345.0),
        ("१,२३४ ₹", 1234.0),
        ("\uff11\uff12\uff0e\uff15\uff10円", 12.5),
        ("SKU 4711: 12,00 €", 12.0),
        ("SKU 4711 - 12,00 €", 12.0),
        ("No. 4711 €12.00", 12.0),
        ("3 pieces for 14,85 EUR", 14.85),
        ("2 kg, 5 leisure, 7 lei", 7.0),
        ("24.12.2026: 12,00", 12.0),
        ("50 %, now 7", 7.0),
        ("19⁹⁹ €", 19.99),
        ("1.299⁰⁰ €", 1299.0),
        ("19€⁹⁹", 19.99),
        ("12,00 €¹", 12.0),
        ("12,00¹² €", 12.0),
        ("25 m² for 12,00 €", 12.0),
        ("Rs.499", 499.0),
        ("Rs.12999/-", 12999.0),
        ("S/.120", 120.0),
        ("approx.500 €", 500.0),
        ("only...99 €", 99.0),
        ("was:.99", 0.99),
        ("₹.50", 0.5),
        ("KWD 12.500", 12.5),
        ("-3.250 OMR", -3.25),
        ("BHD 0.750", 0.75),
        ("129,900 DT", 129.9),
        ("12.500 - 15.750 KWD", 12.5),
        ("KWD 1,250.500", 1250.5),
        ("OMR 12,500", 12500.0),
        ("IQD 25.000", 25000.0),
        ("\u0661\u0662\u066b\u0665\u0660\u0660 د.ك.\u200f", 12.5),
    ],
)
def test_prices_of_all_conventions(text: str, price: float) -> None:
    assert parse_price(text) == price
    found = find_price(text)
    assert found is not None
    assert found.amount == price


@pytest.mark.parametrize(
    ("html", "price"),
    [
        ("19<sup>99</sup> €", 19.99),
        ("<sup>€</sup>19<sup><b>99</b></sup>", 19.99),
        ("19,<sup>99</sup> €", 19.99),
        ("19 €<sup>99</sup>", 19.99),
        ("1.299<sup>00</sup>", 1299.0),
        ("12,00 €<sup>1</sup>", 12.0),
        ("12 €<sup>1)</sup>", 12.0),
        ("12,00<sup>12</sup> €", 12.0),
        ("<sup>15.00 €</sup> 12.00 €", 12.0),
        ("12<sup>9<sup>9</sup></sup> €", 12.99),
        ("5<sup hidden>77</sup> €", 5.0),
        ("5<sup><b style='display: none'>1</b>77</sup> €", 5.77),
        ("<sup>15.00 €</sup>", 15.0),
        ("25 m<sup>2</sup>: 12 €", 12.0),
        ("19<sub>99</sub>", 1999.0),
    ],
)
@pytest.mark.parametrize("extra", [{}, {"all": True}, {"pattern": "(.*)"}])
def test_raised_digits_are_cents_or_footnotes(html: str, price: float, extra: dict[str, object]) -> None:
    read = Extractor.model_validate({"selector": "p", "method": "price", **extra}).build_worker()
    assert read(Row({}, (0,), element=document(f"<p>{html}</p><p>x").root)) == ([price] if "all" in extra else price)


@pytest.mark.parametrize(("value", "price"), [("1.599", 1.599), ("3", 3.0), ('"1.599"', 1599.0), ("true", None)])
def test_a_number_of_json_is_its_price(value: str, price: float | None) -> None:
    read = Extractor.model_validate({"selector": "$.p", "method": "price"}).build_worker()
    page = document(f'{{"p": {value}}}', content_type="application/json")
    assert read(Row({}, (0,), element=page.root)) == price
    assert convert_price(json.loads(value)) == convert_price(json.loads(value, parse_float=Decimal)) == price


@pytest.mark.parametrize("text", ["Free", "free delivery", "Lorem ipsum " * 40 + "free"])
def test_free_is_a_text_without_a_price(text: str) -> None:
    assert parse_price(text) is None


@pytest.mark.parametrize("price", ["£1,09 incl. 20% VAT", "20% off: $.75", "35€99", "1 234,50 zł", "sold out"])
def test_a_price_is_found_anywhere_in_a_long_text(price: str) -> None:
    words = "Lorem ipsum dolor sit amet. " * 40
    for text in (f"{words}{price}", f"{price} {words}", f"100% {words}{price} {words}", f"4711 {words}{price} {words}"):
        assert parse_price(text) == (
            Price.fromstring(price).amount_float if price != "sold out" or "4711" not in text else 4711
        )


@pytest.mark.parametrize("text", ["1" * 60, "1" * 4000 + "x", "Only " + "1." * 4000])
def test_a_number_that_is_longer_than_a_price_is_none(text: str) -> None:
    assert parse_price(text) is None


@pytest.mark.parametrize("part", ["1", "1 ", "1,", "1.", "1%", ".", "€", "€ ", "free", "a", "1 234 ", "⁹", "1⁹", "1 €"])
def test_a_long_text_takes_time_in_proportion_to_its_length(part: str) -> None:
    start = time.process_time()
    for text in (part * 100_000, part * 100_000 + "€", f"a{part * 100_000}% 12€"):
        parse_price(text)
    assert time.process_time() - start < 5
