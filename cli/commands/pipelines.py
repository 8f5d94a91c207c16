"""Pipeline files without a service."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import Parameters, PipelineFile, RowsFile, TransformsFile

app = typer.Typer()


@app.command()
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
    rows: RowsFile = None,
) -> None:
    """Run a pipeline file without any server: progress, then the rows as a table."""
    if append and output is None:
        raise typer.BadParameter("it belongs to -o FILE", param_hint="--append")
    with _delay_collection():
        try:
            from cli.output import OutputFile
            from cli.run import run

            wanted = OutputFile(output, append) if output else None
            code = run(file, wanted, parameter or [], guard, limit, transforms, cache, locked, rows)
        except KeyboardInterrupt:
            print("Stopped", file=sys.stderr)
            code = 130
    raise typer.Exit(code)


@contextmanager
def _delay_collection() -> Generator[None]:
    """Collect no garbage until a run begins: imports leave little, and looking for it takes a fifth of the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@app.command("try")
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
    rows: RowsFile = None,
) -> None:
    """Print the matches of selectors on a page, or the first rows of a pipeline, at once: it starts no Spark.

    A pipeline is tried up to its first stage that works on whole tables. On a terminal you can change selectors and
    save the result.
    """
    with _delay_collection():
        from cli.terminal import parse_parameters
        from cli.trial import TrialOptions, try_file, try_url

        options = TrialOptions(parse_parameters(parameter or []), guard, limit, pages, transforms, rows)
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


@app.command()
def record(
    file: PipelineFile,
    parameter: Parameters = None,
    pages: Annotated[int, typer.Option(min=1, help="At most this many pages.")] = 30,
    guard: Annotated[bool, typer.Option("--guard", help="Refuse loopback and private addresses too.")] = False,
    transforms: TransformsFile = None,
    rows: RowsFile = None,
) -> None:
    """Keep the first pages of a pipeline and their rows beside its file, for `spindle test`.

    The pages are a WARC archive, without cookies and credentials.
    """
    with _delay_collection():
        from cli.recording import record
        from cli.terminal import parse_parameters
        from cli.trial import TrialOptions

        raise typer.Exit(
            record(file, TrialOptions(parse_parameters(parameter or []), guard, 0, pages, transforms, rows))
        )


@app.command("test")
def replay(
    file: PipelineFile,
    parameter: Parameters = None,
    update: Annotated[bool, typer.Option("--update", help="Keep the rows as they are now.")] = False,
    transforms: TransformsFile = None,
    rows: RowsFile = None,
) -> None:
    """Run a pipeline over its recorded pages, without a network, and compare the rows with the kept ones.

    The exit code is 1 where they differ.
    """
    with _delay_collection():
        from cli.recording import test
        from cli.terminal import parse_parameters
        from cli.trial import TrialOptions

        raise typer.Exit(
            test(file, TrialOptions(parse_parameters(parameter or []), False, 0, 0, transforms, rows), update)
        )


@app.command()
def check(
    file: PipelineFile,
    parameter: Parameters = None,
    transforms: TransformsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the problems as JSON instead.")] = False,
) -> None:
    """Parse and plan a pipeline file: its errors with their lines, else the plan with its passes."""
    from cli.check import check

    raise typer.Exit(check(file, parameter or [], transforms, as_json))


@app.command("eval")
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


@app.command()
def jars(
    libraries: Annotated[
        list[str] | None, typer.Argument(help="delta, iceberg, avro, s3, postgresql, mysql; all.")
    ] = None,
) -> None:
    """Fetch the Java libraries of formats and storages that Spark lacks, and print their folder."""
    from cli.jars import fetch

    raise typer.Exit(fetch(libraries or []))
