"""The rows that the request of an execution gives, which its stage load_rows begins with in all attempts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO

from core.errors import BadInput, Conflict, Detail
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import NotStored, given_rows_key
from core.tables import Execution
from core.tables.executions import FrozenInput
from pipelines.contract.request import GIVEN_ROWS
from pipelines.planning.plan import Plan
from pipelines.stages.given_rows import InvalidRows, check_rows


def freeze_rows(
    settings: Settings, execution: Execution, plan: Plan, values: Sequence[object] | None
) -> dict[str, FrozenInput]:
    """Store the rows of a request for the execution; return them as its input, or nothing for a plan without load_rows.

    Raises BadInput for values that are no rows, for a plan that needs rows, and for one that would not read them.
    """
    step = next((each for each in plan.steps if each.stage and each.stage.reads_given_rows), None)
    if values is None and step is None:
        return {}
    if values is None or step is None:
        sentence = "No stage of the pipeline reads the rows: begin it with load_rows, or leave them out."
        if step is not None:
            sentence = f"Line {step.line}: load_rows begins with the rows of the request: give them as 'rows'."
        raise BadInput(sentence, [Detail("rows", sentence, "rows-required" if step else "rows-not-read")])
    try:
        rows = check_rows(values)
    except InvalidRows as error:
        sentence, path = f"{str(error)[0].upper()}{str(error)[1:]}.", "rows"
        path = path if error.number is None else f"{path}.{error.number}"
        raise BadInput(sentence, [Detail(path, sentence, "invalid-row")]) from None
    key = given_rows_key(execution.organization_id, execution.id)
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    open_storage(settings.storage).put(key, BytesIO(lines.encode()))
    return {GIVEN_ROWS: FrozenInput("", "", 0, "json", (key,), rows=len(rows))}


def check_rows_kept(settings: Settings, execution: Execution) -> None:
    """Raise Conflict where the rows that the execution was given have been removed since it ended."""
    for key in execution.inputs[GIVEN_ROWS].locations if GIVEN_ROWS in execution.inputs else ():
        try:
            open_storage(settings.storage).open(key).close()
        except NotStored:
            sentence = "The rows that this execution was given were removed. Execute the job with them again."
            raise Conflict(sentence, code="not-retryable") from None
