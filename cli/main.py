"""The `spindle` command. Each command imports its module when it runs, so that `spindle --help` stays fast."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

if TYPE_CHECKING:
    from cli.client import Connection


main = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PipelineFile = Annotated[Path, typer.Argument(help="A pipeline file (YAML).", exists=True, dir_okay=False)]
TransformsFile = Annotated[
    Path | None,
    typer.Option("--transforms", help="A Python file; its functions are row transforms.", exists=True, dir_okay=False),
]
Parameters = Annotated[list[str] | None, typer.Option("--parameter", "-p", help="A ${NAME}, as NAME=value.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from core.infra.version import API_VERSION, get_version

        print(f"spindle {get_version()} (API {API_VERSION})")
        raise typer.Exit


@main.callback()
def show_help(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """YAML pipelines that turn web pages and files into datasets you can query with SQL."""


DATA = Path(".spindle")
Data = Annotated[Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder: database, keys, storage, logs.")]
Url = Annotated[
    str | None,
    typer.Option(
        envvar="SPINDLE_URL", help="Address of Spindle; default: the instance of the data folder.", show_default=False
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="SPINDLE_KEY",
        help="API key; default: DATA/admin-key. Other users can see options: prefer the environment.",
    ),
]
Job = Annotated[str, typer.Argument(help="PROJECT/JOB, by their names.", metavar="PROJECT/JOB")]
ExecutionId = Annotated[
    str | None, typer.Argument(help="Its id; default: the job's newest.", metavar="EXECUTION", show_default=False)
]
Follow = Annotated[bool, typer.Option("--follow", help="Wait for the end; exit code 3 if it fails.")]
ServerData = Annotated[Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder of a Spindle on this machine.")]


@main.command()
def up(
    data: Data = DATA,
    port: Annotated[int, typer.Option(envvar="SPINDLE_PORT", help="Port of the API.")] = 8080,
    ui_port: Annotated[int, typer.Option(envvar="SPINDLE_UI_PORT", help="Port of the Dagster UI.")] = 3000,
    host: Annotated[str, typer.Option(envvar="SPINDLE_HOST", help="Address that the API listens on.")] = "127.0.0.1",
    workers: Annotated[
        int, typer.Option(envvar="SPINDLE_API_WORKERS", min=1, max=64, help="Processes that serve the API.")
    ] = 1,
    workspace: Annotated[
        Path | None,
        typer.Option(
            envvar="SPINDLE_DAGSTER_WORKSPACE",
            help="A workspace.yaml with Dagster code locations of your own.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print all log lines, such as requests.")] = False,
) -> None:
    """Start everything in the foreground: API, launcher, Dagster webserver, daemon and code server."""
    from cli.up import up

    raise typer.Exit(up(data, port, ui_port, host, workers, workspace, verbose))


@main.command()
def run(
    file: PipelineFile,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file: .parquet, .csv, .json, .jsonl, .sqlite.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Keep the rows that the file of -o has.")] = False,
    parameter: Parameters = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many rows.")] = None,
    guard: Annotated[bool, typer.Option("--guard", help="Refuse loopback and private addresses too.")] = False,
    transforms: TransformsFile = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for fetched pages, which later runs revalidate, or use while they are fresh.", file_okay=False
        ),
    ] = None,
    locked: Annotated[
        Path | None,
        typer.Option("--selectors", help="A file of `spindle selectors export`, for replay."),
    ] = None,
) -> None:
    """Run a pipeline file without any server: progress, then the rows as a table."""
    if append and output is None:
        raise typer.BadParameter("it belongs to -o FILE", param_hint="--append")
    gc.disable()  # imports leave little garbage, whose collection takes a fifth of the start; the run enables it
    try:
        from cli.output import OutputFile
        from cli.run import run

        wanted = OutputFile(output, append) if output else None
        code = run(file, wanted, parameter or [], guard, limit, transforms, cache, locked)
    except KeyboardInterrupt:
        print("Stopped", file=sys.stderr)
        code = 130
    finally:
        gc.enable()
    raise typer.Exit(code)


@main.command("try")
def try_(
    target: Annotated[str, typer.Argument(help="An address, or a pipeline file.", metavar="URL|FILE")],
    selectors: Annotated[
        list[str] | None,
        typer.Argument(help="CSS, XPath, $.paths in JSON, or extractors: '{selector: h1, method: price}'."),
    ] = None,
    parameter: Parameters = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many rows.")] = 10,
    pages: Annotated[int, typer.Option(min=1, help="At most this many pages.")] = 20,
    guard: Annotated[bool, typer.Option("--guard", help="Refuse loopback and private addresses too.")] = False,
    transforms: TransformsFile = None,
) -> None:
    """Print the matches of selectors on a page, or the first rows of a pipeline, at once: it starts no Spark.

    A pipeline is tried up to its first stage that works on whole tables. On a terminal you can change selectors and
    save the result.
    """
    from cli.terminal import parse_parameters
    from cli.trial import TrialOptions, try_file, try_url

    options = TrialOptions(parse_parameters(parameter or []), guard, limit, pages, transforms)
    try:
        if target.startswith(("http://", "https://")):
            code = try_url(target, selectors or [], options)
        elif selectors or not Path(target).is_file():
            raise typer.BadParameter(f"'{target}' is neither an address of http or https nor a file")
        else:
            code = try_file(Path(target), options)
    except KeyboardInterrupt:
        print("Stopped", file=sys.stderr)
        code = 130
    raise typer.Exit(code)


@main.command()
def check(
    file: PipelineFile,
    parameter: Parameters = None,
    transforms: TransformsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the problems as JSON instead.")] = False,
) -> None:
    """Parse and plan a pipeline file: its errors with their lines, else the plan with its passes."""
    from cli.check import check

    raise typer.Exit(check(file, parameter or [], transforms, as_json))


@main.command("eval")
def eval_(
    file: Annotated[
        Path,
        typer.Argument(help="Labelled pages (JSON Lines or a list): url, html, values.", exists=True, dir_okay=False),
    ],
    provider: Annotated[str | None, typer.Option(help="TOGETHERAI, OPENAI or ANTHROPIC.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name; default: the provider's.")] = None,
    max_calls: Annotated[int | None, typer.Option("--max-calls", min=1, help="The most calls of the model.")] = None,
    selectors: Annotated[
        Path | None,
        typer.Option(
            "--selectors", help="A file of `spindle selectors export`, whose selectors are used.", exists=True
        ),
    ] = None,
) -> None:
    """Measure how well a language model serves prompts on labelled pages; without one, the pages' own metadata."""
    from cli.evaluation import evaluate_file

    raise typer.Exit(evaluate_file(file, provider, model, max_calls, selectors))


