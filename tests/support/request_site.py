"""A site that answers with what it was asked, knows a login, and pages by a cursor."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.servers import Handler, serve


@dataclass(frozen=True)
class Received:
    """A request as it arrived, with lower-case header names."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str


@dataclass
class RequestSite:
    """Records all requests but those for robots.txt.

    `/login` sets a cookie and redirects a form with the right password to `/`, which links to `/m1` to `/m4`: pages for
    members. `/csrf` sets a cookie and has a form with a token, which logs in like `/login`, or says that the password
    is wrong; `/account` greets members, and links to the same pages. `/to?URL` redirects with status 307, `/next?URL`
    links there, `/502` answers with that status. `/do` answers as its query says: with a `status`, a `body`, a
    `cookie`, a `refresh`, or a redirect `to` an address or to `self`. `/api` has five items, two per page, behind a
    cursor. So has `/items`, by `offset`, `page[number]` or a cursor in the variables of its body; behind its last page
    it answers with that again.
    """

    url: str
    requests: list[Received] = field(default_factory=list[Received])

    def answer(self, handler: Handler) -> None:
        body, path = handler.read_body().decode(), handler.path
        if path == "/robots.txt":
            handler.respond(404)
            return
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append(Received(handler.command, path, headers, body))
        query = urlsplit(path).query
        if path.startswith("/50"):
            handler.respond(int(path[1:4]))
        elif path.startswith("/do"):
            asked = {name: values[0] for name, values in parse_qs(query).items()}
            names = {"cookie": "Set_Cookie", "to": "Location", "refresh": "Refresh"}
            sent = {names[name]: path if value == "self" else value for name, value in asked.items() if name in names}
            status = int(asked.get("status", 302 if "to" in asked else 200))
            cookie = headers.get("cookie", "no cookie")
            handler.respond(status, asked.get("body", f"<h1>{handler.command} {body} {cookie}</h1>"), **sent)
        elif path.startswith("/to?"):
            handler.respond(307, Location=query)
        elif path.startswith("/next?"):
            handler.respond(200, f"<a class=next href={query}>next</a>")
        elif path == "/login" and handler.command == "GET":
            handler.respond(200, "<form method=post action=/login><input name=password><button>in</button></form>")
        elif path == "/login" and parse_qs(body).get("password") == ["$ecret"]:
            handler.respond(302, Location="/", Set_Cookie="member=yes; Path=/; HttpOnly")
        elif path == "/csrf" and handler.command == "GET":
            form = "<form method=post><input name=token value=t-1><input name=password></form>"
            handler.respond(200, form, Set_Cookie="visitor=1; Path=/")
        elif path == "/csrf":
            known = "visitor=1" in headers.get("cookie", "") and parse_qs(body).get("token") == ["t-1"]
            if known and parse_qs(body).get("password") == ["$ecret"]:
                handler.respond(302, Location="/account", Set_Cookie="member=yes; Path=/; HttpOnly")
            else:
                handler.respond(200 if known else 403, "<h2>wrong password</h2>")
        elif path == "/sitemap.xml":
            handler.respond(200, f"<urlset><url><loc>{self.url}/m1</loc></url></urlset>", "text/xml")
        elif path == "/account":
            is_member = "member=yes" in headers.get("cookie", "")
            links = "".join(f"<a class=order href=/m{number}>{number}</a>" for number in range(1, 5))
            handler.respond(200, f"<h1 class=name>Ann</h1>{links}" if is_member else "<h2>please log in</h2>")
        elif path.startswith("/m"):
            handler.respond(200 if "member=yes" in headers.get("cookie", "") else 403, f"<h1>{path}</h1>")
        elif path.startswith("/items"):
            asked = {name: values[0] for name, values in parse_qs(query).items()}
            sent = json.loads(body or "{}").get("variables", {})
            start = int(sent.get("after") or asked.get("offset") or (int(asked.get("page[number]", 1)) - 1) * 2)
            start = min(start, 4)
            more = {"Link": f'</items?offset={start + 2}>; title="a, b"; rel="last next"'} if start < 4 else {}
            answer = {"items": [{"n": n} for n in range(start, min(start + 2, 5))], "total": "5"}
            answer |= {"cursor": str(min(start + 2, 4))}
            handler.respond(200, json.dumps(answer), "application/json", **more)
        elif path.startswith("/api"):
            after = int(parse_qs(query).get("after", [json.loads(body or "{}").get("after", 0)])[0])
            items = [{"n": number} for number in range(after, min(after + 2, 5))]
            more = {"cursor": after + 2, "next": f"/api?after={after + 2}"} if after + 2 < 5 else {"cursor": None}
            handler.respond(200, json.dumps({"items": items, **more}), "application/json")
        else:
            links = "".join(f"<a href=/m{number}>{number}</a>" for number in range(1, 5))
            handler.respond(200, f"<h1>{handler.command} {path} {body}</h1>{links}")

    def take_sent(self) -> list[tuple[str, str]]:
        """Return the method and path of each request since the last call."""
        sent = [(each.method, each.path) for each in self.requests]
        self.requests.clear()
        return sent

    def get_received(self, path: str) -> Received:
        """Return the only request for a path."""
        (found,) = [each for each in self.requests if each.path == path]
        return found


def build_do(url: str, name: str, **answer: str) -> str:
    """Return an address of a RequestSite that answers like this."""
    return f"{url}/do/{name}?{urlencode(answer)}"


@contextmanager
def serve_requests() -> Generator[RequestSite]:
    class RequestHandler(Handler):
        def do_GET(self) -> None:
            site.answer(self)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    with serve(RequestHandler) as url:
        site = RequestSite(url)
        yield site
