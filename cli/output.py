"""The use that `spindle run` makes of the output of a pipeline: its own path, and the file of `-o`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from cli.row_files import check_output_file
from pipelines.language.formats import Mode
from pipelines.planning.model import Output
from pipelines.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class OutputFile:
    """The file of `-o`, whose earlier rows are kept with `append`."""

    path: Path
    append: bool = False

    def check(self) -> None:
        """Raise RunError when it cannot be written."""
        check_output_file(self.path, self.append)


@dataclass(frozen=True, slots=True)
class CollectedRows:
    """The output rows of a run, or the first of `count` rows, and those that checks have set aside."""

    rows: pa.Table
    count: int
    rejected: pa.Table | None


def plan_output(plan: Plan, file: OutputFile | None) -> tuple[Plan, list[str]]:
    """Return the plan with an output that a machine without a service writes, and warnings about the rest."""
    output = plan.output
    if output.path is None:
        return replace(plan, output=Output()), [*_explain_unused(output, file)]
    if output.own_path is None:
        warning = f"'output' is not written: {output.path} is a dataset of a service; {_advise(file)}"
        return replace(plan, output=Output()), [warning]
    return plan, []


def _advise(file: OutputFile | None) -> str:
    return f"the rows are in {file.path}" if file else "-o FILE writes the rows to a file"


def _explain_unused(output: Output, file: OutputFile | None) -> list[str]:
    """Return a sentence about the arguments of an output without a path that have no effect."""
    given = {"format": output.format != "parquet", "keys": output.keys, "partitionBy": output.partition_by}
    unused = {name for name, value in given.items() if value}
    if file and output.format == file.path.suffix.removeprefix(".").replace("jsonl", "json"):
        unused.discard("format")
    if output.mode is not (Mode.APPEND if file and file.append else Mode.OVERWRITE):
        unused.add("mode")
    if not unused:
        return []
    instead = "--append keeps its earlier rows" if file and output.mode is Mode.APPEND else _advise(file)
    return [f"'output' has no path, so its {', '.join(sorted(unused))} is not used here; {instead}"]
