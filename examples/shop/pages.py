"""The shop's pages as HTML, its pictures as SVG."""

from __future__ import annotations

from html import escape

from examples.shop.catalog import CARDS_PER_PAGE, Product, create_slug, list_categories, list_of_category

NAME = "Wren & Alder"
COLOURS = {
    "Kitchen": "#b4532a",
    "Garden": "#4d7c3a",
    "Lighting": "#b98a1d",
    "Stationery": "#3c5f8f",
    "Outdoors": "#2f6f6a",
    "Books": "#7a4a73",
}
ABOUT = {
    "Kitchen": "Made to be used every day, repaired when it must be, and handed on.",
    "Garden": "Tools and pots that last longer than the seasons they are bought for.",
    "Lighting": "Warm light, honest materials, cables that can be replaced.",
    "Stationery": "For lists, letters, ledgers and everything that deserves paper.",
    "Outdoors": "Chosen by people who come home wet and go out again.",
    "Books": "A small shelf, read by all of us before it is stocked.",
}
STYLE = """
*{box-sizing:border-box}body{margin:0;font:16px/1.5 Georgia,serif;color:#2b2723;background:#faf7f2}
a{color:inherit}header,main,footer{max-width:1080px;margin:auto;padding:1.2rem}
header{display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;align-items:baseline;border-bottom:1px solid #ddd3c4}
header .logo{font-size:1.7rem;text-decoration:none;margin-right:auto}nav a{margin-right:1rem}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(220px,1fr));gap:1.2rem}
.card{background:#fff;border:1px solid #e6ddcf;border-radius:8px;overflow:hidden}
.card h3{font-size:1.05rem;margin:.8rem 1rem .2rem}.card p{margin:0 1rem .8rem}
img{width:100%;display:block}.price{font-weight:bold}.maker{color:#7b7167}
.product{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,6fr);gap:2rem}
.product .price{font-size:1.6rem}table{border-collapse:collapse}th{text-align:left;padding-right:1.5rem}
.availability.out{color:#a33}.availability.in{color:#2d6a3e}.pagination{margin:2rem 0;display:flex;gap:1rem}
footer{border-top:1px solid #ddd3c4;color:#7b7167;font-size:.9rem}
@media(max-width:640px){.product{grid-template-columns:1fr}}
"""


def render_home() -> str:
    shelves = "".join(_render_shelf(category) for category in list_categories())
    return _render_page(NAME, f'<h1>Good things, kept in stock</h1><div class="grid">{shelves}</div>')


def _render_shelf(category: str) -> str:
    first = list_of_category(category)[0]
    link = get_category_path(category)
    return (
        f'<section class="card shelf"><a href="{link}"><img src="{first.image}" alt=""></a>'
        f'<h3><a href="{link}">{escape(category)}</a></h3><p>{ABOUT[category]}</p></section>'
    )


def get_category_path(category: str, number: int = 1) -> str:
    return f"/category/{create_slug(category)}" + (f"?page={number}" if number > 1 else "")


def count_pages(category: str) -> int:
    return -(-len(list_of_category(category)) // CARDS_PER_PAGE)


def render_listing(category: str, number: int) -> str:
    start = (number - 1) * CARDS_PER_PAGE
    cards = "".join(_render_card(product) for product in list_of_category(category)[start : start + CARDS_PER_PAGE])
    body = f'<h1>{escape(category)}</h1><p>{ABOUT[category]}</p><div class="grid">{cards}</div>'
    return _render_page(f"{category}, page {number}", body + _render_pagination(category, number))


def _render_card(product: Product) -> str:
    return (
        f'<article class="card"><a href="{product.path}"><img src="{product.image}" alt="{escape(product.name)}"></a>'
        f'<h3><a class="title" href="{product.path}">{escape(product.name)}</a></h3>'
        f'<p><span class="maker">{escape(product.maker)}</span><br>'
        f'<span class="price">{product.shown_price}</span></p></article>'
    )


def _render_pagination(category: str, number: int) -> str:
    last = count_pages(category)
    before = (
        f'<a class="prev" rel="prev" href="{get_category_path(category, number - 1)}">Back</a>' if number > 1 else ""
    )
    after = (
        f'<a class="next" rel="next" href="{get_category_path(category, number + 1)}">Next</a>' if number < last else ""
    )
    return f'<div class="pagination">{before}<span>Page {number} of {last}</span>{after}</div>'


def render_product(product: Product) -> str:
    state = "in" if product.stock else "out"
    body = (
        f'<article class="product"><img src="{product.image}" alt="{escape(product.name)}"><div>'
        f'<h1 itemprop="name">{escape(product.name)}</h1><p class="maker">by {escape(product.maker)}</p>'
        f'<p class="price" data-currency="{product.currency}">{product.shown_price}</p>'
        f'<p class="availability {state}">{product.availability}</p>{_render_facts(product)}'
        f'<p class="description">{escape(_describe(product))}</p></div></article>'
    )
    return _render_page(product.name, body)


def _render_facts(product: Product) -> str:
    shelf = f'<a class="category" href="{get_category_path(product.category)}">{escape(product.category)}</a>'
    facts = {"SKU": product.sku, "Material": escape(product.material), "Category": shelf}
    rows = "".join(f'<tr><th>{name}</th><td class="{name.lower()}">{value}</td></tr>' for name, value in facts.items())
    return f'<table class="facts">{rows}</table>'


def _describe(product: Product) -> str:
    return f"{product.name} from {product.maker}: {product.material}. {ABOUT[product.category]}"


def render_missing(path: str) -> str:
    return _render_page("Nothing here", f"<h1>Nothing here</h1><p>There is no page at {escape(path)}.</p>")


def draw_picture(product: Product) -> str:
    """Draw a picture in the category's colour whose shape depends on the product's number."""
    colour, turn = COLOURS[product.category], int(product.sku[-4:]) * 37 % 360
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 300">'
        f'<rect width="400" height="300" fill="{colour}" opacity=".14"/>'
        f'<g transform="translate(200 150) rotate({turn})" fill="{colour}">'
        f'<ellipse rx="{60 + turn % 40}" ry="{34 + turn % 30}" opacity=".55"/>'
        f'<rect x="-22" y="-{60 + turn % 35}" width="44" height="{90 + turn % 50}" rx="16" opacity=".8"/></g></svg>'
    )


def _render_page(title: str, body: str) -> str:
    nav = "".join(f'<a href="{get_category_path(category)}">{escape(category)}</a>' for category in list_categories())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f'<header><a class="logo" href="/">{escape(NAME)}</a><nav class="categories">{nav}</nav></header>'
        f"<main>{body}</main><footer>An invented shop. Its "
        f'<a href="/gift-cards">gift cards</a> page was never written.</footer></body></html>'
    )
