"""The text of a page as a model is shown it."""

from __future__ import annotations

from pipelines.inference.pruning import prune_text
from tests.support.cases import each_case
from tests.support.pages import document


@each_case(
    ("html", "text"),
    [
        ("<h3>Fair 1090</h3><span>Leipzig</span>", "Fair 1090\nLeipzig"),
        ("<span>Fair 1090</span><span>Leipzig</span>", "Fair 1090 Leipzig"),
        ("<span><b>Fair</b></span><i><a href=/>Leipzig</a></i>", "Fair Leipzig"),
        ("<b>Price</b>12.50<i>EUR</i>", "Price 12.50 EUR"),
        ("<b>Price</b>: <i>12.50</i>", "Price: 12.50"),
        ("<i>€</i><i>12</i><i>.50</i>", "€12.50"),
        ("<p><b>W</b>ord and H<sub>2</sub>O, 1<sup>st</sup></p>", "Word and H2O, 1st"),
        ("<div>one</div>two<p>three</p>four", "one\ntwo\nthree\nfour"),
        ("<span>a</span> <span>b</span>", "a b"),
        ("<span>a</span><span hidden>x</span><span>b</span>", "a b"),
    ],
)
def test_neighbours_are_kept_apart(html: str, text: str) -> None:
    assert prune_text(document(f"<body>{html}</body>").root) == text
