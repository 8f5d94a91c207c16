"""How far a run is: the state and the counts of each step of its plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.coordination.server import Counts
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import LinkStage
from pipelines.spark.run import Run, RunResult

_OF_PAGES = ("_requestedUrl", "_status", "_error")


class Progress:
    """Read by several threads; the run's end and its preview are set by one. `hidden` hides secrets in previews."""

    def __init__(self, plan: Plan, run: Run, hidden: Callable[[Any], Any] = lambda shown: shown) -> None:
        self._plan = plan
        self._run = run
        self._hidden = hidden
        self._passes = {step.key: number for number, steps in enumerate(plan.iter_passes()) for step in steps}
        self._end: str | None = None
        self._output = Counts()
        self._preview: list[dict[str, Any]] = []
        self._columns = {step.key: _shown(step).types for step in plan.steps}

    def set_result(self, result: RunResult) -> None:
        self._output = Counts(rows=result.output.rows, seconds=result.seconds)
        self._preview = result.preview
        self._columns[self._plan.steps[-1].key] = result.output.columns

    def finish(self, state: str) -> None:
        self._end = state

    def stages(self) -> list[dict[str, Any]]:
        """Each step with its state and counts; columns and preview where it is done."""
        counts = self._run.get_counts()
        last = self._plan.steps[-1].key
        if self._output.rows or self._end == "COMPLETED":
            counts[last] = self._output
        reached = max((self._passes[key] for key in counts), default=0)
        return [self._stage(step.key, step.title, counts.get(step.key, Counts()), reached) for step in self._plan.steps]

    def snapshot(self) -> dict[str, Any]:
        """The progress object of the webhook: the fraction of steps done, and each step."""
        stages = self.stages()
        done = sum(stage["state"] == "COMPLETED" for stage in stages)
        shown = [
            {name: value for name, value in stage.items() if name not in ("columns", "preview")} for stage in stages
        ]
        return {"fraction": round(done / len(stages), 3), "stages": shown}

    def _stage(self, key: str, title: str, counts: Counts, reached: int) -> dict[str, Any]:
        state = self._state(self._passes[key], reached)
        stage: dict[str, Any] = {
            "key": key,
            "title": title,
            "state": state,
            "rows": counts.rows,
            "pages": counts.pages,
            "errors": counts.errors,
            "seconds": round(counts.seconds, 1),
        }
        if state == "COMPLETED":
            stage["columns"] = [{"name": name, "type": type_} for name, type_ in self._columns[key]]
            stage["preview"] = self._hidden(self._preview if key == self._plan.steps[-1].key else self._first_rows(key))
        return stage

    def _first_rows(self, key: str) -> list[dict[str, Any]]:
        """The step's columns of its first rows, where workers made them."""
        names = [name for name, _ in self._columns[key]]
        return [{name: row.get(name) for name in names} for row in self._run.get_preview(key)] if names else []

    def _state(self, number: int, reached: int) -> str:
        if self._end == "COMPLETED" or number < reached:
            return "COMPLETED"
        if number > reached:
            return "PENDING"
        return "FAILED" if self._end else "RUNNING"


def _shown(step: Step) -> Columns:
    """The columns of a step's rows that people are shown: where they are pages, what became of those too."""
    if not isinstance(step.stage, LinkStage):
        return step.columns
    names = [name for name in _OF_PAGES if name not in tuple(step.columns)]
    return step.columns.with_columns(tuple((name, ENGINE_COLUMNS[name]) for name in names))
