"""load_jdbc: read rows from a PostgreSQL database, whose address passes the fetch guard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import parse_qsl

from pydantic import Field, PositiveInt, field_validator, model_validator

from pipelines.errors import ArgumentError, RunError, summarize_error
from pipelines.language.columns import INTERNAL_COLUMNS, Columns
from pipelines.language.parameters import has_reference
from pipelines.planning.stage import Source, register_stage
from pipelines.stages.addresses import resolve_host

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.planning.context import RunContext

_URL = re.compile(
    r"jdbc:postgresql://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?/(?P<database>[^/?#]+)"
    r"(?:\?(?P<options>[^#]*))?"
)
_PORT = 5432
# others load classes and files of the machine, or have secrets
_OPTIONS = frozenset({"ssl", "sslmode", "currentSchema", "ApplicationName", "connectTimeout", "socketTimeout"})
_VERIFIED = "verify-full"
_SENTENCE = "'url' is jdbc:postgresql://host:port/database, with options after a question mark"


class Address(NamedTuple):
    """A database's address in parts."""

    host: str
    port: int
    database: str
    options: str


def parse_address(url: str) -> Address:
    """Raise ArgumentError for an address of another form, and for options that are not allowed."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ArgumentError(_SENTENCE)
    options = match["options"] or ""
    for name, _ in parse_qsl(options, keep_blank_values=True):
        if name not in _OPTIONS:
            allowed = ", ".join(sorted(_OPTIONS))
            raise ArgumentError(f"the option '{name}' of 'url' is not allowed; there are {allowed}")
    return Address(match["host"], int(match["port"] or _PORT), match["database"], options)


@register_stage("load_jdbc")
class LoadJdbc(Source):
    """Replace the rows by those of a table or a query of a PostgreSQL database.

    User and password come from a cloud credential of the provider POSTGRESQL, by the names of its variables. The
    address must be public, or in a network that the service allows. For large tables, `partitionColumn`, `lowerBound`,
    `upperBound` and `numPartitions` read parts of the table at the same time.
    """

    example = """
pipeline:
  - stage: load_jdbc
    args:
      - {url: "jdbc:postgresql://db.example.com/shop", table: products, user: "${POSTGRESQL_USER}",
         password: "${POSTGRESQL_PASSWORD}"}
"""

    positional = ("url", "table")
    url: str
    table: str | None = Field(default=None, min_length=1, max_length=1000)
    query: str | None = Field(default=None, min_length=1, max_length=20_000)
    user: str | None = None
    password: str | None = Field(default=None, repr=False)
    fetch_size: PositiveInt = Field(default=1000, alias="fetchSize", le=100_000)
    partition_column: str | None = Field(default=None, alias="partitionColumn")
    lower_bound: str | None = Field(default=None, alias="lowerBound", coerce_numbers_to_str=True)
    upper_bound: str | None = Field(default=None, alias="upperBound", coerce_numbers_to_str=True)
    num_partitions: PositiveInt | None = Field(default=None, alias="numPartitions", le=256)

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not has_reference(url):
            parse_address(url)
        return url

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ArgumentError("give either 'table' or 'query'", "missing-argument")
        parts = (self.partition_column, self.lower_bound, self.upper_bound, self.num_partitions)
        if len({each is None for each in parts}) > 1 or (self.query and self.partition_column):
            raise ArgumentError(
                "partitionColumn, lowerBound, upperBound and numPartitions belong together, with 'table'"
            )
        return self

    def describe(self) -> str:
        return f"{self.url.partition('?')[0]} {self.table or 'query'}"

    def list_libraries(self) -> tuple[str, ...]:
        return ("postgresql",)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        from py4j.protocol import Py4JJavaError
        from pyspark.sql import functions as F

        address = parse_address(self.url)
        options = {
            "url": _resolve(address, context),
            "driver": "org.postgresql.Driver",
            "dbtable": self.table,
            "query": self.query,
            "user": self.user,
            "password": self.password,
            "fetchsize": self.fetch_size,
            "partitionColumn": self.partition_column,
            "lowerBound": self.lower_bound,
            "upperBound": self.upper_bound,
            "numPartitions": self.num_partitions,
        }
        given = {name: str(value) for name, value in options.items() if value is not None}
        try:
            rows = spark.read.format("jdbc").options(**given).load()
        except Py4JJavaError as error:
            reason = summarize_error(Exception(str(error.java_exception.getMessage())))
            raise RunError(f"the database at {address.host}:{address.port} cannot be read: {reason}") from None
        if taken := [name for name in rows.columns if name.casefold() in INTERNAL_COLUMNS]:
            raise RunError(
                f"the table has a column '{taken[0]}', which is reserved for the engine: rename it in a query"
            )
        return rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))


def _resolve(address: Address, context: RunContext) -> str:
    """Return the JDBC address with a numeric host that has passed the guard; raise RunError.

    A name that is looked up again could lead elsewhere. Only a server that proves its name keeps it.
    """
    found = resolve_host(address.host, address.port, context, "the database")
    proves_name = ("sslmode", _VERIFIED) in parse_qsl(address.options)
    chosen = address.host.strip("[]") if proves_name else found[0]
    written = f"[{chosen}]" if ":" in chosen else chosen
    options = f"?{address.options}" if address.options else ""
    return f"jdbc:postgresql://{written}:{address.port}/{address.database}{options}"
