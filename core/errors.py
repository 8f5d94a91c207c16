"""Errors that a caller may see: one root exception, its subclasses by HTTP status, and the codes of `details`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

CODES = {  # with their meanings; the OpenAPI description lists them
    # Trino's names of the errors of a query; Trino itself has more of them
    "AMBIGUOUS_NAME": "SQL: several tables of the query have a column of this name.",
    "COLUMN_NOT_FOUND": "SQL: there is no column of this name.",
    "DIVISION_BY_ZERO": "SQL: a division by zero.",
    "EXPRESSION_NOT_AGGREGATE": "SQL: the column is neither aggregated nor in GROUP BY.",
    "EXPRESSION_NOT_IN_DISTINCT": "SQL: ORDER BY of SELECT DISTINCT names what is not selected.",
    "FUNCTION_NOT_FOUND": "SQL: there is no function of this name for these types.",
    "INVALID_ARGUMENTS": "SQL: grouping() cannot be used so.",
    "INVALID_CAST_ARGUMENT": "SQL: the value cannot be converted to the type.",
    "INVALID_FUNCTION_ARGUMENT": "SQL: a function cannot take this value.",
    "MISSING_GROUP_BY": "SQL: grouping() needs GROUP BY.",
    "NUMERIC_VALUE_OUT_OF_RANGE": "SQL: the number does not fit into its type.",
    "SUBQUERY_MULTIPLE_ROWS": "SQL: a subquery in place of a value has several rows.",
    "TYPE_MISMATCH": "SQL: the operation does not take these types.",
    "address-refused": "The address is in a network that this service may not call.",
    "already-running": "The task is running.",
    "ambiguous-dataset": "Several projects have a dataset of this name: write project.dataset.",
    "ambiguous-table": "Several schemas have a table of this name; name the schema.",
    "cluster-option": "The project or job asks for pods that the operator does not allow here.",
    "concurrency-limit": "Too many requests of this kind are running at once. Retry after `Retry-After` seconds.",
    "conflict": "The request does not fit the current state of the record.",
    "conflicting-arguments": "Two fields of the record exclude each other.",
    "credential-disabled": "The cloud credential is disabled.",
    "cron-job-limit": "The organization has as many cron jobs as it may have.",
    "daily-limit": "The organization has begun as many executions as it may in a day (UTC). Retry after `Retry-After`.",
    "dataset-in-use": "The dataset is the input of a job.",
    "unsupported-maintenance": "The table belongs to another program's catalog, which maintains it.",
    "dataset-written": "An execution that writes the dataset has not ended.",
    "disabled": "The job, its agent, the task or the plugin is disabled.",
    "duplicate-column": "Two columns of the file have one name.",
    "duplicate-name": "A package contains two things of one name.",
    "empty-file": "The file has no rows and no header.",
    "pool-in-use": "Jobs name the pool.",
    "pool-limit": "The pools of the job have no free place. Retry after `Retry-After` seconds.",
    "execution-limit": "The project or organization has its maximum of executions. Retry after `Retry-After` seconds.",
    "fetch-failed": "The web page could not be fetched.",
    "forbidden": "The key may not use this resource.",
    "database-not-empty": "A copy of the metadata database needs an empty database.",
    "foreign-installation": "The database, the storage and the service key do not belong together.",
    "foreign-files": "The files of a table are outside of the organization's storage.",
    "idempotency-key-reused": "The Idempotency-Key was used for another request.",
    "idempotency-key-unfinished": "The first request with the Idempotency-Key has not been answered.",
    "incomparable-keys": "A key has types in two versions that cannot be compared.",
    "index-unavailable": "The index of Python packages does not answer, or refuses the service. A retry may help.",
    "internal-error": "A fault of the service. It has been logged.",
    "invalid-content-type": "The body's content type is not one that the operation reads.",
    "invalid-cron": "The cron expression is not valid.",
    "invalid-cursor": "The cursor does not belong to this list.",
    "invalid-encoding": "The file is not text in the encoding that it was read in.",
    "invalid-example": "An example of the training data cannot be used by the provider.",
    "invalid-file": "The file cannot be read as rows of its format.",
    "invalid-header": "The header of the file has a name that no column can have.",
    "invalid-json": "The body is not valid JSON.",
    "invalid-key": "The API key is missing, unknown, expired or revoked.",
    "invalid-package": "The package is damaged, incomplete or inconsistent, or names something that cannot be stored.",
    "invalid-period": "A date or time is not valid, or the period ends before it starts.",
    "invalid-range": "The range of bytes is not within the file.",
    "invalid-snapshot": "A report names no snapshot of the table that it has written.",
    "invalid-row": "A value among `rows` is neither an address nor an object of columns.",
    "invalid-sql": "The SQL does not parse, or is not exactly one statement.",
    "invalid-value": "A field or parameter has a value that is not allowed.",
    "link-used": "The link has received a package already.",
    "method-not-allowed": "The path does not support this method.",
    "missing-encryption-key": "The stored secret needs the caller's key in `X-Encryption-Key`.",
    "missing-field": "A required field or parameter is missing.",
    "missing-files": "The files of a table are missing in the storage.",
    "missing-keys": "Two versions are compared by keys, and neither the output nor the request names any.",
    "missing-libraries": "A format needs Java libraries, and they cannot be fetched.",
    "dagster-shows-all": "The Dagster UI shows all organizations of the service, so super_admins alone may open it.",
    "bad-logout-token": "A provider's logout token is not signed by it, is for another service, old, or used.",
    "bad-graphql": "A request for the Dagster UI has no GraphQL document that can be read.",
    "missing-scope": "The API key lacks a scope that the operation needs.",
    "missing-setting": "A setting of the service is missing.",
    "name-taken": "A record with this name exists already.",
    "needs-spark": "The job is to run without Spark, and its pipeline has a part that only Spark runs.",
    "invalid-name": "A cron job of the cluster needs a name of small letters, digits and hyphens.",
    "no-agent": "The job has no agent.",
    "not-allowed": "The operator does not allow this image, namespace or secret for cron jobs of the cluster.",
    "no-pipeline": "The agent has no pipeline that can be executed or exported.",
    "no-space": "There is no space left on a disk of the service.",
    "no-spark-page": "Spark has no page of the execution, or it has no such part.",
    "no-upload": "No package was uploaded to this link.",
    "not-kept": "The log, the list of failed pages, or the pages are not kept any longer.",
    "not-ended": "The execution has not ended yet.",
    "not-found": "The record does not exist, or belongs to another organization.",
    "not-html": "The web page is not HTML.",
    "not-retryable": "The execution has not failed, so it cannot be retried.",
    "old-engine": "The build of the engine knows no executions that do not publish.",
    "output-exists": "There are rows where a pipeline writes with the mode error.",
    "packages-changed": "The agent's Python names other packages than when it was written.",
    "past-time": "The time has passed already.",
    "partition-limit": "The job has more partitions than it may have, or the backfill asks for too many.",
    "partition-missing": "A dataset that is read with the same partitions has not got this one yet.",
    "partition-open": "The period of the partition has not closed yet.",
    "partition-required": "The job has partitions, and the request names none.",
    "partition-running": "Another execution of the partition has not ended.",
    "path-outside-storage": "The path is outside of the organization's storage.",
    "path-too-long": "The request's path exceeds the limit.",
    "plugin-failed": "The plugin could not be loaded, or its tables are not up to date.",
    "plugin-limit": "The organization has as many builds of plugins as it may have.",
    "precondition-failed": "The record has changed since the version named by `If-Match`.",
    "queries-busy": "All query processes are busy.",
    "provider-refused": "The AI provider refuses the request; `error` has its sentence.",
    "provider-unavailable": "The AI provider does not answer, or has no capacity. A retry may help.",
    "query-cancelled": "The query was cancelled.",
    "query-failed": "The query failed while it ran.",
    "query-lost": "The service ended while the query ran, or its result is not kept any longer.",
    "query-memory": "The query needed more memory than it may have.",
    "query-refused": "The query contains something that queries may not contain.",
    "query-timeout": "The query took longer than it may.",
    "query-unfinished": "The query in the background has not ended.",
    "queue-limit": "The project has its maximum number of queued executions. Retry after `Retry-After` seconds.",
    "rate-limit": "Too many requests within a minute, or at the same time. Retry after `Retry-After` seconds.",
    "read-only": "The statement would write; queries only read.",
    "repeated-keys": "Several rows of a version have the same keys.",
    "request-timeout": "The body did not arrive in time.",
    "reserved-name": "The name is a segment of an operation's path.",
    "spark-page-unavailable": "Spark's own page of the execution does not answer. A retry may help.",
    "storage-limit": "The datasets of the organization take as many bytes as they may.",
    "storage-unavailable": "The service's storage does not answer, or refuses the service. A retry may help.",
    "types-changed": "The columns of an upload have other types than in the dataset's current version.",
    "trainer-unset": "There is no local trainer: set SPINDLE_TRAINER.",
    "training-limit": "The organization has its maximum number of trainings. Retry after `Retry-After` seconds.",
    "trial-failed": "The trial of a pipeline took more time or memory than it may.",
    "training-cancelled": "The training was cancelled.",
    "training-failed": "The training has failed; its log has more.",
    "training-lost": "The process of a local training has ended without a result.",
    "training-unfinished": "The training has not completed.",
    "too-large": "The request, or the answer to it, exceeds a size limit.",
    "trino-unavailable": "Trino does not answer.",
    "truncated-upload": "The upload, or the file in it, ended too early.",
    "unavailable": "A part that the service depends on does not answer. A retry may help.",
    "undecryptable": "A stored secret cannot be decrypted with the service's key. Write it again.",
    "unknown-catalog": "There is no SQL catalog of this name.",
    "unknown-credential": "There is no cloud credential with this id.",
    "unknown-dataset": "There is no dataset at this path or of this name.",
    "unknown-execution": "There is no execution with this id.",
    "unknown-event": "There is no event type of this name.",
    "unknown-field": "The request has a field that the operation does not know.",
    "unknown-function": "There is no SQL function of this name.",
    "unknown-model": "The local trainer has no model of this name.",
    "unknown-partition": "The job has no partition with this key.",
    "unknown-path": "No operation has this path.",
    "unknown-scope": "There is no scope of this name.",
    "unknown-table": "There is no table of this name.",
    "unknown-timezone": "There is no timezone of this name.",
    "unknown-version": "The dataset has no version of this number or id.",
    "unpublished-dataset": "The job that writes the dataset has published nothing yet.",
    "unreadable-request": "The request is not valid HTTP, or its body cannot be decoded.",
    "unsupported-cron": "The cron expression has seconds, years or days that cannot be scheduled, or never fires.",
    "unsupported-format": "Files of this kind cannot be read.",
    "unsupported-sql": "The query uses something that the SQL engine does not have.",
    "unsupported-table": "Another program has written the table in a way that SQL does not read.",
    "unsupported-version": "The package was written by a newer version of Spindle.",
    "weights-kept": "The provider does not give away the weights of the model.",
    "rows-not-read": "The request gives rows, and the pipeline has no load_rows.",
    "rows-required": "The pipeline begins with the rows of the request, which gives none.",
    "rule-limit": "The project has as many notification rules as it may have.",
    "unknown-target": "Credentials of this provider are no targets of notifications.",
    "webhook-limit": "The project has as many webhooks as it may have.",
    "invalid-plugin": "The file is no plugin, is damaged or unsafe, or its code does not load.",
    "wrong-checksum": "A file of a wheel differs from the checksum in its RECORD.",
    "wrong-python": "The wheel is for another version of Python or another kind of machine.",
    "plugin-exists": "Another file was uploaded as this build of the plugin.",
    "unknown-plugin": "There is no plugin of this id, build type and build number.",
    "no-consent": "The operator has not allowed uploaded plugins to run in the organization's drivers.",
    "no-isolation": "This machine cannot isolate a process, which untrusted code needs.",
    "version-exists": "There is a version of this build type and build number already.",
    "version-in-use": "A project or job has selected the version of the engine.",
    "unusable-library-version": "Drivers of this service cannot run the build of the engine.",
    "unknown-library-version": "There is no active version of the engine with this id.",
    "unknown-file": "No file was uploaded under this path.",
    "wrong-encryption-key": "`X-Encryption-Key` is not the key that the stored secret was encrypted with.",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """One part of an error. `path` names a field (`agentId`) or a position in the YAML (`line 3, column 5`)."""

    path: str
    message: str
    code: str = "invalid-value"


class SpindleError(Exception):
    """Base of all errors that a caller may see. `str(error)` is a sentence that reveals nothing internal.

    Without `details`, one is made of the sentence, `path` and `code` (by default the code of the class).
    """

    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    default_code: ClassVar[str] = "internal-error"

    def __init__(
        self, sentence: str, details: Sequence[Detail] = (), *, code: str | None = None, path: str = ""
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.details = tuple(details) or (Detail(path, sentence, code or self.default_code),)


class BadInput(SpindleError):
    status = 400
    default_code = "invalid-value"


class Unauthorized(SpindleError):
    status = 401
    default_code = "invalid-key"


class Forbidden(SpindleError):
    status = 403
    default_code = "forbidden"


class NotFound(SpindleError):
    """The record does not exist or belongs to another organization; the answer does not distinguish the two."""

    status = 404
    default_code = "not-found"


class TimedOut(SpindleError):
    """The work took longer than it may."""

    status = 408
    default_code = "query-timeout"


class Conflict(SpindleError):
    status = 409
    default_code = "conflict"


class PreconditionFailed(SpindleError):
    """The record has changed since the caller read it."""

    status = 412
    default_code = "precondition-failed"


class TooLarge(SpindleError):
    status = 413
    default_code = "too-large"


class RangeNotSatisfiable(SpindleError):
    """The range of bytes is not within the file."""

    status = 416
    default_code = "invalid-range"


class TooMany(SpindleError):
    status = 429
    retryable = True
    default_code = "rate-limit"

    def __init__(self, sentence: str, retry_after: int, *, code: str | None = None) -> None:
        super().__init__(sentence, code=code)
        self.retry_after = retry_after


class DailyLimit(TooMany):
    """There is nothing more today: what was due at a certain time is not made up for."""

    default_code = "daily-limit"


class Unavailable(SpindleError):
    """A dependency (database, query engine, Dagster) does not answer."""

    status = 503
    retryable = True
    default_code = "unavailable"
