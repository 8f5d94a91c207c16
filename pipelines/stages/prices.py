"""priceNormalize: amounts and currencies out of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import pycountry
from price_parser.parser import extract_currency_symbol
from pydantic import AfterValidator, Field

from pipelines.errors import ArgumentError
from pipelines.extract.extractors import find_price_part, parse_price
from pipelines.extract.rows import Row
from pipelines.language.columns import Columns
from pipelines.language.names import describe_unknown
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import RowStage, register_stage

_SIGNS = {
    "€": "EUR",
    "£": "GBP",
    "$": "USD",
    "US$": "USD",
    "C$": "CAD",
    "CA$": "CAD",
    "A$": "AUD",
    "AU$": "AUD",
    "NZ$": "NZD",
    "HK$": "HKD",
    "S$": "SGD",
    "R$": "BRL",
    "¥": "JPY",
    "円": "JPY",
    "元": "CNY",
    "₹": "INR",
    "₩": "KRW",
    "₽": "RUB",
    "₺": "TRY",
    "TL": "TRY",
    "₴": "UAH",
    "₪": "ILS",
    "₫": "VND",
    "฿": "THB",
    "₱": "PHP",
    "zł": "PLN",
    "Kč": "CZK",
    "Ft": "HUF",
    "lei": "RON",
    "лв": "BGN",
}
_SHARED = {"$": "USD AUD CAD NZD HKD SGD MXN", "¥": "JPY CNY", "kr": "SEK NOK DKK ISK"}


def _currency(code: str) -> str:
    if "${" in code:
        return code
    known = [currency.alpha_3 for currency in pycountry.currencies]
    if code.strip().upper() not in known:
        raise ArgumentError(describe_unknown("currency", code, known), "unknown-value")
    return code.strip().upper()


def normalize(text: str, default: str | None) -> tuple[float | None, str | None]:
    """The first amount in a text, and the ISO 4217 code of its currency; `default` where the text leaves it open."""
    amount = parse_price(text)
    if amount is None:
        return None, None
    sign = (extract_currency_symbol(find_price_part(text), None) or "").strip()
    if default and (not sign or default in _SHARED.get(sign, "").split()):
        return amount, default
    if len(sign) == 3 and pycountry.currencies.get(alpha_3=sign.upper()):
        return amount, sign.upper()
    return amount, _SIGNS.get(sign.rstrip("."))


@register_stage("priceNormalize")
class PriceNormalize(RowStage):
    """Adds, for a column of prices as text, `<column>_amount` (a number) and `<column>_currency` (an ISO 4217 code).

    "1.299,00 €" is 1299.0 and EUR, "£1,09 incl. 20% VAT" is 1.09 and GBP. `currency` is taken where a text names none,
    and where its sign is shared and may mean it ("$5" with currency CAD is Canadian); without it, $ is USD and ¥ is
    JPY. Both are null where there is no amount, the currency also where its sign means none for certain (kr). Of a text
    of more than 200 characters those count that stand within 100 of where its first number begins; a number of more
    than 50 is none. A row costs about 0.05 ms.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: priceNormalize, args: [price, EUR]}
"""

    positional = ("column", "currency")
    column: str = Field(min_length=1)
    currency: Annotated[str, AfterValidator(_currency)] | None = None

    def describe(self) -> str:
        return " ".join(filter(None, (self._name(), self.currency)))

    def list_references(self) -> tuple[str, ...]:
        return (self._name(),)

    def infer_columns(self, before: Columns) -> Columns:
        name = self._name()
        return before.with_columns(((f"{name}_amount", "double"), (f"{name}_currency", "string")))

    def build_worker(self) -> Callable[[Row], Iterable[Row]]:
        name, default = self._name(), self.currency

        def normalized(row: Row) -> Iterable[Row]:
            value = row.value(name)
            amount, currency = (None, None) if value is None else normalize(str(value), default)
            yield row.with_values({f"{name}_amount": amount, f"{name}_currency": currency})

        return normalized

    def _name(self) -> str:
        return parse_column_reference(self.column) or self.column
