"""Faults of XML, and the elements of HTML without an end tag."""

from __future__ import annotations

_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
VOID_ELEMENTS = frozenset(_VOID_NAMES.split())


class XmlFault(Exception):
    """The XML cannot be read; the message is a clause, like `its XML ends within <loc>`."""


class XmlTooComplex(XmlFault):
    """The XML exceeds a limit."""
