"""Dagster's public GraphQL, as far as the launcher needs it. Imports no Dagster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from core.errors import Unavailable
from orchestration.instance import LOCATION

LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on Error { message } } }"""
RUNS = """query ($filter: RunsFilter!) { runsOrError(filter: $filter) {
  __typename ... on Runs { results { runId status } } ... on Error { message } } }"""
RELOAD = "mutation { reloadWorkspace { __typename } }"

SELECTOR = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "execute_pipeline"}
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})


@dataclass(frozen=True, slots=True)
class Run:
    run_id: str
    status: str

    @property
    def ended(self) -> bool:
        return self.status in ENDED


class DagsterClient:
    """Raises Unavailable when the webserver, or the code server behind it, does not answer as it should."""

    def __init__(self, ui_port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{ui_port}", timeout=30, trust_env=False)

    def launch(self, execution_id: str, attempt: int, tags: Mapping[str, str]) -> str:
        """The id of a new run of this attempt."""
        parameters = {
            "selector": SELECTOR,
            "runConfigData": {"execution_id": execution_id, "attempt": attempt},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        answer = self._ask(LAUNCH, {"params": parameters})["launchRun"]
        if answer["__typename"] != "LaunchRunSuccess":
            self._ask(RELOAD)  # the code server may have come up after the webserver
            raise Unavailable(f"Dagster did not launch the run: {answer.get('message', answer['__typename'])}")
        return answer["run"]["runId"]

    def runs(self, run_ids: Iterable[str]) -> dict[str, Run]:
        """Those of the runs that exist."""
        return {run.run_id: run for run in self._runs({"runIds": list(run_ids)})}

    def runs_tagged(self, tags: Mapping[str, str]) -> list[Run]:
        return self._runs({"tags": [{"key": key, "value": value} for key, value in tags.items()]})

    def close(self) -> None:
        self._http.close()

    def _runs(self, which: Mapping[str, Any]) -> list[Run]:
        answer = self._ask(RUNS, {"filter": which})["runsOrError"]
        if answer["__typename"] != "Runs":
            raise Unavailable(f"Dagster did not list its runs: {answer.get('message', answer['__typename'])}")
        return [Run(run["runId"], run["status"]) for run in answer["results"]]

    def _ask(self, query: str, variables: Mapping[str, Any] | None = None) -> Any:
        try:
            # an error inside Dagster is answered with 500 and the GraphQL answer that tells it
            answer = self._http.post("/graphql", json={"query": query, "variables": variables or {}}).json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable("The Dagster webserver does not answer.") from error
        if answer.get("errors"):
            raise Unavailable(f"Dagster refused the query: {answer['errors'][0]['message']}")
        return answer["data"]
