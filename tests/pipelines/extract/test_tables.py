"""Rows of tables by the table model of HTML."""

from __future__ import annotations

import pytest

from pipelines.extract import SelectorFailed
from pipelines.extract.tables import name_columns, read_table
from tests.support.pages import document

TWO_ROWS = "<tr><th rowspan=2>Name<th colspan=2>Price<tr><th>net<th>gross"


def read(html: str) -> list[dict[str, str | None]]:
    table = document(f"<table>{html}</table>").root.first("table")
    assert table is not None
    return [dict(row.values) for row in read_table(table)]


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        (  # a cell of several rows is in each, and ends with its part of the table
            "<tr><th>Brand<th>Model<tr><td rowspan=9>A<td>1<tr><td>2<tbody><tr><td>B<td>3",
            [("A", "1"), ("A", "2"), ("B", "3")],
        ),
        (  # to the end of the part
            "<tr><th>Brand<th>Model<tr><td rowspan=0>A<td>1<tr><td>2<tr><td>3",
            [("A", "1"), ("A", "2"), ("A", "3")],
        ),
        (  # a cell of several columns is below each of their headings
            "<tr><th>Day<th>Morning<th>Evening<tr><td>Mon<td colspan=2>closed<tr><td>Tue<td>9-12<td>3-6",
            [("Mon", "closed", "closed"), ("Tue", "9-12", "3-6")],
        ),
        ("<tr><th>A<th>B<tr><td>1<td>2<td colspan=x rowspan=-3>3", [("1", "2", "3")]),  # more cells than headings
        ("<tr><th>A<th colspan=99>B<tr><td>1<td>2", [("1", "2")]),  # columns that no cell begins
        ("<tr><th>A<th>B<tr><td>1<tr><td>2<td>3<tr></tr>", [("1", None), ("2", "3")]),
        (  # the foot is last, though it may come first
            "<tfoot><tr><th>Sum<td>3</tfoot><thead><tr><th>A<th>B<tbody><tr><td>x<td>3",
            [("x", "3"), ("Sum", "3")],
        ),
        ("<thead><tr><th>A<th>B<tbody><tr><td>x<td>3<tfoot><tr><th>A<th>B", [("x", "3")]),  # headings in the foot
        ("<tr><th>A<th>B<tr><td>x<td>3<tr><th>Sum<th>3", [("x", "3"), ("Sum", "3")]),
        ("<tr><th>A<th>B<tr><td>x<td>3<tr><th>Sum<th>3<tr><td>y<td>1", [("x", "3"), ("Sum", "3"), ("y", "1")]),
        ("<tr><td><th>2025<th>2026<tr><th>Cost<td>1<td>2", [("Cost", "1", "2")]),
        ("<tr><th>EUR<td>1<tr><th>USD<td>0.92", [("EUR", "1"), ("USD", "0.92")]),  # no row of headings
        ("<tr><th>Sun<td><td><tr><th>Mon<td>a<td>b", [("Sun", "", ""), ("Mon", "a", "b")]),
        ("<tr><td>Name<td>Price<tr><td>A<td>1.00", [("A", "1.00")]),
        ("<tr><td>Currency<td>Rate<tr><th>EUR<td>1", [("EUR", "1")]),
        ("<tr><td>EUR<td>1<tr><td>USD<td>0.92", [("EUR", "1"), ("USD", "0.92")]),
        ("<tr><th>A<th>B<tr><th>x<th>y", [("x", "y")]),  # no <td> at all
        ("<thead><tr><th>A<th>B<tr><td>1<td>2", [("1", "2")]),  # all of it in the head
        (  # a table in a cell has rows of its own
            "<tr><th>A<th>B<tr><td>1<td><table><tr><td>x<tr><td>y</table>",
            [("1", "x y")],
        ),
    ],
)
def test_cells_are_where_the_standard_has_them(html: str, wanted: list[tuple[str | None, ...]]) -> None:
    assert [tuple(row.values()) for row in read(html)] == wanted


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        (f"{TWO_ROWS}<tr><td>A<td>1<td>2", ["Name", "Price / net", "Price / gross"]),
        (f"<thead>{TWO_ROWS}<tbody><tr><td>A<td>1<td>2", ["Name", "Price / net", "Price / gross"]),
        (f"{TWO_ROWS}<tr><td>A<td>1<td>2".replace("th", "td"), ["Name", "Price / net", "Price / gross"]),
        ("<tr><th colspan=2>Rates<tr><th>Currency<th>Rate<tr><td>EUR<td>1", ["Currency", "Rate"]),
        ("<tr><td><th>2025<th>2026<tr><th>Cost<td>1<td>2", ["column_1", "2025", "2026"]),
        ("<tr><th>EUR<td>1<tr><th>USD<td>0.92", ["column_1", "column_2"]),
        ("<tr><th>Price<th>Price<tr><td>1<td>2<td>3", ["Price", "Price 2", "column_3"]),
        (  # filters
            "<thead><tr><th>Name<th>Size<tr><th><input><th><select><option>all<option>S</select><tbody><tr><td>A<td>S",
            ["Name", "Size"],
        ),
        ("<tr><th>Name<th>Price<td><tr><td>A<td>1<td>buy", ["Name", "Price", "column_3"]),
        ("<tr><th scope=col>Name<th scope=col>Price<tr><th scope=row>A<td>1", ["Name", "Price"]),
    ],
)
def test_columns_are_called_as_the_headings_above_them(html: str, wanted: list[str]) -> None:
    assert [*read(html)[0]] == wanted


