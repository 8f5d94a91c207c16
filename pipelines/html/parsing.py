"""HTML → lexbor's tree. A parse cannot be interrupted, so what may take long is tried out in a process of its own."""

from __future__ import annotations

import os
from resource import RLIMIT_CORE, RLIMIT_CPU, setrlimit

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from pipelines.html.depth import bounded, may_take_long

_SECONDS = 5  # of the processor; 16 MB of ordinary HTML take half of one


class SlowPage(Exception):
    """Its markup is made so that no parser gets to its end in time."""

    def __init__(self) -> None:
        super().__init__(f"no parser gets through its HTML in {_SECONDS} s")


def parsed(html: bytes) -> LexborHTMLParser:
    """The tree of UTF-8 HTML. Raises SlowPage."""
    if may_take_long(html):
        html = bounded(html)
        _try_out(html)
    return _parsed(html)


def _try_out(html: bytes) -> None:
    """`bounded` knows most of what takes long, and no list of it is complete."""
    child = os.fork()
    if child == 0:
        try:
            setrlimit(RLIMIT_CORE, (0, 0))
            setrlimit(RLIMIT_CPU, (_SECONDS, _SECONDS + 1))
            _parsed(html)
        finally:
            os._exit(0)
    if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        raise SlowPage


def _parsed(html: bytes) -> LexborHTMLParser:
    """The tree as it is written: a browser would also copy options into <selectedcontent>."""
    return LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
