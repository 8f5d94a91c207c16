"""Documents for tests, made by the libraries of their formats."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime, time
from email.message import EmailMessage

import docx
import pptx
import xlsxwriter
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from PIL import Image
from pptx.util import Emu

OPF = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>Book</dc:title><dc:creator>Eve</dc:creator></metadata><manifest><item id="b" href="2.xhtml"/>
<item id="a" href="1.xhtml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>"""
ODT = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><text:tracked-changes><text:p>Gone</text:p></text:tracked-changes><text:h>Head</text:h>
<text:p>Body<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Note</text:p></text:note-body>
</text:note>:<text:tab/>a<text:line-break/>b<text:s text:c="2"/>c</text:p>
</office:document-content>"""

DOCX_CONTROL = """<w:sdt {0}><w:sdtContent>
<w:p><w:r><w:t>Fee</w:t><w:tab/></w:r><w:ins><w:r><w:t>500</w:t></w:r></w:ins>
<w:del><w:r><w:t>400</w:t></w:r></w:del><w:sdt><w:sdtContent><w:r><w:t> EUR</w:t></w:r></w:sdtContent></w:sdt></w:p>
</w:sdtContent></w:sdt>"""


def make_pdf(*pages: str, encrypted: bool = False) -> bytes:
    """Return a PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        content = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects.append("<< /Title (Bill) /Author (Acme) /CreationDate (D:20260301120000Z) >>")
    body, places = "%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, start=1):
        places.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'41' * 32}> /U <{'42' * 32}> >> /ID [<41> <41>]"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    return (
        f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R "
        f"/Info {len(objects)} 0 R {lock if encrypted else ''} >>\n"
        f"startxref\n{len(body)}\n%%EOF\n"
    ).encode()


def make_scan() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (60, 80), "gray").save(file, "pdf")
    return file.getvalue()


def make_xlsx(*rows: tuple[object, ...], last_row: int = 0) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True}) as book:
        sheet, form = book.add_worksheet("Sales"), book.add_format({"num_format": "yyyy-mm-dd hh:mm"})
        for at, row in enumerate(rows):
            for column, value in enumerate(row):
                if isinstance(value, datetime):
                    sheet.write_datetime(at, column, value, form)
                elif isinstance(value, date):
                    sheet.write_datetime(at, column, datetime.combine(value, time()), form)
                else:
                    sheet.write(at, column, value)
        if last_row:
            sheet.write_blank(last_row, 9, None, form)
    return file.getvalue()


def make_docx() -> bytes:
    file, document = io.BytesIO(), docx.Document()
    document.core_properties.title = "Letter"
    document.add_paragraph("Before")
    document.element.body.insert(1, parse_xml(DOCX_CONTROL.format(nsdecls("w"))))
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "1"
    merged = table.cell(1, 0).merge(table.cell(1, 1))
    merged.text = "both"
    merged.add_table(1, 1).cell(0, 0).text = "inner"
    document.add_paragraph("After")
    document.save(file)
    return file.getvalue()


def make_pptx() -> bytes:
    file, document = io.BytesIO(), pptx.Presentation()
    for title in ("First", "Second"):
        heading = document.slides.add_slide(document.slide_layouts[5]).shapes.title
        assert heading is not None
        heading.text = title
    group = document.slides[1].shapes.add_group_shape().shapes.add_group_shape()
    group.shapes.add_textbox(Emu(0), Emu(0), Emu(9), Emu(9)).text_frame.text = "Grouped"
    document.save(file)
    return file.getvalue()


def make_archive(**files: str | bytes) -> bytes:
    """Return a zip archive; `__` in a name is a slash, and `_` a point."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return file.getvalue()


def make_epub() -> bytes:
    pages = {f"{number}_xhtml": f"<html><body><h1>Part {number}</h1></body></html>" for number in (1, 2)}
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    return make_archive(mimetype="application/epub+zip", **{"META-INF__container_xml": container}, c_opf=OPF, **pages)


def make_odt() -> bytes:
    return make_archive(mimetype="application/vnd.oasis.opendocument.text", content_xml=ODT)


def make_mail(**attachments: bytes) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"], message["Date"] = "Bills", "a@example.org", "Sat, 28 Nov 2026 11:00:00 +0100"
    message.set_content("See below")
    for name, content in attachments.items():
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name.replace("_", "."))
    return message.as_bytes()
