"""Generated crawls: pages of a small site with faults, and plans over it that need no Spark; equal for equal seeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.support.site import Site

ITEMS = 24
LISTS = 5
TRANSFORMS = {
    "declared": """
from typing import TypedDict

class Declared(TypedDict):
    size: int
    name: str | None
    tags: list[str]

def declared(row) -> Declared:
    name = row.get("name") or row.get("title")
    if name and name.endswith("7"):
        raise ValueError("seven")
    return {"size": len(name or ""), "name": name, "tags": (name or "").split()}
""",
    "inferred": """
def inferred(row):
    title = row.get("title") or row.get("name")
    if title and title.endswith("5"):
        return None
    return {"title": title, "size": len(title or ""), "half": len(title or "") / 2}
""",
}


def fill_site(site: Site, random: Random) -> str:
    """Serve pages with failures, redirects, repeated links, encodings and pagination; return the site's URL."""
    base = site.serve({})
    for number in range(LISTS):
        site.pages[f"/list/{number}"] = "".join(_build_list(number, random))
    site.pages["/"] = "".join(_build_list(0, random)) + "<h1>Front</h1>"
    for number in range(ITEMS):
        site.pages[f"/item/{number}"] = _build_item(number, random)
    for number in random.sample(range(ITEMS), 4):
        site.pages[f"/item/{number}"] = random.choice((404, 410, 403, 500))
    for number in random.sample(range(ITEMS), 3):
        site.redirects[f"/item/{number}"] = f"/item/{random.randrange(ITEMS)}"
    text = "<meta charset=windows-1252><h1>Caf\u00e9 \u20ac</h1><p class=price>\u20ac 3,50</p>"
    site.pages["/item/2"] = f"{text}<a class=rel href=/item/1>\u00fc</a>".encode("windows-1252")
    site.redirects.pop("/item/2", None)
    for path, target in [*site.redirects.items()]:  # of a circle, the time decides which address is the last
        if target in site.redirects:
            del site.redirects[path]
    for number in range(4):
        following = f', "next": "{base}/api?page={number + 1}"' if number < 3 else ""
        site.pages[f"/api?page={number}"] = f'{{"items": [{{"name": "n{number}"}}, {{"name": null}}]{following}}}'
        site.types[f"/api?page={number}"] = "application/json"
    places = [f"/item/{random.randrange(ITEMS + 2)}" for _ in range(8)]
    site.pages["/sitemap.xml"] = f"<urlset>{''.join(f'<url><loc>{base}{each}</loc></url>' for each in places)}</urlset>"
    return base


def _build_list(number: int, random: Random) -> Iterator[str]:
    yield f"<h1>List {number}</h1>"
    for _ in range(random.randrange(5)):
        item = random.randrange(ITEMS + 2)
        yield f"<li class=product><a href='/item/{item}#{random.randrange(2)}'>Item {item}</a><b>{item % 3}</b></li>"
    for following in {number + 1, random.randrange(LISTS)}:
        yield f"<a class=next href='/list/{following}'>next</a>"


def _build_item(number: int, random: Random) -> str:
    title = f"<h1>Item {number}</h1>" if random.random() < 0.9 else ""
    links = "".join(
        f"<a class=rel href=/item/{random.randrange(ITEMS)}>r{number}</a>" for _ in range(random.randrange(4))
    )
    return f"{title}<p class=price>\u20ac {number},{random.randrange(100):02}</p>{links}"


def generate_text(base: str, folder: str, random: Random) -> str:
    """Return a pipeline whose stages one process can run; its lookups read a file of marks in the folder."""
    names = [f"{prefix}{number}" for number in range(0, ITEMS, 2) for prefix in ("Item ", f"{base}/item/", "List ")]
    marks = "".join(f"{name},{number}\n" for number, name in enumerate(names))
    Path(folder, "marks.csv").write_text(f"name,mark\n{marks}")
    return "\n".join(_Text(base, folder, random).build())


