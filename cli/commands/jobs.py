"""Jobs of a service: executed, followed, cancelled, and their records as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import ExecutionId, Follow, Job, Queue, RowsFile, ServiceCall, call_service

app = typer.Typer()


@app.command()
@call_service
def apply(
    file: Annotated[Path, typer.Option("-f", "--file", help="A file that declares projects, agents and jobs.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes only; exit code 3 for any.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete records that the sections of the file omit.")] = False,
) -> ServiceCall:
    """Create and change the projects, agents, categories and jobs that a file declares."""
    from cli.apply import apply

    return lambda connection: apply(connection, file, dry_run, prune)


@app.command()
@call_service
def export(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file; default: standard output.")] = None,
) -> ServiceCall:
    """Write the projects, agents, categories and jobs as a file for `spindle apply`."""
    from cli.export import export

    return lambda connection: export(connection, output)


@app.command()
@call_service
def execute(
    job: Job,
    follow: Follow = False,
    wait: Annotated[
        int | None, typer.Option(min=0, max=60, help="Wait so many seconds for its end.", metavar="SECONDS")
    ] = None,
    parameter: Annotated[list[str] | None, typer.Option("--parameter", "-p", help="A ${NAME}, as NAME=value.")] = None,
    publish: Annotated[
        bool | None,
        typer.Option(
            "--publish/--no-publish", help="Replace the job's table, or keep the rows apart.", show_default=False
        ),
    ] = None,
    rows: RowsFile = None,
    queue: Queue = False,
) -> ServiceCall:
    """Execute a job; with --follow, show its progress and log until it ends, with --wait only how it ended."""
    from cli.execute import execute

    if follow and wait is not None:
        raise typer.BadParameter("--follow waits for the end already. Leave out --wait.")
    return lambda connection: execute(connection, job, parameter or [], follow, wait, publish, rows, queue)


@app.command()
@call_service
def backfill(
    job: Job,
    first: Annotated[str | None, typer.Option("--from", help="First period, such as 2026-01-01.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last period; 2026-01 is all of January.")] = None,
    partition: Annotated[list[str] | None, typer.Option(help="A partition by its key, in place of a period.")] = None,
    only: Annotated[str | None, typer.Option(help="Of these, only the `missing` or the `failed` ones.")] = None,
    follow: Follow = False,
    stop: Annotated[str | None, typer.Option("--cancel", help="Cancel this backfill instead.", metavar="ID")] = None,
) -> ServiceCall:
    """Execute many partitions of a job, each once: a period, some keys, or all that have closed."""
    from cli.partitions import backfill, cancel_backfill

    body = {"from": first, "to": last, "keys": partition, "only": only}
    if stop:
        return lambda connection: cancel_backfill(connection, job, stop)
    return lambda connection: backfill(connection, job, body, follow)


@app.command()
@call_service
def partitions(
    job: Job,
    state: Annotated[str | None, typer.Option(help="Only those present, missing, running or failed.")] = None,
) -> ServiceCall:
    """List the partitions of a job with their states and rows."""
    from cli.partitions import list_partitions

    return lambda connection: list_partitions(connection, job, state)


@app.command("list")
@call_service
def list_(
    job: Annotated[str | None, typer.Argument(help="List the executions of this job.", metavar="PROJECT/JOB")] = None,
) -> ServiceCall:
    """List the jobs with their states and tables, or the newest executions of one job."""
    from cli.jobs import list_executions, list_jobs

    return lambda connection: list_executions(connection, job) if job else list_jobs(connection)


@app.command()
@call_service
def logs(
    job: Job,
    execution: ExecutionId = None,
    tail: Annotated[int, typer.Option(min=0, max=10_000, help="At most this many lines.")] = 1_000,
) -> ServiceCall:
    """Print the log of an execution."""
    from cli.jobs import print_logs

    return lambda connection: print_logs(connection, job, execution, tail)


@app.command()
@call_service
def failures(
    job: Job,
    execution: ExecutionId = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many pages.")] = 100,
) -> ServiceCall:
    """List the pages that an execution could not fetch, with the reasons."""
    from cli.jobs import print_failures

    return lambda connection: print_failures(connection, job, execution, limit)


@app.command()
@call_service
def cancel(job: Job, execution: ExecutionId = None) -> ServiceCall:
    """Cancel an execution."""
    from cli.jobs import cancel

    return lambda connection: cancel(connection, job, execution)


@app.command()
@call_service
def reset(job: Job) -> ServiceCall:
    """Forget the pages that an incremental job knows: its next execution asks for all of them."""
    from cli.jobs import reset

    return lambda connection: reset(connection, job)


@app.command()
@call_service
def retry(job: Job, execution: ExecutionId = None, follow: Follow = False, queue: Queue = False) -> ServiceCall:
    """Retry a failed execution with the pipeline and parameters that it had."""
    from cli.execute import retry

    return lambda connection: retry(connection, job, execution, follow, queue)


@app.command()
@call_service
def login(
    address: Annotated[str, typer.Argument(help="An address of the site.", metavar="URL")],
    name: Annotated[str | None, typer.Option(help="Name of the login; default: the site's host.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="A storage state file (Playwright's) in place of a browser.", exists=True)
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option("--logged-out-selector", help="CSS of what only pages without a login show."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--logged-out-address", help="Regular expression for addresses that ask to log in."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Keep it in this file, for `spindle run`, and on no server."),
    ] = None,
) -> ServiceCall:
    """Record a login by hand in a visible browser, and keep it encrypted as a credential of the organization.

    Without signs of a page that asks to log in, a field for a password is one.
    """
    from cli.login import record_login

    return lambda connection: record_login(connection, address, name, state, (selector, pattern), output)
