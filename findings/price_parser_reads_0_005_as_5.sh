#!/usr/bin/env bash
# price-parser reads $0.005 as 5, 1,234.567 as 1234567 and CHF 1’299.00 as 1, and drops the minus of -5,00 €.
#
# One would guess that a number that begins with 0 has no groups of thousands, that of two separators the last one is
# the decimal one, and that the apostrophe of CLDR for Switzerland (U+2019) separates groups as the ASCII one does:
# three digits after any separator are taken for a group, and only the ASCII apostrophe is known. Amounts are positive,
# which is no fault of a price, but of a rebate.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q price-parser==0.5.1
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

from price_parser import Price

print("price-parser", version("price-parser"))
texts = ("$0.005", "1,234.567 USD", "CHF 1\u2019299.00", "CHF 1'299.00", "-5,00 €")
found = {text: Price.fromstring(text).amount_float for text in texts}
print(found)
assert [*found.values()] == [5.0, 1234567.0, 1.0, 1299.0, 5.0], "the behaviour has changed"
PYTHON
