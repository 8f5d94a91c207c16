"""feedparser's feeds: the texts of elements that feeds name, and whether XML that is not well-formed is told."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from bench.conformance.cases import Case
from bench.conformance.feed_paths import FIELDS, find_path
from bench.conformance.sources import get_python_source
from bench.service import Json
from pipelines.extract import Document
from pipelines.extract.document import Element, TreeElement, Value
from pipelines.extract.xml_faults import XmlFault
from pipelines.fetch.page import Page, parse_content_type
from pipelines.fetch.urls import canonical_url

# the folders about elements of feeds; the others test what feedparser makes of them (sanitize, base, lang, …)
_FOLDERS = ("rss", "atom", "atom10", "rdf", "itunes", "media-rss", "namespace", "amp", "xml", "node_precedence", "base")
_HEADER = re.compile(rb"(?mi)^\s*Header:\s*Content-Type:\s*(.+?)\s*$")
_EXPECTED = re.compile(rb"(?m)^\s*Expect:\s*(.+?)\s*$")
_MADE = re.compile(rb"""xhtml|mode=["']xml|base64|octet-stream""")  # feedparser gives markup, or decodes
_PEOPLE = re.compile("author_detail|contributors")  # made from "a@example.com (Name)" outside of Atom
_URL = "http://127.0.0.1:8097/tests/"


def read_cases(folder: str) -> list[Case]:
    """Return the files that expect values of FIELDS, or only that the XML is told to be broken."""
    source = get_python_source("feedparser", "6.0.14") / "tests" / folder
    files = [each for each in sorted(source.rglob("*.xml")) if folder != "wellformed" or each.parent.name in _FOLDERS]
    return [case for file in files if (case := _read_case(file, str(file.relative_to(source)), folder))]


def _read_case(file: Path, name: str, folder: str) -> Case | None:
    body = file.read_bytes()
    head = body.replace(b"\0", b"")  # of UTF-16 and UTF-32
    found, header = _EXPECTED.search(head), _HEADER.search(head)
    if found is None or _MADE.search(body):
        return None
    expected: Json = {"bozo": True} if found[1] == b"bozo" and folder == "illformed" else _read_expected(found[1])
    content_type = header[1].decode() if header else "application/xml"
    question = {"body": body.decode("latin-1"), "content_type": content_type, "url": _URL + name}
    if not expected or (not name.startswith("atom") and _PEOPLE.search(" ".join(expected))):
        return None
    if name.startswith("base/") and not all(FIELDS[path].is_link for path in expected):  # links in texts
        return None
    lower = {
        path: canonical_url(value) if path in FIELDS and FIELDS[path].is_link else value
        for path, value in expected.items()
    }
    return Case(name, {**question, "asked": [*expected]}, expected, [lower])


def _read_expected(expression: bytes) -> Json:
    """Return the values by their paths, such as entries.0.title; nothing if others are expected as well."""
    tree = ast.parse(expression.decode(), mode="eval").body
    terms = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    expected: Json = {}
    for term in terms:
        if ast.unparse(term) == "not bozo":
            continue
        if not (isinstance(term, ast.Compare) and len(term.ops) == 1 and isinstance(term.ops[0], ast.Eq)):
            return {}
        path, value = find_path(term.left), term.comparators[0]
        if path not in FIELDS or not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            return {}
        expected[path] = value.value
    return expected


def read_values(question: Json) -> Json:
    """Return the values as the product reads them."""
    url, moment = question["url"], datetime.now(UTC)
    media_type, charset = parse_content_type(question["content_type"].encode())
    try:
        document = Document(
            Page(url, url, 200, None, media_type, charset, question["body"].encode("latin-1"), moment),
            None if media_type != "text/plain" else "xml",
        )
    except XmlFault:
        return {"bozo": True}
    values: Json = {"bozo": document.repaired is not None or document.fault is not None}
    return {path: values[path] if path in values else _read_value(document.root, path) for path in question["asked"]}


def _read_value(root: Element, path: str) -> str | None:
    found = root.select_xpath(FIELDS[path].xpath)
    if not found:
        return None
    if FIELDS[path].is_link:
        return found[0].absolute("href")
    return cast("TreeElement | Value", found[0]).text()
