"""Queries of datasets, and a Trino that runs them."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from core.infra.settings.area import Area, CommaSeparated, check_address


class SqlSettings(Area, alias_generator="sql_{}".format):
    """SQL."""

    catalog: str = Field(default="spindle", description="Name of the SQL catalog.")
    catalog_aliases: CommaSeparated = Field(default=("minio",), description="Names that mean the same catalog.")
    timeout_seconds: float = Field(default=60, description="Longest time that one query may take.")
    async_timeout_seconds: float = Field(
        default=3600, gt=0, description="Longest time that a query in the background may take."
    )
    result_hours: float = Field(default=1, gt=0, description="Hours that results of such queries are kept.")
    result_gigabytes: float = Field(default=1, gt=0, description="Largest result of such a query, as Parquet.")


class TrinoSettings(Area, alias_generator="trino_{}".format):
    """Trino."""

    address: str | None = Field(
        alias="trino",
        default=None,
        description="Address of a Trino that runs the queries, such as https://trino:8443; else DuckDB.",
    )
    user: str = Field(default="admin", description="Trino's administrator: registers tables, acts for others.")
    password: SecretStr | None = Field(default=None, description="The administrator's password, over https.")
    certificates: Path | None = Field(default=None, description="PEM file with the authority of Trino's https.")
    rules: Path | None = Field(
        default=None, description="Rules of Trino's file-based access control, in which organizations are entered."
    )

    @field_validator("address")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return check_address(value, "SPINDLE_TRINO")
