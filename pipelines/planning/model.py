"""Model of a pipeline: its options, its stages with their positions in the text, and its output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from pipelines.environments.packages import MAX_PACKAGES, validate_package, validate_packages
from pipelines.errors import ArgumentError
from pipelines.extract.selectors import SelectorText
from pipelines.fetch.fetcher import check_user_agent
from pipelines.fetch.proxies import check_proxy
from pipelines.fetch.requests import RequestArguments
from pipelines.filesystem import split_address
from pipelines.incremental.options import Incremental
from pipelines.language.arguments import Arguments
from pipelines.language.columns import ENGINE_COLUMNS
from pipelines.language.engines import EngineName
from pipelines.language.formats import FORMATS, PARQUET_FORMATS, TABLE_FORMATS, Mode, check_target
from pipelines.language.names import validate_choice
from pipelines.language.nodes import Node
from pipelines.models.options import ModelOptions
from pipelines.planning.check import CheckCall
from pipelines.planning.stage import CredentialName, Render, Stage, check_credential

EngineColumn = Annotated[str, validate_choice("engine column", ENGINE_COLUMNS)]
CONFLICT = "conflicting-arguments"


class Robots(StrEnum):
    OBEY = "obey"
    IGNORE = "ignore"


class BlockedWhen(Arguments):
    """Signs of a blocked page."""

    selector: SelectorText | None = None
    text: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check_signs(self) -> Self:
        if not (self.selector or self.text):
            raise ValueError("give a selector or a text")
        return self


def _expand_incremental(value: object) -> object:
    """Return the map that `true` is short for; `false` is as if the option were not there."""
    return {} if value in (True, "true") else None if value in (False, "false") else value


class Options(RequestArguments):
    """Options of a run, under the top-level key `spindle`."""

    engine: Annotated[EngineName, validate_choice("engine", EngineName)] | None = Field(
        default=None,
        description="local: one process without Spark; auto: that where it gives the same rows as Spark, which is "
        "the default",
    )

    robots: Annotated[Robots, validate_choice("robots", Robots)] = Field(
        default=Robots.OBEY, description="whether to skip pages that robots.txt forbids"
    )
    delay: NonNegativeFloat = Field(default=0, le=3600, description="seconds between two requests to a host")
    cache: NonNegativeFloat | None = Field(
        default=None,
        description="freshness lifetime in seconds of pages without cache headers, for later executions; "
        "0: always revalidate",
    )
    max_failure_ratio: float = Field(
        default=0.5, alias="maxFailureRatio", ge=0, le=1, description="share of addresses that may fail"
    )
    user_agent: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(check_user_agent)] | None = Field(
        default=None,
        alias="userAgent",
        description="the header User-Agent; by default Spindle with the contact of its operator",
    )
    concurrency: PositiveInt | None = Field(
        default=None, le=256, description="requests at once to a host, over the whole run; 16 by default"
    )
    render: Annotated[Render, validate_choice("render", Render)] | None = Field(
        default=None,
        description="for the stages that fetch over HTTP and do not say it themselves. auto: the browser for the pages "
        "of templates that need it",
    )
    max_pages: PositiveInt | None = Field(
        default=None, alias="maxPages", description="maximum number of pages per explore and per paginated address"
    )
    keep_columns: tuple[EngineColumn, ...] = Field(
        default=(), alias="keepColumns", description="engine columns in the output"
    )
    session: bool = Field(
        default=False, description="share cookies among the pages of a host, as after a login by a form or a trace"
    )
    login: CredentialName = Field(
        default=None,
        description="name of a login that `spindle login` has recorded, with whose cookies and local storage all pages "
        "are fetched; a page that asks to log in has failed",
    )
    proxies: tuple[Annotated[str, AfterValidator(check_proxy)], ...] = Field(
        default=(),
        description="proxies to fetch through in turn, as http, https or socks5 addresses; "
        "in a session, one for all pages of a host",
    )
    timeout: PositiveFloat | None = Field(default=None, description="seconds that a page may take; 60 by default")
    retries: NonNegativeInt | None = Field(
        default=None,
        le=20,
        description="how often a request is repeated after a broken connection or one of retryStatuses; "
        "2 by default, after status 500 once",
    )
    retry_statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] | None = Field(
        default=None,
        alias="retryStatuses",
        description="statuses after which a request is repeated; 429, 500, 502, 503 and 504 by default",
    )
    blocked_when: BlockedWhen | None = Field(
        default=None,
        alias="blockedWhen",
        description="signs of a page that the site shows instead of the requested one: "
        "{selector: CSS} or {text: TEXT}; such a page has failed",
    )
    incremental: Annotated[Incremental | None, BeforeValidator(_expand_incremental)] = Field(
        default=None,
        description="leave out pages whose rows an earlier execution of the job has published: true, or "
        "{keys: [COLUMN], recheck: P7D} to ask for them again after that time; see [Incremental crawls]"
        "(#incremental-crawls)",
    )
    model: ModelOptions | None = Field(
        default=None,
        description="language model for stages that ask, such as iextract: "
        "{provider, name, maxCalls, maxTokens, maxCost}",
    )
    packages: Annotated[
        tuple[Annotated[str, AfterValidator(validate_package)], ...], AfterValidator(validate_packages)
    ] = Field(
        default=(),
        max_length=MAX_PACKAGES,
        description="Python packages for row functions, in exact versions: [rapidfuzz==3.14.1]; see "
        "[Packages of row functions](plugins.md#packages-of-row-functions)",
    )
    backoff: PositiveFloat | None = Field(
        default=None, le=3600, description="seconds before the first repetition, then twice as many; 0.5 by default"
    )

    @model_validator(mode="after")
    def _check_render(self) -> Self:
        if self.render not in (None, Render.NEVER):
            self.check_rendered()
        return self

    @property
    def shares_cookies(self) -> bool:
        """Whether the pages of a run share cookies: in a session, or after a recorded login."""
        return self.session or self.login is not None


class Vanished(StrEnum):
    RETIRE = "retire"
    KEEP = "keep"


class Output(Arguments):
    """Where and how the rows are written; without a path, to the dataset of the job.

    `merge` updates the rows with equal `keys` and adds the others, in delta, iceberg and parquet. It removes rows with
    other keys and a value in the column `within` that a row of the run has, such as former chunks of a document (after
    chunk, for keys: [id], `within` is its column document). `history` keeps
    one row per key and state in these formats (docs/formats.md). `partition_by` are columns with a folder for each
    of their values. `credential` names the cloud credential for a path in a bucket. `spindle run` writes to a local
    path, as save stages do: a folder, or one file where the path ends as files of the format do (`rows.csv`).
    Without a path it prints the rows, and `-o FILE` writes them to a file.
    """

    path: str | None = None
    mode: Annotated[Mode, validate_choice("mode", Mode)] = Mode.OVERWRITE
    format: Annotated[str, validate_choice("format", FORMATS)] = "parquet"
    keys: tuple[str, ...] = ()
    ignore: tuple[str, ...] = Field(default=(), description="columns whose values make no new state, in a history")
    vanished: Annotated[Vanished, validate_choice("value of vanished", Vanished)] = Field(
        default=Vanished.RETIRE,
        description="retire: in a history, the state of a key ends with a run that covered its source and has no row "
        "of it; keep: it stays",
    )
    within: str | None = Field(
        default=None,
        min_length=1,
        description="of a merge: rows of other keys are removed where the run has rows with the value of this column",
    )
    partition_by: tuple[str, ...] = Field(default=(), alias="partitionBy")
    credential: CredentialName = None

    @property
    def own_path(self) -> str | None:
        """The path, unless it is that of a dataset, which only a service has."""
        return None if self.path is None or self.path.startswith("spindle://") else self.path

    def for_rejected(self) -> Self:
        """Return the output of the rows that checks set aside: a path that every run overwrites."""
        if self.path is None:
            return self
        folder, slash, name = self.path.rstrip("/").rpartition("/")
        stem, point, suffix = name.partition(".") if name[:1] != "." else (name, "", "")
        changes = {
            "path": f"{folder}{slash}{stem}_rejected{point}{suffix}",
            "mode": Mode.OVERWRITE,
            "keys": (),
            "within": None,
        }
        return self.model_copy(update=changes | {"partition_by": ()})

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if self.mode is Mode.HISTORY and self.path and split_address(self.path):
            sentence = (
                "a history is kept in a dataset: leave 'path' out, or give it a name such as spindle://shop/prices"
            )
            raise ArgumentError(sentence, "unsupported-mode")
        merged = TABLE_FORMATS if self.path and split_address(self.path) else PARQUET_FORMATS
        check_target(self.format, self.mode, self.keys, self.partition_by, merged)
        check_credential(self.path, self.credential)
        ignored = {name.casefold() for name in self.ignore}
        if ignored_key := next((name for name in self.keys if name.casefold() in ignored), None):
            raise ArgumentError(f"'{ignored_key}' is one of the 'keys', which cannot be ignored", CONFLICT)
        if self.within is not None and self.mode is not Mode.MERGE:
            raise ArgumentError(f"'within' belongs to the mode merge, and the mode is {self.mode}", CONFLICT)
        given = self.model_fields_set if self.mode is not Mode.HISTORY else ()
        if alone := next((name for name in ("ignore", "vanished") if name in given), None):
            raise ArgumentError(f"'{alone}' belongs to the mode history, and the mode is {self.mode}", CONFLICT)
        return self


@dataclass(frozen=True, slots=True)
class StageCall:
    """One stage of a pipeline: `name` is the registered name, `written` the alias or spelling in the text.

    `path` is `fetch` or `pipeline[0]`.
    """

    name: str
    written: str
    stage: Stage
    node: Node
    path: str


@dataclass(frozen=True, slots=True)
class PipelineModel:
    """A whole pipeline; a fetch block is its first stage, and `node` is the list of stages."""

    stages: tuple[StageCall, ...]
    output: Output
    options: Options
    checks: tuple[CheckCall, ...]
    node: Node
