# ruff: noqa: RUF001
from __future__ import annotations

import random
import time

import pytest
from webencodings.labels import LABELS

from pipelines.extract.charset import decode, find_encoding
from tests.support.cases import each_case
from tests.support.pages import document

WORD = "Привет"
PRICE = "5 €, „gut“"


@each_case(
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
        # html5lib-tests, tests2.dat: nothing inside of a meta's attribute is another meta
        (b'<meta name="a<meta charset="koi8-r">' + WORD.encode(), None, WORD),
        (b"<!--" + b" " * 1024 + b'--><meta name="a<meta charset="koi8-r">' + WORD.encode(), None, WORD),
        (b"<meta charset=undefined>" + WORD.encode(), None, WORD),
        (b"<meta charset=x-user-defined>" + PRICE.encode("cp1252"), None, PRICE),
        (WORD.encode(), " UTF8\n", WORD),
        (WORD.encode("iso-8859-5"), "csISOLatinCyrillic", WORD),
        (b"<meta charset=none>" + WORD.encode(), None, WORD),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        (b"a\x81b", None, "a\x81b"),
        (b"a\x81b", "iso-8859-1", "a\x81b"),
        (b"", None, ""),
        (b"</head>" + b" " * 2000 + b"<meta charset=koi8-r>" + WORD.encode(), None, WORD),
        *(
            (start.ljust(2000) + b"<meta charset=koi8-r>" + WORD.encode("koi8-r"), None, WORD)
            for start in (b"", b" " * 1100 + b"<script>'</head><meta charset=big5>'</script>", b"<!-- <body> -->")
        ),
        (b"<meta charset=big5 foo".ljust(2000) + b"><p>" + "價格".encode("big5"), None, "價格"),
        *(
            (b"<meta " + attributes + b">" + WORD.encode("koi8-r"), None, WORD)
            for attributes in (
                b"name=a charset=koi8-r",
                b"content='a > b' charset = 'koi8-r'",
                b"charset=koi8-r content='text/html; charset=big5' http-equiv=content-type",
                b"content='text/html;x; charset = koi8-r ;' http-equiv=Content-Type",
                b"/charset=koi8-r/",
            )
        ),
        *(
            (b"<meta " + attributes + b">" + WORD.encode(), None, WORD)
            for attributes in (
                b'name=description content="About charset=windows-1251"',
                b'http-equiv=refresh content="1; url=?charset=windows-1251"',
                b'data-charset=windows-1251 title="charset=windows-1251"',
                b'http-equiv=content-type content="text/html"',
            )
        ),
        (b"<metadata charset=koi8-r>" + WORD.encode(), None, WORD),
        (b"<b title='<meta charset=koi8-r>'>" + WORD.encode() + b"</b>", None, WORD),
        (WORD.encode() + b"<meta charset=koi8-r", None, WORD),
    ],
)
def test_text_is_decoded_as_browsers_do(body: bytes, header: str | None, expected: str) -> None:
    marked = body if body.startswith((b"\xef", b"\xff", b"\xfe")) else b"<p>" + body
    assert document(marked, charset=header).root.text() == expected


@pytest.mark.parametrize("charset", ["utf-8", None])
def test_invalid_utf8_is_replaced(charset: str | None) -> None:
    body = b'<meta charset=utf-8><p title="caf\xc3">caf\xc3</p><b>\xe2\x82</b>'
    root = document(body, charset=charset).root
    paragraph = root.first("p")
    assert (paragraph.text(), paragraph.attr("title")) == ("caf\ufffd", "caf\ufffd")
    assert paragraph.html() == '<p title="caf\ufffd">caf\ufffd</p>'
    assert root.text() == "caf\ufffd \ufffd"


@each_case("label", sorted(LABELS))
def test_any_bytes_are_decoded_to_characters_in_every_encoding(label: str) -> None:
    some = random.Random(0)
    bodies = [some.randbytes(60) for _ in range(50)] + [b"\xd8\0\0\xd8", b"\x1b$B\x1b(I\xff", b"~{", b"\xed\xa0\x80"]
    for body in bodies:
        decode(body, find_encoding(body, label, "html")).encode()


