"""The tables of the differential suite: those of TPC-H at the scale 0.01, and one with values of every type.

They are made here, with the same values each time, so that the suite needs no other program.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    *(("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3)),
    *(("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4)),
    *(("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4)),
    *(("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)),
)
COLORS = ("almond", "azure", "blush", "brown", "chocolate", "coral", "forest", "green", "khaki", "lime", "navy", "peru")
SYLLABLES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
WORDS = ("special", "pending", "express", "requests", "deposits", "Customer", "Complaints", "furiously", "even", "bold")
CUSTOMERS, SUPPLIERS, PARTS, ORDERS = 1500, 100, 2000, 15_000
FIRST_DAY, DAYS = date(1992, 1, 1), 2405
CUT = date(1995, 6, 17)

MONEY = "decimal(15,2)"
SPARK: Mapping[str, Any] = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "string": pa.string(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(15,2)": pa.decimal128(15, 2),
    "decimal(12,2)": pa.decimal128(12, 2),
    "decimal(5,4)": pa.decimal128(5, 4),
    "decimal(38,0)": pa.decimal128(38, 0),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "struct<a:bigint,b:string>": pa.struct({"a": pa.int64(), "b": pa.string()}),
}

Columns = dict[str, tuple[str, list[Any]]]


def make_tables() -> dict[str, tuple[pa.Table, list[dict[str, str]]]]:
    """Return each table with its columns in Spark's types."""
    random = Random(7)
    orders, lineitem = make_orders(random)
    made: dict[str, Columns] = {
        "region": {
            "r_regionkey": ("bigint", list(range(5))),
            "r_name": ("string", list(REGIONS)),
            "r_comment": ("string", [make_comment(random) for _ in REGIONS]),
        },
        "nation": {
            "n_nationkey": ("bigint", list(range(25))),
            "n_name": ("string", [name for name, _ in NATIONS]),
            "n_regionkey": ("bigint", [region for _, region in NATIONS]),
            "n_comment": ("string", [make_comment(random) for _ in NATIONS]),
        },
        "customer": make_customers(random),
        "supplier": make_suppliers(random),
        "part": make_parts(random),
        "partsupp": make_offers(random),
        "orders": orders,
        "lineitem": lineitem,
        "samples": make_samples(),
    }
    return {
        name: (
            pa.table({column: pa.array(values, SPARK[type]) for column, (type, values) in columns.items()}),
            [{"name": column, "type": type} for column, (type, _) in columns.items()],
        )
        for name, columns in made.items()
    }


def make_comment(random: Random) -> str:
    return " ".join(WORDS[int(random.random() * len(WORDS))] for _ in range(6))


def choose(random: Random, values: Any) -> Any:
    return values[int(random.random() * len(values))]


def make_number(random: Random, low: int, high: int) -> int:
    return low + int(random.random() * (high - low + 1))


def make_money(random: Random, low: int, high: int) -> Decimal:
    return Decimal(make_number(random, low * 100, high * 100)) / 100


def make_phone(random: Random, nation: int) -> str:
    numbers = (make_number(random, 100, 999), make_number(random, 100, 999), make_number(random, 1000, 9999))
    return f"{nation + 10}-{numbers[0]}-{numbers[1]}-{numbers[2]}"


