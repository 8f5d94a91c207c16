"""priceNormalize: read amounts and currencies from texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import pycountry
from pydantic import AfterValidator, Field

from pipelines.contract.workers import Tools
from pipelines.errors import ArgumentError
from pipelines.extract.prices import convert_price, find_price
from pipelines.extract.rows import Row
from pipelines.language.columns import Columns
from pipelines.language.names import describe_unknown
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import RowStage, register_stage
from pipelines.plugin import Plugin

plugin = Plugin(description="Read amounts and currencies from texts.", modules=(__name__,))

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
    "KD": "KWD",
    "BD": "BHD",
    "JD": "JOD",
    "DT": "TND",
}
_AMBIGUOUS_SIGNS = {"$": "USD AUD CAD NZD HKD SGD MXN", "¥": "JPY CNY", "kr": "SEK NOK DKK ISK"}


def _validate_currency(code: str) -> str:
    if "${" in code:
        return code
    known = [currency.alpha_3 for currency in pycountry.currencies]
    if code.strip().upper() not in known:
        raise ArgumentError(describe_unknown("currency", code, known), "unknown-value")
    return code.strip().upper()


def normalize_price(text: str, default: str | None) -> tuple[float | None, str | None]:
    """Return the amount of a price and its ISO 4217 code; `default` applies to a missing or ambiguous currency."""
    price = find_price(text, default or "")
    if price is None:
        return None, None
    amount, sign = price.amount, price.sign
    if default and (not sign or default in _AMBIGUOUS_SIGNS.get(sign, "").split()):
        return amount, default
    if len(sign) == 3 and pycountry.currencies.get(alpha_3=sign.upper()):
        return amount, sign.upper()
    return amount, _SIGNS.get(sign.rstrip("."))


@register_stage("priceNormalize")
class PriceNormalize(RowStage):
    """Add `<column>_amount` (a number) and `<column>_currency` (an ISO 4217 code) for a column with prices as text.

    "1.299,00 €" becomes 1299.0 and EUR, "£1,09 incl. 20% VAT" becomes 1.09 and GBP, "SKU 4711: -$5" becomes -5.0
    and USD: the amount is the number beside a currency sign, else the first one. `currency` applies to texts
    without a currency and to ambiguous signs: "$5" with currency CAD is Canadian. Without it, $ is USD and ¥ is
    JPY. Both columns are null without an amount; the currency is null, too, for an ambiguous sign like kr. Only the
    first 1,000 numbers of a text count, and a currency further than 100 characters away does not. A number of more
    than 50 characters is ignored.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: priceNormalize, args: [price, EUR]}
"""

    positional = ("column", "currency")
    keeps_rows = True
    column: str = Field(min_length=1)
    currency: Annotated[str, AfterValidator(_validate_currency)] | None = None

    def describe(self) -> str:
        return " ".join(filter(None, (self._name, self.currency)))

    def list_references(self) -> tuple[str, ...]:
        return (self._name,)

    def infer_columns(self, before: Columns) -> Columns:
        name = self._name
        return before.with_columns(((f"{name}_amount", "double"), (f"{name}_currency", "string")))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        name, default = self._name, self.currency

        def normalize_row(row: Row) -> Iterable[Row]:
            value = row.value(name)
            amount, currency = (None, None) if value is None else normalize_price(str(value), default)
            amount = amount if isinstance(value, str) else convert_price(value)
            yield row.with_values({f"{name}_amount": amount, f"{name}_currency": currency})

        return normalize_row

    @property
    def _name(self) -> str:
        return parse_column_reference(self.column) or self.column
