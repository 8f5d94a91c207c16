"""Checkpoints: the rows of cache and store stages as files, from which a later attempt of the same run resumes.

A checkpoint is a folder of Parquet files and a marker beside it, which is written when the files are whole. The marker
has the counts of all steps up to there, so that a resumed run reports and checks the same as an undisturbed one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipelines.contract.request import CheckpointFolders
from pipelines.coordination.messages import Report
from pipelines.coordination.server import Coordinator
from pipelines.filesystem import list_data_files, read_file, write_file
from pipelines.language.columns import Columns
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import Export, Reset, Sink, Source
from pipelines.spark.output import count_parquet_rows, read_parquet, write_parquet

SUFFIX = ".checkpoint"
Shown = dict[str, list[dict[str, Any]]]  # rows that stages like echo show, by step key
_log = logging.getLogger(__name__)


class Marker(Struct, frozen=True):
    """The content of a checkpoint: `files` with their sizes.

    `counted`, `report` and `shown` are of the steps up to it: rows that Spark has counted, the reports of the workers,
    and rows that were shown.
    """

    digest: str
    columns: list[tuple[str, str]]
    row_schema: str
    rows: int
    files: dict[str, int]
    counted: dict[str, int]
    report: Report
    shown: Shown


_encode = Encoder(enc_hook=str).encode
_decode = Decoder(Marker).decode


@dataclass(frozen=True, slots=True)
class Resumption:
    """The step that a run resumes after, and the columns after it; by step key the rows of the checkpoints.

    `counted` are numbers of rows that Spark has counted.
    """

    step: Step
    columns: Columns
    rows: Mapping[str, DataFrame]
    counted: Mapping[str, int]


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, spark: SparkSession, plan: Plan, folders: CheckpointFolders, coordinator: Coordinator) -> None:
        self._spark = spark
        self._folders = folders
        self._coordinator = coordinator
        self._steps = list_checkpoint_steps(plan)

    def resume(self, shown: Shown) -> Resumption | None:
        """Return the last whole checkpoint of the earlier attempts, and those of all stored rows before it.

        The workers' reports up to it become this run's, and `shown` gets the rows that they have shown.
        """
        found: dict[str, tuple[Marker, str]] = {}
        for step in self._steps:
            checkpoint = self._find(step)
            if checkpoint is not None:
                found[step.key] = checkpoint
            elif step.stage is not None and step.stage.capabilities.stored_label is not None:
                break  # later stages may use its rows
        last = next((step for step in reversed(self._steps) if step.key in found), None)
        if last is None:
            return None
        rows = {
            key: read_parquet(self._spark, StructType.fromJson(json.loads(marker.row_schema)), path)
            for key, (marker, path) in found.items()
        }
        marker, path = found[last.key]
        self._coordinator.import_report(marker.report)
        shown.update(marker.shown)
        _log.info("resumed", extra={"fields": {"step": last.title, "rows": marker.rows, "folder": path}})
        return Resumption(last, Columns(tuple(marker.columns)), rows, marker.counted)

    def has(self, step: Step) -> bool:
        """Return whether the step has a checkpoint."""
        return step in self._steps

    def write(
        self, step: Step, rows: DataFrame, columns: Columns, get_counts: Callable[[], Mapping[str, int]], shown: Shown
    ) -> DataFrame | None:
        """Write a checkpoint and return its rows, read from it; None for rows that files cannot hold.

        `get_counts` returns the numbers of rows that Spark itself has counted.
        """
        path = f"{self._folders.folder}/{step.key}"
        try:
            written = write_parquet(rows, path)
        except AnalysisException:  # a column of a type that Parquet lacks, like interval
            _log.warning("no checkpoint", extra={"fields": {"step": step.title}})
            return None
        marker = Marker(
            digest=self._folders.digest,
            columns=list(columns.types),
            row_schema=rows.schema.json(),
            rows=written.rows,
            files={file.name: file.size for file in list_data_files(path)},
            counted=dict(get_counts()),
            report=self._coordinator.export_report(),
            shown=shown,
        )
        write_file(f"{path}{SUFFIX}", _encode(marker))
        return read_parquet(self._spark, rows.schema, path)

    def _find(self, step: Step) -> tuple[Marker, str] | None:
        """Return the newest whole checkpoint of a step with its folder."""
        for folder in self._folders.earlier:
            path = f"{folder}/{step.key}"
            try:
                content = read_file(f"{path}{SUFFIX}")
                if content is None:
                    continue
                marker = _decode(content)
            except (DecodeError, ValidationError):
                continue
            if marker.digest == self._folders.digest and _is_whole(path, marker):
                return marker, path
        return None


def list_checkpoint_steps(plan: Plan) -> Sequence[Step]:
    """Return the steps whose rows a later attempt may begin with.

    Rows that are stored and never used are not computed. The saves of a stage belong to the attempt that completes, and
    the cookies of a session to the run, so neither may come before.
    """
    if plan.options.shares_cookies:
        return ()
    used = {label for step in plan.steps if step.stage for label in step.stage.capabilities.used_labels}
    steps: list[Step] = []
    for number, step in enumerate(plan.steps):
        if isinstance(step.stage, Sink | Export):
            break
        if step.stage is None or not step.stage.capabilities.is_checkpoint:
            continue
        label = step.stage.capabilities.stored_label
        if label is None or label in used or not isinstance(plan.steps[number + 1].stage, Source | Reset):
            steps.append(step)
    return steps


def _is_whole(folder: str, marker: Marker) -> bool:
    try:
        files = list_data_files(folder)
        return {file.name: file.size for file in files} == marker.files and count_parquet_rows(files) == marker.rows
    except (OSError, ValueError):  # pyarrow's errors are among them
        return False
