"""A client for the part of Dagster's GraphQL API that the launcher needs. It imports no Dagster, to save memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from core.errors import Unavailable

RUNS = """query ($filter: RunsFilter!) { runsOrError(filter: $filter) {
  __typename ... on Runs { results { runId status } } ... on Error { message } } }"""
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A Dagster run with its status."""

    run_id: str
    status: str

    @property
    def ended(self) -> bool:
        return self.status in ENDED


class DagsterClient:
    """Raises Unavailable when the webserver does not answer as it should."""

    def __init__(self, ui_port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{ui_port}", timeout=30, trust_env=False)

    def list_runs(self, run_ids: Iterable[str]) -> dict[str, LaunchedRun]:
        """Return by id those of the runs that exist."""
        return {run.run_id: run for run in self._list({"runIds": list(run_ids)})}

    def list_runs_with_tags(self, tags: Mapping[str, str]) -> list[LaunchedRun]:
        return self._list({"tags": _format_tags(tags)})

    def close(self) -> None:
        self._http.close()

    def _list(self, filters: Mapping[str, Any]) -> list[LaunchedRun]:
        found = self._query(RUNS, {"filter": filters})["runsOrError"]
        if found["__typename"] != "Runs":
            raise Unavailable(f"Dagster did not list its runs: {found.get('message', found['__typename'])}")
        return [LaunchedRun(run["runId"], run["status"]) for run in found["results"]]

    def _query(self, query: str, variables: Mapping[str, Any] | None = None) -> Any:
        try:
            # an error inside Dagster has status 500 and a GraphQL body that describes it
            answer = self._http.post("/graphql", json={"query": query, "variables": variables or {}}).json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable("The Dagster webserver does not answer.") from error
        if answer.get("errors"):
            raise Unavailable(f"Dagster refused the query: {answer['errors'][0]['message']}")
        return answer["data"]


def _format_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
