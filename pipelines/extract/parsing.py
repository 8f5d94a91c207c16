"""HTML → lexbor's tree. A parse cannot be interrupted, so what may take long is tried out in a process of its own."""

from __future__ import annotations

import gc
import os
import traceback
from math import ceil
from resource import RLIM_INFINITY, RLIMIT_CORE, RLIMIT_CPU, getrlimit, setrlimit
from signal import SIG_DFL, SIGXCPU, signal
from time import process_time

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from pipelines.extract.depth import bounded, may_take_long

_SECONDS = 5  # of the processor; 16 MB of ordinary HTML are parsed in half of one
_SECONDS_PER_MB = 2  # besides, to bound it; ordinary HTML takes up to one, nothing but open links three


class SlowPage(Exception):
    """Its markup takes longer to parse than it may."""

    def __init__(self) -> None:
        super().__init__(f"its HTML takes more than {_SECONDS} s to parse")


def parsed(html: bytes) -> LexborHTMLParser:
    """The tree of UTF-8 HTML. Raises SlowPage, and ChildProcessError where trying it out fails otherwise."""
    return _parsed(_tried_out(html) if may_take_long(html) else html)


def _tried_out(html: bytes) -> bytes:
    """`html` as far as it is bounded, and then parsed in time: no list of what takes long is complete."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            setrlimit(RLIMIT_CORE, (0, 0))
            signal(SIGXCPU, SIG_DFL)
            gc.disable()  # what lies about may be a connection, and is the parent's to close
            _allow(_SECONDS + _SECONDS_PER_MB * len(html) // (1 << 20))
            html = bounded(html)
            _allow(_SECONDS)
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
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == -SIGXCPU:
        raise SlowPage
    if ended:
        how = f"signal {-ended}" if ended < 0 else f"status {ended}"
        raise ChildProcessError(f"the process that tries out its HTML ended with {how}")
    return html


def _allow(seconds: int) -> None:
    """Lets this process have so many more seconds of the processor; SIGXCPU ends it then."""
    hard = getrlimit(RLIMIT_CPU)[1]  # which ends it by SIGKILL, as a lack of memory does
    end = ceil(process_time()) + seconds
    setrlimit(RLIMIT_CPU, (end if hard == RLIM_INFINITY else min(end, hard - 1), hard))


def _parsed(html: bytes) -> LexborHTMLParser:
    """The tree as it is written: a browser would also copy options into <selectedcontent>."""
    return LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
