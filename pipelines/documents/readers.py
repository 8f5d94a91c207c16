"""The text that an isolated process runs to read a document: it gets a file, and gives its parts in batches.

It imports the standard library and the libraries of the formats, each when a file needs it.
"""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from datetime import time as clock
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

Part = dict[str, Any]

BATCH_CHARACTERS = 1_000_000
BATCH_PARTS = 1_000
BATCH_SECONDS = 2.0
MOST_UNPACKED = 512 * 1024 * 1024
DEEPEST = 3  # messages in messages
ARCHIVES = {"word/": "docx", "ppt/": "pptx", "xl/": "sheets"}
TYPES = {
    "application/epub+zip": "epub",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "sheets",
}
TEXT_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
ODT_BLOCKS = (f"{TEXT_NAMESPACE}h", f"{TEXT_NAMESPACE}p")
DELETED = f"{TEXT_NAMESPACE}tracked-changes"
APART = (*ODT_BLOCKS, f"{TEXT_NAMESPACE}note", "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}annotation")
SPACES = {f"{TEXT_NAMESPACE}{name}": text for name, text in (("tab", "\t"), ("line-break", "\n"), ("s", " "))}
MOST_SPACES = 1000  # that a file writes as a number
TABLE_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # of a text box, which it repeats
DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
NAMES = ("title", "creator")
HEADER = re.compile(rb"(?im)^(?:from|subject|received|mime-version|return-path|date):")
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?")

_open: Iterator[Part] = iter(())


class Unreadable(Exception):
    """A file that is no document, or one that cannot be read: a clause."""


def read_batch(row: Part) -> Part:
    """Return the next parts of the file, after the first call without one; `more` says whether there may be others."""
    global _open
    try:
        if "body" in row:
            _open = read_file(row["body"], row["name"], row["tables"], row["first"], row["last"])
        return take_batch(_open)
    except Unreadable as error:
        return {"fault": str(error)}
    except MemoryError:
        raise
    except Exception as error:
        return {"fault": describe_fault(error)}


def take_batch(parts: Iterator[Part]) -> Part:
    batch: list[Part] = []
    size, end = 0, time.monotonic() + BATCH_SECONDS
    for part in parts:
        batch.append(part)
        size += sum(len(str(value)) for value in part.values())
        if size > BATCH_CHARACTERS or len(batch) >= BATCH_PARTS or time.monotonic() > end:
            return {"parts": batch, "more": True}
    return {"parts": batch, "more": False}


