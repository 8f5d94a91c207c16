"""echo: log the first rows while a pipeline is being written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field, model_validator

from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.language.json_values import PREVIEW_LENGTH, list_records
from pipelines.planning.stage import Capabilities, TableStage, register_stage
from pipelines.spark.dataframes import first_rows, to_records

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pipelines.contract.context import RunContext

_log = logging.getLogger(__name__)


@register_stage("echo")
class Echo(TableStage):
    """Log a label and the first rows, in document order; all rows pass on unchanged.

    The argument is a label, a number of rows, or both: `[loaded]`, `[5]`, `[{label: loaded, rows: 5}]`. The log, the
    terminal and the run's steps show them, texts cut after 200 characters. The rows are computed and persisted at this
    point, as by cache, so remove it from a finished pipeline.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: echo, args: [{label: loaded, rows: 5}]}
"""

    positional = ("rows", "label")
    persists = True
    rows: int = Field(10, ge=1, le=1000)
    label: str | None = Field(None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _take_label_first(cls, data: Any) -> Any:
        """Accept a label in the position of the number of rows."""
        values = cast(dict[str, Any], data) if isinstance(data, dict) else {}
        rows, label = values.get("rows"), values.get("label")
        if isinstance(rows, str) and not _is_number(rows):
            return {**values, "label": rows, **({"rows": label} if label is not None else {"rows": 10})}
        return data

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(shows_rows=True)

    def describe(self) -> str:
        return " ".join(str(each) for each in (self.label, self.rows) if each is not None)

    def needs_spark(self, before: Columns) -> bool:
        return False

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        self._show(to_records(first_rows(rows, self.rows).drop(*ENGINE_COLUMNS), cut=PREVIEW_LENGTH), context)
        return rows

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        names = [name for name in rows.column_names if name not in ENGINE_COLUMNS]
        first = rows.slice(0, self.rows).select(names)
        self._show(list_records(first, cut=PREVIEW_LENGTH) if names else [], context)  # as Spark, without columns
        return rows

    def _show(self, first: list[dict[str, Any]], context: RunContext) -> None:
        context.shown[context.step] = first
        for number, row in list(enumerate(first, start=1)) or [(0, None)]:
            _log.info("echo", extra={"fields": {"label": self.label, "number": number, "row": row}})


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()
