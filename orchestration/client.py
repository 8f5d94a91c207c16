"""A client for Dagster's GraphQL API of schedules, which only the webserver can turn on and off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from core.errors import Unavailable

REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "spindle"}
SCHEDULES = """query ($repository: RepositorySelector!) { schedulesOrError(repositorySelector: $repository) {
  __typename ... on Schedules { results { name scheduleState { id status } } } ... on Error { message } } }"""
START = """mutation ($schedule: ScheduleSelector!) { startSchedule(scheduleSelector: $schedule) {
  __typename ... on Error { message } } }"""
STOP = """mutation ($id: String!) { stopRunningSchedule(id: $id) { __typename ... on Error { message } } }"""


@dataclass(frozen=True, slots=True)
class ScheduleSwitch:
    """The switch of a schedule in Dagster, with the id of its state."""

    state_id: str
    enabled: bool


class DagsterClient:
    """Raises Unavailable when the webserver does not answer as it should."""

    def __init__(self, ui_port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{ui_port}", timeout=30, trust_env=False)

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

    def _query(self, query: str, variables: Mapping[str, Any] | None = None) -> Any:
        try:
            # an error inside Dagster has status 500 and a GraphQL body that describes it
            answer = self._http.post("/graphql", json={"query": query, "variables": variables or {}}).json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable("The Dagster webserver does not answer.") from error
        if answer.get("errors"):
            raise Unavailable(f"Dagster refused the query: {answer['errors'][0]['message']}")
        return answer["data"]
