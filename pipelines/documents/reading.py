"""The worker's side of reading documents: parts of a file from a process with limits of time and memory."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.transforms.sandbox import FunctionCall, Limits, RowFailed, Sandbox

_MIB = 1024 * 1024
_SECONDS = 30.0  # of a batch of parts
_FILE_SECONDS = 300.0
_MEMORY_MIB = 1024
_LARGEST = 64  # MiB
Part = dict[str, Any]


class UnreadDocument(Exception):
    """A document that cannot be read, or not to its end: a sentence."""


class DocumentReader:
    """Reads documents one after another, in one process until a document ends it."""

    def __init__(self) -> None:
        source, libraries = _get_source(), sysconfig.get_path("platlib")
        limits = Limits(_SECONDS, _MEMORY_MIB)
        self._box = Sandbox(FunctionCall("document", source, "read_batch", {}, limits, packages=libraries))

    def read(self, body: bytes, name: str, tables: bool, first: int = 1, last: int | None = None) -> Iterator[Part]:
        """Yield the parts of a file: its pages, slides, chapters, rows of sheets, or parts of a message.

        Raises UnreadDocument, also after parts.
        """
        if len(body) > _LARGEST * _MIB:
            raise UnreadDocument(f"the document cannot be read: it has more than {_LARGEST} MiB")
        end, pages = time.monotonic() + _FILE_SECONDS, {"tables": tables, "first": first, "last": last}
        batch = self._ask({"body": body, "name": name, **pages})
        while True:
            yield from batch["parts"]
            if not batch["more"]:
                return
            if time.monotonic() > end:
                raise UnreadDocument(f"the rest of the document is left out: it takes more than {_FILE_SECONDS:g} s")
            batch = self._ask({})

    def _ask(self, row: Mapping[str, Any]) -> dict[str, Any]:
        (outcome,) = self._box.run([row])
        if isinstance(outcome, RowFailed):
            raise UnreadDocument(f"the document cannot be read: {outcome}")
        if outcome is None or "fault" in outcome:
            raise UnreadDocument(f"the document cannot be read: {outcome['fault'] if outcome else 'it is empty'}")
        return outcome


@cache
def _get_source() -> str:
    return Path(__file__).with_name("readers.py").read_text()
