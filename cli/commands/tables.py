"""Tables of a service: queried, compared, restored and maintained."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import Job, ServiceCall, call_service

app = typer.Typer()


@app.command()
@call_service
def query(
    sql: Annotated[str, typer.Argument(help="A SELECT; tables are named PROJECT.JOB.", metavar="SQL")],
    limit: Annotated[int | None, typer.Option(min=0, help="At most this many rows; default: the server's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> ServiceCall:
    """Query the tables with SQL and print the rows."""
    from cli.query import query

    return lambda connection: query(connection, sql, limit, as_json)


@app.command()
@call_service
def diff(
    job: Job,
    before: Annotated[int | None, typer.Argument(min=1, help="Number of the first version.", metavar="A")] = None,
    after: Annotated[int | None, typer.Argument(min=1, help="Number of the second version.", metavar="B")] = None,
    keys: Annotated[str | None, typer.Option(help="Columns that tell rows apart, with commas between them.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most this many rows.")] = 20,
) -> ServiceCall:
    """Print what changed from one version of a job's table to another, by default between the last two."""
    from cli.diff import diff

    if before is not None and after is None:
        raise typer.BadParameter("Give the numbers of two versions, or none.")
    versions = None if before is None or after is None else (before, after)
    return lambda connection: diff(connection, job, versions, keys, limit)


@app.command()
@call_service
def restore(
    job: Job, version: Annotated[int, typer.Argument(min=1, help="Number of the earlier version.", metavar="VERSION")]
) -> ServiceCall:
    """Make an earlier version of a job's table the current one again."""
    from cli.restore import restore

    return lambda connection: restore(connection, job, version)


@app.command()
@call_service
def maintain(
    job: Job,
    days: Annotated[int, typer.Option(min=0, help="Files stay for so many days after they were replaced.")] = 7,
) -> ServiceCall:
    """Merge small files of a job's table, and remove those that no version needs."""
    from cli.maintain import maintain

    return lambda connection: maintain(connection, job, days)
