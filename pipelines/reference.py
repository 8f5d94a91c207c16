"""Reference of the pipeline language, from the registries: `python -m pipelines.reference > docs/stages.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from pipelines.browser.actions import ACTIONS, Action
from pipelines.errors import PROBLEM_CODES
from pipelines.extract.extractors import METHODS, Extractor, Method
from pipelines.incremental.options import Incremental
from pipelines.language.arguments import Arguments
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.planning.check import CHECKS, Check
from pipelines.planning.model import Options, Output
from pipelines.planning.stage import STAGES, Export, LinkStage, RowStage, Sink, Source, Stage
from pipelines.registry import Entry

Schema = dict[str, Any]

_INTRODUCTION = """\
# Pipelines and their stages

A pipeline is a YAML text: a first page, a list of stages, and an output. This is a complete crawl:

```yaml
fetch: {url: https://shop.example.com/}
pipeline:
  - {stage: explore, args: [a.next, 20]}
  - {stage: join, args: [li.product a]}
  - {stage: extract, args: [{selector: h1, as: title}, {selector: .price, method: price}]}
```

It runs in one process while it is small and on all cores when it is large ([more](engines.md)), sends at most 16
requests at once to a host, obeys robots.txt and its Crawl-delay, retries temporary failures, and fetches no page
twice. On a server, an interrupted execution continues at the same point. None of this needs a setting. The same
pipeline with more options:

```yaml
fetch:                                   # the first page; a pipeline can also begin with a load or a wget
  url: https://shop.example.com/
pipeline:                                # the stages, in order
  - stage: wgetExplore                   # this page and all pages behind "next" links, up to 20 levels deep
    args: [a.next, {depth: 20}]
  - stage: flatSelect                    # one row per product on every page
    args:
      - li.product
      - {selector: a, as: name}
  - stage: wgetJoin                      # the product's own page
    args: [a]
  - stage: extract                       # columns from that page
    args:
      - {selector: h1, as: title}
      - {selector: .price, method: price}
spindle:                                 # optional: options of the run
  keepColumns: [_url, _error]
output:                                  # optional: a name for other jobs to load; overwrite or append
  path: ${OUTPUT_PRODUCTS}
```

