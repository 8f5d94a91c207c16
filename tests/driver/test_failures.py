"""The line of a failure, which tells the step that Dagster shows as failed."""

from __future__ import annotations

import pytest

from driver.failures import find_line
from pipelines.errors import PipelineError, Problem, RunError, SparkEnded


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PipelineError([Problem("pipeline[1]", "no such column", 5), Problem("pipeline[0]", "no such stage", 3)]), 3),
        (RunError("line 4: extract title: it failed", 4), 4),
        (SparkEnded("lines 3 to 7 (wgetJoin to extract): it ended", 3), 3),
        (RunError("line 4 is only said, by a page"), None),
        (ValueError("line 4"), None),
    ],
)
def test_the_line_is_that_of_the_error_and_not_of_its_text(error: Exception, line: int | None) -> None:
    assert find_line(error) == line
