"""Prices and numbers in texts: digits and separators of all conventions, currency signs, minus signs, raised cents."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import NamedTuple

from price_parser.parser import (
    OTHER_CURRENCY_SYMBOLS,
    SAFE_CURRENCY_SYMBOLS,
    extract_currency_symbol,
    get_decimal_separator,
    parse_number,
)
from selectolax.lexbor import LexborNode

from pipelines.extract.parsing import parse_html
from pipelines.extract.text import FindHidden, find_hidden, get_seen_text, is_hidden

_MAX_DIGITS = 50  # characters of a number
_MAX_PRICE = 10**_MAX_DIGITS
_MAX_NUMBERS = 1000  # of a text
_MAX_GROUP = 3  # digits of a group
_CONTEXT = 100  # characters on each side of a price, where its currency may be
_MARKS = "\u061c\u200e\u200f"  # of the direction of writing
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_TO_RAISED = str.maketrans("0123456789", _RAISED)
_FROM_RAISED = str.maketrans(_RAISED, "0123456789")
_MINUS = "-\u2013\u2212"
_ASCII = str.maketrans(
    "\u066b\u066c\uff0e\uff0c\uff0d\ufe63\u2019\u2018\u02bc\u00b4", ".'.,\u2212\u2212''''"
)  # separators, signs for minus and apostrophes
# Decimal signs of the currencies with three decimals. Prices in that of Iraq have none.
_OF_DINARS = {
    **dict.fromkeys(("KWD", "BHD", "OMR", "JOD", "KD", "BD", "JD", "د.ك", "د.ب", "ر.ع", "د.أ"), "."),
    **dict.fromkeys(("TND", "LYD", "DT", "د.ت", "د.ل"), ".,"),
}
_THOUSANDTHS = re.compile(r"[1-9]\d{0,2}([.,])\d{3}")
# The second set has ordinary words, like TOP.
_SIGNS = tuple(
    frozenset(each.strip(f" .{_MARKS}") for each in signs)
    for signs in (SAFE_CURRENCY_SYMBOLS, (*OTHER_CURRENCY_SYMBOLS, *_OF_DINARS))
)
_ANY_SIGN = frozenset().union(*_SIGNS)
_LENGTHS = range(max(map(len, _ANY_SIGN)), 0, -1)
_PLAIN_PRICE = re.compile(r"(?:[$€£] ?)?([0-9]{1,9})[.,]([0-9]{2})(?: ?(?:[$€£]|[A-Z]{3}))?")
# Groups after a space have three digits, and cents may follow one: 8. 94. A euro sign may be the decimal sign: 35€99.
# A point after a word or another point is no decimal sign: Rs.499.
_NUMBER = re.compile(
    r"(?<!\d)(?:\d{1,3}(?: \d{3}(?!\d))+(?:[.,]\d+)?|(?<![\w/.])[.]\d+(?![.,']?\d)"
    r"|\d+(?:[.,']\d+)*(?:[.,] \d\d(?![\d.,]))?)(?!\d)"
    r"(?:€(?:\d\d?| \d\d)(?![\w.,%]| ?€)| € \d\d(?![\w.,%]| ?€))?(?! ?[%\u066a])"
)
_FRACTION = re.compile(r"0?([.,])\d+")
_RANGE = re.compile(r" ?(?:[-\u2013\u2014\u2212~]|to|bis|à|до) ?")
_RAISED_CENTS = re.compile(rf"(?<![\d.,'])(\d[\d.,']*)( ?[^\W\d]{{,4}}[^\w\s]?) ?([{_RAISED}]{{2}})(?![{_RAISED}])")
_RAISED_DIGITS = re.compile(f"[{_RAISED}]+")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_DIGIT = re.compile(r"\d")
_SPACES = re.compile(r"\s+")


class _Number(NamedTuple):
    start: int
    end: int
    value: Decimal


@dataclass(frozen=True, slots=True)
class Price:
    """An amount with its currency sign, which is empty if the text has none."""

    amount: float
    sign: str


def find_price(text: str, currency: str = "") -> Price | None:
    """Return the first number beside a currency sign, else the first number; percentages do not count.

    `currency` is the code for a text without a sign.
    """
    text = _normalize(text)
    numbers = _find_numbers(text)
    if not numbers:
        return None
    number, sign = _choose(text, numbers)
    if not sign or "$" in sign:  # the other side may have the code of the dollar: $5 AUD
        size = 2 * len(_LENGTHS) if sign else _CONTEXT
        sign = (extract_currency_symbol(text[max(number.start - size, 0) : number.end + size], None) or "").strip()
    return Price(_read_amount(text, number, sign or currency), sign)


def parse_price(text: str) -> float | None:
    """Return the amount of the price in `text`: "1.234,56 €" is 1234.56."""
    if plain := _PLAIN_PRICE.fullmatch(text):  # the usual case, ten times as fast
        return float(f"{plain[1]}.{plain[2]}")
    text = _normalize(text)
    numbers = _find_numbers(text)
    if not numbers:
        return None
    is_plain = len(numbers) == 1 and numbers[0].value < 1000
    return _read_amount(text, *((numbers[0], "") if is_plain else _choose(text, numbers)))


def convert_price(value: object) -> float | None:
    """Return a number as it is, but none too large for a text, and of other values the amount in their text."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value) if abs(value) < _MAX_PRICE else None
    return parse_price(str(value)) if value is not None else None


def read_number(text: str) -> Decimal | None:
    """Return a number of ASCII digits, with separators of any convention and no sign, or None."""
    text = text.replace("'", " ").strip(" ,")
    return parse_number(text, _find_separator(text))


