"""The stage reference, from the registry: `python -m pipelines.reference > docs/stages.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from pipelines.browser.actions import ACTIONS, Action
from pipelines.extract.extractors import METHODS, Extractor, Method
from pipelines.language.arguments import Arguments
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.planning.model import Output
from pipelines.planning.options import Options
from pipelines.planning.stage import STAGES, LinkStage, RowStage, Sink, Source, Stage
from pipelines.registry.catalog import Entry

Schema = dict[str, Any]

_INTRODUCTION = """\
# Pipelines and their stages

A pipeline is YAML: where it begins, what is done stage by stage, and where its rows go. A whole crawl:

```yaml
fetch: {url: https://shop.example.com/}
pipeline:
  - {stage: explore, args: [a.next, 20]}
  - {stage: join, args: [li.product a]}
  - {stage: extract, args: [{selector: h1, as: title}, {selector: .price, method: price}]}
```

It runs on all cores, asks one host for 16 pages at a time at most, keeps to robots.txt and its Crawl-delay, tries again
what fails for the moment, fetches no page twice, and on a server goes on where it was killed; none of that has to be
written. The same with more of what can be said:

```yaml
fetch:                                   # the first page; or begin with a load or a wget
  url: https://shop.example.com/
pipeline:                                # the stages, in order
  - stage: wgetExplore                   # this page and those that "next" leads to, up to 20 deep
    args: [a.next, {depth: 20}]
  - stage: flatSelect                    # a row for each product of each page
    args:
      - li.product
      - {selector: a, as: name}
  - stage: wgetJoin                      # on to each product's own page
    args: [a]
  - stage: extract                       # columns from that page
    args:
      - {selector: h1, as: title}
      - {selector: .price, method: price}
spindle:                                 # optional: how this pipeline runs
  keepColumns: [_url, _error]
output:                                  # optional: a name that other jobs load, overwrite or append
  path: ${OUTPUT_PRODUCTS}
```

`spindle check FILE` tells what is wrong, with the line, or prints the plan: its passes and the columns after each step,
`...` being those that are known only when it runs. `spindle run FILE` runs it here, and shows the rows or writes them
(`-o rows.csv`, `.json` or `.parquet`). As `pipelineYaml` of an agent it runs on the server.

## What it is called elsewhere