def test_later_headings_are_those_of_the_rows_below_them() -> None:
    html = (
        "<tr><th>Name<th>Price<tr><td>A<td>1<tr><th>Name<th>Price<tr><td>B<td>2<tr><th>Name<th>Weight<tr><td>A<td>9 kg"
    )
    assert read(html) == [{"Name": "A", "Price": "1"}, {"Name": "B", "Price": "2"}, {"Name": "A", "Weight": "9 kg"}]


@pytest.mark.parametrize("cell", ["<th colspan=2>{}", "<td colspan=9>{}", "<th scope=rowgroup colspan=2>{}", "<th>{}"])
def test_a_row_of_one_cell_is_the_section_of_those_below_it(cell: str) -> None:
    head, fruit, roots = "<tr><th>Name<th>Price", f"<tr>{cell.format('Fruit')}", f"<tr>{cell.format('Roots')}"
    assert read(f"{head}<tr><td>Rope<td>9{fruit}<tr><td>Fig<td>1{roots}<tr><td>Yam<td>2<tfoot><tr><td>Sum<td>12") == [
        {"Name": "Rope", "Price": "9", "section": None},
        {"Name": "Fig", "Price": "1", "section": "Fruit"},
        {"Name": "Yam", "Price": "2", "section": "Roots"},
        {"Name": "Sum", "Price": "12", "section": None},
    ]


def test_names_of_columns_are_words_and_differ() -> None:
    assert name_columns({"Price / net": "1", "PRICE, net": "2", "*": "3"}) == {
        "Price_net": "1",
        "PRICE_net_2": "2",
        "column_3": "3",
    }
    signs = ["#", "Price (€)", "Price ($)", "Change", "Change %", "\u2264 18", "> 18", "R&D*"]
    words = ["number", "Price_euro", "Price_dollar", "Change", "Change_percent", "18", "greater_than_18", "R_D"]
    assert [*name_columns(dict.fromkeys(signs))] == words
    assert [*name_columns({"Name": "1", "Price": "2"}, ["name", "Price"])] == ["Name_1", "Price"]


def test_a_table_of_too_many_cells_fails() -> None:
    with pytest.raises(SelectorFailed, match="more than 1,000,000 cells"):
        read("<tr>" + "<td rowspan=65534 colspan=1000>x" * 100 + "<tr>" * 20)
