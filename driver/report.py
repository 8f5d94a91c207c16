"""The driver's reports: progress to Dagster Pipes where there is one, heartbeats and the end to the service."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Self

from dagster_pipes import PipesContext, open_dagster_pipes

from driver.logs import format_time
from driver.messages import MESSAGES_VARIABLE, DriverMessageWriter
from driver.progress import RunProgress
from driver.resource_usage import UsageMeter
from driver.webhook import WebhookClient, WebhookFailed
from pipelines.contract.progress import RequestCount, StageReport
from pipelines.contract.report import RunReport
from pipelines.contract.request import RunRequest
from pipelines.filesystem import is_disk_full, write_file
from pipelines.language.engines import EngineName
from pipelines.planning.plan import Plan

_log = logging.getLogger(__name__)
_STAGES_SECONDS = 1.0
_MAX_LOGGED_KINDS = 20  # of failed pages
PATIENCE_SECONDS = 600.0


class Reporter:
    """Reports about one attempt. While it is open, a thread sends progress and heartbeats."""

    def __init__(self, spec: RunRequest, meter: UsageMeter) -> None:
        self._spec = spec
        self._meter = meter
        self._started_at = datetime.now(UTC)
        self._clock = time.monotonic()
        self._progress: RunProgress | None = None
        self._spark_ui: str | None = None
        self._ended = threading.Event()
        self._stack = ExitStack()
        self._thread = threading.Thread(target=self._report_until_ended, name="heartbeat", daemon=True)
        self._pipes: PipesContext | None = None
        self._sent_stages: dict[str, StageReport] = {}
        self._webhook: WebhookClient | None = None
        self._failed_pages = FailedPagesFile(spec.output.failures)
        self._blocking_hosts = set[str]()
        self._disk_is_full = False

    def __enter__(self) -> Self:
        if "DAGSTER_PIPES_CONTEXT" in os.environ:
            self._pipes = self._stack.enter_context(open_dagster_pipes(message_writer=DriverMessageWriter()))
            os.environ.pop(MESSAGES_VARIABLE, None)  # child processes send no messages
        if self._spec.webhook:
            secret = os.environ.pop("SPINDLE_EXECUTION_TOKEN", "")  # child processes must not inherit it
            self._webhook = WebhookClient(self._spec.webhook.url, secret)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._stack.close()

    def report_plan(self, plan: Plan, progress: RunProgress) -> None:
        self._progress = progress
        _log.info("planned", extra={"fields": {"steps": [step.title for step in plan.steps]}})

    def report_start(self, engine: EngineName, spark_ui: str | None = None) -> None:
        """Report that the first step begins, or goes on with another engine."""
        self._spark_ui = spark_ui
        self._send_message({"type": "started"})
        _log.info("started", extra={"fields": {"engine": engine, "sparkUiUrl": spark_ui}})

    def report_success(self, report: RunReport, fields: Mapping[str, Any]) -> None:
        """Report COMPLETED; raise WebhookFailed when the service does not accept it."""
        self._report_end("COMPLETED", report, fields, PATIENCE_SECONDS)

    def report_failure(
        self, sentence: str, code: str, line: int | None = None, *, patience: float = PATIENCE_SECONDS
    ) -> None:
        """Report FAILED, at a line of the pipeline; raise WebhookFailed when the service does not accept it."""
        self._report_end("FAILED", RunReport(error_code=code), {"errorMessage": sentence}, patience, line)

    def _report_end(
        self, state: str, report: RunReport, fields: Mapping[str, Any], patience: float, line: int | None = None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=15)  # a heartbeat must not arrive after the end
        if self._progress:
            self._progress.finish(state)
        self._send_stages()
        self._log_stages()
        self._log_requests()
        seconds = round(time.monotonic() - self._clock)
        ended = {"completedAt": format_time(datetime.now(UTC)), "durationSeconds": seconds}
        payload = self._build_payload(state, report, {**ended, **fields})
        log = _log.info if state == "COMPLETED" else _log.error
        sentence = fields.get("errorMessage")
        said = {} if sentence is None else {"message": sentence}
        log(state.lower(), extra={"fields": {**said, "seconds": seconds}})
        try:
            if self._webhook:
                self._webhook.send(payload, patience)
        finally:
            message = {"type": "finished", "state": state, "message": sentence, "line": line, "payload": payload}
            self._send_message(message)

    def _build_payload(self, status: str, report: RunReport, fields: Mapping[str, Any]) -> dict[str, Any]:
        parts: dict[str, Any] = {"attempt": self._spec.attempt}
        if self._progress:
            parts |= {"progress": self._progress.build_report(), "resumed_after": self._progress.resumed_after}
        return {
            "jobId": self._spec.job_id,
            "executionId": self._spec.execution_id,
            "sparkApplicationName": self._spec.job_name,
            "status": status,
            "startedAt": format_time(self._started_at),
            "sparkUiUrl": self._spark_ui,
            **self._meter.get_report_fields(),
            **fields,
            "additionalMetrics": report.model_copy(update=parts).to_json(),
        }

    def _report_until_ended(self) -> None:
        heartbeat_due = 0.0
        while not self._ended.wait(_STAGES_SECONDS if heartbeat_due else 0):
            try:
                self._send_stages()
            except Exception:  # a fault in the display must not stop the heartbeat
                _log.exception("the stages could not be shown")
            self._log_blocking_hosts()
            if self._webhook and time.monotonic() >= heartbeat_due:
                if self._progress:
                    self._failed_pages.write(self._progress)
                self._send_heartbeat(self._webhook)
                heartbeat_due = time.monotonic() + self._spec.heartbeat_seconds

    def _send_heartbeat(self, webhook: WebhookClient) -> None:
        try:
            webhook.send(self._build_payload("RUNNING", RunReport(), {}), patience=0)
        except WebhookFailed as error:
            _log.warning("heartbeat not accepted", extra={"fields": {"reason": str(error)}})

    def _send_stages(self) -> None:
        """Send the stages that have changed since they were last sent."""
        if not self._progress or not self._pipes:
            return
        for stage in self._progress.list_stages():
            if self._sent_stages.get(stage.key) != stage and self._send_message({"type": "stage", **stage.to_json()}):
                self._sent_stages[stage.key] = stage

    def _log_stages(self) -> None:
        """Log the pages that needed no request, the counts of all selectors by stage, and the warnings."""
        for stage in self._progress.list_stages() if self._progress else ():
            if stage.cached:
                fields = {"stage": stage.title, "pages": stage.cached}
                _log.info("pages of earlier executions were used without a request", extra={"fields": fields})
            if stage.selectors:
                selectors = [each.to_json() for each in stage.selectors]
                _log.info("selectors", extra={"fields": {"stage": stage.title, "selectors": selectors}})
            for warning in stage.warnings:
                _log.warning(warning)

    def _log_requests(self) -> None:
        """Log the counts of pages by status, a line for every kind of failed pages, and list these pages in a file."""
        if self._progress is None:
            return
        self._log_blocking_hosts()
        requests = self._progress.list_requests()
        if requests:
            totals = [each.model_dump(exclude={"addresses"}) for each in requests]
            _log.info("requests", extra={"fields": {"requests": totals}})
        for each in [each for each in requests if each.reason][:_MAX_LOGGED_KINDS]:
            fields = each.model_dump(include={"status", "reason", "pages", "addresses"})
            _log.warning("pages failed", extra={"fields": fields})
        self._failed_pages.write(self._progress)

    def _log_blocking_hosts(self) -> None:
        """Log once that a host blocks pages."""
        for host, sentence in self._progress.list_blocking_hosts() if self._progress else ():
            if host not in self._blocking_hosts:
                self._blocking_hosts.add(host)
                _log.warning(sentence)

    def _send_message(self, message: Mapping[str, Any]) -> bool:
        """Send a message to the run, which only shows it; return False while the disk has no room for it."""
        try:
            if self._pipes:
                self._pipes.report_custom_message(message)
        except OSError as error:
            if not is_disk_full(error):
                raise
            if not self._disk_is_full:
                _log.warning("the run shows nothing new: there is no space left on the disk of its messages")
            self._disk_is_full = True
        else:
            self._disk_is_full = False
        return not self._disk_is_full


class FailedPagesFile:
    """A file in the storage of an execution, which is written again when further pages have failed."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._written: list[RequestCount] = []

    def write(self, progress: RunProgress) -> None:
        """Write the counts of failed pages and the first of the pages, unless the file has them."""
        counts = progress.list_failure_counts()
        if self._address is None or counts == self._written:
            return
        pages = (page.to_json() for page in progress.list_failed_pages())
        lines = [{"counts": [each.to_json() for each in counts]}, *pages]
        content = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        try:
            write_file(self._address, content.encode())
        except OSError:  # the execution continues without the list
            _log.exception("the list of failed pages could not be written")
        else:
            self._written = counts
