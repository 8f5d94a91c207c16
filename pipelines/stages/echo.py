"""echo: a look at the rows while a pipeline is written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.planning.stage import TableStage, register_stage
from pipelines.stages.dataframes import first_rows, to_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.planning.context import RunContext

_log = logging.getLogger(__name__)
_CUT = 200


@register_stage("echo")
class Echo(TableStage):
    """Writes the first rows, in document order, to the log or terminal; all rows pass on unchanged.

    The rows are made here and held, as by cache: leave it out once the pipeline is right. Texts are cut after 200
    characters. `label` tells several of them apart.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: echo, args: [5, loaded]}
"""

    positional = ("rows", "label")
    shows_rows = True
    persists = True
    rows: int = Field(10, ge=1, le=1000)
    label: str | None = None

    def describe(self) -> str:
        return " ".join(str(each) for each in (self.rows, self.label) if each is not None)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        shown = first_rows(rows, self.rows)
        for number, row in enumerate(to_records(shown.drop(*ENGINE_COLUMNS), cut=_CUT), start=1):
            _log.info("echo", extra={"fields": {"label": self.label, "number": number, "row": row}})
        return rows
