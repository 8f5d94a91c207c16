"""The caches of Scrapy and of CacheControl (for requests) for the cases of http-cache-semantics."""

from __future__ import annotations

import io
from typing import Any

import requests
from cachecontrol.cache import DictCache
from cachecontrol.controller import CacheController
from scrapy.extensions.httpcache import RFC2616Policy
from scrapy.http import Request, Response
from scrapy.settings import Settings
from urllib3 import HTTPResponse

Json = dict[str, Any]


def ask_scrapy_cache(question: Json) -> Json:
    policy, what = RFC2616Policy(Settings()), question["what"]
    first, later = (Request(**question[each]) for each in ("request", "next"))
    headers = {name: str(value) for name, value in question["headers"].items()}
    response = Response(first.url, status=question["status"], headers=headers)
    is_stored = policy.should_cache_request(first) and policy.should_cache_response(response, first)
    if what == "stored":
        return {what: bool(is_stored)}
    if what in ("fresh", "used"):
        asked = first if what == "fresh" else later
        is_same = (first.url, first.method) == (asked.url, asked.method)  # its fingerprint
        return {what: bool(is_stored and is_same and policy.is_cached_response_fresh(response, asked))}
    policy._set_conditional_validators(later, response)
    name = "If-None-Match" if what == "etag" else "If-Modified-Since"
    is_same = (first.url, first.method) == (later.url, later.method)
    value = later.headers.get(name) if is_same else None
    return {what: value.decode() if value is not None else None}


def ask_cachecontrol(question: Json) -> Json:
    controller, what = CacheController(DictCache()), question["what"]
    first, later = (requests.Request(**question[each]).prepare() for each in ("request", "next"))
    headers = {name: str(value) for name, value in question["headers"].items()}
    body = io.BytesIO(b"x")
    response = HTTPResponse(body, headers, question["status"], preload_content=False, request_method=first.method)
    if first.method == "GET":
        controller.cache_response(first, response, body=b"x")
    key = controller.cache_url(first.url or "")
    if what == "stored":
        return {what: controller.cache.get(key) is not None}
    if what in ("fresh", "used"):
        asked = first if what == "fresh" else later
        return {what: asked.method == "GET" and bool(controller.cached_request(asked))}
    name = "If-None-Match" if what == "etag" else "If-Modified-Since"
    return {what: controller.conditional_headers(later).get(name) if later.method == "GET" else None}
