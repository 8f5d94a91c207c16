"""imageSimilarity: fetch the images of products and score how well the candidates of one EAN agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from pydantic import Field

from spindle import (
    AnswerPending,
    Capabilities,
    Columns,
    FileNotKept,
    Page,
    RunContext,
    ServiceClient,
    ServiceFailed,
    TableStage,
    register_stage,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from plugins.ean_image_sourcing.pictures import Picture

_SCORES = {"image_score": "double", "image_hash": "string", "image_reasons": "array<string>"}
_FACTS = {
    **{"image_status": "string", "image_checked_at": "timestamp"},
    **{"image_width": "int", "image_height": "int", "image_type": "string", "image_sha256": "string"},
}
_KEPT = {"image_thumbnail": "string"}
_WINDOW_ROWS = 256  # whose images are fetched at once; the products of a window are complete


class ImageUnusable(ServiceFailed):
    """The image was fetched and is not usable; the message says why."""


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """A decoded image with the hash of its bytes, and the hash of its thumbnail where both are kept."""

    picture: Picture
    digest: str
    thumbnail: str | None
    fetched_at: datetime


Images = dict[str, FetchedImage | ServiceFailed]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of a product: its place among the rows, and the addresses of its image and of the reference image."""

    place: int
    image: str | None
    reference: str | None


