"""The fields of a job as requests set them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.definitions.jobs.models import JobUpdate


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", -1),
        ("max_retries", 21),
        ("retry_backoff_seconds", -1),
        ("timeout_seconds", -1),
        ("retry_on", "x"),
    ],
)
def test_fields_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        JobUpdate.model_validate({field: value})


def test_an_empty_text_removes_an_id_and_a_time_but_no_description() -> None:
    changes = JobUpdate(agent_id="", scheduled_time="", description="", max_retries=None)
    assert changes.to_columns() == {"agent_id": None, "scheduled_time": None, "description": ""}
