"""What methods make of a column's value, whatever earlier stages have put there."""

from __future__ import annotations

import pytest

from pipelines.extract.extractors import Extractor
from pipelines.extract.rows import Row


@pytest.mark.parametrize(
    ("value", "price"),
    [
        (2, 2.0),
        (-1.5, -1.5),
        ("£1,09", 1.09),
        (None, None),
        (10**400, None),
        (-(10**400), None),
        (float("-inf"), None),
        (float("inf"), None),
        (float("nan"), None),
    ],
)
def test_a_price_is_a_finite_number_or_none(value: object, price: float | None) -> None:
    read = Extractor.model_validate({"field": "amount", "method": "price"}).build_worker()
    assert read(Row({"amount": value}, (0,))) == price
