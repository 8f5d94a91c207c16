"""A server that speaks the search protocols of Google, Bing and SearXNG, on one address."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import Handler, serve

KEY = "search-key-of-the-tests"
ENGINE = "engine-1"
Json = dict[str, Any]


@dataclass
class SearchServer:
    """Results by query, each with link, title, snippet and image; statuses of the next answers; requests.

    Each answer takes `delay` seconds.
    """

    url: str = ""
    results: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict[str, Any])
    statuses: list[int] = field(default_factory=list[int])
    requests: list[str] = field(default_factory=list[str])
    delay: float = 0

    def get_variables(self, provider: str) -> dict[str, str]:
        """Return the environment variables of a credential."""
        if provider == "searxng":
            return {"SEARXNG_BASE_URL": self.url}
        prefix = f"{provider.upper()}_SEARCH"
        engine = {"GOOGLE_SEARCH_ENGINE_ID": ENGINE} if provider == "google" else {}
        return {f"{prefix}_API_KEY": KEY, f"{prefix}_BASE_URL": self.url, **engine}

    def answer(self, handler: Handler) -> tuple[int, Json]:
        address = urlsplit(handler.path)
        fields = {name: values[0] for name, values in parse_qs(address.query).items()}
        found, headers = self.results.get(fields.get("q", ""), []), handler.headers
        if address.path == "/customsearch/v1":
            if headers["X-Goog-Api-Key"] != KEY or fields.get("cx") != ENGINE:
                return 400, {"error": {"message": "API key not valid"}}
            start, count = int(fields["start"]) - 1, int(fields["num"])
            if count > 10 or start + count > 100:
                return 400, {"error": {"message": "Invalid value"}}
            return 200, {"items": [_make_google(each, "searchType" in fields) for each in found[start : start + count]]}
        if address.path in ("/v7.0/search", "/v7.0/images/search"):
            if headers["Ocp-Apim-Subscription-Key"] != KEY:
                return 401, {"error": {"message": "Access denied"}}
            start = int(fields["offset"])
            some = found[start : start + int(fields["count"])]
            if "images" in address.path:
                return 200, {"value": [{"hostPageUrl": a, "name": b, "contentUrl": d} for a, b, _, d in some]}
            return 200, {"webPages": {"value": [{"url": a, "name": b, "snippet": c} for a, b, c, _ in some]}}
        if address.path == "/search" and fields.get("format") == "json":
            start = (int(fields["pageno"]) - 1) * 10
            some = found[start : start + 10]
            images = fields["categories"] == "images"
            return 200, {
                "results": [
                    {"url": a, "title": b, "content": c, **({"img_src": d} if images else {})} for a, b, c, d in some
                ]
            }
        return 404, {}


def _make_google(result: tuple[str, str, str, str], images: bool) -> Json:
    link, title, snippet, image = result
    if images:
        return {"link": image, "title": title, "snippet": snippet, "image": {"contextLink": link}}
    return {"link": link, "title": title, "snippet": snippet}


@contextmanager
def serve_search() -> Generator[SearchServer]:
    """Serve the three protocols on a free port."""
    server = SearchServer()

    class SearchHandler(Handler):
        def do_GET(self) -> None:
            server.requests.append(self.path)
            time.sleep(server.delay)
            status, answer = (server.statuses.pop(0), {}) if server.statuses else server.answer(self)
            self.respond(status, json.dumps(answer), "application/json", Retry_After="0")

    with serve(SearchHandler) as server.url:
        yield server
