"""Static sites to crawl: a catalog whose first page links to all others, a shop, a graph, a chain of pages."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.nginx import run_nginx

TEMPLATES = 64
BRANCHES = 6
WORDS = "amber birch cedar delta ember frost grove heath inlet jade kelp larch moss north ochre pine"
PAGE = """\
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Item {number}</title></head><body>
<nav><ul><li><a href="/">Home</a></li></ul></nav>
<h1>Item {number}</h1><p class="price">€ {number},50</p><table><tr><td class="brand">Brand {brand}</td></tr></table>
<p class="summary">Summary of item {number}.</p><span class="stock">In stock</span><ul>{links}</ul>
<div class="text">{text}</div></body></html>
"""


@contextmanager
def serve_catalog(pages: int, size: int, cores: str = "0", address: str = "127.0.0.1") -> Generator[str]:
    """Serve a seed with links to `pages` URLs, answered with 64 files of `size` bytes by nginx on `cores`."""
    with TemporaryDirectory() as folder:
        root = _make_readable(folder)
        for number in range(TEMPLATES):
            (root / f"{number}.html").write_text(build_page(number, size))
        links = "\n".join(
            f'<li class="item"><a href="page/{n}/{n % TEMPLATES}.html">{n}</a></li>' for n in range(pages)
        )
        (root / "index.html").write_text(f"<!doctype html><h1>All</h1><ul>{links}</ul>")
        with run_nginx(root, "rewrite ^/page/[0-9]+/([0-9]+.html)$ /$1 last;", cores, address) as site:
            yield f"{site}/index.html"


@contextmanager
def serve_shop(pages: int, size: int, listed: int = 100) -> Generator[str]:
    """Serve `pages` products of `size` bytes, and lists of `listed` products with a link to the next list."""
    with TemporaryDirectory() as folder:
        root = _make_readable(folder)
        for number in range(TEMPLATES):
            (root / f"{number}.html").write_text(build_page(number, size))
        for first in range(0, pages, listed):
            products = range(first, min(first + listed, pages))
            links = "\n".join(
                f'<li class="item"><a href="page/{n}/{n % TEMPLATES}.html">{n}</a></li>' for n in products
            )
            more = f'<a class="next" href="list{first + listed}.html">Next</a>' if first + listed < pages else ""
            (root / f"list{first}.html").write_text(f"<!doctype html><h1>Products</h1><ul>{links}</ul>{more}")
        with run_nginx(root, "rewrite ^/page/[0-9]+/([0-9]+.html)$ /$1 last;") as site:
            yield f"{site}/list0.html"


@contextmanager
def serve_graph(pages: int, size: int = 3_000, links: int = 10) -> Generator[str]:
    """Serve `pages` files with `links` links each: six to children in a tree, the others to random pages."""
    with TemporaryDirectory() as folder:
        root = _make_readable(folder)
        for number in range(pages):
            others = [
                *range(6 * number + 1, 6 * number + 7),
                *(number * 7919 + step * 104729 for step in range(1, links - 5)),
            ]
            (root / f"{number}.html").write_text(build_page(number, size, {other % pages for other in others}))
        with run_nginx(root) as site:
            yield f"{site}/0.html"


@contextmanager
def serve_tree(pages: int) -> Generator[str]:
    """Serve about `pages` pages with ten links each, which nginx makes from their addresses, without files."""
    rules = (f"location ~ \"{path}\" {{ return 200 '{page}'; }}" for path, page in build_tree(pages).items())
    with (
        TemporaryDirectory() as folder,
        run_nginx(_make_readable(folder), "\n".join(("default_type text/html;", *rules))) as site,
    ):
        yield f"{site}/p"


def build_tree(pages: int, size: int = 1_000) -> dict[str, str]:
    """Return pages by the pattern of their paths, whose groups stand as $1 to $4 in them.

    The path is a row of digits. An inner page links to six children, which have one digit more, and to pages with fewer
    digits; a leaf links to the latter alone.
    """
    depth, parents = _plan_tree(pages)
    children = [f"$1$2$3$4{digit}" for digit in range(BRANCHES)]
    others = ["$2$3$4", "$1$3$4", "$1$2$4", "$3$4", "$1$4", "$2$4", "$1$2", "$1$3", "$2$3", "$1"]
    digit = f"([0-{BRANCHES - 1}])"
    links = {
        f"^/p{digit}?{digit}?{digit}?()$": children,
        f"^/p{digit}{digit}{digit}({digit}{{1,{depth - 4}}})$": [*children, *others[:4]],
        f"^/p(?={'|'.join(parents) or '$'}){digit}{digit}{digit}({digit}{{{depth - 3}}})$": [*children, *others[:4]],
        f"^/p{digit}{digit}{digit}({digit}+)$": others,
    }
    return {path: _build_linked(targets, size) for path, targets in links.items()}


def _plan_tree(pages: int) -> tuple[int, list[str]]:
    """Return the number of digits up to which there are all pages, and the first three digits of the last parents."""
    depth, whole = 5, sum(BRANCHES**digits for digits in range(6))
    while whole + BRANCHES ** (depth + 1) <= pages:
        depth += 1
        whole += BRANCHES**depth
    share = round((pages - whole) / BRANCHES ** (depth + 1) * BRANCHES**3)
    numbers = range(max(share, 0))
    return depth, [f"{each // BRANCHES**2}{each // BRANCHES % BRANCHES}{each % BRANCHES}" for each in numbers]


def _build_linked(targets: Iterable[str], size: int) -> str:
    links = "".join(f'<li class="item"><a href="/p{each}">{each}</a></li>' for each in targets)
    bare = PAGE.format(number="$1$2$3$4", brand="$1", links=links, text="")
    text = build_text(1, max(size - len(bare), 0))
    return " ".join(PAGE.format(number="$1$2$3$4", brand="$1", links=links, text=text).split())


@contextmanager
def serve_chain(pages: int, size: int = 6_000) -> Generator[str]:
    """Serve `pages` files with a link from one to the next."""
    with TemporaryDirectory() as folder:
        root = _make_readable(folder)
        for number in range(pages):
            following = f'<p><a class="next" href="{number + 1}.html">Next</a></p>' if number + 1 < pages else ""
            (root / f"{number}.html").write_text(build_page(number, size).replace("</body>", f"{following}</body>"))
        with run_nginx(root) as site:
            yield f"{site}/0.html"


def _make_readable(folder: str) -> Path:
    """Return the folder after opening it to nginx's user."""
    Path(folder).chmod(0o755)
    return Path(folder)


def build_page(number: int, size: int, linked: Iterable[int] = ()) -> str:
    """Return a page of about `size` bytes with a usual mix of markup and text."""
    links = "".join(f'<li class="item"><a href="{each}.html">Item {each}</a></li>' for each in sorted(linked))
    bare = PAGE.format(number=number, brand=number % 7, links=links, text="")
    return PAGE.format(number=number, brand=number % 7, links=links, text=build_text(number, max(size - len(bare), 0)))


def build_text(number: int, size: int) -> str:
    """Return `size` bytes of paragraphs, lists and unrelated links."""
    words, parts, length = WORDS.split(), list[str](), 0
    while length < size:
        turn = number + len(parts)
        text = " ".join(words[(turn * 5 + step * 3) % len(words)] for step in range(30))
        part = f'<p id="p{len(parts)}">{text} <a href="#p{turn % 9}">{turn}</a> <b class="mark">{text[:40]}</b></p>\n'
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size].rpartition("\n")[0]