UNDECLARED = [
    ("shift_jis", "当店では、伝統的な製法で作られたお茶や和菓子を取り扱っております。価格は税込みで"),
    ("gb18030", "本店销售各种家居用品和电子产品，全国范围内三天送达。所有价格均含税，购买满二百元"),
    ("euc-kr", "저희 가게에서는 다양한 생활용품과 전자제품을 판매하고 있습니다. 전국 어디든지 이틀 안에"),
    ("big5", "本店銷售各種家居用品和電子產品，全國範圍內三天送達。所有價格均含稅，購買滿二百元"),
    ("windows-1251", "Наш магазин предлагает широкий выбор товаров для дома и сада. Доставка по всей стране осуществл"),
    ("koi8-r", "Наш магазин предлагает широкий выбор товаров для дома и сада. Доставка по всей стране осуществл"),
    ("iso-8859-2", "Możesz zwrócić towar w ciągu czternastu dni, jeśli nie spełnia oczekiwań. Żółte łóżka"),
    ("windows-1250", "Náš obchod nabízí široký výběr zboží pro dům a zahradu. Doručení po celé zemi probíhá do tří dn"),
    ("windows-1254", "Mağazamız ev ve bahçe için geniş bir ürün yelpazesi sunar. Teslimat ülke genelinde üç gün içind"),
    ("windows-1253", "Το κατάστημά μας προσφέρει μεγάλη ποικιλία προϊόντων για το σπίτι και τον κήπο. Η παράδοση γίνε"),
    ("cp874", "ร้านของเรามีสินค้าสำหรับบ้านและสวนหลากหลาย จัดส่งทั่วประเทศภายในสามวัน ราคารวมภาษีแล้ว"),
    ("cp1252", "Où que vous soyez : l’été à la française, « cœur » de métier, dès 12 € – château, gâteau"),
    ("cp1252", "„Qualität“ für alle – natürlich, große Auswahl für Küche und Geschäft ab 12 €"),
    ("cp1252", "Nuestra tienda ofrece una amplia selección de artículos para el hogar y el jardín. El envío a t"),
    ("cp1252", "Vår butik erbjuder ett stort urval av varor för hem och trädgård. Leverans sker över hela lande"),
    ("cp1252", "Our shop has it all – don’t miss the “summer” offers: £5 or 5 € for a cup. We deliver everywher"),
    ("cp1252", "Price: £5.00 © 2020, don’t"),
    ("cp1252", "20 °C ± 5, 10 µm"),
    ("cp1252", "«Bonjour» naïve"),
    ("cp1252", "“x”—y"),
    ("cp1252", "Größe ½ × 3"),
]


@each_case(("encoding", "text"), UNDECLARED)
@each_case("times", [3, 2000])
def test_an_undeclared_encoding_is_detected(encoding: str, text: str, times: int) -> None:
    body = f"<html><title>Shop</title><a href=/shop>Shop</a><p>{text * times}</p>".encode(encoding)
    assert decode(body, find_encoding(body, None, "html")) == body.decode(encoding)
    assert document(body).root.text() == f"Shop Shop {text * times}"


@each_case(
    ("body", "content_type", "header", "expected"),
    [
        (b"<?xml version='1.0' encoding='koi8-r'?><p>" + WORD.encode("koi8-r"), "text/html", None, WORD),
        (
            b"<?xml encoding='koi8-r'?><meta charset=windows-1251>" + WORD.encode("windows-1251"),
            "text/html",
            None,
            WORD,
        ),
        (("<?xml version='1.0'?><p>" + WORD).encode("utf-16-le"), "text/html", None, WORD),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>" + WORD.encode("koi8-r") + b"</p>", "text/xml", None, WORD),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>" + WORD.encode() + b"</p>", "text/xml", "utf-8", WORD),
        (f"\ufeff<?xml version='1.0' encoding='koi8-r'?><p>{WORD}</p>".encode(), "text/xml", "koi8-r", WORD),
        (f"\ufeff<p>{WORD}</p>".encode("utf-16-le"), "text/xml", "utf-8", WORD),
        (f"<p>{WORD}</p>".encode("utf-16-be"), "text/xml", None, WORD),
        (f"<p>{WORD}</p>".encode(), "text/xml", "koi8-rr", WORD),
        # feedparser 6.0.14, tests/encoding: encodings that XML may name and browsers do not know
        *(
            (f"<?xml version='1.0' encoding='{label}'?><p>{WORD}</p>".encode(label), "text/xml", None, WORD)
            for label in ("IBM855", "cp866", "ptcp154", "mac-cyrillic", "windows_1251", "cp1125", "KOI8-T")
        ),
        (f"<?xml version='1.0' encoding='UTF-16'?><p>{WORD}</p>".encode(), "text/xml", None, WORD),
        ("<?xml version='1.0' encoding='cp864'?><p>°</p>".encode("cp864"), "text/xml", None, "°"),
        (f"<p>{WORD}</p>".encode("cp855"), "text/xml", "IBM855", WORD),
        (f"a,{WORD}".encode("cp1125"), "text/csv", "cp1125", f"a,{WORD}"),
        (f"<?xml version='1.0' encoding='cp1125'?><p>{WORD}".encode("cp1251"), "text/html", "windows-1251", WORD),
        *(
            (
                rf"<?xml version='1.0' encoding='{label}'?><p>{WORD}+AGE-\u0041</p>".encode(),
                "text/xml",
                None,
                rf"{WORD}+AGE-\u0041",
            )
            for label in (
                "utf-7",
                "unicode_escape",
                "raw_unicode_escape",
                "idna",
                "punycode",
                "rot13",
                "hex",
                "cp037",
                "undefined",
                "a\0b",
            )
        ),
        (f'"{WORD}"'.encode(), "application/json", "windows-1251", f'"{WORD}"'),
        (f'"{WORD}"'.encode("windows-1251"), "application/json", "windows-1251", f'"{WORD}"'),
        (f'"{WORD}"'.encode("utf-16-le"), "application/json", None, f'"{WORD}"'),
        (f'\ufeff"{WORD}"'.encode("utf-16-be"), "application/json", "utf-8", f'"{WORD}"'),
        (f"\ufeffa,{WORD}".encode(), "text/csv", "windows-1251", f"a,{WORD}"),
        (f"<meta charset=koi8-r>{WORD}".encode(), "text/plain", None, f"<meta charset=koi8-r>{WORD}"),
    ],
)
def test_each_type_has_its_own_declaration(body: bytes, content_type: str, header: str | None, expected: str) -> None:
    found = document(body, content_type=content_type, charset=header)
    assert (found.root.text() if found.is_html or content_type == "text/xml" else found.text) == expected


