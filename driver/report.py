"""What a driver tells: progress to Dagster Pipes where it was started by it, heartbeats and the end to the service."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from dagster_pipes import PipesContext, open_dagster_pipes

from driver.meter import Meter
from driver.progress import Progress
from driver.spec import ExecutionSpec
from driver.webhook import WebhookClient, WebhookFailed
from pipelines.planning.plan import Plan

_log = logging.getLogger(__name__)
_STAGES_EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 600.0


class Report:
    """Speaks for one attempt; a thread of its own sends progress and heartbeats while it is open."""

    def __init__(self, spec: ExecutionSpec, meter: Meter) -> None:
        self._spec = spec
        self._meter = meter
        self._started_at = datetime.now(UTC)
        self._clock = time.monotonic()
        self._progress: Progress | None = None
        self._spark_ui: str | None = None
        self._ended = threading.Event()
        self._stack = ExitStack()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._pipes: PipesContext | None = None
        self._shown: dict[str, Mapping[str, Any]] = {}
        self._webhook: WebhookClient | None = None

    def __enter__(self) -> Self:
        if "DAGSTER_PIPES_CONTEXT" in os.environ:
            self._pipes = self._stack.enter_context(open_dagster_pipes())
        if self._spec.webhook:
            secret = os.environ.pop("SPINDLE_EXECUTION_TOKEN", "")  # taken out: no child process needs it
            self._webhook = WebhookClient(self._spec.webhook.url, secret)
            self._stack.callback(self._webhook.close)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._stack.close()

    def planned(self, plan: Plan, progress: Progress) -> None:
        self._progress = progress
        _log.info("planned", extra={"fields": {"steps": [step.title for step in plan.steps]}})

    def started(self, plan: Plan, spark_ui: str | None) -> None:
        self._spark_ui = spark_ui
        stages = [{"key": step.key, "title": step.title} for step in plan.steps]
        self._message({"type": "started", "stages": stages, "sparkUiUrl": spark_ui})
        _log.info("started", extra={"fields": {"sparkUiUrl": spark_ui}})

    def completed(self, fields: Mapping[str, Any]) -> None:
        """Tells the end; raises WebhookFailed when the service could not be told."""
        self._finish("COMPLETED", None, fields, PATIENCE_SECONDS)

    def failed(self, sentence: str, patience: float = PATIENCE_SECONDS) -> None:
        self._finish("FAILED", sentence, {"errorMessage": sentence}, patience)

    def _finish(self, state: str, sentence: str | None, fields: Mapping[str, Any], patience: float) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=15)  # a heartbeat on its way must not arrive after the end
        if self._progress:
            self._progress.finish(state)
        self._show_stages()
        seconds = round(time.monotonic() - self._clock)
        ended = {"completedAt": datetime.now(UTC).isoformat(), "durationSeconds": seconds}
        payload = self._payload(state, {**ended, **fields})
        log = _log.info if state == "COMPLETED" else _log.error
        log(state.lower(), extra={"fields": {"message": sentence, "seconds": seconds}})
        try:
            if self._webhook:
                self._webhook.send(payload, patience)
        finally:
            self._message({"type": "finished", "state": state, "message": sentence, "payload": payload})

    def _payload(self, status: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        additional: dict[str, Any] = {"attempt": self._spec.attempt, **fields.get("additionalMetrics", {})}
        if self._progress:
            additional["progress"] = self._progress.snapshot()
        return {
            "jobId": self._spec.job_id,
            "executionId": self._spec.execution_id,
            "sparkApplicationName": self._spec.job_name,
            "status": status,
            "startedAt": self._started_at.isoformat(),
            "sparkUiUrl": self._spark_ui,
            **self._meter.fields(),
            **fields,
            "additionalMetrics": additional,
        }

    def _beat(self) -> None:
        due = 0.0
        while not self._ended.wait(_STAGES_EVERY_SECONDS if due else 0):
            try:
                self._show_stages()
            except Exception:  # what is shown must not cost the run its sign of life
                _log.exception("the stages could not be shown")
            if self._webhook and time.monotonic() >= due:
                self._heartbeat(self._webhook)
                due = time.monotonic() + self._spec.heartbeat_seconds

    def _heartbeat(self, webhook: WebhookClient) -> None:
        try:
            webhook.send(self._payload("RUNNING", {}), patience=0)
        except WebhookFailed as error:
            _log.warning("heartbeat not taken", extra={"fields": {"reason": str(error)}})

    def _show_stages(self) -> None:
        """Sends each stage that has changed since it was last sent."""
        if not self._progress or not self._pipes:
            return
        for stage in self._progress.stages():
            if self._shown.get(stage["key"]) != stage:
                self._shown[stage["key"]] = stage
                self._message({"type": "stage", **stage})

    def _message(self, message: Mapping[str, Any]) -> None:
        if self._pipes:
            self._pipes.report_custom_message(message)