| in Scrapy, Crawlee or SpookyStuff | here |
|---|---|
| `start_urls`, a request list | `fetch`; of a file: `load_csv`, then `{stage: wget, args: [$url]}` |
| `response.follow`, `enqueueLinks`, a crawling rule | `join` (one step), `explore` (to any depth) |
| `css("h1::text")`, an item's field | `extract` with `{selector: h1, as: title}` |
| `css("a::attr(href)")` | `{selector: a, method: "attr:href"}`; absolute: `{selector: a, method: href}` |
| an item for each element | `flatSelect`, then `extract` |
| item pipelines | `filter`, `dedup`, `sql_query`, `python_row_transform` |
| Playwright, Puppeteer, actions | `fetch` with `traces`, `visit`, `visitJoin`, `visitExplore` |
| `DEPTH_LIMIT`, `maxRequestsPerCrawl` | `depth` of explore; `maxPages` of the key `spindle`, for each explore |
| delay, concurrency, robots, user agent, timeout, HTTP cache | the key `spindle` |
| feeds, `-O items.csv` | the rows at the end; a file of its own: `save_csv`, `save_parquet` |
| headers, cookies, POST | only `userAgent`; a login is a [trace](#traces) |

## Rows, pages and segments

A row is columns and, once something was fetched, a page. The stages that follow links put a row on another page and
keep its columns; extract reads the page into columns; flatSelect makes a row for each segment, and what follows reads
inside the segment (a selector that begins with `:root` goes back to the whole page). Two links to one page give two
rows and one fetch; `dedup` keeps the first. Stages that work on whole tables (dedup, filter, sql_query, ...) leave the
pages behind: extract before them, or go back to the pages of the rows that are left with
`{stage: wget, args: [$_requestedUrl]}` (or `visit`), which fetches none again. A load replaces the rows.

## Writing arguments

- In a list in the order of the tables below, by name in a map, or first in order and the last in a map:
  `[a, {depth: 2}]` = `[a, 2]` = `{selector: a, depth: 2}`.
- A value that begins with `#`, `*`, `&`, `@`, `%` or a bracket, or has `: ` or ` #` in it, needs quotes in YAML, as
  `"#main a"`; so does one with a comma or bracket within `[ ]` or `{ }`, as `{selector: "a[rel]"}`.
- Names of stages, arguments, methods, actions and join types ignore case and underscores: `visitJoin` = `visit_join`.
- `$column` is the row's value of a column: `$page`, `$"a name with spaces"`, `$EAN number`. It stands alone: an address
  that is put together is a column that sql_query makes, `SELECT *, concat('https://...', id) AS address FROM rows`.
- `${NAME}` is a parameter, wherever it stands in a text. It is looked up in the execute call's `parameters` and its
  `arguments` (NAME=value), the job's and the project's parameters, the credentials' variables, and the built-in ones:
  `INPUT_PATH` (the job's input dataset), `OUTPUT_...` (a stable place in the project), `EXECUTION_ID`, `JOB_ID`,
  `PROJECT_ID`, `RUN_DATE`. On the command line it is `-p NAME=value`. One without a value is an error before anything
  runs.
- A selector is CSS as browsers have it, with `:contains(text)`, leading combinators (`> a`) and the rest of what jsoup
  accepts. As in jsoup, `[class~=^box-]` is a regular expression, in quotes or without; the text of `:contains(...)` is
  taken as it stands, with its quotes; values of attributes are compared without regard to case, which the flag of
  `[href$=".pdf" i]` only repeats and the one of `[id="A1" s]` turns off. `:enabled`, `:disabled` and `:hover` are not
  there. A selector that does not parse is an error with its line.

In the examples `${SHOP}` is the address of a small shop, `${FOLDER}` a folder of files.

## Errors

A page that cannot be fetched, or that the server answers with a status of 400 or more, does not end the run: its row
stays, without a page, with `_status` and `_error` set, and what is extracted from it is null. explore keeps such rows
and follows nothing from them. They are counted in the execution's error count; when more of the addresses fail than
`spindle.maxFailureRatio` allows, the execution fails. `spindle: {keepColumns: [_url, _error]}` shows which they are.

An extractor that finds nothing gives null, and a flatSelect that finds nothing leaves the row, its own columns null.
A row without a link is kept by joinType LeftOuter, the default, without a page, and dropped by Inner; a link that
could not be fetched keeps its row under both.

## Fetching

Nothing has to be set; what can be is the [key spindle](#the-key-spindle), for a whole pipeline.

- robots.txt holds, with its Crawl-delay, also where a redirect leads: a page that it forbids is a row with `_error`. A
  site whose robots.txt answers with a server error is not asked. A host gets at most `concurrency` requests at once, or
  one each `delay` seconds, over all workers together, and is left alone after a 429 or 503 for as long as Retry-After
  says.
- What may succeed the next time (no connection, a broken one, 429, 502, 503, 504) is tried twice more. A page may take
  60 s (`timeout`) and have 16 MiB, decompressed; redirects are followed 20 times. Private and loopback addresses are
  refused by a server unless its settings let them through; `spindle run` lets them through.
- A run fetches no page twice. On the server what it has fetched is kept, and an execution that was killed goes on from
  there. Pages of earlier executions, and with `spindle run --cache FOLDER` of earlier runs with that folder, are used
  again as long as their servers say (Cache-Control, Expires), half an hour where they do not (`cache`), and are asked
  after with ETag and Last-Modified from then on.
- Two addresses are one page if they differ only in fragment, default port or how they are written; their queries count.
"""

_KEPT = """\
Every row also has these. They can be read like other columns, and are left out of the output unless
`spindle.keepColumns` names them.
"""

_ENGINE = {
    "_url": "where the page came from, after redirects",
    "_requestedUrl": "the address that was asked for",
    "_status": "the HTTP status",
    "_error": "why there is no page, or why a row transform gave no row",
    "_depth": "how many links explore followed to the page",
    "_linkText": "the text of the link that led to the page, cut after 10,000 characters",
    "_ordinal": "the row's place in document order",
    "_fetchedAt": "when the page was fetched",
}

_KINDS: tuple[tuple[type[Stage], str], ...] = (
    (Source, "Rows from files"),
    (LinkStage, "Pages"),
    (RowStage, "Row by row"),
    (Sink, "Files"),
    (Stage, "Whole tables"),
)

_COLUMN = """\
A column of extract and flatSelect. The first match counts; without `selector` and `field` the page or segment itself
is read. A `field` is another column, read by the methods that can, or with a dot or bracket a path in the page's JSON
(`$.id`). `args: [NAME]` is another way to give `attr` its attribute. `as` is the column's name, by default the
method's; two columns of one name in a stage are an error, and a column that is there already is overwritten.
"""

_TRACES = """\
What is done in the browser before a page is read: a list of entries with `action` (or `factory`) and `params`, in the
`fetch` block or as the argument `traces` of a visit stage. The page's own address is opened first, unless the trace
begins with a visit. Selectors are CSS as browsers have it, and Playwright's (`:has-text("more")`, `text=more`).
An action that fails fails the page: the row says which one in `_error`.

A trace is performed on the pages of its own stage: `join` and `explore` after a fetch with traces open theirs in the
browser too, but without them. Each page has a browser session of its own, without cookies of others. Where pages need
a login, the `traces` of each stage that opens them begin with it and end with the row's own page:

```yaml
  - stage: visitJoin
    args:
      - a.order
      - traces:
          - {action: visit, params: {url: https://shop.example.com/login}}
          - {action: type, params: {selector: "input[name=user]", text: "${USER}"}}
          - {action: type, params: {selector: "input[name=password]", text: "${PASSWORD}"}}
          - {action: click, params: {selector: button}}
          - {action: wait_for, params: {selector: a.account}}
          - {action: visit}
```
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [_INTRODUCTION, _engine(), _overview(), _extractors(), _traces(), _options(), _output()]
    return "\n".join([*parts, "# Stages\n", *(_stage(entry) for entry in STAGES)])


def _engine() -> str:
    rows = [f"| `{name}` | {type_} | {_ENGINE[name]} |" for name, type_ in ENGINE_COLUMNS.items()]
    return "\n".join(["## Engine columns", "", _KEPT, "| column | type | what |", "|---|---|---|", *rows, ""])


def _overview() -> str:
    kinds: dict[str, list[Entry[type[Stage]]]] = {title: [] for _, title in _KINDS}
    for entry in STAGES:
        kinds[next(title for kind, title in _KINDS if issubclass(entry.thing, kind))].append(entry)
    lines = ["## All stages", ""]
    for title, entries in kinds.items():
        lines += [f"### {title}", "", "| stage | what |", "|---|---|", *map(_row, entries), ""]
    return "\n".join(lines)


def _row(entry: Entry[type[Stage]]) -> str:
    aliases = f" ({', '.join(entry.aliases)})" if entry.aliases else ""
    summary = " ".join(entry.doc.partition("\n\n")[0].split())
    return f"| [{entry.name}](#{entry.name.casefold()}){aliases} | {summary} |"


def _output() -> str:
    return "\n".join(["## The key output", "", (Output.__doc__ or "").strip(), "", *_table(Output)])


def _stage(entry: Entry[type[Stage]]) -> str:
    lines = [f"## {entry.name}", ""]
    if entry.aliases:
        lines += [f"Also called {', '.join(f'`{alias}`' for alias in entry.aliases)}.", ""]
    lines += [entry.doc, "", *_table(entry.thing), "```yaml", entry.thing.example.strip(), "```", ""]
    return "\n".join(lines)


def _extractors() -> str:
    methods = [f"| `{_spelled(each)}` | {each.thing.type} | {each.thing.about} |" for each in METHODS]
    listed = ["### Methods", "", "| method | column type | what it reads |", "|---|---|---|", *methods, ""]
    return "\n".join(["## Extractors", "", _COLUMN, *_table(Extractor), *listed])


def _spelled(method: Entry[Method]) -> str:
    names = "` or `".join(method.spellings)
    return f"{names}:{method.thing.takes}" if method.thing.takes else names


def _traces() -> str:
    actions = (line for each in ACTIONS for line in _action(each))
    return "\n".join(["## Traces", "", _TRACES, *actions])


def _action(entry: Entry[type[Action]]) -> Iterator[str]:
    yield from (f"### {entry.name}", "")
    if entry.aliases:
        yield from (f"Also called {', '.join(f'`{alias}`' for alias in entry.aliases)}.", "")
    yield from (entry.doc, "", *_table(entry.thing), "```yaml", f"traces: {entry.thing.example}", "```", "")


def _options() -> str:
    return "\n".join(["## The key spindle", "", "What a pipeline sets about its own run.", "", *_table(Options)])


def _table(model: type[Arguments]) -> Iterator[str]:
    fields = {name: field for name, field in model.model_fields.items() if name != "keywords"}
    if not fields:
        yield from ("It takes no arguments.", "")
        return
    schema: Schema = model.model_json_schema(by_alias=True)
    yield from ("| argument | type | default |", "|---|---|---|")
    for name, field in fields.items():
        shown = field.alias or name
        about = f" - {field.description}" if field.description else ""
        type_ = _type(schema["properties"].get(shown, {}), schema.get("$defs", {}))
        yield f"| `{shown}`{about} | {type_} | {_default(field)} |"
    yield ""


def _type(schema: Schema, definitions: Schema) -> str:
    """What a value looks like, in a few words."""
    kinds: list[Schema] = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return " or ".join(dict.fromkeys(_kind(each, definitions) for each in kinds))


def _kind(schema: Schema, definitions: Schema) -> str:
    if reference := schema.get("$ref"):
        return _kind(definitions[reference.rpartition("/")[2]], definitions)
    if values := schema.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    return _TYPES.get(schema.get("type", ""), "any")


_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "map",
}


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=False)
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "" if default in (None, (), "") else f"`{default}`"


if __name__ == "__main__":
    print(reference(), end="")