@each_case(
    ("charset", "href", "url"),
    [
        ("windows-1251", "/лампа?q=лампа#лампа", "/%D0%BB%D0%B0%D0%BC%D0%BF%D0%B0?q=%EB%E0%EC%EF%E0"),
        ("windows-1251", "?a=%D0%BB&b=日 x'", "/a/b.html?a=%D0%BB&b=%26%2326085%3B%20x%27"),
        ("shift_jis", "?q=価格ソ", "/a/b.html?q=%89%BF%8Ai%83\\"),
        ("utf-8", "?q=ä", "/a/b.html?q=%C3%A4"),
        ("utf-16-le", "?q=ä", "/a/b.html?q=%C3%A4"),
    ],
)
def test_the_query_of_a_link_is_in_the_encoding_of_its_page(charset: str, href: str, url: str) -> None:
    page = f'<a href="{href}">x</a><img src="{href}">'
    body = ("\ufeff" if charset == "utf-16-le" else "") + page
    root = document(body.encode(charset, "xmlcharrefreplace"), charset=charset).root
    (link,) = root.select("a")
    wanted = f"http://shop.test{url}"
    assert link.link() == wanted
    assert str(link.attr("abs:href")).partition("#")[0] == wanted
    assert [str(each.absolute("href")).partition("#")[0] for each in root.select_xpath("//a/@href")] == [wanted]
    assert [each.link() for each in root.select_xpath("//a")] == [wanted]


def test_a_page_of_tags_that_never_end_takes_little_time() -> None:
    began = time.process_time()
    for tag in (b"<meta ", b"<meta charset=x ", b"<a b='", b"<!--", b"<script ", b'<a b="<a b=" b="'):
        assert find_encoding(tag * 300_000, None, "html").codec == "utf-8"
    assert time.process_time() - began < 10


def test_a_beginning_that_pages_share_does_not_decide_what_follows_it() -> None:
    shared = b'<html lang="en"><meta charset=windows-1251>'
    assert find_encoding(shared + b"<p>a", None, "html").codec == "cp1251"
    assert find_encoding(shared + b"<meta charset=koi8-r>", None, "html").codec == "cp1251"
    assert find_encoding(shared[:-1] + b" charset=koi8-r>", None, "html").codec == "cp1251"
    assert find_encoding(shared.replace(b"windows-1251", b"koi8-r"), None, "html").codec == "koi8-r"
    assert find_encoding(shared, "utf-8", "html").codec == "utf-8"
    open_quote = b'<a title="x><meta charset=windows-1251>'  # whose second quote, if any, makes the meta a part of it
    assert find_encoding(open_quote, None, "html").codec == "cp1251"
    assert find_encoding(open_quote + b'">', None, "html").codec == "utf-8"


def test_a_beginning_that_is_not_closed_is_read_in_linear_time() -> None:
    text = b"x" * 900 + b'<"<meta charset=koi8-r>'  # backtracking over the text would never end
    assert find_encoding(text, None, "html").codec == "koi8-r"
