"""`spindle list`, `logs` and `cancel`: the jobs of a server and their executions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cli.client import Client, ClientError, Connection, connect
from cli.terminal import escape_text, format_count, print_blocks, print_table
from pipelines.language.names import suggest

Json = dict[str, Any]
_PAGE = 1000  # the most that the server returns at once


def list_jobs(connection: Connection) -> int:
    with connect(connection) as client:
        tables = {each["datasetId"]: each for each in client.get("/datasets/query/tables")}
        rows = [
            [name, job["executionState"], name_table(tables.get(job["outputDatasetId"])), job["updatedAt"]]
            for name, _, job in _iter_jobs(client)
        ]
    print_table(["Job", "State", "Table", "Updated"], rows)
    return 0


def list_executions(connection: Connection, job: str) -> int:
    """Print the newest executions of a job, one page of the server's list."""
    with connect(connection) as client:
        executions = client.get(f"{find_job(client, job)}/executions")
    print_blocks(
        ["Id", "State", "Created", "Seconds"],
        [([_format_value(value) for value in _list_values(each)], _list_details(each)) for each in executions],
    )
    return 0


def _list_values(execution: Json) -> list[Any]:
    created = execution["createdAt"][:16].replace("T", " ")
    return [execution["executionId"], execution["state"], created, execution["executionTimeSeconds"]]


def _list_details(execution: Json) -> list[str]:
    """Return the engine and the driver of an execution, and why it failed."""
    waited = execution["waitedSeconds"]
    parts = (execution["engine"], _format_driver(execution), None if waited is None else f"waited {waited} s")
    return list(filter(None, (", ".join(filter(None, parts)), execution["errorMessage"])))


def _format_driver(execution: Json) -> str | None:
    """Return the source of the driver, and its name where several executions may have it."""
    source, name = execution["driverSource"], execution["driver"]
    return source if name is None or execution["executionId"] in name else f"{source} {name}"


def print_logs(connection: Connection, job: str, execution: str | None, tail: int) -> int:
    with connect(connection) as client:
        for line in client.get(f"{find_execution(client, job, execution)}/logs", tail=tail)["logs"]:
            print(escape_text(line))
    return 0


def cancel(connection: Connection, job: str, execution: str | None) -> int:
    with connect(connection) as client:
        cancelled = client.post(f"{find_execution(client, job, execution)}/cancel", {})
    print(f"Execution {cancelled['executionId']}: {cancelled['state']}")
    return 0


def find_job(client: Client, name: str) -> str:
    """Return the path of the job PROJECT/JOB; both names may contain slashes."""
    found = [path for full_name, path, _ in _iter_jobs(client, name) if full_name == name]
    if len(found) > 1:
        raise ClientError(f"There is more than one job '{name}'. Rename all but one.")
    if not found:
        similar = suggest(name, [full_name for full_name, _, _ in _iter_jobs(client)])
        hint = f"Did you mean {' or '.join(similar)}?" if similar else "Jobs are named as PROJECT/JOB."
        raise ClientError(f"There is no job '{name}'. {hint}")
    return found[0]


def find_execution(client: Client, job: str, execution: str | None) -> str:
    """Return the path of an execution of the job, by default of its newest one."""
    path = f"{find_job(client, job)}/executions"
    if execution is None:
        newest = client.get(path, limit=1)
        if not newest:
            raise ClientError(f"The job '{job}' has no executions. Start one with `spindle execute`.")
        execution = newest[0]["executionId"]
    return f"{path}/{execution}"


def name_table(table: Json | None) -> str:
    """Return the name under which SQL finds a table of the server's list."""
    return f"{table['schema']}.{table['name']}" if table else ""


def _iter_jobs(client: Client, name: str | None = None) -> Iterator[tuple[str, str, Json]]:
    """Yield name, path and record of all jobs, or of those of the projects that `name` may begin with."""
    for project in client.get("/projects"):
        if name is None or name.startswith(f"{project['name']}/"):
            jobs = f"/projects/id/{project['id']}/jobs"
            for job in client.get(jobs):
                yield f"{project['name']}/{job['name']}", f"{jobs}/{job['id']}", job


def _format_value(value: Any) -> str:
    return "" if value is None else str(value)


def print_failures(connection: Connection, job: str, execution: str | None, limit: int) -> int:
    """Print the counts of failed pages by status and reason, then the first pages."""
    with connect(connection) as client:
        path = f"{find_execution(client, job, execution)}/failures"
        answer = client.get(path, limit=min(limit, _PAGE))
        pages: list[Any] = answer["failures"]
        while len(pages) < limit and (
            more := client.get(path, limit=min(limit - len(pages), _PAGE), cursor=len(pages))["failures"]
        ):
            pages += more
    if not answer["pages"]:
        print("No page has failed.")
        return 0
    print(f"{format_count(answer['pages'], 'pages')} failed.")
    print_table(["Pages", "Status", "Reason"], ([f"{each['pages']:,}", *_name_kind(each)] for each in answer["counts"]))
    headings = ["Address", "Status", "Reason", "Line", "Message"]
    print_table(headings, ([each["url"], *_name_kind(each), _show(each["line"]), each["message"]] for each in pages))
    return 0


def _name_kind(count: Mapping[str, Any]) -> tuple[str, str]:
    return _show(count["status"]), count["reason"]


def _show(value: Any) -> str:
    return "" if value is None else str(value)


def reset(connection: Connection, job: str) -> int:
    """Let the next execution of an incremental job ask for all pages again."""
    with connect(connection) as client:
        client.post(f"{find_job(client, job)}/reset", {})
    print(f"{job} asks for all pages again; its rows stay.")
    return 0
