"""Jobs of a service: executed, followed, cancelled, and their records as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import DATA, ApiKey, ExecutionId, Follow, Job, ServerData, Url, connect, run_remote

app = typer.Typer()


@app.command()
def apply(
    file: Annotated[Path, typer.Option("-f", "--file", help="A file that declares projects, agents and jobs.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes only; exit code 3 for any.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete records that the sections of the file omit.")] = False,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Create and change the projects, agents, categories and jobs that a file declares."""
    from cli.apply import apply

    run_remote(lambda: apply(connect(url, key, data), file, dry_run, prune))


@app.command()
def export(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file; default: standard output.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Write the projects, agents, categories and jobs as a file for `spindle apply`."""
    from cli.export import export

    run_remote(lambda: export(connect(url, key, data), output))


@app.command()
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
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Execute a job; with --follow, show its progress and log until it ends, with --wait only how it ended."""
    from cli.execute import execute

    if follow and wait is not None:
        raise typer.BadParameter("--follow waits for the end already. Leave out --wait.")
    run_remote(lambda: execute(connect(url, key, data), job, parameter or [], follow, wait, publish))


@app.command("list")
def list_(
    job: Annotated[str | None, typer.Argument(help="List the executions of this job.", metavar="PROJECT/JOB")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """List the jobs with their states and tables, or the newest executions of one job."""
    from cli.jobs import list_executions, list_jobs

    connection = connect(url, key, data)
    run_remote(lambda: list_executions(connection, job) if job else list_jobs(connection))


@app.command()
def logs(
    job: Job,
    execution: ExecutionId = None,
    tail: Annotated[int, typer.Option(min=0, max=10_000, help="At most this many lines.")] = 1_000,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Print the log of an execution."""
    from cli.jobs import print_logs

    run_remote(lambda: print_logs(connect(url, key, data), job, execution, tail))


@app.command()
def failures(
    job: Job,
    execution: ExecutionId = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many pages.")] = 100,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """List the pages that an execution could not fetch, with the reasons."""
    from cli.failures import print_failures

    run_remote(lambda: print_failures(connect(url, key, data), job, execution, limit))


@app.command()
def cancel(
    job: Job, execution: ExecutionId = None, url: Url = None, key: ApiKey = None, data: ServerData = DATA
) -> None:
    """Cancel an execution."""
    from cli.jobs import cancel

    run_remote(lambda: cancel(connect(url, key, data), job, execution))


@app.command()
def reset(job: Job, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Forget the pages that an incremental job knows: its next execution asks for all of them."""
    from cli.reset import reset

    run_remote(lambda: reset(connect(url, key, data), job))


@app.command()
def retry(
    job: Job,
    execution: ExecutionId = None,
    follow: Follow = False,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Retry a failed execution with the pipeline and parameters that it had."""
    from cli.execute import retry

    run_remote(lambda: retry(connect(url, key, data), job, execution, follow))
