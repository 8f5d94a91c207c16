"""What `spindle run` says about an output that it does not write as the pipeline says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.output import OutputFile, plan_output
from pipelines.pipeline import Pipeline
from pipelines.planning.model import Output

STAGES = "fetch: {url: 'http://a.test/'}\npipeline: [{stage: extract, args: [{selector: h1, as: name}]}]\n"


@pytest.mark.parametrize(
    ("output", "file", "warnings"),
    [
        ("{}", None, []),
        (
            "{format: csv, mode: append}",
            None,
            ["'output' has no path, so its format, mode is not used here; -o FILE writes the rows to a file"],
        ),
        ("{format: csv}", OutputFile(Path("rows.csv")), []),
        (
            "{mode: append}",
            OutputFile(Path("rows.csv")),
            ["'output' has no path, so its mode is not used here; --append keeps its earlier rows"],
        ),
        ("{mode: append}", OutputFile(Path("rows.csv"), append=True), []),
        (
            "{path: 'spindle://shop/prices'}",
            OutputFile(Path("rows.csv")),
            ["'output' is not written: spindle://shop/prices is a dataset of a service; the rows are in rows.csv"],
        ),
    ],
)
def test_an_output_without_a_place_is_a_warning(output: str, file: OutputFile | None, warnings: list[str]) -> None:
    plan = Pipeline.from_yaml(f"{STAGES}output: {output}\n").plan()
    planned, found = plan_output(plan, file)
    assert found == warnings
    assert planned.output == Output()


def test_an_output_with_a_local_path_is_kept() -> None:
    text = f"{STAGES}output: {{path: rows.csv, format: csv}}\n"
    planned, found = plan_output(Pipeline.from_yaml(text).plan(), OutputFile(Path("rows.csv")))
    assert (planned.output.path, found) == ("rows.csv", [])
