"""Addresses of an execution's pages, as the caller of a request reaches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Request

from api.kit.services import ServicesOf


class ExecutionLinks:
    """Makes the addresses for one request."""

    def __init__(self, request: Request, services: ServicesOf) -> None:
        self._request = request
        self._pages = services.spark_pages
        self._dagster = services.settings.dagster.url

    def find_spark_page(self, execution: Mapping[str, Any]) -> str | None:
        """Return the address of Spark's page, or None."""
        ids = {"projectId": execution["project_id"], "jobId": execution["job_id"], "executionId": execution["id"]}
        served = self._request.url_for("read_spark_page", **ids, path="")
        return self._pages.find_address(execution, str(served))

    def find_run_page(self, execution: Mapping[str, Any]) -> str | None:
        """Return the address of the run's page in the Dagster UI; None before there is a run."""
        run_id: str | None = execution["run_id"]
        return run_id and f"{self._dagster}/runs/{run_id}"


LinksOf = Annotated[ExecutionLinks, Depends()]