@main.command()
def jars(
    libraries: Annotated[
        list[str] | None, typer.Argument(help="delta, iceberg, avro, s3, postgresql, mysql; all.")
    ] = None,
) -> None:
    """Fetch the Java libraries of formats and storages that Spark lacks, and print their folder."""
    from cli.jars import fetch

    raise typer.Exit(fetch(libraries or []))


@main.command()
def history(
    data: ServerData = DATA,
    port: Annotated[int, typer.Option(help="Port of its pages.")] = 18080,
    host: Annotated[str, typer.Option(help="Address that it listens on; it has no login.")] = "127.0.0.1",
) -> None:
    """Start a history server of Spark over the event logs of executions, in the foreground."""
    from cli.spark_history_server import serve_spark_history

    serve_spark_history(data, host, port)


@main.command()
def migrate(
    data: Data = DATA,
) -> None:
    """Migrate the metadata database to this version."""
    from core.infra.settings import Settings

    Settings()  # a wrong one is told here
    environment = {**os.environ, "SPINDLE_DATA": str(data.resolve())}
    raise typer.Exit(subprocess.run([sys.executable, "-P", "-m", "core.infra.migrations"], env=environment).returncode)


@main.command(name="copy-database")
def copy_database(
    url: Annotated[
        str,
        typer.Argument(
            help="An empty database: postgresql://user@host/name. Leave the password to PGPASSWORD or ~/.pgpass.",
        ),
    ],
    data: Data = DATA,
) -> None:
    """Copy the metadata database, such as SQLite's, to PostgreSQL while no server runs."""
    from cli.data_folder import copy_database

    raise typer.Exit(copy_database(data, url))


@main.command()
def adopt(
    data: Data = DATA,
    copy: Annotated[
        bool,
        typer.Option("--copy", help="The database is a copy, and SPINDLE_STORAGE an address of its own for its files."),
    ] = False,
) -> None:
    """Let database, storage and service key belong together, after a move or a restore, while Spindle is stopped."""
    from cli.adopt import adopt_parts

    raise typer.Exit(adopt_parts(data, copy))


