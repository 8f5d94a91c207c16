"""Queries of a country's latest dataset, and its images with their files."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from plugins.ean_image_sourcing.countries import Country, Json, call_service
from spindle.rest import Caller, RestError

Scalar = str | int | float | bool | None
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "like", "in"]
_MOST_ROWS = 10_000
_COLUMNS = (
    *("ean", "image_url", "image_score", "image_width", "image_height", "image_type", "image_sha256"),
    *("image_thumbnail", "image_reasons", "result_link", "result_rank"),
)


class Body(BaseModel):
    """A request body in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True)


class Comparison(Body):
    """A comparison with a value."""

    op: Operator = "="
    """Comparison: =, !=, <, <=, >, >=, like or in."""
    value: Scalar | list[Scalar] = None
    """Value to compare with; a list for `in`."""


class RowCondition(Comparison):
    """A comparison of one column."""

    column: str
    """Name of the column."""


class Period(Body):
    """Limits of the time at which an image was last asked for; a date means its whole day in UTC."""

    date_from: date | datetime | None = None
    """Earliest time of an image, such as 2026-11-26 or 2026-11-26T08:00:00Z."""
    date_to: date | datetime | None = None
    """Latest time of an image."""

    def write_conditions(self) -> list[str]:
        """Return the limits as conditions in SQL."""
        tests: list[str] = []
        if (start := self.date_from) is not None:
            tests.append(f"image_checked_at >= {_write_time(start)}")
        if (end := self.date_to) is not None:
            is_day = not isinstance(end, datetime)
            tests.append(f"image_checked_at {'<' if is_day else '<='} {_write_time(end, timedelta(days=is_day))}")
        return tests


class QueryRequest(Period):
    """Filters, or SQL."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"filters": {"ean": "4006381333931"}, "limit": 10}]})

    filters: dict[str, Comparison | Scalar | list[Scalar]] = {}
    """Values, or `{op, value}`, by column."""
    conditions: list[RowCondition] = []
    """Further conditions; all must hold."""
    columns: list[str] = []
    """Columns of the answer; all when left out."""
    sql: str | None = None
    """A SELECT of the table `output`, in place of filters, conditions, columns and dates."""
    limit: Annotated[int, Field(ge=1, le=_MOST_ROWS)] = 1000
    """Largest number of rows."""
    offset: Annotated[int, Field(ge=0)] = 0
    """Number of rows to skip."""


class ImageRequest(Period):
    """EANs whose images are wanted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"eans": ["4006381333931"], "limit": 3}]})

    eans: Annotated[list[str], Field(min_length=1, max_length=1000, validation_alias=AliasChoices("eans", "eanCodes"))]
    """The EANs."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Largest number of images per EAN."""
    include_base64: bool = False
    """Whether the images come with their bytes."""
    include_thumbnails: bool = False
    """Whether the images come with thumbnails, which are PNG files of at most 160 pixels a side."""
    confidence_threshold: Annotated[float, Field(ge=0, le=1)] = 0
    """Smallest score of an image."""


def query_rows(caller: Caller, country: Country, request: QueryRequest) -> Json:
    """Return the rows that pass the conditions, or those of the SQL."""
    sql = request.sql
    if sql is None:
        given = [
            RowCondition(column=name, op=value.op, value=value.value)
            if isinstance(value, Comparison)
            else RowCondition(column=name, op="in" if isinstance(value, list) else "=", value=value)
            for name, value in request.filters.items()
        ]
        tests = [_write_condition(each) for each in (*given, *request.conditions)] + request.write_conditions()
        wanted = ", ".join(map(_quote_name, request.columns)) or "*"
        # names and values are quoted
        sql = f"SELECT {wanted} FROM output{' WHERE ' if tests else ''}{' AND '.join(tests)}"  # noqa: S608
    rows = _select(caller, country, sql, request.limit, request.offset)
    return {"results": rows, "columns": [*rows[0]] if rows else request.columns, "rowCount": len(rows)}


def find_images(caller: Caller, country: Country, request: ImageRequest) -> list[Json]:
    """Return the usable images of the EANs, the best first; a missing file has no bytes."""
    eans = _write_condition(RowCondition(column="ean", op="in", value=[*request.eans]))
    sql = f"SELECT {', '.join(_COLUMNS)} FROM output WHERE image_sha256 IS NOT NULL AND {eans} "  # noqa: S608
    sql += "".join(f"AND {each} " for each in request.write_conditions())
    sql += f"AND image_score >= {request.confidence_threshold} ORDER BY image_score DESC, ean, result_rank"
    images: list[Json] = []
    thumbnails: list[str | None] = []
    taken = Counter[str]()
    seen: set[tuple[str, str]] = set()
    for row in _select(caller, country, sql, _MOST_ROWS, 0):
        key = (row["ean"], row["image_sha256"])
        if taken[row["ean"]] < request.limit and key not in seen:
            seen.add(key)
            taken[row["ean"]] += 1
            images.append(_describe_image(row))
            thumbnails.append(row["image_thumbnail"])
    for image, thumbnail in zip(images, thumbnails, strict=True):
        if request.include_base64:
            image["base64"] = _read_file(caller, image["sha256"])
        if request.include_thumbnails:
            image["thumbnail"] = _read_file(caller, thumbnail)
    return images


def _describe_image(row: Json) -> Json:
    return {
        "ean": row["ean"],
        "url": row["image_url"],
        "score": row["image_score"],
        "width": row["image_width"],
        "height": row["image_height"],
        "contentType": row["image_type"],
        "sha256": row["image_sha256"],
        "source": row["result_link"],
        "rank": row["result_rank"],
        "reasons": row["image_reasons"],
    }


def _read_file(caller: Caller, digest: str | None) -> str | None:
    content = caller.read_file(digest) if digest else None
    return None if content is None else b64encode(content).decode()


def _select(caller: Caller, country: Country, sql: str, limit: int, offset: int) -> list[Json]:
    dataset = country.job["outputDatasetId"]
    if not dataset:
        raise RestError(404, f"There are no images for '{country.name}' yet: execute it first.", "not-found")
    place = f"projects/{country.project_id}/jobs/{country.job['id']}/datasets/{dataset}/query"
    return call_service(caller, "POST", place, json={"sql": sql, "limit": limit, "offset": offset})["rows"]


def _write_condition(condition: RowCondition) -> str:
    column, value = _quote_name(condition.column), condition.value
    if value is None:
        return f"{column} IS {'NOT ' if condition.op == '!=' else ''}NULL"
    if condition.op == "in":
        values = [_write_literal(each) for each in (value if isinstance(value, list) else [value])]
        return f"{column} IN ({', '.join(values)})" if values else "FALSE"
    return f"{column} {condition.op.upper()} {_write_literal(value)}"


def _write_time(day: date, later: timedelta = timedelta(0)) -> str:
    """Return a time in UTC, or the beginning of a day, as SQL."""
    time = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day, tzinfo=UTC)
    moved = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC) + later
    return f"TIMESTAMP '{moved:%Y-%m-%d %H:%M:%S.%f} UTC'"


def _write_literal(value: Scalar | list[Scalar]) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None or isinstance(value, list):
        raise RestError(400, "Only 'in' compares with a list, and no list has null.", "invalid-value", "value")
    return repr(value).upper()


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
