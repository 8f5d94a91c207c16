"""HTML → lexbor's tree. A parse cannot be interrupted, so what may take long is tried out in a process of its own."""

from __future__ import annotations

import gc
import os
import traceback
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
    return _parsed(_tried_out(html) if may_take_long(html) else html)


def _tried_out(html: bytes) -> bytes:
    """`html` as far as it is bounded, and then parsed in time: no list of what takes long is complete."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            setrlimit(RLIMIT_CORE, (0, 0))
            setrlimit(RLIMIT_CPU, (_SECONDS, _SECONDS + 1))
            gc.disable()  # what lies about may be a connection, and is the parent's to close
            html = bounded(html)
            _parsed(html)
            with os.fdopen(writer, "wb") as answer:
                answer.write(html)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        html = answer.read()
    if os.waitpid(child, 0)[1]:
        raise SlowPage
    return html


def _parsed(html: bytes) -> LexborHTMLParser:
    """The tree as it is written: a browser would also copy options into <selectedcontent>."""
    return LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
