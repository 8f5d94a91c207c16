"""Encodings of HTML, by html5lib's tests: the characters that a reader gets."""

from __future__ import annotations

import re

from webencodings import lookup

from bench.conformance.cases import Case
from bench.conformance.sources import get_python_source
from bench.service import Json
from pipelines.extract.charset import decode, find_encoding

# words by which the encodings of the suite differ, the first that an encoding can write
_WORDS = ("Größe, café, naïve, señor", "Příliš žluťoučký kůň", "Съешь ещё этих булок", "日本語のテキスト", "中文的文本")
_CASE = re.compile(rb"^#data\n(.*?)\n?^#encoding\n(\S+)", re.DOTALL | re.MULTILINE)


def read_cases() -> list[Case]:
    """Return html5lib's pages, each with words of its encoding behind it, which are to be read as they were written."""
    folder = get_python_source("html5lib", "1.1") / "html5lib/tests/testdata/encoding"
    cases: list[Case] = []
    for file in sorted(folder.glob("*.dat")):
        for number, (page, label) in enumerate(_CASE.findall(file.read_bytes()), start=1):
            encoding = lookup(label.decode())
            assert encoding, label
            words = next(each for each in _WORDS if _can_write(each, encoding.codec_info.name))
            body = page + b"\n " + encoding.codec_info.encode(words)[0]
            question = {"body": body.decode("latin-1"), "length": len(words)}
            cases.append(Case(f"{file.name} {number}", question, {"end": words}))
    return cases


def _can_write(words: str, codec: str) -> bool:
    try:
        words.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def read_end(question: Json) -> Json:
    """Return the end of the page as the product reads it."""
    body = question["body"].encode("latin-1")
    return {"end": decode(body, find_encoding(body, None, "html"))[-question["length"] :]}