def describe_fault(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if re.search(r"password|encrypt|decrypt", text, re.IGNORECASE):
        return "it is encrypted"
    return f"it is broken ({text[:200]})"


def read_file(body: bytes, name: str, tables: bool, first: int, last: int | None, depth: int = 0) -> Iterator[Part]:
    kind = find_kind(body, name)
    if kind == "pdf":
        return read_pdf(body, tables, first, last)
    if kind == "mail":
        return read_mail(body, tables, depth)
    return READERS[kind](body)


def find_kind(body: bytes, name: str) -> str:
    """Return what a file is by its beginning, and by its name where that says nothing; raise Unreadable."""
    if b"%PDF-" in body[:1024]:
        return "pdf"
    if body.startswith(b"{\\rtf"):
        return "rtf"
    if body.startswith(b"\xd0\xcf\x11\xe0"):
        if b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e" in body:
            raise Unreadable("it is encrypted")
        if b"W\0o\0r\0k\0b\0o\0o\0k" in body or b"B\0o\0o\0k" in body:
            return "sheets"
        raise Unreadable("it is a document of Office before 2007: save it as DOCX, PPTX or PDF")
    if body.startswith(b"PK\x03\x04"):
        return find_archive(body)
    if name.lower().endswith(".eml") or HEADER.match(body) or len(HEADER.findall(body[:4096])) > 2:
        return "mail"
    raise Unreadable("it is no PDF, DOCX, XLSX, PPTX, EPUB, RTF, ODT or e-mail" if body else "it is empty")


def find_archive(body: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > MOST_UNPACKED:
            raise Unreadable(f"it unpacks to more than {MOST_UNPACKED >> 20} MiB")
        names = {entry.filename for entry in entries}
        declared = archive.read("mimetype")[:100].decode(errors="replace").strip() if "mimetype" in names else ""
    kind = TYPES.get(declared) or next((ARCHIVES[at] for at in ARCHIVES if any(n.startswith(at) for n in names)), None)
    if kind is None:
        raise Unreadable("it is an archive, and no DOCX, XLSX, PPTX, EPUB or ODT")
    return kind


def read_pdf(body: bytes, tables: bool, first: int, last: int | None) -> Iterator[Part]:
    import pypdfium2

    document = pypdfium2.PdfDocument(body)
    given = document.get_metadata_dict(skip_empty=True)
    about: Part = {
        "title": given.get("Title"),
        "author": given.get("Author"),
        "created": parse_pdf_date(given.get("CreationDate")),
        "modified": parse_pdf_date(given.get("ModDate")),
        "pages": len(document),
    }
    find_tables = open_tables(body) if tables else None
    for number in range(first, min(last or len(document), len(document)) + 1):
        page = document[number - 1]
        text_page = page.get_textpage()
        text = text_page.get_text_range().replace("\r\n", "\n").strip()
        is_image = not text and next(iter(page.get_objects(max_depth=2)), None) is not None
        text_page.close()
        page.close()
        part = {**about, "page": number, "text": text}
        if find_tables:
            part["tables"] = find_tables(number)
        yield {**part, "scan": True} if is_image else part


def open_tables(body: bytes) -> Callable[[int], list[Any]]:
    import pdfplumber

    document = pdfplumber.open(io.BytesIO(body))

    def find(number: int) -> list[Any]:
        page = document.pages[number - 1]
        found = [[[clean(cell) for cell in row] for row in table] for table in page.extract_tables()]
        page.close()
        return found

    return find


def parse_pdf_date(text: str | None) -> datetime | None:
    found = PDF_DATE.match(text or "")
    if not found:
        return None
    numbers = [int(each) if each else least for each, least in zip(found.groups(), (1, 1, 1, 0, 0, 0), strict=True)]
    try:
        year, month, day, hour, minute, second = numbers
        return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - as its program wrote it
    except ValueError:
        return None


def read_docx(body: bytes) -> Iterator[Part]:
    import docx
    from docx.oxml.ns import qn

    document = docx.Document(io.BytesIO(body))
    wrappers = {qn(f"w:{name}") for name in ("sdt", "sdtContent", "ins", "moveTo", "smartTag", "customXml")}
    lines: list[str] = []
    found: list[Any] = []

    def iter_parts(parent: Any, *tags: str) -> Iterator[Any]:
        """Yield the elements of these kinds, also those in content controls and tracked changes."""
        for each in parent:
            if each.tag in map(qn, tags):
                yield each
            elif each.tag in wrappers:
                yield from iter_parts(each, *tags)

    def write(paragraph: Any) -> str:
        runs = (run for run in paragraph.iter(qn("w:r")) if next(run.iterancestors(qn("w:p"))) is paragraph)
        removed = (qn("w:del"), qn("w:moveFrom"), FALLBACK)
        return "".join(run.text for run in runs if next(run.iterancestors(*removed), None) is None).strip()

    def iter_cells(row: Any) -> Iterator[str | None]:
        for cell in iter_parts(row, "w:tc"):
            yield clean(" ".join(map(write, cell.iter(qn("w:p")))))
            yield from [None] * (cell.grid_span - 1)

    for block in iter_parts(document.element.body, "w:p", "w:tbl"):
        if block.tag == qn("w:tbl"):
            rows = [[*iter_cells(row)] for row in iter_parts(block, "w:tr")]
            found.append(rows)
            lines.extend("\t".join(cell or "" for cell in row) for row in rows)
        else:
            lines.extend(map(write, block.iter(qn("w:p"))))  # with those of text boxes in it
    text = "\n".join(filter(None, lines))
    yield {**read_properties(document.core_properties), "text": text, "tables": found}


def read_pptx(body: bytes) -> Iterator[Part]:
    import pptx

    document: Any = pptx.Presentation(io.BytesIO(body))
    about = {**read_properties(document.core_properties), "pages": len(document.slides)}
    for number, slide in enumerate(document.slides, start=1):
        shapes = [*iter_shapes(slide.shapes)]
        lines = [shape.text_frame.text.replace("\v", "\n") for shape in shapes if shape.has_text_frame]
        found = [[[clean(cell.text) for cell in row.cells] for row in s.table.rows] for s in shapes if s.has_table]
        lines.extend("\t".join(cell or "" for cell in row) for table in found for row in table)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame:
            lines.append(slide.notes_slide.notes_text_frame.text)
        yield {**about, "page": number, "text": "\n".join(filter(None, lines)), "tables": found}


def iter_shapes(shapes: Any) -> Iterator[Any]:
    """Yield the shapes of a slide, those in groups instead of these."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from iter_shapes(shape.shapes)
        else:
            yield shape


def read_properties(given: Any) -> Part:
    return {
        "title": given.title or None,
        "author": given.author or None,
        "created": strip_zone(given.created),
        "modified": strip_zone(given.modified),
    }


def read_sheets(body: bytes) -> Iterator[Part]:
    import python_calamine

    book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(body))
    for name in book.sheet_names:
        sheet = book.get_sheet_by_name(name)
        headings: list[str] | None = None
        timed = {at for cells in sheet.iter_rows() for at, cell in enumerate(cells) if has_time(cell)}
        for cells in sheet.iter_rows():
            values = [convert_cell(cell, at in timed) for at, cell in enumerate(cells)]
            if all(value is None for value in values):
                continue
            if headings is None:
                headings = [write_heading(value) for value in values]
                continue
            yield {"sheet": name, "cells": [*zip(headings, values, strict=False)]}


def write_heading(value: Any) -> str:
    """Return a cell as the name of its column: a year is no fraction, and an empty cell has no name."""
    return "" if value is None else str(int(value) if isinstance(value, float) and value.is_integer() else value)


def has_time(value: Any) -> bool:
    return isinstance(value, datetime) and value.time() != clock()


def convert_cell(value: Any, is_timed: bool) -> Any:
    """Return a number, truth value, text, date or time; a clock time as text, and an empty cell as None.

    Midnight is a date, unless its column has other times: it `is_timed`.
    """
    if isinstance(value, date) and is_timed:
        return value if isinstance(value, datetime) else datetime.combine(value, clock())
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, clock | timedelta):
        return str(value)
    if isinstance(value, bool | date):
        return value
    if isinstance(value, int | float):
        return float(value)
    return clean(str(value)) or None


def read_epub(body: bytes) -> Iterator[Part]:
    from html_to_markdown import ConversionOptions, convert
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        container = parse_xml(etree, archive.read("META-INF/container.xml"))
        path = container.xpath("string(//*[local-name()='rootfile']/@full-path)")
        package = parse_xml(etree, archive.read(path))
        files = {each.get("id"): each.get("href") for each in package.iter("{*}item")}
        chapters = [files[each.get("idref")] for each in package.iter("{*}itemref") if each.get("idref") in files]
        about = {
            "title": package.findtext(f".//{DUBLIN_CORE}title"),
            "author": package.findtext(f".//{DUBLIN_CORE}creator"),
            "pages": len(chapters),
        }
        folder = path.rpartition("/")[0]
        for number, chapter in enumerate(chapters, start=1):
            html = archive.read(f"{folder}/{chapter}".lstrip("/")).decode(errors="replace")
            text = convert(html, ConversionOptions(extract_metadata=False)).content or ""
            yield {**about, "page": number, "text": text.strip()}


def read_odt(body: bytes) -> Iterator[Part]:
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        content = parse_xml(etree, archive.read("content.xml"))
        about = parse_xml(etree, archive.read("meta.xml")) if "meta.xml" in archive.namelist() else None
    blocks = content.iter(*ODT_BLOCKS)
    lines = [write_odt(block).strip() for block in blocks if next(block.iterancestors(DELETED), None) is None]
    found = [
        [[write_odt_cell(cell) for cell in row.iter(f"{TABLE_NAMESPACE}table-cell")] for row in rows]
        for rows in ([*each.iter(f"{TABLE_NAMESPACE}table-row")] for each in content.iter(f"{TABLE_NAMESPACE}table"))
    ]
    title, author = ((about.findtext(f".//{DUBLIN_CORE}{name}") if about is not None else None) for name in NAMES)
    yield {"title": title, "author": author, "text": "\n".join(filter(None, lines)), "tables": found}


def write_odt(node: Any) -> str:
    """Return the text of an element, without the notes, remarks and text boxes in it, which have lines of their own."""
    parts = [node.text or ""]
    for each in node:
        if each.tag in SPACES:
            parts.append(SPACES[each.tag] * min(int(each.get(f"{TEXT_NAMESPACE}c", 1)), MOST_SPACES))
        elif isinstance(each.tag, str) and each.tag not in APART:
            parts.append(write_odt(each))
        parts.append(each.tail or "")
    return "".join(parts)


def write_odt_cell(cell: Any) -> str | None:
    return clean(" ".join(map(write_odt, cell.iter(*ODT_BLOCKS))))


def parse_xml(etree: Any, text: bytes) -> Any:
    return etree.fromstring(text, etree.XMLParser(resolve_entities=False, no_network=True))


def read_rtf(body: bytes) -> Iterator[Part]:
    from striprtf.striprtf import rtf_to_text

    yield {"text": rtf_to_text(body.decode("latin-1"), errors="ignore").strip()}


def read_mail(body: bytes, tables: bool, depth: int) -> Iterator[Part]:
    message: Any = message_from_bytes(body, _class=EmailMessage, policy=policy.default)
    sent = message["date"].datetime if message["date"] and message["date"].datetime else None
    about = {"title": message["subject"], "author": message["from"], "created": strip_zone(sent)}
    about = {name: value if value is None or name == "created" else str(value) for name, value in about.items()}
    text = message.get_body(("plain", "html"))
    content = read_content(text) if text is not None else ""
    if text is not None and text.get_content_type() == "text/html":
        from html_to_markdown import ConversionOptions, convert

        content = convert(content, ConversionOptions(extract_metadata=False)).content or ""
    yield {**about, "text": content.strip()}
    for number, part in enumerate(message.iter_attachments(), start=1):
        name = part.get_filename() or f"part {number}"
        try:
            if depth >= DEEPEST:
                raise Unreadable(f"it is in a message more than {DEEPEST} levels deep")
            content = part.get_content()
            inner = (
                content if isinstance(content, bytes) else bytes(content) if isinstance(content, EmailMessage) else None
            )
            if inner is None:
                yield {**about, "part": name, "text": str(content).strip()}
                continue
            label = "message.eml" if isinstance(content, EmailMessage) else name
            for each in read_file(inner, label, tables, 1, None, depth + 1):
                yield {**about, **{key: value for key, value in each.items() if value is not None}, "part": name}
        except MemoryError:
            raise
        except Exception as error:
            fault = str(error) if isinstance(error, Unreadable) else describe_fault(error)
            yield {**about, "part": name, "fault": fault}


def read_content(part: Any) -> str:
    try:
        return str(part.get_content())
    except (LookupError, ValueError):  # an unknown encoding
        return part.get_payload(decode=True).decode(errors="replace")


def strip_zone(value: datetime | None) -> datetime | None:
    """Return a time in UTC, without its zone."""
    if value is None or value.tzinfo is None:
        return value
    return (value - (value.utcoffset() or timedelta())).replace(tzinfo=None)


def clean(text: str | None) -> str | None:
    return " ".join(text.split()) if text is not None else None


READERS: dict[str, Callable[..., Iterator[Part]]] = {
    "docx": read_docx,
    "pptx": read_pptx,
    "sheets": read_sheets,
    "epub": read_epub,
    "odt": read_odt,
    "rtf": read_rtf,
}
