"""A client for the part of Dagster's GraphQL API that the launcher needs. It imports no Dagster, to save memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from core.errors import Unavailable

RUNS = """query ($filter: RunsFilter!) { runsOrError(filter: $filter) {
  __typename ... on Runs { results { runId status } } ... on Error { message } } }"""
REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "spindle"}
SCHEDULES = """query ($repository: RepositorySelector!) { schedulesOrError(repositorySelector: $repository) {
  __typename ... on Schedules { results { name scheduleState { id status } } } ... on Error { message } } }"""
START = """mutation ($schedule: ScheduleSelector!) { startSchedule(scheduleSelector: $schedule) {
  __typename ... on Error { message } } }"""
STOP = """mutation ($id: String!) { stopRunningSchedule(id: $id) { __typename ... on Error { message } } }"""
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A Dagster run with its status."""

    run_id: str
    status: str

    @property
    def ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class ScheduleSwitch:
    """The switch of a schedule in Dagster, with the id of its state."""

    state_id: str
    enabled: bool


class DagsterClient:
    """Raises Unavailable when the webserver does not answer as it should."""

    def __init__(self, ui_port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{ui_port}", timeout=30, trust_env=False)

    def list_runs(self, run_ids: Iterable[str]) -> dict[str, LaunchedRun]:
        """Return by id those of the runs that exist."""
        return {run.run_id: run for run in self._list({"runIds": list(run_ids)})}

    def list_runs_with_tags(self, tags: Mapping[str, str]) -> list[LaunchedRun]:
        return self._list({"tags": _format_tags(tags)})

    def list_schedules(self) -> dict[str, ScheduleSwitch]:
        """Return the switches of all schedules by name; none while the code server loads."""
        found = self._query(SCHEDULES, {"repository": REPOSITORY})["schedulesOrError"]
        if found["__typename"] != "Schedules":
            return {}
        return {
            each["name"]: ScheduleSwitch(each["scheduleState"]["id"], each["scheduleState"]["status"] == "RUNNING")
            for each in found["results"]
        }

    def turn_schedule(self, name: str, switch: ScheduleSwitch, enabled: bool) -> None:
        if enabled:
            answer = self._query(START, {"schedule": {"scheduleName": name, **REPOSITORY}})["startSchedule"]
        else:
            answer = self._query(STOP, {"id": switch.state_id})["stopRunningSchedule"]
        if answer["__typename"] != "ScheduleStateResult":
            raise Unavailable(f"Dagster did not turn a schedule: {answer.get('message', answer['__typename'])}")

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
