"""HTML parsing. Pages that may take long are first parsed in a forked process with CPU and memory limits."""

from __future__ import annotations

import gc
import os
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from math import ceil
from pathlib import Path
from time import process_time

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

_CPU_SECONDS = 5  # 16 MB of ordinary HTML take half a second
_MEMORY = 1 << 30  # bytes; 16 MB of ordinary HTML take half of it
_OUT_OF_MEMORY = 2  # exit status of the trial

# Limits of documents that are parsed without a trial; the worst pages found within them take about 0.1 s and 100 MB.
_SMALL_PAGE = 8 * 1024  # bytes
_MAX_TAGS = 8192  # nested elements cost the square of their number
_MAX_TAG = 16 * 1024  # bytes; the attributes of a tag cost the square of their number
_ATTRIBUTE_BOMB = 64 * 1024  # bytes; smaller pages have too few attributes for one
_MAX_COPIES = 4 << 20  # bytes of formatting tags that the parser may reopen

# The parser reopens these in every block after the one that left them open, at most three of equal ones (Noah's Ark
# clause), and one <a>. Their tags must be simple: where they end must not depend on the tags before them.
_FORMATTING_TAG = re.compile(
    rb"<(?=[abcefinstuABCEFINSTU])(?:[abisu]|big|code|em|font|nobr|small|strike|strong|tt)(?=[ \t\n\r\f/>])[^>]*+>?",
    re.IGNORECASE,
)
_SIMPLE_TAG = re.compile(
    rb"<[a-zA-Z]++"
    rb"(?:[ \t\n\r\f]++[^ \t\n\r\f<>\"'=/\0]++(?:=(?:\"[^\"<>\0]*+\"|'[^'<>\0]*+'|[^ \t\n\r\f<>\"'=\0]++))?+)*+"
    rb"[ \t\n\r\f/]*+>"
)
_MAX_EQUAL = 3
_QUOTED_TAG_END = re.compile(rb"=[ \t\n\r\f]*+(?:\"[^\">]*+>|'[^'>]*+>)")


class PageTooComplex(Exception):
    """The HTML takes more CPU time or memory to parse than the limits allow."""


def parse_html(html: bytes) -> LexborHTMLParser:
    """Parse UTF-8 HTML; raise PageTooComplex for a page that exceeds the limits."""
    if _may_take_long(html):
        _try_parsing(html)
    return _parse(html)


def _parse(html: bytes) -> LexborHTMLParser:
    # without events, since these would copy options into <selectedcontent>
    parser = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)
    if b"<template" in html.lower():
        _open_templates(parser)
    return parser


def _open_templates(parser: LexborHTMLParser) -> None:
    """Move the content of templates into the tree, where selectors find it."""
    contents = parser.template_fragments()
    for content in contents:  # which grows
        contents.extend(content.template_fragments())
        while (template := content.parent) is not None and (child := content.first_child) is not None:
            template.insert_child(child, move=True)


def _may_take_long(html: bytes) -> bool:
    """Return whether parsing may take more time or memory than the size of the page explains."""
    if len(html) < _SMALL_PAGE:
        return False
    tags = html.count(b"<")
    return (
        tags > _MAX_TAGS
        or _has_many_copies(html, tags)
        or (len(html) >= _ATTRIBUTE_BOMB and (_has_long_tag(html) or _QUOTED_TAG_END.search(html) is not None))
    )


def _has_many_copies(html: bytes, tags: int) -> bool:
    """Return whether formatting elements, reopened after each of the tags, may exceed the limit."""
    links = others = 0
    for tag in set(_FORMATTING_TAG.findall(html)):
        if not _SIMPLE_TAG.fullmatch(tag):
            return True
        if tag[1:2] in b"aA":
            links = max(links, len(tag))
        else:
            others += len(tag)
    return (links + _MAX_EQUAL * others) * tags > _MAX_COPIES + len(html)


def _has_long_tag(html: bytes) -> bool:
    """Return whether there is no `>` for so long that a tag may have too many attributes."""
    start = 0
    while len(html) - start > _MAX_TAG:
        end = html.rfind(b">", start, start + _MAX_TAG)
        if end < 0:
            return True
        start = end + 1
    return False


def _try_parsing(html: bytes) -> None:
    """Parse in a forked process with limits: a parse in this one could not be stopped."""

    def parse() -> None:
        try:
            # walks up from every element, like the descendant selectors of pipelines: deep pages exceed the limits here
            _parse(html).css_first("none *")
        except SelectolaxError as error:
            raise MemoryError from error

    if fault := try_in_fork(parse, "to parse"):
        raise PageTooComplex(f"its HTML {fault}")


def try_in_fork(work: Callable[[], object], what: str) -> str | None:
    """Do the work in a forked process with limits of CPU time and memory; return how it exceeded them, or ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            gc.disable()  # a destructor could close a connection of the parent
            _limit_process()
            work()
            status = 0
        except MemoryError:
            status = _OUT_OF_MEMORY
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGXCPU:
        return f"takes more than {_CPU_SECONDS} s {what}"
    if status == _OUT_OF_MEMORY:
        return f"takes more than {_MEMORY >> 20:,} MiB {what}"
    if status:
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"ended the process that tried it with {how}"
    return None


def _limit_process() -> None:
    """Limit this process to some more CPU time and memory than it has used; SIGXCPU or a failed allocation ends it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    _lower_limit(resource.RLIMIT_CPU, ceil(process_time()) + _CPU_SECONDS)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + _MEMORY)


def _lower_limit(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]  # one below it: at the hard limit of CPU time SIGKILL would come first
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard - 1), hard))