@main.command()
def cleanup(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    data: Data = DATA,
) -> None:
    """Remove files, logs, messages and runs of Dagster that are not kept any longer; the service does so by itself."""
    from cli.cleanup import clean_up

    raise typer.Exit(clean_up(data, dry_run=dry_run))


@main.command()
def openapi() -> None:
    """Print the OpenAPI file."""
    raise typer.Exit(subprocess.run([sys.executable, "-P", "-m", "api.openapi"], check=False).returncode)


@main.command()
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

    _run_remote(lambda: apply(_connection(url, key, data), file, dry_run, prune))


@main.command()
def export(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file; default: standard output.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Write the projects, agents, categories and jobs as a file for `spindle apply`."""
    from cli.export import export

    _run_remote(lambda: export(_connection(url, key, data), output))


@main.command()
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
    _run_remote(lambda: execute(_connection(url, key, data), job, parameter or [], follow, wait, publish))


@main.command("list")
def list_(
    job: Annotated[str | None, typer.Argument(help="List the executions of this job.", metavar="PROJECT/JOB")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """List the jobs with their states and tables, or the newest executions of one job."""
    from cli.jobs import list_executions, list_jobs

    connection = _connection(url, key, data)
    _run_remote(lambda: list_executions(connection, job) if job else list_jobs(connection))


@main.command()
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

    _run_remote(lambda: print_logs(_connection(url, key, data), job, execution, tail))


@main.command()
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

    _run_remote(lambda: print_failures(_connection(url, key, data), job, execution, limit))


@main.command()
def cancel(
    job: Job, execution: ExecutionId = None, url: Url = None, key: ApiKey = None, data: ServerData = DATA
) -> None:
    """Cancel an execution."""
    from cli.jobs import cancel

    _run_remote(lambda: cancel(_connection(url, key, data), job, execution))


@main.command()
def reset(job: Job, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Forget the pages that an incremental job knows: its next execution asks for all of them."""
    from cli.reset import reset

    _run_remote(lambda: reset(_connection(url, key, data), job))


@main.command()
def restore(
    job: Job,
    version: Annotated[int, typer.Argument(min=1, help="Number of the earlier version.", metavar="VERSION")],
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Make an earlier version of a job's table the current one again."""
    from cli.restore import restore

    _run_remote(lambda: restore(_connection(url, key, data), job, version))


@main.command()
def maintain(
    job: Job,
    days: Annotated[int, typer.Option(min=0, help="Files stay for so many days after they were replaced.")] = 7,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Merge small files of a job's table, and remove those that no version needs."""
    from cli.maintain import maintain

    _run_remote(lambda: maintain(_connection(url, key, data), job, days))


@main.command()
def diff(
    job: Job,
    before: Annotated[int | None, typer.Argument(min=1, help="Number of the first version.", metavar="A")] = None,
    after: Annotated[int | None, typer.Argument(min=1, help="Number of the second version.", metavar="B")] = None,
    keys: Annotated[str | None, typer.Option(help="Columns that tell rows apart, with commas between them.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most this many rows.")] = 20,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Print what changed from one version of a job's table to another, by default between the last two."""
    from cli.diff import diff

    if before is not None and after is None:
        raise typer.BadParameter("Give the numbers of two versions, or none.")
    versions = None if before is None or after is None else (before, after)
    _run_remote(lambda: diff(_connection(url, key, data), job, versions, keys, limit))


@main.command()
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

    _run_remote(lambda: retry(_connection(url, key, data), job, execution, follow))


@main.command()
def query(
    sql: Annotated[str, typer.Argument(help="A SELECT; tables are named PROJECT.JOB.", metavar="SQL")],
    limit: Annotated[int | None, typer.Option(min=0, help="At most this many rows; default: the server's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Query the tables with SQL and print the rows."""
    from cli.query import query

    _run_remote(lambda: query(_connection(url, key, data), sql, limit, as_json))


keys = typer.Typer(help="API keys of the organization.", no_args_is_help=True)
orgs = typer.Typer(help="Organizations of the instance.", no_args_is_help=True)
main.add_typer(keys, name="keys")
main.add_typer(orgs, name="orgs")
proven = typer.Typer(help="What prompts were proven to mean: selectors by host.", no_args_is_help=True)
main.add_typer(proven, name="selectors")
SelectorsId = Annotated[str, typer.Argument(metavar="ID", help="Id of proven selectors, as `selectors list` shows it.")]
HostName = Annotated[str | None, typer.Option(help="Only those of this host.")]


@proven.command(name="list")
def list_selectors(host: HostName = None, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """List proven selectors, with the score of each field."""
    from cli.selectors import list_selectors

    _run_remote(lambda: list_selectors(_connection(url, key, data), host))


@proven.command(name="show")
def show_selectors(id_: SelectorsId, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Show selectors, scores, sample pages, model, tokens and cost."""
    from cli.selectors import show_selectors

    _run_remote(lambda: show_selectors(_connection(url, key, data), id_))


@proven.command(name="pin")
def pin_selectors(id_: SelectorsId, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Let no run replace selectors."""
    from cli.selectors import pin_selectors

    _run_remote(lambda: pin_selectors(_connection(url, key, data), id_))


@proven.command(name="edit")
def edit_selectors(
    id_: SelectorsId,
    field: Annotated[str, typer.Argument(help="Name of the field.")],
    selector: Annotated[str, typer.Argument(help="CSS selector that reads it.")],
    method: Annotated[str, typer.Option(help="text, href, src or attr:NAME.")] = "text",
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Read a field by another selector."""
    from cli.selectors import edit_selectors

    _run_remote(lambda: edit_selectors(_connection(url, key, data), id_, field, selector, method))


@proven.command(name="delete")
def delete_selectors(id_: SelectorsId, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Delete selectors: the next run asks the model again."""
    from cli.selectors import delete_selectors

    _run_remote(lambda: delete_selectors(_connection(url, key, data), id_))


@proven.command(name="export")
def export_selectors(
    file: Annotated[Path, typer.Argument(help="Lock file to write.", dir_okay=False)],
    host: HostName = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Write selectors to a lock file in text."""
    from cli.selectors import export_selectors

    _run_remote(lambda: export_selectors(_connection(url, key, data), file, host))


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="The purpose of the key.")],
    scope: Annotated[list[str] | None, typer.Option(help="Default: all but the admin scopes.")] = None,
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Days until the key expires.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Create a key and print it; it is not shown again."""
    from cli.identity import create_key

    _run_remote(lambda: create_key(_connection(url, key, data), name, scope or [], days))


@keys.command("list")
def list_keys(url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """List the keys, without their secrets."""
    from cli.identity import list_keys

    _run_remote(lambda: list_keys(_connection(url, key, data)))


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="Its id, as `spindle keys list` shows it.", metavar="ID")],
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Revoke a key; it is refused from now on."""
    from cli.identity import revoke_key

    _run_remote(lambda: revoke_key(_connection(url, key, data), key_id))


@orgs.command("create")
def create_organization(
    name: Annotated[str, typer.Argument()], url: Url = None, key: ApiKey = None, data: ServerData = DATA
) -> None:
    """Create an organization and print its first admin key; it is not shown again."""
    from cli.identity import create_organization

    _run_remote(lambda: create_organization(_connection(url, key, data), name))


@orgs.command("list")
def list_organizations(url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """List the organizations."""
    from cli.identity import list_organizations

    _run_remote(lambda: list_organizations(_connection(url, key, data)))


secrets = typer.Typer(help="The encrypted secrets in the database.", no_args_is_help=True)
main.add_typer(secrets, name="secrets")


@secrets.command("rotate")
def rotate_secrets(
    data: Data = DATA,
) -> None:
    """Encrypt all secrets with a new service key while Spindle is stopped; run it again after an interruption."""
    from cli.data_folder import rotate_secrets

    raise typer.Exit(rotate_secrets(data))


def _connection(url: str | None, key: str | None, data: Path) -> Connection:
    from cli.client import Connection

    return Connection(url, key, data)


def _run_remote(command: Callable[[], int]) -> None:
    """Exit with the command's code, or print a ClientError and exit with 1."""
    from cli.client import ClientError

    try:
        code = command()
    except ClientError as error:
        print(error, file=sys.stderr)
        code = 1
    raise typer.Exit(code)


def command() -> None:
    """Run `spindle`; print a sentence for each invalid setting."""
    try:
        main()
    except ValidationError as error:
        if error.title != "Settings":
            raise
        for problem in error.errors():
            variable = f"SPINDLE_{'_'.join(map(str, problem['loc'][1:])).upper()}"
            reason = problem["msg"].removeprefix("Value error, ").removeprefix(f"{variable}: ")
            print(f"{variable} cannot be used: {reason}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    command()
