"""price-parser's examples of prices."""

from __future__ import annotations

import importlib.util

from bench.conformance.cases import Case
from bench.conformance.sources import get_python_source
from bench.service import Json
from pipelines.extract.extractors import parse_price

_LISTS = ("BUGS_CAUGHT", "NEW", "", "2", "3", "NO_PRICE", "NO_CURRENCY")


def read_cases() -> list[Case]:
    """Return the examples that price-parser's tests expect to pass, without those that name the decimal separator."""
    file = get_python_source("price-parser", "0.5.1") / "tests/test_price_parsing.py"
    spec = importlib.util.spec_from_file_location("price_examples", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cases: list[Case] = []
    for name in _LISTS:
        examples = getattr(module, f"PRICE_PARSING_EXAMPLES_{name}".rstrip("_"))
        for number, example in enumerate(examples, start=1):
            if example.decimal_separator is None and example.price_raw is not None:
                question = {"text": example.price_raw, "currency": example.currency_raw}
                title = f"{name or 1} {number} {example.price_raw.strip()[:40]!r}"
                cases.append(Case(title, question, {"amount": example.amount_float}))
    return cases


def read_amount(question: Json) -> Json:
    return {"amount": parse_price(question["text"])}