def normalize_signs(text: str) -> str:
    """Return the text with ASCII digits, separators and apostrophes, and one sign for minus beside the hyphen."""
    if text.isascii():
        return text
    return _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text.translate(_ASCII))


def get_price_text(root: LexborNode, find: FindHidden) -> str:
    """Return the text that people see in `root`; raised cents are its fraction, raised footnotes are left out."""
    html = root.html or ""
    if "<sup" not in html:
        return get_seen_text(root, find)
    copy = parse_html(html.encode())
    for raised in reversed(copy.css("sup")):  # the inner ones first
        text = "" if is_hidden(raised.attributes) else get_seen_text(raised, partial(find_hidden, raised))
        raised.replace_with(text.translate(_TO_RAISED))
    return _lower_digits(get_seen_text(copy.root, partial(find_hidden, copy.root))) if copy.root else ""


def _normalize(text: str) -> str:
    return _lower_digits(normalize_signs(_SPACES.sub(" ", text)))


def _lower_digits(text: str) -> str:
    """Return the text without superscript digits: after a whole number two are cents, and others a footnote."""
    if text.isascii() or not _RAISED_DIGITS.search(text):
        return text
    if not _DIGIT.search(text):
        return text.translate(_FROM_RAISED)
    return _RAISED_DIGITS.sub("", _RAISED_CENTS.sub(_lower_cents, text))


def _lower_cents(found: re.Match[str]) -> str:
    """Return a whole number and raised cents as one number; raised digits after cents are a footnote."""
    whole, sign, raised = found[1].rstrip(".,'"), found[2], found[3]
    if _find_separator(whole) or sign.strip() not in ("", *_ANY_SIGN):
        return f"{found[1]}{sign} "
    whole = re.sub("[.,']", "", whole)
    return f"{whole}.{raised.translate(_FROM_RAISED)}{sign}"


def _find_numbers(text: str) -> list[_Number]:
    matches = (each for each in _NUMBER.finditer(text) if each.end() - each.start() <= _MAX_DIGITS)
    found = ((each.span(), read_number(each[0])) for each in islice(matches, _MAX_NUMBERS))
    return [_Number(*span, value) for span, value in found if value is not None]


def _find_separator(number: str) -> str | None:
    """Return the decimal separator of a number, null if it has none."""
    if found := _FRACTION.fullmatch(number):  # thousands do not begin with 0
        return found[1]
    last = max(number.rfind("."), number.rfind(","))
    whole, separator = number[: max(last, 0)], number[last : last + 1]
    has_groups = any(each in whole for each in " .,")
    if whole and "€" not in number and separator not in whole and (has_groups or len(whole) > _MAX_GROUP):
        return separator
    return get_decimal_separator(number.replace(" ", ""))


def _choose(text: str, numbers: list[_Number]) -> tuple[_Number, str]:
    """Return the first number beside a currency sign, and the sign, else the first number; of a range its start."""
    for signs in _SIGNS:
        for index, number in enumerate(numbers):
            if sign := _find_sign_beside(text, number, signs):
                before = numbers[index - 1] if index else None
                is_range = before and before.value < number.value and _RANGE.fullmatch(text, before.end, number.start)
                return (before if before and is_range else number), sign
    return numbers[0], ""


def _find_sign_beside(text: str, number: _Number, signs: frozenset[str]) -> str:
    if "€" in text[number.start : number.end]:
        return "€"
    after = text[number.end : number.end + 2 * len(_LENGTHS)]
    stripped = after.lstrip(f" {_MARKS}")
    if sign := _find_first_sign(stripped, signs):
        is_of_next = stripped != after and stripped[len(sign) : len(sign) + 1].isdigit()  # 4711 €12
        if not is_of_next:
            return sign
    return _find_last_sign(_get_before(text, number).rstrip(f" :.{_MINUS}{_MARKS}"), signs)


def _get_before(text: str, number: _Number) -> str:
    return text[max(number.start - 2 * len(_LENGTHS), 0) : number.start]


def _find_first_sign(text: str, signs: frozenset[str]) -> str:
    """Return the currency sign with which a text begins; one of letters is a whole word."""
    return next(
        (
            sign
            for n in _LENGTHS
            if (sign := text[:n]) in signs and not (sign[-1].isalpha() and text[n : n + 1].isalpha())
        ),
        "",
    )


def _find_last_sign(text: str, signs: frozenset[str]) -> str:
    """Return the currency sign with which a text ends; one of letters is a whole word."""
    return next(
        (
            sign
            for n in _LENGTHS
            if (sign := text[-n:]) in signs and not (sign[0].isalpha() and text[-n - 1 : -n].isalpha())
        ),
        "",
    )


def _read_amount(text: str, number: _Number, sign: str) -> float:
    found, amount = _THOUSANDTHS.fullmatch(text, number.start, number.end), float(number.value)
    if found and found[1] in _OF_DINARS.get(sign, ""):
        amount /= 1000
    return -amount if _is_negative(_get_before(text, number)) else amount


def _is_negative(before: str) -> bool:
    """Return whether a minus is before a number or before its currency sign; a hyphen with a space is a dash."""
    stripped = before.rstrip()
    sign = _find_last_sign(stripped, _ANY_SIGN)
    if sign:
        before = before.rstrip()[: -len(sign)]
    if not before.endswith(tuple(_MINUS)) and not before.endswith("\u2212 "):
        return False
    left = before.rstrip()[:-1]
    is_word = left[-1:].isalnum() and not _find_last_sign(left, _ANY_SIGN)
    return not is_word and not left.rstrip()[-1:].isdigit()
