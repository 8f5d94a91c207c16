from __future__ import annotations

import random

import pytest
from webencodings.labels import LABELS

from pipelines.html.charset import decode
from tests.pipelines.html.pages import document

WORD = "Привет"
PRICE = "5 €, „gut“"


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        (WORD.encode(), None, WORD),
        (WORD.encode(), "utf-8", WORD),
        (WORD.encode("windows-1251"), "windows-1251", WORD),
        (WORD.encode("koi8-r"), "KOI8-R", WORD),
        (b"<meta charset=windows-1251>" + WORD.encode("windows-1251"), None, WORD),
        (b'<META CHARSET="windows-1251" />' + WORD.encode("windows-1251"), None, WORD),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">' + WORD.encode("windows-1251"),
            None,
            WORD,
        ),
        (b"<!-- <meta charset=koi8-r> --><meta charset=windows-1251>" + WORD.encode("windows-1251"), None, WORD),
        (b"<meta charset=koi8-r>" + WORD.encode("windows-1251"), "windows-1251", WORD),
        (b"\xef\xbb\xbf" + WORD.encode(), "windows-1251", WORD),
        (b"\xef\xbb\xbf<meta charset=windows-1251>" + WORD.encode(), None, WORD),
        (b"\xff\xfe" + WORD.encode("utf-16-le"), None, WORD),
        (b"\xfe\xff" + WORD.encode("utf-16-be"), "utf-8", WORD),
        (PRICE.encode("cp1252"), None, PRICE),
        (PRICE.encode("cp1252"), "iso-8859-1", PRICE),
        (PRICE.encode("cp1252"), "latin1", PRICE),
        (b"<meta charset=utf-16>" + WORD.encode(), None, WORD),
        ("価格".encode("shift_jis"), "Shift_JIS", "価格"),
        ("価格①".encode("cp932"), "shift_jis", "価格①"),
        ("価格".encode("euc-jp"), "euc-jp", "価格"),
        ("价格㐀".encode("gb18030"), "gb2312", "价格㐀"),
        ("價格".encode("big5"), "big5", "價格"),
        ("가격".encode("euc-kr"), "euc-kr", "가격"),
        ("ราคา".encode("tis-620"), "tis-620", "ราคา"),
        (WORD.encode(), "no-such-charset", WORD),
        *(
            (WORD.encode(), label, WORD)
            for label in ("base64", "utf-7", "utf-32", "hz", "punycode", "palmos", "ISO 8859-5")
        ),
        *((rb"\ud800\N", label, r"\ud800\N") for label in ("undefined", "unicode_escape", "raw_unicode_escape", "hz")),
        (b'<meta charset="a\0b">' + WORD.encode(), None, WORD),
        (b"<meta charset=undefined>" + WORD.encode(), None, WORD),
        (b"<meta charset=x-user-defined>" + PRICE.encode("cp1252"), None, PRICE),
        (WORD.encode(), " UTF8\n", WORD),
        (WORD.encode("iso-8859-5"), "csISOLatinCyrillic", WORD),
        (b"<meta charset=none>" + WORD.encode(), None, WORD),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        (b"a\x81b", None, "a\x81b"),
        (b"a\x81b", "iso-8859-1", "a\x81b"),
        (b"", None, ""),
        (b" " * 2000 + b"<meta charset=koi8-r>" + WORD.encode(), None, WORD),
    ],
)
def test_text_is_decoded_as_browsers_do(body: bytes, header: str | None, expected: str) -> None:
    marked = body if body.startswith((b"\xef", b"\xff", b"\xfe")) else b"<p>" + body
    assert document(marked, charset=header).root.text() == expected


@pytest.mark.parametrize("charset", ["utf-8", None])
def test_bytes_that_are_no_utf8_are_replaced_wherever_they_are_read(charset: str | None) -> None:
    body = b'<meta charset=utf-8><p title="caf\xc3">caf\xc3</p><b>\xe2\x82</b>'
    root = document(body, charset=charset).root
    paragraph = root.first("p")
    assert paragraph is not None
    assert (paragraph.text(), paragraph.attr("title")) == ("caf\ufffd", "caf\ufffd")
    assert paragraph.html() == '<p title="caf\ufffd">caf\ufffd</p>'
    assert root.text() == "caf\ufffd \ufffd"


@pytest.mark.parametrize("label", sorted(LABELS))
def test_any_bytes_are_decoded_to_characters_in_every_encoding(label: str) -> None:
    some = random.Random(0)
    bodies = [some.randbytes(60) for _ in range(50)] + [b"\xd8\0\0\xd8", b"\x1b$B\x1b(I\xff", b"~{", b"\xed\xa0\x80"]
    for body in bodies:
        decode(body, label).encode()
