"""Repair of XML that is not well-formed: the rest after a fault is read without it."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from html.entities import html5
from itertools import count

from pipelines.extract.xml_faults import VOID_ELEMENTS, XmlFault, XmlTooComplex

_NAME = r"[A-Za-z_:\u00c0-\U0010ffff][\w:.\-\u00b7\u00c0-\U0010ffff]*+"
_PREFIXED = re.compile(r"[^\W\d][^:]*:[^\W\d][^:]*")
_MARKUP = re.compile(
    rf"""<!--(?P<comment>.*?)-->
    | <!\[CDATA\[(?P<data>.*?)\]\]>
    | <\?xml\s[^>]*>
    | <\?.*?\?>
    | </\s*+(?P<end>{_NAME})[^<>]*+>
    | <(?P<start>{_NAME})(?P<attributes>
        (?:[\s/]*+{_NAME}(?:\s*+=\s*+(?:"[^"]*+"(?=[\s/>]|{_NAME}\s*+=)|'[^']*+'(?=[\s/>]|{_NAME}\s*+=)|[^\s<>]++))?+)*+
      )\s*+(?P<empty>/?)\s*+>
    """,
    re.VERBOSE | re.DOTALL,
)
_ATTRIBUTE = re.compile(
    rf"""(?P<name>{_NAME})(?:\s*+=\s*+(?:
        "(?P<double>[^"]*+)"(?=[\s/]|\Z|{_NAME}\s*+=) | '(?P<single>[^']*+)'(?=[\s/]|\Z|{_NAME}\s*+=) | (?P<bare>\S++)
    ))?+""",
    re.VERBOSE,
)
_DOCTYPE = re.compile(r"""<!DOCTYPE[^\[>]*+(?:\[((?:<!--.*?-->|"[^"]*+"|'[^']*+'|[^\]"'])*+)\]\s*+)?+>""", re.DOTALL)
_UNFINISHED = re.compile(r"<(?:!--|!\[CDATA\[|\?)")
_REFERENCE = re.compile(r"&(?:\#(?:[xX](?P<hex>[0-9a-fA-F]{1,8})|(?P<decimal>\d{1,8}))|(?P<name>[\w:.-]{1,100}));|&")
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITY = re.compile(rf"<!ENTITY\s+(?P<name>{_NAME})\s+(?P<value>\"[^\"]*+\"|'[^']*+')?")
_DECLARATION = re.compile(r"<\?xml\s+version")
_PREDEFINED = frozenset(("amp", "lt", "gt", "quot", "apos"))
_RESERVED = frozenset(("xml", "xmlns"))
_END_TAG = re.compile(rf"</\s*+({_NAME})")
_CUT_END_TAG = re.compile(rf"</({_NAME})\s*+\Z")


_MAX_SECONDS = 10.0  # of CPU time; a sitemap of 50,000 addresses takes one
_CHECKED = 16  # tags between two looks at the clock


def repair_xml(text: str) -> str:
    """Return well-formed XML with the elements, attributes and texts of `text`, an empty text without an element.

    An & that begins no entity and a < that begins no tag are text, HTML's named entities are their characters, and
    characters that XML does not have are left out. An end tag closes the elements inside its own, and one without an
    element is ignored. Of equal attributes the first one counts. Comments and text outside of the root are left out.
    The last > may be missing. Raises XmlFault if the text ends within the root, and XmlTooComplex if it takes too long.
    """
    return _Repair(_skip_preface(_NO_CHARACTER.sub("", text))).run()


def _skip_preface(text: str) -> str:
    """Return the document without messages of the server before its declaration."""
    found = _DECLARATION.search(text)
    start = found.start() if found else 0
    return text if _UNFINISHED.search(text, 0, start) else text[start:]


class _Repair:
    """One repair; `parts` are those of the new text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[str] = []
        self.open: list[str] = []
        self.names: Counter[str] = Counter()  # of open elements, and again in lower case
        self.entities: dict[str, bool] = {}  # of the document type; whether it has the value itself
        self.prefixes: dict[str, str] = {}  # with the first namespace of each
        self.used: set[str] = set()
        self.root: int | None = None  # the part with the declarations of the root
        self.void = VOID_ELEMENTS - {each.casefold() for each in _END_TAG.findall(text)}

    def run(self) -> str:
        text, at, deadline = self.text, 0, time.thread_time() + _MAX_SECONDS
        for number in count():
            start = text.find("<", at)
            self._add_text(text[at : start if start >= 0 else len(text)])
            if start < 0:
                break
            if number % _CHECKED == 0 and time.thread_time() > deadline:
                raise XmlTooComplex(f"its XML takes more than {_MAX_SECONDS:.0f} s to repair")
            if markup := _MARKUP.match(text, start):
                self._add_markup(markup)
                at = markup.end()
            elif doctype := None if self.parts else _DOCTYPE.match(text, start):
                self._add_entities(doctype[1] or "")
                at = doctype.end()
            elif _UNFINISHED.match(text, start):
                break
            elif (cut := _CUT_END_TAG.match(text, start)) and self.open == [_repair_name(cut[1])]:
                self._add_end(self.open[0])  # nothing is missing but the last >
                break
            else:
                self._add_text("<")
                at = start + 1
        if self.open:
            raise XmlFault(f"its XML ends within <{self.open[-1]}>")
        if self.root is not None:
            missing = sorted(self.used - _RESERVED)
            names = (f' xmlns:{each}="{self.prefixes.get(each, f"urn:undeclared:{each}")}"' for each in missing)
            self.parts[self.root] = "".join(names)
        return "".join(self.parts) if self.root is not None else ""

    def _add_markup(self, markup: re.Match[str]) -> None:
        if name := markup["start"]:
            if self.open or self.root is None:
                self._add_start(_repair_name(name), markup["attributes"], bool(markup["empty"]))
        elif name := markup["end"]:
            self._add_end(_repair_name(name))
        elif self.open and (data := markup["data"]) is not None:
            self.parts.append(f"<![CDATA[{data}]]>")

    def _add_entities(self, subset: str) -> None:
        """Add a document type with the entities that have a value; those of files are never read."""
        for found in _ENTITY.finditer(subset):
            name, value = found["name"], found["value"]
            if name not in self.entities and name not in _PREDEFINED:
                self.entities[name] = value is not None
                if value:
                    self.parts.append(f"<!ENTITY {name} {value}>")
        self.parts = ["<!DOCTYPE root [", *self.parts, "]>"]

    def _add_start(self, name: str, attributes: str, is_empty: bool) -> None:
        self._use(name)
        self.parts.append(f"<{name}")
        found = self._read_attributes(attributes)
        if self.root is None:
            self.root = len(self.parts)
            self.parts.append("")
            for each in [each for each in found if each.startswith("xmlns:")]:
                self.prefixes[each[6:]] = found.pop(each)
                self.used.add(each[6:])
        self.parts.extend(f' {each}="{value}"' for each, value in found.items())
        if is_empty or name.casefold() in self.void:
            self.parts.append("/>")
        else:
            self.parts.append(">")
            self.open.append(name)
            self.names.update((name, f"/{name.casefold()}"))

    def _read_attributes(self, text: str) -> dict[str, str]:
        """Return the values of attributes as they are written, escaped."""
        found: dict[str, str] = {}
        for attribute in _ATTRIBUTE.finditer(text):
            value = next((each for each in attribute.group("double", "single", "bare") if each is not None), "")
            value = self._repair_text(value.strip("\"'") if attribute["bare"] else value).replace('"', "&quot;")
            name = _repair_name(attribute["name"])
            if name.startswith("xmlns:"):
                if not value or name[6:] in _RESERVED:
                    continue
                self.prefixes.setdefault(name[6:], value)
            else:
                self._use(name)
            found.setdefault(name, value)
        return found

    def _add_end(self, name: str) -> None:
        """Close the nearest element of the name, by preference in the same case, and all inside it."""
        folded = f"/{name.casefold()}"
        if not self.names[folded]:
            return
        is_exact = self.names[name] > 0
        while True:
            closed = self.open.pop()
            closed_folded = f"/{closed.casefold()}"
            self.names.subtract((closed, closed_folded))
            self.parts.append(f"</{closed}>")
            if closed == name or (closed_folded == folded and not is_exact):
                return

    def _add_text(self, text: str) -> None:
        if self.open and text:
            self.parts.append(self._repair_text(text))

    def _repair_text(self, text: str) -> str:
        if "&" in text:
            text = _REFERENCE.sub(self._repair_reference, text)
        return text.replace("<", "&lt;").replace(">", "&gt;")

    def _repair_reference(self, found: re.Match[str]) -> str:
        if (name := found["name"]) is not None:
            if name in _PREDEFINED or self.entities.get(name):
                return found[0]
            if name in self.entities:  # its value is in a file
                return ""
            characters = html5.get(f"{name};")
            return "".join(f"&#{ord(each)};" for each in characters) if characters else f"&amp;{name};"
        if found["hex"] or found["decimal"]:
            code = int(found["hex"], 16) if found["hex"] else int(found["decimal"])
            return "" if code > sys.maxunicode or _NO_CHARACTER.match(chr(code)) else found[0]
        return "&amp;"

    def _use(self, name: str) -> None:
        prefix, separator, _ = name.partition(":")
        if separator:
            self.used.add(prefix)


def _repair_name(name: str) -> str:
    """Return a name with at most one prefix."""
    return name if ":" not in name or _PREFIXED.fullmatch(name) else name.replace(":", "_")