def get_price(part: int) -> Decimal:
    return Decimal(90_000 + (part // 10) % 20_001 + 100 * (part % 1000)) / 100


def get_supplier(part: int, position: int) -> int:
    return (part + position * (SUPPLIERS // 4 + (part - 1) // SUPPLIERS)) % SUPPLIERS + 1


def make_customers(random: Random) -> Columns:
    keys = list(range(1, CUSTOMERS + 1))
    nations = [make_number(random, 0, 24) for _ in keys]
    return {
        "c_custkey": ("bigint", keys),
        "c_name": ("string", [f"Customer#{key:09d}" for key in keys]),
        "c_address": ("string", [f"{make_number(random, 1, 999)} {choose(random, COLORS)} street" for _ in keys]),
        "c_nationkey": ("bigint", nations),
        "c_phone": ("string", [make_phone(random, nation) for nation in nations]),
        "c_acctbal": (MONEY, [make_money(random, -999, 9999) for _ in keys]),
        "c_mktsegment": ("string", [choose(random, SEGMENTS) for _ in keys]),
        "c_comment": ("string", [make_comment(random) for _ in keys]),
    }


def make_suppliers(random: Random) -> Columns:
    keys = list(range(1, SUPPLIERS + 1))
    nations = [make_number(random, 0, 24) for _ in keys]
    return {
        "s_suppkey": ("bigint", keys),
        "s_name": ("string", [f"Supplier#{key:09d}" for key in keys]),
        "s_address": ("string", [f"{make_number(random, 1, 999)} {choose(random, COLORS)} road" for _ in keys]),
        "s_nationkey": ("bigint", nations),
        "s_phone": ("string", [make_phone(random, nation) for nation in nations]),
        "s_acctbal": (MONEY, [make_money(random, -999, 9999) for _ in keys]),
        "s_comment": ("string", [make_comment(random) for _ in keys]),
    }


def make_parts(random: Random) -> Columns:
    keys = list(range(1, PARTS + 1))
    makers = [make_number(random, 1, 5) for _ in keys]
    return {
        "p_partkey": ("bigint", keys),
        "p_name": ("string", [" ".join(choose(random, COLORS) for _ in range(4)) for _ in keys]),
        "p_mfgr": ("string", [f"Manufacturer#{maker}" for maker in makers]),
        "p_brand": ("string", [f"Brand#{maker}{make_number(random, 1, 5)}" for maker in makers]),
        "p_type": ("string", [" ".join(choose(random, each) for each in SYLLABLES) for _ in keys]),
        "p_size": ("int", [make_number(random, 1, 50) for _ in keys]),
        "p_container": ("string", [" ".join(choose(random, each) for each in CONTAINERS) for _ in keys]),
        "p_retailprice": (MONEY, [get_price(key) for key in keys]),
        "p_comment": ("string", [make_comment(random) for _ in keys]),
    }


def make_offers(random: Random) -> Columns:
    pairs = [(part, get_supplier(part, position)) for part in range(1, PARTS + 1) for position in range(4)]
    return {
        "ps_partkey": ("bigint", [part for part, _ in pairs]),
        "ps_suppkey": ("bigint", [supplier for _, supplier in pairs]),
        "ps_availqty": ("int", [make_number(random, 1, 9999) for _ in pairs]),
        "ps_supplycost": (MONEY, [make_money(random, 1, 1000) for _ in pairs]),
        "ps_comment": ("string", [make_comment(random) for _ in pairs]),
    }


def make_orders(random: Random) -> tuple[Columns, Columns]:
    orders: list[tuple[Any, ...]] = []
    lines: list[tuple[Any, ...]] = []
    for number in range(1, ORDERS + 1):
        day = FIRST_DAY + timedelta(days=make_number(random, 0, DAYS - 122))
        key, total, states = number * 4, Decimal(0), set[str]()
        for line in range(1, make_number(random, 1, 7) + 1):
            part, quantity = make_number(random, 1, PARTS), make_number(random, 1, 50)
            price, discount, tax = get_price(part) * quantity, make_number(random, 0, 10), make_number(random, 0, 8)
            shipped = day + timedelta(days=make_number(random, 1, 121))
            received = shipped + timedelta(days=make_number(random, 1, 30))
            returned = choose(random, ("R", "A")) if received <= CUT else "N"
            state = "O" if shipped > CUT else "F"
            states.add(state)
            total += price * (100 - discount) * (100 + tax) / 10_000
            lines.append(
                (
                    *(key, part, get_supplier(part, make_number(random, 0, 3)), line, Decimal(quantity), price),
                    *(Decimal(discount) / 100, Decimal(tax) / 100, returned, state, shipped),
                    *(day + timedelta(days=make_number(random, 30, 90)), received, choose(random, INSTRUCTIONS)),
                    *(choose(random, MODES), make_comment(random)),
                )
            )
        state = states.pop() if len(states) == 1 else "P"
        clerk = f"Clerk#{make_number(random, 1, 10):09d}"
        customer = make_number(random, 1, CUSTOMERS) // 3 * 3 + 1
        rounded = total.quantize(Decimal("0.01"))
        priority = choose(random, PRIORITIES)
        orders.append((key, min(customer, CUSTOMERS), state, rounded, day, priority, clerk, 0, make_comment(random)))
    return _transpose(ORDER_COLUMNS, orders), _transpose(LINE_COLUMNS, lines)


ORDER_COLUMNS = {
    **{"o_orderkey": "bigint", "o_custkey": "bigint", "o_orderstatus": "string", "o_totalprice": MONEY},
    **{"o_orderdate": "date", "o_orderpriority": "string", "o_clerk": "string", "o_shippriority": "int"},
    "o_comment": "string",
}
LINE_COLUMNS = {
    **{"l_orderkey": "bigint", "l_partkey": "bigint", "l_suppkey": "bigint", "l_linenumber": "int"},
    **{"l_quantity": MONEY, "l_extendedprice": MONEY, "l_discount": MONEY, "l_tax": MONEY, "l_returnflag": "string"},
    **{"l_linestatus": "string", "l_shipdate": "date", "l_commitdate": "date", "l_receiptdate": "date"},
    **{"l_shipinstruct": "string", "l_shipmode": "string", "l_comment": "string"},
}


def _transpose(columns: Mapping[str, str], rows: list[tuple[Any, ...]]) -> Columns:
    cells = zip(*rows, strict=True)
    return {name: (type, list(values)) for (name, type), values in zip(columns.items(), cells, strict=True)}


def make_samples() -> Columns:
    """Return values of every type, with nulls, negative numbers, extremes and text that is not ASCII."""
    days = [date(2024, 2, 29), date(1999, 12, 31), date(2026, 1, 1), date(1969, 7, 20), None, date(2023, 12, 31)]
    texts = ("2024-02-29T23:59:59.123456", "1999-12-31T12:00:00", "2026-01-01", "1969-07-20T20:17:40", "",
             "2023-12-31T23:30:15.500000")  # fmt: skip
    moments = [datetime.fromisoformat(text) if text else None for text in texts]
    return {
        "id": ("int", [1, 2, 3, 4, 5, 6]),
        "small": ("smallint", [7, -7, 0, 100, None, 3]),
        "big": ("bigint", [10, -10, 9_007_199_254_740_993, 0, None, 7]),
        "price": (
            "decimal(12,2)",
            [Decimal(x) if x else None for x in ("19.99", "-0.05", "100.00", "0.01", "", "7.50")],
        ),
        "rate": ("decimal(5,4)", [Decimal(x) if x else None for x in ("0.1250", "-0.3333", "9.9999", "0", "", "1.5")]),
        "huge": (
            "decimal(38,0)",
            [Decimal(x) if x else None for x in ("12345678901234567890", "-1", "0", "5", "", "2")],
        ),
        "ratio": ("double", [1.5, -2.25, 1e300, 0.1, None, float("nan")]),
        "single": ("float", [0.1, -1.5, 3.25, 0.0, None, 2.0]),
        "flag": ("boolean", [True, False, True, None, False, True]),
        "name": ("string", ["kettle", "Ünïcode ☃", "", "a,b,,c", None, "Mug 12 & Pot 7"]),
        "day": ("date", days),
        "wall": ("timestamp_ntz", moments),
        "moment": ("timestamp", [each.replace(tzinfo=UTC) if each else None for each in moments]),
        "bytes": ("binary", [b"abc", b"\x00\xff", b"", b"kettle", None, b"\xe2\x98\x83"]),
        "numbers": ("array<bigint>", [[3, 1, 2], [], [5, None, 5], [-1], None, [10, 20, 30, 40]]),
        "tags": ("array<string>", [["b", "a"], [], ["x", None], ["a", "a"], None, ["z"]]),
        "counts": ("map<string,bigint>", [[("a", 1), ("b", 2)], [], [("c", None)], [("a", 5)], None, [("z", 26)]]),
        "pair": (
            "struct<a:bigint,b:string>",
            [
                {"a": 1, "b": "x"},
                {"a": None, "b": "y"},
                {"a": 3, "b": None},
                None,
                {"a": 5, "b": "z"},
                {"a": 6, "b": ""},
            ],
        ),
        "document": (
            "string",
            [
                '{"a": {"b": [1, 2, {"c": "deep"}]}, "n": 1.5, "t": true}',
                '{"a": null, "s": "text", "n": 10}',
                "[1, 2, 3]",
                "not json",
                None,
                '{"a b": 1, "e": {}}',
            ],
        ),
    }