@register_stage("imageSimilarity")
class ImageSimilarity(TableStage):
    """Fetch the image of each row, and score from 0 to 1 how well it shows the product of its EAN.

    The rows of one EAN are compared with the image of `reference_field` where there is one, else with each other: an
    image that most of them agree on scores highest. Images are compared by a perceptual hash, so size, format and
    compression do not matter; no model is used. The stage adds `image_score`, `image_hash`, `image_reasons` (why the
    score is what it is), `image_width`, `image_height`, `image_type` and `image_sha256`, and sorts the rows of an EAN
    by descending score. `min_score` drops the rows below it, and `limit` keeps so many rows of an EAN.

    An image that cannot be fetched or decoded, has more than 25 million pixels, or is HTML or SVG, scores 0, with the
    reason and an `_error`. A row without an address has no score. `image_status` is `usable`, `dead` for a link
    that gave no image, `unusable` for one that gave something else, and null without an address; `image_checked_at` is
    the time of that answer. With `keep`, the files and their thumbnails are kept once for all executions;
    `image_thumbnail` is the hash of the thumbnail.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: searchEngine, args: [{ean: $ean, num_results: 10, image_search: true}]}
  - {stage: imageSimilarity, args: [{image_field: image_url, ean_field: ean}]}
"""

    image_field: str = Field("image_url", min_length=1, description="column with the addresses of images")
    ean_field: str = Field("ean", min_length=1, description="column with the EAN")
    reference_field: str | None = Field(None, min_length=1, description="column with the address of a known image")
    min_score: float | None = Field(None, ge=0, le=1)
    limit: int | None = Field(None, ge=1, description="rows per EAN")
    keep: bool = Field(False, description="keep the files and thumbnails")

    def describe(self) -> str:
        return f"{self._image} by {self._ean}"

    @property
    def _image(self) -> str:
        return self.image_field.removeprefix("$")

    @property
    def _ean(self) -> str:
        return self.ean_field.removeprefix("$")

    @property
    def _reference(self) -> str | None:
        return self.reference_field.removeprefix("$") if self.reference_field else None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sets_order=True)

    def list_references(self) -> tuple[str, ...]:
        return (self._image, self._ean, *([self._reference] if self._reference else []))

    def list_columns(self) -> dict[str, str]:
        """Return the columns that the stage adds, with their types."""
        return _SCORES | _FACTS | (_KEPT if self.keep else {})

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(self.list_columns().items()))

    def needs_spark(self, before: Columns) -> bool:
        return False

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql.types import StringType, StructField, StructType

        from spindle.spark import map_in_arrow

        ddl = ", ".join(f"{name} {type_}" for name, type_ in self.list_columns().items())
        added = cast("StructType", StructType.fromDDL(ddl))
        error = [] if "_error" in rows.columns else [StructField("_error", StringType())]
        fields = {field.name: field for field in (*rows.schema, *added, *error)}
        schema = StructType([*fields.values()])  # in the order of `_fill`
        quoted = f"`{self._ean.replace('`', '``')}`"
        grouped = rows.repartition(rows[quoted]).sortWithinPartitions(rows[quoted], "_ordinal")
        return map_in_arrow(grouped, partial(self._score_batches, _select_context(context)), schema).persist()

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        import pyarrow as pa

        eans = _list_texts(rows, self._ean)
        ordinals: list[list[int]] = rows.column("_ordinal").to_pylist()
        places = sorted(range(rows.num_rows), key=lambda at: (eans[at] or "", ordinals[at]))
        grouped = rows.take(pa.array(places, pa.int64())).to_batches(max_chunksize=_WINDOW_ROWS)
        scored = pa.concat_tables(self._score_tables(context, grouped or [_make_empty_batch(rows)]))
        ordinals = scored.column("_ordinal").to_pylist()
        return scored.take(pa.array(sorted(range(scored.num_rows), key=ordinals.__getitem__), pa.int64()))

    def _score_batches(self, context: RunContext, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Score the rows of a partition in a task of Spark."""
        for table in self._score_tables(context, batches):
            yield from table.to_batches()

    def _score_tables(self, context: RunContext, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Score rows in which those of one EAN are neighbours."""
        services = ServiceClient(context.fetch, context.endpoint, f"{context.step}/images")
        try:
            for rows in self._iter_windows(batches):
                yield self._score_window(rows, services, context)
        finally:
            services.close()

    def _iter_windows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows in tables that have all rows of their EANs."""
        import pyarrow as pa

        waiting: list[pa.Table] = []
        for batch in batches:
            waiting.append(pa.Table.from_batches([batch]))
            rows = pa.concat_tables(waiting)
            if rows.num_rows < _WINDOW_ROWS:
                continue
            eans = _list_texts(rows, self._ean)
            end = next((at for at in range(len(eans), 0, -1) if eans[at - 1] != eans[-1]), 0)
            if end:
                yield rows.slice(0, end)
                waiting = [rows.slice(end)]
        if waiting:
            yield pa.concat_tables(waiting)

    def _score_window(self, rows: pa.Table, services: ServiceClient, context: RunContext) -> pa.Table:
        addresses, references = self._list_addresses(rows), _list_texts(rows, self._reference)
        eans, ordinals = _list_texts(rows, self._ean), rows.column("_ordinal").to_pylist()
        wanted = dict.fromkeys(url for url in (*addresses, *references) if url)
        images = _fetch_images(services, wanted, context if self.keep else None)
        places: list[int] = []
        values: list[dict[str, Any]] = []
        for _, group in groupby(range(rows.num_rows), key=lambda at: eans[at] or at):
            members = [*group]
            scored = _score_product([Candidate(at, addresses[at], references[at]) for at in members], images)
            kept = [
                each for each in scored if self.min_score is None or (each[1]["image_score"] or 0) >= self.min_score
            ]
            for rank, (place, found) in enumerate(kept[: self.limit]):
                places.append(place)
                values.append(found | {"_ordinal": [*ordinals[members[0]], rank]})
        return self._fill(rows, places, values)

    def _list_addresses(self, rows: pa.Table) -> list[str | None]:
        """Return the absolute addresses of the images; a relative one belongs to its row's page."""
        found = _list_texts(rows, self._image)
        pages = _list_texts(rows, "_url" if "_url" in rows.column_names else None)
        return [urljoin(page or "", each) if each else None for each, page in zip(found, pages, strict=True)]

    def _fill(self, rows: pa.Table, places: Sequence[int], values: Sequence[dict[str, Any]]) -> pa.Table:
        """Return the rows of these places with the values as columns; an error that a row has already stays."""
        import pyarrow as pa

        types = {"double": pa.float64(), "int": pa.int32(), "array<string>": pa.list_(pa.string())}
        types["timestamp"] = pa.timestamp("us", "UTC")
        taken = rows.take(pa.array(places, pa.int64()))
        for name, type_ in {**self.list_columns(), "_ordinal": "", "_error": "string"}.items():
            column: Any = [each.get(name) for each in values]
            at = taken.column_names.index(name) if name in taken.column_names else None
            if name == "_error" and at is not None:
                column = [
                    new if old is None else old for old, new in zip(taken.column(at).to_pylist(), column, strict=True)
                ]
            own = taken.schema.field("_ordinal").type if name == "_ordinal" else types.get(type_, pa.string())
            array = pa.array(column, own)
            taken = taken.append_column(name, array) if at is None else taken.set_column(at, name, array)
        return taken


def _select_context(context: RunContext) -> RunContext:
    """Return the part of the context that the tasks of Spark need."""
    return RunContext(fetch=context.fetch, endpoint=context.endpoint, step=context.step, files=context.shared_files)


def _make_empty_batch(rows: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=rows.schema)


def _list_texts(rows: pa.Table, name: str | None) -> list[str | None]:
    """Return the values of a column as texts without blanks around them; None for empty ones, and without a column."""
    if name is None:
        return [None] * rows.num_rows
    return [None if each is None else str(each).strip() or None for each in rows.column(name).to_pylist()]


def _fetch_images(services: ServiceClient, urls: Iterable[str], keeper: RunContext | None) -> Images:
    """Return the images of the addresses, or the reasons for missing ones."""
    read, found, waiting = partial(_read_image, keeper), Images(), [*urls]
    while waiting:
        services.poll()
        pending: list[str] = []
        for url in waiting:
            try:
                found[url] = services.read_page(url, read)
            except ServiceFailed as failed:
                found[url] = failed
            except AnswerPending:
                pending.append(url)
        waiting = pending
        if waiting:
            services.wait()
    return found


def _read_image(keeper: RunContext | None, page: Page) -> FetchedImage:
    from plugins.ean_image_sourcing.pictures import PictureRefused, read_picture

    try:
        picture, thumbnail = read_picture(page.body), None
        if keeper is not None:
            keeper.shared_files.add(page)
            keeper.shared_files.add_picture(picture.thumbnail)
            thumbnail = sha256(picture.thumbnail).hexdigest()
        picture = replace(picture, thumbnail=b"")  # the client keeps thousands of answers
    except (PictureRefused, FileNotKept) as refused:
        raise ImageUnusable(f"the image at {page.url} cannot be used: {refused}") from None
    return FetchedImage(picture, sha256(page.body).hexdigest(), thumbnail, page.fetched_at)


def _score_product(candidates: Sequence[Candidate], images: Images) -> list[tuple[int, dict[str, Any]]]:
    """Return the places of a product's rows with the values of their columns, the best image first."""
    from plugins.ean_image_sourcing.scores import score_candidates

    references = [images.get(each.reference or "") for each in candidates]
    reference = next((each.picture for each in references if isinstance(each, FetchedImage)), None)
    pairs = [(each.place, images.get(each.image or "")) for each in candidates]
    usable = [(place, image) for place, image in pairs if isinstance(image, FetchedImage)]
    scores = score_candidates([image.picture for _, image in usable], reference)
    found: dict[int, dict[str, Any]] = {}
    for (place, image), score in zip(usable, scores, strict=True):
        picture = image.picture
        found[place] = {
            "image_score": score.value,
            "image_reasons": [*score.reasons],
            "image_hash": None if picture.hash is None else f"{picture.hash:032x}",
            "image_status": "usable",
            "image_checked_at": image.fetched_at,
            "image_width": picture.width,
            "image_height": picture.height,
            "image_type": picture.content_type,
            "image_sha256": image.digest,
            "image_thumbnail": image.thumbnail,
        }
    for place, image in pairs:
        if image is None:
            found[place] = {"image_score": None, "image_reasons": ["has no image"]}
        elif isinstance(image, ServiceFailed):
            status, reason = ("dead", "is a dead link")
            if isinstance(image, ImageUnusable):
                status, reason = ("unusable", "is no usable image")
            found[place] = {
                "image_score": 0.0,
                "image_reasons": [reason],
                "image_status": status,
                "image_checked_at": datetime.now(UTC),
                "_error": f"imageSimilarity: {image}",
            }
    return sorted(found.items(), key=_rank_row)


def _rank_row(row: tuple[int, dict[str, Any]]) -> tuple[bool, float, bool, int]:
    """Return the sort key of a product's row: the best image first, failures last of those that score 0."""
    place, values = row
    score = values["image_score"]
    return score is None, -(score or 0), "_error" in values, place