`spindle check FILE` prints the problems with their lines, or the plan: its passes and the columns after every step,
with `...` for columns and `json` for types that only the run can discover, and its [engine](engines.md). With `--json`,
it prints the problems as JSON, each with a stable [code](#problem-codes). `spindle run FILE` runs the pipeline locally
and prints the rows, or writes them to a file (`-o rows.csv`, `.json`, `.jsonl` or `.parquet`). On a server, the text is
the `pipelineYaml` of an agent. Stages of your own are [plugins](plugins.md).

## Names in other products

[From Scrapy](from-scrapy.md) has the tasks of a spider as files that run.

| Scrapy, Crawlee or SpookyStuff | Spindle |
|---|---|
| `start_urls`, a request list | `fetch: {url: [...]}`, `{file: urls.txt}`; `load_csv`, then wget of `$url` |
| `SitemapSpider` | `sitemap` with `include`, `exclude`, `since` |
| `allowed_domains`, `allow` and `deny` of rules | `sameHost`, `include` and `exclude` of join and explore |
| `response.follow`, `enqueueLinks`, a crawling rule | `join` (one step), `explore` (any depth) |
| `css("h1::text")`, a field of an item | `extract` with `{selector: h1, as: title}` |
| `css("a::attr(href)")` | `{selector: a, method: "attr:href"}`; absolute: `{selector: a, method: href}` |
| `xpath("//h1")`, `getall()`, `re_first(...)` | `xpath` instead of `selector`, `all: true`, `pattern` |
| one item per element | `flatSelect`, then `extract` |
| item pipelines | `filter`, `dedup`, `sql_query`, `python_row_transform` |
| Playwright, Puppeteer, actions | `fetch` with `traces`, `visit`, `visitJoin`, `visitExplore` |
| `DEPTH_LIMIT`, `maxRequestsPerCrawl` | `depth` of explore; `maxPages` of the key `spindle`, per explore |
| delay, concurrency, robots, user agent, timeout, HTTP cache | the key `spindle` |
| feeds, `-O items.csv` | the rows at the end; for other files: `save_csv`, `save_jsonl`, `save_parquet` |
| headers, cookies, POST, forms | `headers`, `cookies`, `method`, `form` and others of `fetch`, [wget](#wget), join |
| a session, cookie jars, `FormRequest` for a login | `spindle: {session: true}`, see [Fetching](#fetching) |
| pages of an API | `paginate: {next: $.cursor, param: after}` |
| proxies, a file pipeline | `spindle: {proxies: [...]}`, [download](#download) |

## Rows, pages and segments

A row consists of columns and, after a fetch, a page. Stages that follow links replace the page of a row and keep its
columns. extract reads columns from the page. flatSelect returns one row per segment of the page, and later stages read
inside the segment; a selector that begins with `:root` reads the whole page again. Two links to the same page return
two rows, but the page is fetched once; `dedup` keeps the first row. A pipeline that fetches pages and makes no columns
gives `url`, `status` and `title` of each page, with a warning.

Stages that work on whole tables (dedup, filter, sql_query and others) drop the pages. Extract before them, or return to
the pages of the remaining rows with `{stage: wget, args: [$_requestedUrl]}` (or `visit`), which does not fetch them
again. A load replaces all rows.

## Paths of datasets

In the service, load stages, unions and save stages name a dataset by `spindle://PROJECT/TABLE`: the project's and the
job's short names, or the name that a save stage or the output's `path` gave. Without `spindle://PROJECT/` a path is one
of the own project. A load reads the version that was current when the execution was accepted, in the format in which it
was written. A path without a dataset is an error (`unknown-dataset`) that names similar ones. The job's own output may
be loaded before anything was published: it has no rows then, and those columns of the output that planning knows.

## Writing arguments

- Write arguments in a list in the order of the tables below, by name in a map, or in a list that ends with a map:
  `[a, {depth: 2}]` = `[a, 2]` = `{selector: a, depth: 2}`.
- In YAML, a value needs quotes if it begins with `#`, `*`, `&`, `@`, `%` or a bracket, or contains `: ` or ` #`:
  `"#main a"`. Within `[ ]` or `{ }`, so does a value with a comma or a bracket: `{selector: "a[rel]"}`.
- Names of stages, arguments, methods, actions and join types ignore case and underscores: `visitJoin` = `visit_join`.
- `$column` is the value of a column in the row: `$page`, `$"a name with spaces"`, `$EAN number`. It must be the whole
  argument. To build an address from columns, use sql_query:
  `SELECT *, concat('https://...', id) AS address FROM rows`.
- `${NAME}` is a parameter, anywhere in a text, and `${NAME:-text}` has a default. Its value comes from the `parameters`
  and `arguments` (NAME=value) of the execute call, the parameters of the job and of the project, the variables of the
  credentials, or the built-in parameters: `INPUT_PATH` (the job's input dataset), `OUTPUT_...` (a name in the project's
  storage), `EXECUTION_ID`, `JOB_ID`, `PROJECT_ID`, `RUN_DATE`. On the command line, use `-p NAME=value`. A parameter
  without a value is an error before the run, and so is a value for a name that the pipeline does not have
  (`SPINDLE_UNKNOWN_PARAMETERS=warn` only names it in the log). `spindle check` lists the parameters of a file.
- A selector is CSS as in browsers, with `:contains(text)`, leading combinators (`> a`) and the other extensions of
  jsoup, as of its version 1.24.1. `:scope` is the element that is searched: the segment, or the root of the page. The
  content of `<template>`, and so an open shadow tree, is found like other elements. An invalid selector is an error
  with its line. Where jsoup and CSS differ, or neither is followed:
  - attribute values ignore case unless the flag says otherwise (`[id="A1" s]`), and `[class~=^box-]` is a regular
    expression, with or without quotes: jsoup's way, which existing pipelines rely on.
  - `:contains(...)` takes its text literally, including quotes, as jsoup does.
  - `:where`, `:checked`, `:required`, `:optional`, `:link`, `:any-link` and `:nth-child(2 of .x)` are CSS that jsoup
    refuses; `:enabled`, `:disabled` and `:hover` are not supported, since they depend on scripts or a person.
  - jsoup's `::text`, `::comment` and the like are refused: a column is read from an element.
  - inside a segment, its own element is not found, nor are elements around it part of a path: `body li` finds nothing.
    CSS finds the path, jsoup the element; a pipeline reads what is inside.
  - `:scope` inside `:has()` is refused, as it is another element in CSS than in jsoup.
  - the text of an element leaves out the templates inside that are no shadow trees, which people do not see, and the
    white space of a page's title is collapsed. jsoup keeps both.

In the examples, `${SHOP}` is the address of a small shop and `${FOLDER}` a folder of files.

## Errors

If a page cannot be fetched, or has a status of 400 or more, the run continues: the row remains without a page, with
`_status` and `_error` set, and columns extracted from it are null. explore keeps such a row and follows no links from
it. The error count of the execution includes these rows. If the share of failed addresses exceeds
`spindle.maxFailureRatio`, the execution fails.

Failed pages are counted by status and reason, with the first addresses of each kind, at the end of `spindle run`, in
the status and log of an execution, and in Dagster. `spindle failures PROJECT/JOB` and `GET …/executions/{id}/failures`
list the first 10,000 of them.

A row with an error and without any value is left out of the output, and of the rows that a stage on whole tables gets.
It stays if the output has an engine column, as with `spindle: {keepColumns: [_url, _error]}`, or if a later stage names
one. A row with a value, such as one from its parent page, stays.

The page of a known bot protection (a challenge, captcha, consent wall or denial) is such a failure whatever its
status; its `_error` begins with `blocked:`. `spindle: {blockedWhen: {selector: form#captcha}}`, or `{text: ...}`, adds
the signs of a site. A longer `delay`, a `userAgent` with a contact or the permission of the site help, as a warning
says once for a host that blocks a fifth of its pages; the engine hides nothing.

An extractor without a match returns null. A flatSelect without a match keeps the row, with null in its own columns. The
joinType LeftOuter, the default, keeps a row without a link, without a page; Inner drops it. Both keep a row with values
whose link could not be fetched.

## Fetching

No option is required; the [key spindle](#the-key-spindle) sets them for a whole pipeline.

- robots.txt and its Crawl-delay apply, also to redirects: a forbidden page is a row with `_error`. They are those for
  the name in `userAgent`: acmebot in `Mozilla/5.0 (compatible; acmebot/1.0)`, and Spindle by default. If robots.txt
  returns a server error, no page of the site is fetched. A host receives at most `concurrency` requests at once, or one
  request per `delay` seconds, over all workers together. After a status of 429 or 503, it receives none until
  Retry-After.
- Temporary failures (no connection, a lost connection, 429, 502, 503, 504) are retried twice. A page may take 60 s
  (`timeout`) and have 16 MiB after decompression, and up to 20 redirects are followed. So is a page that leads on to
  another one within 10 s, by `meta refresh` or the header Refresh, without waiting. After a redirect with status 301 or
  302 a POST is a GET, and other methods keep their body. A server refuses private and loopback addresses unless its
  settings allow them; `spindle run` allows them.
- Every request that is written is sent, in order, also where a later stage discards its rows. A plain GET whose page
  nothing uses is not sent, and `check` says so; in a session it is, for its cookies. Without a session a cookie lasts
  for the redirects to a page. One that the pipeline sets replaces the session's of its name, until a redirect sets it
  anew. Pages that were fetched before a form, or a login by a trace, are fetched again after it.
- Otherwise a run fetches no page twice. A server stores fetched pages, so that an interrupted execution continues at
  the same point. Pages of earlier executions are used without a request while they are fresh according to Cache-Control
  and Expires, or for `cache` seconds without these headers, which an option or an argument of wget, wgetJoin,
  wgetExplore and fetch sets; otherwise they are revalidated with ETag and Last-Modified. Status and log count the pages
  that were used without a request. `spindle run --cache FOLDER` does the same for runs with the same folder.
- Ctrl-C in `spindle run -o FILE` ends the crawl: the rows of the pages so far are written, and the last line says how
  many there are and how to go on. A run on Spark writes its rows at its end alone, and so leaves the file as it was.
- With `incremental`, an execution leaves out pages that earlier ones have published: see
  [Incremental crawls](#incremental-crawls).
- Two addresses are the same page if they differ only in fragment, default port or spelling. Queries are
  significant, but for tracking parameters (`utm_*`, `gclid`, `fbclid`, `mc_eid` and the like) and session ids, which
  links lose that join and explore find on pages, unless `significantQuery` names them.
- The key `fetch` takes a `url`, a list of them or a `file` with one in each line, and the other arguments of
  [wget](#wget), or of [visit](#visit) with `traces`.

A login by a form: `session` keeps the cookies for all pages of the host. Where the form has a hidden token against
forgery (CSRF), read it first. With `required: true` the execution fails unless it is logged in: an extractor that
finds nothing fails it, and so does one that reads no page because those before led to none. The error names what found
nothing first.

```yaml
fetch: {url: https://shop.example.com/login}
spindle: {session: true}
pipeline:
  - {stage: extract, args: [{selector: "input[name=csrf]", method: "attr:value", as: token, required: true}]}
  - stage: wget
    args: [https://shop.example.com/login, {form: {user: ann, password: "${PASSWORD}", csrf: $token}}]
  - {stage: extract, args: [{selector: .account-name, as: account, required: true}]}
  - {stage: wget, args: [https://shop.example.com/orders]}
  - {stage: join, args: [a.order]}
  - {stage: extract, args: [{selector: h1, as: order}, {selector: .total, method: price}]}
```
"""

_ENGINE_COLUMNS = """\
Every row also has these columns. Stages can read them like other columns. The output omits them unless
`spindle.keepColumns` names them.
"""

_ENGINE = {
    "_url": "address of the page, after redirects",
    "_requestedUrl": "requested address",
    "_status": "HTTP status",
    "_error": "reason for a missing page, or error of a row transform",
    "_depth": "number of links that explore followed to the page",
    "_linkText": "text of the link to the page, cut after 10,000 characters",
    "_ordinal": "position of the row in document order",
    "_fetchedAt": "time of the fetch",
}

_KINDS: tuple[tuple[type[Stage], str], ...] = (
    (Source, "Rows from files and sitemaps"),
    (LinkStage, "Pages"),
    (RowStage, "Row by row"),
    (Sink, "Files"),
    (Export, "Other systems"),
    (Stage, "Whole tables"),
)

_EXTRACTORS = r"""
An extractor defines a column of extract or flatSelect. It reads the first match of its selector or XPath; with
`all: true`, the column is a list of what all matches have. Without `selector`, `xpath` and `field`, it reads the page
or segment itself. A `field` is another column, for the methods that support it, or, with a dot or bracket, a path in
the page's JSON (`$.id`). The column may be one that an extractor above it in the list has made, default included; it
hides a column of that name of earlier stages. With `all: true` a field reads all items of a list, and else its first
one. `args: [NAME]` is another way to write the attribute of `attr`. `as` is the column's name, by default the method's.
Two columns with the same name in a stage are an error; an existing column is overwritten.

`price` reads the number beside a currency sign, else the first one, in the digits of any script and with any
separators; with a minus before it or its sign, it is negative. `1.299 €` is 1299, but `KWD 1.299` and `1,299 DT` are
1.299, as such currencies have three decimals; a number of JSON or of another column stays as it is. A raised number
(`<sup>`) is cents if it has two digits and follows a whole number, otherwise a footnote, which is left out.

`pattern` searches the text and keeps its first group, before `price` reads it. `default` replaces null, except in rows
without a page. An XPath reads the tree that selectors read, inside the page or segment: `//a` finds the links of a
segment. That tree is copied for it, which takes about six times as long as parsing the page. Names with a prefix are
found as they are written: `//use/@xlink:href`, `//fb:like`. A script that an XPath finds has its content as text. The
method `jsonld` reads the JSON-LD that a page describes itself with:

```yaml
  - stage: extract
    args:
      - {method: jsonld, type: Product, path: offers.price, as: price}
      - {selector: li.product a, method: href, all: true, as: links}
      - {selector: .details, pattern: 'EAN (\d{13})', as: ean}
      - {xpath: "//h2[.='Size']/following-sibling::p", as: size, default: unknown}
```
"""

_TRACES = """\
A trace is a list of browser actions before a page is read. It is the key `traces` of the `fetch` block, or the argument
`traces` of a visit stage. An entry has an `action` (or `factory`) and `params`. The page's own address is opened first,
unless the trace begins with a visit. Selectors are CSS as in browsers, and Playwright's (`:has-text("more")`,
`text=more`). If an action fails, the page fails, and `_error` names the action.

A trace applies to the pages of its own stage: `join` and `explore` after a fetch with traces use the browser too, but
without the trace. Every page has its own browser session, without cookies of others, unless `spindle: {session: true}`
shares the cookies of a host: then one trace logs in for all later pages. Without a session, the `traces` of every stage
that opens such pages begin with the login and end with the row's own page:

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

_CHECKS = """\
Checks of the output rows, run before they are published. If a check fails, the execution fails with a sentence, and the
table keeps its earlier version. With `severity: warn`, a failed check is a warning in the log, and the rows are
published. With mode append, only the new rows are checked.

```yaml
checks:
  - {check: row_count, min: 100}
  - {check: not_null, columns: [name, price]}
  - {check: unique, columns: [sku], severity: warn}
  - {check: accepted_values, column: currency, values: [EUR, USD]}
  - {check: filled, column: description, min: 0.9}
  - {check: freshness, column: published, hours: 24}
  - {check: expression, sql: "price > 0", severity: quarantine}
  - {check: row_count, maxDrop: 0.2, maxRise: 0.5}
```

**Rows set aside.** With `severity: quarantine`, for checks of a row, a row that fails goes aside with the first check
that it fails, and the other checks see what is left. The rows are the dataset `<job>_rejected`, with the columns
`rejected_check` and `rejected_reason`: it is published together with the output and overwritten by each run, empty
where nothing failed; its versions are its past. It is deleted with its job. More than `maxShare` of the rows (0.1) fail
the run. In a history, a key whose row was set aside stays as it is. `spindle run` writes the rows beside a local `path`
of the output, and beside the file of `-o`, as `prices_rejected`; `spindle try` marks them.

**Against the past.** `maxDrop` and `maxRise` of `row_count`, and `maxDrop` of `filled`, compare a run with the median
of the job's last published executions (`over`, 10), so that a site that has lost half of its shop is noticed. A
partition is compared with those of the same values: `it` with `it`, of whatever day. Runs with a limit and incremental
ones are neither compared nor counted. With fewer than three executions, and in `spindle run`, the check passes and says
so in the log.

A site that changes its pages is better noticed by `required: true` on an extractor, a flatSelect or a stage that
follows links, such as `[a.next, {depth: 10, required: true}]`: the execution fails if the selector finds nothing on any
page that was read, or the pages before led to none. The log, the progress of the execution and `spindle run` show for
each selector on how many of its pages it found nothing, and warn if there was no match at all; `spindle try` warns too.
Of links, those count that `sameHost`, `include` and `exclude` let pass. An execution without a limit that replaces a
dataset, or its partition, by less than half of the rows of its last version says so in a warning, with both numbers.
"""

_INCREMENTAL = """\
With `incremental: true` an execution leaves out the pages that an earlier execution of the job has published rows of:

```yaml
fetch: {url: https://shop.example.com/new}
spindle: {incremental: true}
pipeline:
  - {stage: wgetJoin, args: [li.product a, Inner]}
  - {stage: extract, args: [{selector: h1, as: name}, {selector: .price, method: price}]}
```

Their changes are not seen. `incremental: {keys: [sku], recheck: P7D}` asks for a known page again once it is older than
that (an ISO 8601 duration; P7D by default, or `never`), with the validators of its last answer unless rows have columns
from before it that are not its address. A page with status 304 costs no row; the rows of a changed page replace those
with equal keys; equal rows are not written. A page that is gone (404 or 410) is named in the log, and its rows stay.

- The output's mode is `append`, with keys `merge`, also for Parquet: then the new version is the earlier one with the
  rows merged into it. Another mode is an error. An execution without new rows publishes no version.
- A page whose links are followed is always requested again: those of a fetch before a join, of an explore except its
  last level, and of `paginate`. Its own rows are written once, with keys also when they have changed.
- Pages are told apart by their addresses, so the requests of the last stage that fetches must not differ otherwise. A
  query must keep `_requestedUrl`, or select `*`. A row without a page is known by its values.
- Rows with an `_error` are left out: the next execution asks for their pages again. So does it for pages whose rows a
  filter or a limit has dropped.
- The log counts pages that are new, changed, unchanged, left out and gone; an execution's metrics have them as `pages`.
- What is known is published together with the rows, and stays when the retention of versions removes these. `spindle
  reset PROJECT/JOB`, or `POST .../jobs/{jobId}/reset`, makes a job forget it, as does an execution that replaces the
  rows of the job. After a change of the selectors, reset the job, or only new pages have the new values. Of two
  executions at the same time, the one that ends last fails with the code `publish-conflict`.
- `spindle run` remembers the pages of a pipeline's file with `--cache FOLDER`.
"""

_PROBLEM_CODES = """\
`spindle check --json`, and the `details` of the REST API's errors, give each problem a stable code:
"""


def build_reference() -> str:
    """Return the whole page as Markdown."""
    options = _format_section("The key spindle", "Options of a pipeline's run.", Options)
    output = _format_section("The key output", inspect.cleandoc(Output.__doc__ or ""), Output)
    parts = [_INTRODUCTION, _format_engine_columns(), _format_overview(), _format_extractors(), _format_traces()]
    incremental = _format_section("Incremental crawls", _INCREMENTAL, Incremental)
    parts += [options, incremental, output, _format_checks(), _format_problem_codes()]
    return "\n".join([*parts, "# Stages\n", *(_format_stage(entry) for entry in STAGES)])


def _format_engine_columns() -> str:
    rows = [f"| `{name}` | {type_} | {_ENGINE[name]} |" for name, type_ in ENGINE_COLUMNS.items()]
    return "\n".join(
        ["## Engine columns", "", _ENGINE_COLUMNS, "| column | type | value |", "|---|---|---|", *rows, ""]
    )


def _format_overview() -> str:
    kinds: dict[str, list[Entry[type[Stage]]]] = {title: [] for _, title in _KINDS}
    for entry in STAGES:
        kinds[next(title for kind, title in _KINDS if issubclass(entry.thing, kind))].append(entry)
    lines = ["## All stages", ""]
    for title, entries in kinds.items():
        lines += [f"### {title}", "", "| stage | purpose |", "|---|---|", *map(_format_stage_row, entries), ""]
    return "\n".join(lines)


def _format_stage_row(entry: Entry[type[Stage]]) -> str:
    aliases = f" ({', '.join(entry.aliases)})" if entry.aliases else ""
    summary = " ".join(entry.doc.partition("\n\n")[0].split())
    return f"| [{entry.name}](#{entry.name.casefold()}){aliases} | {summary} |"


def _format_section(title: str, text: str, model: type[Arguments]) -> str:
    return "\n".join([f"## {title}", "", text, "", *_format_arguments(model)])


def _format_checks() -> str:
    return "\n".join(["## The key checks", "", _CHECKS, *(line for each in CHECKS for line in _format_check(each))])


def _format_check(entry: Entry[type[Check]]) -> Iterator[str]:
    yield from (f"### {entry.name}", "", entry.doc, "", *_format_arguments(entry.thing))


def _format_problem_codes() -> str:
    rows = [f"| `{code}` | {meaning} |" for code, meaning in sorted(PROBLEM_CODES.items())]
    return "\n".join(["## Problem codes", "", _PROBLEM_CODES, "| code | meaning |", "|---|---|", *rows, ""])


def _format_stage(entry: Entry[type[Stage]]) -> str:
    lines = [f"## {entry.name}", ""]
    if entry.aliases:
        lines += [f"Also called {', '.join(f'`{alias}`' for alias in entry.aliases)}.", ""]
    lines += [entry.doc, "", *_format_arguments(entry.thing), "```yaml", entry.thing.example.strip(), "```", ""]
    return "\n".join(lines)


def _format_extractors() -> str:
    methods = [f"| `{_format_spellings(each)}` | {each.thing.type} | {each.thing.about} |" for each in METHODS]
    listed = ["### Methods", "", "| method | column type | value |", "|---|---|---|", *methods, ""]
    return "\n".join(["## Extractors", _EXTRACTORS, *_format_arguments(Extractor), *listed])


def _format_spellings(method: Entry[Method]) -> str:
    names = "` or `".join(method.spellings)
    return f"{names}:{method.thing.takes}" if method.thing.takes else names


def _format_traces() -> str:
    actions = (line for each in ACTIONS for line in _format_action(each))
    return "\n".join(["## Traces", "", _TRACES, *actions])


def _format_action(entry: Entry[type[Action]]) -> Iterator[str]:
    yield from (f"### {entry.name}", "")
    if entry.aliases:
        yield from (f"Also called {', '.join(f'`{alias}`' for alias in entry.aliases)}.", "")
    yield from (entry.doc, "", *_format_arguments(entry.thing), "```yaml", f"traces: {entry.thing.example}", "```", "")


def _format_arguments(model: type[Arguments]) -> Iterator[str]:
    fields = {name: field for name, field in model.model_fields.items() if name != "keywords"}
    if not fields:
        yield from ("No arguments.", "")
        return
    schema: Schema = model.model_json_schema(by_alias=True)
    yield from ("| argument | type | default |", "|---|---|---|")
    for name, field in fields.items():
        shown = field.alias or name
        about = f" - {field.description}" if field.description else ""
        type_ = _format_type(schema["properties"].get(shown, {}), schema.get("$defs", {}))
        yield f"| `{shown}`{about} | {type_} | {_format_default(field)} |"
    yield ""


def _format_type(schema: Schema, definitions: Schema) -> str:
    """Describe the type of an argument in a few words."""
    kinds: list[Schema] = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return " or ".join(dict.fromkeys(_format_kind(each, definitions) for each in kinds))


def _format_kind(schema: Schema, definitions: Schema) -> str:
    if reference := schema.get("$ref"):
        return _format_kind(definitions[reference.rpartition("/")[2]], definitions)
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


def _format_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "" if default in (None, (), "") else f"`{default}`"


if __name__ == "__main__":
    print(build_reference(), end="")
