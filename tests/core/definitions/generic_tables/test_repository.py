"""Generic tables on both databases: what is stored comes back, and filters and sorts mean the same on each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st
from sqlalchemy import event, update

from core.definitions.generic_tables.documents import MAX_BYTES, MAX_DEPTH
from core.definitions.generic_tables.query import RowQuery
from core.definitions.generic_tables.repository import GenericTableRepository, to_json
from core.definitions.identity.organizations import create_organization
from core.errors import BadInput, NotFound, TooLarge
from core.infra.database import Database
from core.tables import GenericTableRow, new_id
from tests.support.cases import each_case

OWN = ("id", "createdAt", "updatedAt")


@pytest.fixture
def organization(database: Database) -> str:
    with database.write() as session:
        return create_organization(session, "acme").id


@pytest.fixture
def table(database: Database, organization: str) -> Table:
    return Table(database, organization)


class Table:
    """One table of one organization, each call in a transaction of its own."""

    def __init__(self, database: Database, organization: str, name: str = "things") -> None:
        self.database, self.organization, self.name = database, organization, name

    def create(self, /, **document: Any) -> Any:
        with self.database.write() as session:
            return json.loads(to_json(GenericTableRepository(session, self.organization, self.name).create(document)))

    def update(self, record_id: str, /, **changes: Any) -> Any:
        with self.database.write() as session:
            return json.loads(
                to_json(GenericTableRepository(session, self.organization, self.name).update(record_id, changes))
            )

    def get(self, record_id: str) -> Any:
        with self.database.read() as session:
            return json.loads(to_json(GenericTableRepository(session, self.organization, self.name).get(record_id)))

    def list(self, *filters: tuple[str, str], page: int = 0, size: int = 50, sort: str | None = None) -> Any:
        with self.database.read() as session:
            query = RowQuery.from_parameters(page, size, filters, sort)
            listing = GenericTableRepository(session, self.organization, self.name).list(query)
        return [json.loads(record) for record in listing.rows], listing.total

    def found(self, *filters: tuple[str, str]) -> list[str]:
        """The `n` of the records that match, in the order they were made."""
        return [record["n"] for record in self.list(*filters)[0]]


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in OWN}


def test_a_record_comes_back_as_it_was_stored(table: Table) -> None:
    document = {"z": 1, "a": [1.50, 10**30, None, True, "é\U0001f600\\u0000\"'"], "deep": {"": {"a.b": []}}}
    made = table.create(**document)
    assert list(made) == [*OWN, "z", "a", "deep"]
    assert plain(made) == document
    assert table.get(made["id"]) == made
    assert plain(table.create()) == {}


def test_put_merges_and_ignores_fields_of_the_server(table: Table) -> None:
    made = table.create(title="Kettle", price=19.5, tags=["a"], id="mine")
    changed = table.update(made["id"], price=20, title=None, tags=["b"], id="x", createdAt="1970-01-01T00:00:00Z")
    assert plain(changed) == {"title": "Kettle", "price": 20, "tags": ["b"]}
    assert (changed["id"], changed["createdAt"]) == (made["id"], made["createdAt"])
    assert changed["updatedAt"] > made["updatedAt"]


def test_updates_at_once_lose_nothing(table: Table) -> None:
    record = table.create()["id"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: table.update(record, **{f"f{n}": n}), range(16)))
    assert plain(table.get(record)) == {f"f{n}": n for n in range(16)}


def test_tables_and_organizations_are_apart(database: Database, table: Table) -> None:
    with database.write() as session:
        rival = Table(database, create_organization(session, "rival").id)
    theirs = rival.create(n="theirs")["id"]
    for other in (table, Table(database, rival.organization, "others")):
        assert other.list() == ([], 0)
        for call in (other.get, other.update):
            with pytest.raises(NotFound, match=r"There is no record with this id\."):
                call(theirs)
    assert table.list(("id", theirs)) == ([], 0)


FIELDS: Sequence[Mapping[str, Any]] = [
    {"n": "number", "v": 12},
    {"n": "real", "v": 12.0},
    {"n": "text", "v": "12"},
    {"n": "true", "v": True},
    {"n": "true text", "v": "true"},
    {"n": "false", "v": False},
    {"n": "null", "v": None},
    {"n": "null text", "v": "null"},
    {"n": "missing"},
    {"n": "list", "v": [12]},
    {"n": "object", "v": {"size": 12, "ma\u00df $[0]": "x", "0": 1}},
    {"n": "empty", "v": ""},
    {"n": "large", "v": 10**25},
]


FILTERS: Sequence[tuple[list[tuple[str, str]], list[str]]] = [
    ([("v", "12")], ["number", "real", "text"]),
    ([("v", "12.00")], ["number", "real"]),
    ([("v", "1.2e1")], ["number", "real"]),
    ([("v", "012")], []),
    ([("v", "true")], ["true", "true text"]),
    ([("v", "1")], []),
    ([("v", "null")], ["null", "null text", "missing"]),
    ([("v", "")], ["empty"]),
    ([("v", str(10**25))], ["large"]),
    ([("v", "12"), ("v", "false")], ["number", "real", "text", "false"]),
    ([("v", "12"), ("n", "text")], ["text"]),
    ([("v.size", "12")], ["object"]),
    ([("v.ma\u00df $[0]", "x")], ["object"]),
    ([("v.0", "12")], []),
    ([("v.0", "1")], ["object"]),
    ([("nowhere.at.all", "1")], []),
    ([("v", "' OR 1=1 --")], []),
]


def test_filters_compare_as_a_person_would(table: Table) -> None:
    for fields in FIELDS:
        table.create(**fields)
    assert [(filters, table.found(*filters)) for filters, _ in FILTERS] == FILTERS


def test_sorts_order_types_alike_on_both_databases(table: Table) -> None:
    values = ["b", True, 10, None, "a", 9.5, [1], False, "B", "\u00e9", -1]
    for value in values:
        table.create(v=value)
    table.create()
    ordered = [record.get("v", "-") for record in table.list(sort="v")[0]]
    assert ordered == [-1, 9.5, 10, "B", "a", "b", "\u00e9", False, True, [1], None, "-"]
    turned = [record.get("v", "-") for record in table.list(sort="-v")[0]]
    assert turned == [[1], True, False, "\u00e9", "b", "a", "B", 10, 9.5, -1, None, "-"]
    by_time = table.list(sort="-createdAt,v")[0]
    assert [record["createdAt"] for record in by_time] == sorted((r["createdAt"] for r in by_time), reverse=True)


def test_pages_hold_every_record_once(table: Table) -> None:
    for n in range(7):
        table.create(n=n, even=n % 2 == 0)
    assert [table.list(page=page, size=3)[0] for page in range(4)][3] == []
    listed = [record["n"] for page in range(3) for record in table.list(page=page, size=3)[0]]
    assert listed == list(range(7))
    evens, total = table.list(("even", "true"), page=1, size=3, sort="-n")
    assert ([record["n"] for record in evens], total) == ([0], 4)


@each_case("name", ["", "-a", "a b", "a.b", "a" * 65, "a/b", "\u00e9", "a'", "a\0"])
def test_a_table_needs_a_usable_name(database: Database, organization: str, name: str) -> None:
    with pytest.raises(BadInput, match="A table's name has"):
        Table(database, organization, name).list()


@each_case("name", ["", ".", "a..b", 'a"b', "a\\b", "a\0b", "\ud800", "a" * 201, ".".join("a" * 17)])
def test_a_field_needs_a_usable_name(table: Table, name: str) -> None:
    with pytest.raises(BadInput, match="is not the name of a field"):
        table.list((name, "1"))
    with pytest.raises(BadInput):
        table.list(sort=f"-{name},")


def test_limits(table: Table) -> None:
    room = MAX_BYTES - len('{"v":""}')
    assert len(table.create(v="x" * room)["v"]) == room
    with pytest.raises(TooLarge, match="at most 1048576"):
        table.create(v="\u00e9" * (room // 2) + "xx")
    nested: Any = []
    for _ in range(MAX_DEPTH - 2):
        nested = [nested]
    made = table.create(v=nested)
    with pytest.raises(BadInput, match="deeper than 64"):
        table.update(made["id"], v=[nested])
    deepest: Any = {}
    for _ in range(100_000):
        deepest = {"a": deepest}
    with pytest.raises(BadInput, match="deeper"):
        table.create(v=deepest)
    with pytest.raises(BadInput):
        table.list(*((f"f{n}", "1") for n in range(21)))


@each_case("value", ["\0", "a\ud800", float("nan"), float("inf"), {"\0": 1}, ["\\\0"]])
def test_a_value_that_cannot_be_stored_is_an_error_that_names_it(table: Table, value: Any) -> None:
    with pytest.raises(BadInput) as raised:
        table.create(ok=1, bad=value)
    assert raised.value.details[0].path.startswith("bad")
    assert table.list() == ([], 0)


def test_a_page_of_giants_is_refused(table: Table) -> None:
    for _ in range(17):
        table.create(v="x")
    with table.database.write() as session:
        session.execute(update(GenericTableRow).values(size_bytes=MAX_BYTES))
    with pytest.raises(TooLarge, match="smaller pageSize"):
        table.list()
    assert len(table.list(size=16)[0]) == 16


def test_filters_over_a_thousand_records_load_one_page(table: Table) -> None:
    with table.database.write() as session:
        for n in range(1000):
            document = json.dumps({"n": n, "color": f"c{n % 50}"})
            owner = {"organization_id": table.organization, "table_name": "things", "id": new_id()}
            session.add(GenericTableRow(**owner, document=document, size_bytes=len(document)))
    loaded: list[str] = []

    def count(row: GenericTableRow, _: object) -> None:
        loaded.append(row.id)

    event.listen(GenericTableRow, "load", count)
    try:
        records, total = table.list(("color", "c7"), sort="-n", size=10)
    finally:
        event.remove(GenericTableRow, "load", count)
    assert ([record["n"] for record in records[:2]], total) == ([957, 907], 20)
    assert loaded == [record["id"] for record in reversed(records)]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
PAYLOADS = st.dictionaries(st.text(st.characters(), min_size=1, max_size=8), ANY, max_size=5)


def survives(table: Table, document: dict[str, Any], field: str, value: str) -> None:
    """Any document is stored and comes back equal, or is refused with a sentence; so is any filter and sort."""
    with suppress(BadInput):
        made = table.create(**document)
        assert table.get(made["id"]) == made
        assert plain(made) == plain(document)
    with suppress(BadInput):
        table.list((field, value), sort=field)


@checked(max_examples=60)
@given(document=PAYLOADS, field=st.text(st.characters(), max_size=8), value=st.text(st.characters(), max_size=12))
def test_any_payload_is_stored_whole_or_refused(table: Table, document: dict[str, Any], field: str, value: str) -> None:
    survives(table, document, field, value)


@pytest.mark.long
@checked(max_examples=500)
@given(document=PAYLOADS, field=st.text(st.characters(), max_size=8), value=st.text(st.characters(), max_size=12))
def test_five_hundred_payloads(table: Table, document: dict[str, Any], field: str, value: str) -> None:
    survives(table, document, field, value)
