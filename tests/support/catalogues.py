"""Generated pages of ten templates of shops, jobs, events and homes: columns of few values, sparse ones, magnitudes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = dict[str, str]
Draw = Callable[[random.Random], str | None]
Change = Callable[[str, str], str]  # the HTML of a page and the name of a field → changed HTML

_FIRST = ("Oak", "Blue", "North", "Swift", "Amber", "Quiet", "Stone", "Bright", "Old", "Silver", "Wild", "Royal")
_LAST = ("Kettle", "Lamp", "Chair", "Mirror", "Basket", "Clock", "Drawer", "Ladder", "Pillow", "Easel", "Candle")


@dataclass(frozen=True)
class CataloguePage:
    """A page of a catalogue with its true values; columns that it lacks are None."""

    path: str
    html: str
    values: Mapping[str, str | None]


@dataclass(frozen=True)
class Catalogue:
    """A template: how its columns are drawn, and its markup."""

    columns: Mapping[str, Draw]
    layout: Callable[[Values], str]
    few: str  # a column of few values
    number: str  # a column of numbers on each page

    def draw(self, name: str, count: int, seed: int, first: int = 0) -> list[CataloguePage]:
        """Draw pages; one of a number is the same for all calls with one seed."""
        pages: list[CataloguePage] = []
        for number in range(first, first + count):
            rng = random.Random(f"{seed}-{name}-{number}")
            title = f"{rng.choice(_FIRST)} {rng.choice(_LAST)} {number + 1000}"
            drawn = {"title": title} | {column: draw(rng) for column, draw in self.columns.items()}
            filled = {column: value for column, value in drawn.items() if value is not None}
            body = self.layout(filled)
            menu = "".join(f"<li><a href=/c/{n}>Section {n}</a></li>" for n in range(8))
            html = f"<html><head><title>Site</title></head><body><nav><ul>{menu}</ul></nav>{body}</body></html>"
            pages.append(CataloguePage(f"/{name}/{number}", html, drawn))
        return pages


def few(count: int, prefix: str, skew: float = 1.0) -> Draw:
    """Return a column of few values, the first of which are frequent."""
    names = [f"{prefix} {_FIRST[n % 12]}{'' if n < 12 else n}" for n in range(count)]
    weights = [1 / (n + 1) ** skew for n in range(count)]
    return lambda rng: rng.choices(names, weights)[0]


def sparse(share: float, draw: Draw) -> Draw:
    """Return a column that a share of the pages has."""
    return lambda rng: draw(rng) if rng.random() < share else None


def amount(middle: float, spread: float, sign: str = "€") -> Draw:
    """Return a column of prices around a middle, spread by a factor."""
    return lambda rng: f"{sign}{middle * spread ** rng.gauss(0, 0.5):,.2f}"


def between(low: int, high: int, unit: str = "") -> Draw:
    """Return a column of whole numbers."""
    return lambda rng: f"{rng.randint(low, high)}{unit}"


def _lay_out_classes(values: Values) -> str:
    parts = (f'<div class="{name}">{value}</div>' for name, value in values.items() if name != "title")
    return f'<article><h1 class="title">{values["title"]}</h1>{"".join(parts)}</article>'


def _lay_out_terms(values: Values) -> str:
    terms = (
        f'<dt>{name.title()}</dt><dd class="{name}">{value}</dd>' for name, value in values.items() if name != "title"
    )
    return f'<section><h2 class="title">{values["title"]}</h2><dl>{"".join(terms)}</dl></section>'


def _lay_out_rows(values: Values) -> str:
    rows = (
        f'<tr><th>{name.title()}</th><td class="{name}">{value}</td></tr>'
        for name, value in values.items()
        if name != "title"
    )
    return f'<main><h1 class="title">{values["title"]}</h1><table><tbody>{"".join(rows)}</tbody></table></main>'


def _lay_out_properties(values: Values) -> str:
    parts = (f'<p><b data-field="{name}" class="{name}">{value}</b></p>' for name, value in values.items())
    return f"<main>{''.join(parts)}</main>"


CATALOGUES: dict[str, Catalogue] = {
    "shop": Catalogue(
        {"brand": few(6, "Brand"), "price": amount(60, 3), "sale": sparse(0.1, amount(20, 2)), "stock": few(2, "is")},
        _lay_out_classes,
        "brand",
        "price",
    ),
    "fashion": Catalogue(
        {
            "brand": few(20, "House"),
            "color": few(8, "Color"),
            "price": amount(80, 4),
            "rating": between(1, 5, " stars"),
        },
        _lay_out_terms,
        "brand",
        "price",
    ),
    "books": Catalogue(
        {
            "author": few(150, "By", 0.3),
            "price": amount(18, 2),
            "pages": between(80, 900),
            "series": sparse(0.5, few(9, "S")),
        },
        _lay_out_rows,
        "series",
        "price",
    ),
    "parts": Catalogue(
        {"category": few(12, "Cat"), "price": amount(9, 6), "weight": between(1, 4000, " g")},
        _lay_out_properties,
        "category",
        "price",
    ),
    "jobs": Catalogue(
        {
            "company": few(15, "Firm"),
            "location": few(10, "In"),
            "salary": amount(52000, 2),
            "bonus": sparse(0.35, amount(900, 2)),
        },
        _lay_out_classes,
        "company",
        "salary",
    ),
    "posts": Catalogue(
        {"company": few(90, "Inc", 0.5), "contract": few(3, "Kind"), "hours": between(8, 4000, " h")},
        _lay_out_terms,
        "contract",
        "hours",
    ),
    "events": Catalogue(
        {
            "venue": few(8, "Hall"),
            "date": lambda rng: f"2027-0{rng.randint(1, 9)}-{rng.randint(10, 28)}",
            "price": amount(35, 3),
            "guide": sparse(0.6, few(4, "G")),
        },
        _lay_out_rows,
        "venue",
        "price",
    ),
    "talks": Catalogue(
        {"city": few(5, "City"), "seats": between(20, 900), "speaker": sparse(0.25, few(60, "Dr", 0.2))},
        _lay_out_classes,
        "city",
        "seats",
    ),
    "homes": Catalogue(
        {
            "price": amount(310_000, 3),
            "rooms": between(1, 7),
            "area": between(28, 240, " m2"),
            "garage": sparse(0.08, between(1, 2)),
        },
        _lay_out_terms,
        "rooms",
        "price",
    ),
    "rents": Catalogue(
        {"rent": amount(900, 2.5), "district": few(10, "Quarter"), "pets": sparse(0.75, few(2, "Pets"))},
        _lay_out_properties,
        "district",
        "rent",
    ),
}


def _find_element(html: str, field: str) -> tuple[int, int, int] | None:
    """Return where the element of a field begins, where its text begins and where it ends."""
    marked = html.find(f'class="{field}"')
    if marked < 0:
        return None
    text = html.index(">", marked) + 1
    return html.rindex("<", 0, marked), text, html.index("</", text)


def _set_text(html: str, field: str, make: Callable[[str], str]) -> str:
    found = _find_element(html, field)
    return html[: found[1]] + make(html[found[1] : found[2]]) + html[found[2] :] if found else html


def _rename(html: str, field: str) -> str:
    html = html.replace(f'class="{field}"', 'class="x9"').replace(f'data-field="{field}"', "")
    return html.replace(f"<dt>{field.title()}</dt>", "<dt>Detail</dt>").replace(
        f"<th>{field.title()}</th>", "<th>Detail</th>"
    )


def _remove(html: str, field: str) -> str:
    return _set_text(html, field, lambda _: "")


def _take_name(html: str, field: str) -> str:
    """Give the class of the field to another element in front of it."""
    other = f'<i class="{field}" data-field="{field}">4.90</i>'
    found = _find_element(html, field)
    if found is None:
        return html
    return _rename(html, field).replace("</nav>", f"</nav>{other}", 1)


def _move(html: str, field: str) -> str:
    """Put the price before in front of the price, in its place."""

    def add_earlier(text: str) -> str:
        number = "".join(each for each in text if each.isdigit() or each == ".")
        return f"<s>€{float(number or 1) * 1.3:,.2f}</s>"

    found = _find_element(html, field)
    if found is None:
        return html
    _, text, end = found
    value = html[text:end]
    return f"{html[:text]}{add_earlier(value)}{html[end:]}".replace("</nav>", f"</nav><em>{value}</em>", 1)


def _scale(html: str, field: str) -> str:
    def scale(text: str) -> str:
        digits = "".join(each for each in text if each.isdigit())
        return f"{int(digits or 1) * 100}"

    return _set_text(html, field, scale)


def _swap(html: str, field: str) -> str:
    names = ("Seller one", "Seller two", "Seller three")
    return _set_text(html, field, lambda text: names[len(text) % 3])


# by name: the kind of the field that changes, and the change
CHANGES: dict[str, tuple[str, Change]] = {
    "renamed": ("number", _rename),
    "removed": ("number", _remove),
    "name taken": ("number", _take_name),
    "moved": ("number", _move),
    "no number": ("number", lambda html, field: _set_text(html, field, lambda _: "ask us for it")),
    "one value": ("title", lambda html, field: _set_text(html, field, lambda _: "Welcome to our site")),
    "other values": ("few", _swap),
    "another unit": ("number", _scale),
}


def list_links(pages: Sequence[CataloguePage]) -> str:
    """Return a page with a link to each page."""
    links = "".join(f'<li><a href="{page.path}">{page.values["title"]}</a></li>' for page in pages)
    return f"<html><body><ul class=list>{links}</ul></body></html>"
