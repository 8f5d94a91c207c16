"""Answers of other tools, in their own environment: `python -m bench.conformance.peers SUITE < questions.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.robotparser import RobotFileParser

import feedparser
import html5lib
import jsonpath
import jsonpath_ng.ext
import webencodings
from gpyrobotstxt.robots_cc import RobotsMatcher
from parsel import Selector
from price_parser import Price
from protego import Protego
from scrapy.http import HtmlResponse, XmlResponse

from bench.conformance.cache_peers import ask_cachecontrol, ask_scrapy_cache
from bench.conformance.feed_paths import FIELDS

Json = dict[str, Any]


def main() -> None:
    questions = json.load(sys.stdin)
    print(json.dumps({name: [_ask(answer, each) for each in questions] for name, answer in PEERS[sys.argv[1]].items()}))


def _ask(answer: Callable[[Json], Json], question: Json) -> Json:
    try:
        return answer(question)
    except Exception as error:  # a wrong answer: what it says does not matter
        return {"failed": type(error).__name__}


def read_end_by_html5lib(question: Json) -> Json:
    body = question["body"].encode("latin-1")
    parser = html5lib.HTMLParser()
    parser.parse(body, useChardet=False)
    return {"end": webencodings.decode(body, parser.documentEncoding or "")[0][-question["length"] :]}


def read_end_by_scrapy(question: Json) -> Json:
    response = HtmlResponse(
        "http://page.test/", headers={"Content-Type": "text/html"}, body=question["body"].encode("latin-1")
    )
    return {"end": response.text[-question["length"] :]}


def read_feed_by_feedparser(question: Json) -> Json:
    headers = {"content-type": question["content_type"], "content-location": question["url"]}
    feed = feedparser.parse(question["body"].encode("latin-1"), response_headers=headers)
    return {path: _find_in_feed(feed, path) for path in question["asked"]}


def _find_in_feed(feed: Any, path: str) -> object:
    if path == "bozo":
        return bool(feed.bozo)
    for name in path.split("."):
        feed = feed[int(name)] if name.isdigit() else feed[name]
    return feed


def read_feed_by_scrapy(question: Json) -> Json:
    headers = {"Content-Type": question["content_type"]}
    response = XmlResponse(question["url"], headers=headers, body=question["body"].encode("latin-1"))
    values = {path: _find_by_parsel(response, path) for path in question["asked"] if path != "bozo"}
    return {**values, **({"bozo": False} if "bozo" in question["asked"] else {})}  # it does not tell


def _find_by_parsel(response: XmlResponse, path: str) -> str | None:
    field = FIELDS[path]
    found = response.xpath(field.xpath)
    if not found:
        return None
    if field.is_link:
        return response.urljoin(found[0].attrib.get("href") or " ".join(found[0].xpath("string(.)").get("").split()))
    text = found[0].root if isinstance(found[0].root, str) else found[0].xpath("string(.)").get("")
    return " ".join(text.split())


def read_price(question: Json) -> Json:
    return {"amount": Price.fromstring(question["text"], question["currency"]).amount_float}


def ask_protego(question: Json) -> Json:
    rules = Protego.parse(question["robots"])
    if "url" in question:
        return {"allowed": rules.can_fetch(question["url"], question["agent"])}
    return {"delay": rules.crawl_delay(question["agent"]) or 0}


def ask_robotparser(question: Json) -> Json:
    """Ask Python's own, which is Scrapy's PythonRobotParser."""
    rules = RobotFileParser()
    rules.parse(question["robots"].splitlines())
    if "url" in question:
        return {"allowed": rules.can_fetch(question["agent"], question["url"])}
    return {"delay": float(rules.crawl_delay(question["agent"]) or 0)}


def ask_google(question: Json) -> Json:
    """Ask the port of Google's robots.txt parser, which knows no Crawl-delay."""
    matcher = RobotsMatcher()
    return {"allowed": matcher.one_agent_allowed_by_robots(question["robots"], question["agent"], question["url"])}


def find_by_jsonpath_ng(question: Json) -> Json:
    try:
        path = jsonpath_ng.ext.parse(question["selector"])
    except Exception:
        return {"refused": True}
    return {"found": [match.value for match in path.find(question["document"])]}


def find_by_python_jsonpath(question: Json) -> Json:
    try:
        path = jsonpath.compile(question["selector"])
    except jsonpath.JSONPathError:
        return {"refused": True}
    return {"found": path.findall(question["document"])}


@cache
def _parse_page(path: str) -> Selector:
    with open(path, encoding="utf-8", errors="replace") as file:
        return Selector(file.read())


def count_by_parsel(question: Json) -> Json:
    scopes = _parse_page(question["page"])
    return {
        "count": len((scopes.css(question["segments"]) if question["segments"] else scopes).css(question["selector"]))
    }


PEERS: dict[str, dict[str, Callable[[Json], Json]]] = {
    "encodings of HTML": {"html5lib": read_end_by_html5lib, "Scrapy": read_end_by_scrapy},
    "encodings of XML": {"feedparser": read_feed_by_feedparser, "Scrapy": read_feed_by_scrapy},
    "entities in feeds": {"feedparser": read_feed_by_feedparser, "Scrapy": read_feed_by_scrapy},
    "well-formed feeds": {"feedparser": read_feed_by_feedparser, "Scrapy": read_feed_by_scrapy},
    "ill-formed feeds": {"feedparser": read_feed_by_feedparser, "Scrapy": read_feed_by_scrapy},
    "prices": {"price-parser": read_price},
    "robots by Protego": {"Protego": ask_protego, "robotparser": ask_robotparser, "Google": ask_google},
    "robots by RFC 9309": {"Protego": ask_protego, "robotparser": ask_robotparser, "Google": ask_google},
    "JSONPath": {"jsonpath-ng": find_by_jsonpath_ng, "python-jsonpath": find_by_python_jsonpath},
    "selectors": {"parsel": count_by_parsel},
    "HTTP cache": {"Scrapy": ask_scrapy_cache, "CacheControl": ask_cachecontrol},
}

if __name__ == "__main__":
    main()
