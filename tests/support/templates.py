"""Generated pages of ten templates with their true values, for inference; some describe themselves, some do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.contract.questions import Question
from pipelines.inference.questions import Sample
from tests.support.pages import document

HOST = "shop.test"
_NAMES = ("Kettle", "Lamp", "Chair", "Mirror", "Basket", "Candle", "Pillow", "Ladder", "Clock", "Drawer", "Easel")
Values = Mapping[str, str]
Make = Callable[[Values], str]


@dataclass(frozen=True)
class GeneratedPage:
    """A page of a template with its true values."""

    url: str
    html: str
    values: Values

    @property
    def path(self) -> str:
        """The path of the page's address."""
        return self.url.removeprefix(f"http://{HOST}")

    def make_sample(self, metadata: Mapping[str, str] | None = None) -> Sample:
        """Return the page as a sample of inference."""
        return Sample(self.url, document(self.html, self.url).root, metadata or {})


def make_values(number: int) -> Values:
    """Return the true values of one page; no two pages share one."""
    name = _NAMES[number % len(_NAMES)]
    return {
        "title": f"{name} no. {number + 1}",
        "price": f"£{number * 7 + 12}.{(number * 13) % 90 + 10}",
        "rating": f"{number % 4 + 1}.{number % 9 + 1} stars",
    }


def make_pages(template: str, count: int, start: int = 0) -> list[GeneratedPage]:
    """Return pages of a template."""
    pages: list[GeneratedPage] = []
    for number in range(start, start + count):
        values = make_values(number)
        pages.append(GeneratedPage(f"http://{HOST}/{template}/{number}", TEMPLATES[template](values), values))
    return pages


def ask_for_all() -> Question:
    """Return the question for all fields of the templates."""
    return Question("title as title and price as price and rating as rating", ("title", "price", "rating"))


def get_truth(*pages: GeneratedPage) -> dict[str, Mapping[str, str | None]]:
    """Return the true values of pages by a text that each alone contains."""
    return {page.values["title"]: dict(page.values) for page in pages}


def _wrap(body: str, head: str = "") -> str:
    menu = "".join(f"<li><a href=/c/{n}>Category {n}</a></li>" for n in range(12))
    return (
        f"<html><head><title>Shop</title>{head}</head><body><header><nav><ul>{menu}</ul></nav></header>"
        f"{body}<footer><p>About us</p></footer></body></html>"
    )


def _classes(v: Values) -> str:
    return _wrap(
        f'<div class="product"><h1 class="product_name">{v["title"]}</h1><div class="box"><span class="price">'
        f'{v["price"]}</span></div><span class="rating">{v["rating"]}</span><p class="old">£999.00</p></div>'
    )


def _microdata(v: Values) -> str:
    return _wrap(
        f'<main itemscope itemtype="https://schema.org/Product"><h2 itemprop="name">{v["title"]}</h2><div><b '
        f'itemprop="price">{v["price"]}</b></div><i itemprop="ratingValue">{v["rating"]}</i></main>'
    )


def _json_ld(v: Values) -> str:
    data = {"@type": "Product", "name": v["title"], "offers": {"price": v["price"]}}
    head = f'<script type="application/ld+json">{json.dumps(data)}</script>'
    body = f'<section id="item"><h1>{v["title"]}</h1><em class="amount">{v["price"]}</em><u>{v["rating"]}</u></section>'
    return _wrap(body, head)


def _table(v: Values) -> str:
    rows = "".join(
        f"<tr><th>{label}</th><td>{value}</td></tr>"
        for label, value in (
            ("Title", v["title"]),
            ("Stock", "3 pieces"),
            ("Price", v["price"]),
            ("Rating", v["rating"]),
        )
    )
    return _wrap(f"<article><table><tbody>{rows}</tbody></table></article>")


def _definitions(v: Values) -> str:
    return _wrap(
        f"<dl><dt>Name</dt><dd>{v['title']}</dd><dt>Price</dt><dd>{v['price']}</dd><dt>Rating</dt>"
        f"<dd>{v['rating']}</dd></dl>"
    )


def _labels(v: Values) -> str:
    return _wrap(
        f'<div><h1>{v["title"]}</h1><p class="line">Price: {v["price"]}</p>'
        f'<p class="note">Rating: {v["rating"]}</p></div>'
    )


def _data_attributes(v: Values) -> str:
    return _wrap(
        f'<div class="css-1q2w3e"><div data-testid="product-title" class="css-99aa1">{v["title"]}</div><div '
        f'data-testid="price" class="css-77bb2">{v["price"]}</div><div data-testid="rating">{v["rating"]}</div></div>'
    )


def _ids(v: Values) -> str:
    return _wrap(
        f'<div id="detail"><h3 id="title">{v["title"]}</h3><div id="price"><span>{v["price"]}</span></div><div '
        f'id="rating">{v["rating"]}</div></div><aside><h3>Others</h3><span>£1.00</span></aside>'
    )


def _article(v: Values) -> str:
    return _wrap(
        f'<article><header><h1 class="entry-title">{v["title"]}</h1></header><p class="teaser">From <b class="price">'
        f'{v["price"]}</b> on.</p><blockquote class="rating">{v["rating"]}</blockquote><p>Long text.</p></article>'
    )


def _optional(v: Values) -> str:
    number = int(v["title"].rpartition(" ")[2])
    sale = '<p class="badge">Sale</p>' if number % 3 == 0 else ""
    return _wrap(
        f'<section>{sale}<h2 class="heading">{v["title"]}</h2><div class="cost price-now">{v["price"]}</div><div '
        f'class="stars rating-box">{v["rating"]}</div></section>'
    )


TEMPLATES: dict[str, Make] = {
    "classes": _classes,
    "microdata": _microdata,
    "json-ld": _json_ld,
    "table": _table,
    "definitions": _definitions,
    "labels": _labels,
    "data-attributes": _data_attributes,
    "ids": _ids,
    "article": _article,
    "optional": _optional,
}


def make_listing(*pages: GeneratedPage) -> str:
    """Return a page with a link to each of the pages."""
    links = "".join(f'<li><a href="{page.path}">{page.values["title"]}</a></li>' for page in pages)
    return f"<html><body><ul class=list>{links}</ul></body></html>"


def write_labelled_pages(path: Path, pages: int) -> None:
    """Write pages of every template with their true values, as `spindle eval` reads them."""
    made = (page for at, name in enumerate(TEMPLATES) for page in make_pages(name, pages, at * pages))
    lines = ({"url": page.url, "html": page.html, "values": dict(page.values)} for page in made)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