class _Text:
    def __init__(self, base: str, folder: str, random: Random) -> None:
        self._base = base
        self._folder = folder
        self._random = random
        self._has_page = True
        self._open = False
        self._names: list[str] = []
        self._explores = 0
        self._lookups = 0

    def build(self) -> list[str]:
        lines = self._begin()
        for _ in range(self._random.randint(2, 6)):
            lines.append(self._add_stage())
        return [*lines, *self._add_options()]

    def _begin(self) -> list[str]:
        match self._random.randrange(6):
            case 0 | 1:
                return [f"fetch: {{url: '{self._base}/'}}", "pipeline:"]
            case 2:
                path = self._random.choice(["/list/0", "/list/1", "/item/1"])
                return ["pipeline:", f"- {{stage: wget, args: ['{self._base}{path}']}}"]
            case 3:
                self._has_page = True
                return ["pipeline:", f"- {{stage: sitemap, args: ['{self._base}/sitemap.xml']}}"]
            case 4:
                next_page = "paginate: {next: $.next}"
                return ["pipeline:", f"- {{stage: wget, args: ['{self._base}/api?page=0', {{{next_page}}}]}}"]
            case _:
                self._open = True
                return ["pipeline:", f"- {{stage: load_csv, args: ['{self._folder}/seeds.csv']}}", self._wget("$page")]

    def _wget(self, address: str) -> str:
        self._has_page = True
        return f"- {{stage: wget, args: [{address}]}}"

    def _add_stage(self) -> str:
        random = self._random
        if not self._has_page and random.random() < 0.5:
            return self._wget("$_requestedUrl")
        row = ["dedup", "limit", "echo", "declared", "inferred", "filter", "lookup"]
        kind = random.choice(row if not self._has_page else ["explore", "join", "flat", "extract", "extract"] * 2 + row)
        return getattr(self, f"_add_{kind}")()

    def _add_explore(self) -> str:
        self._explores += 1
        if self._explores > 2:
            return self._add_extract()
        selector, depth = self._random.choice(["a.next", "a.rel"]), self._random.randint(0, 4)
        return f"- {{stage: wgetExplore, args: [{selector}, {depth}]}}"

    def _add_join(self) -> str:
        selector = self._random.choice(["li.product a", "a.rel", "a"])
        return f"- {{stage: wgetJoin, args: ['{selector}', {self._random.choice(['Inner', 'LeftOuter'])}]}}"

    def _add_flat(self) -> str:
        self._names.append("name")
        return "- {stage: flatSelect, args: [li.product, {selector: a, as: name}, {selector: b, as: kind}]}"

    def _add_extract(self) -> str:
        self._names.append("title")
        more = ", {selector: .price, method: price}, {selector: a.rel, all: true, as: links}"
        return f"- {{stage: extract, args: [{{selector: h1, as: title}}{self._random.choice(['', more])}]}}"

    def _add_declared(self) -> str:
        self._names, self._open, self._has_page = ["name"], False, False
        return "- {stage: 'python_row_transform:declared'}"

    def _add_inferred(self) -> str:
        self._names, self._open, self._has_page = [], True, False
        return "- {stage: 'python_row_transform:inferred'}"

    def _add_dedup(self) -> str:
        self._has_page = False
        keys = self._random.choice(["", "_requestedUrl", *self._names]) if not self._open else ""
        return f"- {{stage: dedup, args: [{keys}]}}"

    def _add_limit(self) -> str:
        self._has_page = False
        return f"- {{stage: limit, args: [{self._random.choice([1, 2, 3, 5, 8, 30])}]}}"

    def _add_lookup(self) -> str:
        self._has_page = False
        self._lookups += 1
        key = self._random.choice(["_requestedUrl", *self._names]) if not self._open else "_requestedUrl"
        arguments = f"{{on: {{{key}: name}}, columns: [mark], prefix: l{self._lookups}_}}"
        return f"- {{stage: lookup, args: ['{self._folder}/marks.csv', {arguments}]}}"

    def _add_echo(self) -> str:
        self._has_page = False
        return f"- {{stage: echo, args: [{self._random.choice([1, 5, 30])}]}}"

    def _add_filter(self) -> str:
        if self._open:
            return self._add_dedup()
        self._has_page = False
        self._explores = 2  # none after a filter, whose rows Spark does not count then
        name = self._random.choice(["_status", "_requestedUrl", *self._names])
        given = f"{name} IS NULL OR {name} > 'Item 2'" if name != "_status" else "_status IS NOT NULL"
        return f'- {{stage: filter, args: ["{given}"]}}'

    def _add_options(self) -> list[str]:
        random = self._random
        kept = random.sample(["_requestedUrl", "_error", "_status", "_linkText", "_depth"], random.randrange(4))
        ratio = random.choice([1, 1, 1, 0.2])
        options = [f"keepColumns: [{', '.join(['_url', *kept])}]", f"maxFailureRatio: {ratio}"]
        if random.random() < 0.3:
            options.append(f"maxPages: {random.randint(1, 6)}")
        if random.random() < 0.2:
            options.append("session: true")
        return [f"spindle: {{{', '.join(options)}}}"]
