"""Options of Spark data sources: those that pipelines may give, and the addresses in them.

Some options of clients load classes, read files of the machine or run programs, so the options of known data sources
are listed here. Those of others are up to the operator who allows the data source, but values
that look like addresses or files are checked.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from pipelines.errors import ArgumentError
from pipelines.language.names import describe_unknown
from pipelines.language.parameters import has_reference

Options = Mapping[str, str]
HostAndPort = tuple[str, int]

_KAFKA = """
    subscribe subscribePattern assign topic startingOffsets endingOffsets startingTimestamp endingTimestamp
    startingOffsetsByTimestamp endingOffsetsByTimestamp startingOffsetsByTimestampStrategy failOnDataLoss minPartitions
    maxRecordsPerPartition includeHeaders groupIdPrefix kafkaConsumer.pollTimeoutMs fetchOffset.numRetries
    kafka.bootstrap.servers kafka.group.id kafka.client.id kafka.isolation.level kafka.security.protocol
    kafka.sasl.mechanism kafka.sasl.jaas.config kafka.request.timeout.ms kafka.default.api.timeout.ms
    kafka.max.block.ms kafka.delivery.timeout.ms kafka.acks kafka.compression.type kafka.linger.ms kafka.batch.size
    kafka.max.request.size kafka.fetch.max.bytes kafka.max.partition.fetch.bytes kafka.max.poll.records
    kafka.enable.idempotence kafka.ssl.truststore.type kafka.ssl.truststore.certificates
"""
_MONGODB = """
    connection.uri database collection aggregation.pipeline aggregation.allowDiskUse sampleSize
    sql.inferSchema.mapTypes.enabled sql.inferSchema.mapTypes.minimum.key.size partitioner.options.partition.field
    partitioner.options.partition.size partitioner.options.samples.per.partition outputExtendedJson mode hint
    operationType idFieldList upsertDocument ordered maxBatchSize convertJson ignoreNullValues comment
    writeConcern.w writeConcern.journal writeConcern.wTimeoutMS
"""
_MONGODB_URI = """
    tls ssl replicaSet authSource authMechanism appName readPreference readConcernLevel retryReads retryWrites w journal
    wTimeoutMS connectTimeoutMS socketTimeoutMS serverSelectionTimeoutMS maxPoolSize minPoolSize directConnection
    loadBalanced compressors
"""
_BIGQUERY = """
    table query project parentProject dataset billingProject credentials gcpAccessToken viewsEnabled
    materializationProject materializationDataset materializationExpirationTimeInMinutes readDataFormat filter
    maxParallelism preferredMinParallelism useAvroLogicalTypes writeMethod createDisposition partitionField
    partitionType partitionExpirationMs partitionRequireFilter clusteredFields allowFieldAddition
    allowFieldRelaxation datetimeZoneId bigNumericDefaultPrecision bigNumericDefaultScale writeAtLeastOnce
"""
_LOGIN = re.compile(
    r"org\.apache\.kafka\.common\.security\.(plain\.PlainLoginModule|scram\.ScramLoginModule) +required"
    r'( +(username|password)="[^"\\]*"){2} *;'
)
_MONGODB_ADDRESS = re.compile(r"mongodb://(?:[^@/]*@)?(?P<hosts>[^@/?]+)(?:/[^?]*)?(?:\?(?P<options>.*))?")
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?")
_HOSTS = re.compile(r"[A-Za-z0-9._\[\]:-]+:\d{1,5}(,[A-Za-z0-9._\[\]:-]+:\d{1,5})*")
_SECURE_PORT = 443
_TOKEN_ADDRESSES = ("https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token")


@dataclass(frozen=True, slots=True)
class OptionRules:
    """The options that pipelines may give to a data source.

    `check` raises ArgumentError for a value that is not allowed; `list_addresses` yields the hosts in the values.
    """

    names: tuple[str, ...]
    check: Callable[[Options], None]
    list_addresses: Callable[[Options], Iterator[HostAndPort]]


def check_options(format_: str, options: Options) -> None:
    """Raise ArgumentError for options that a data source does not have or that pipelines must not give."""
    rules = _RULES.get(format_.casefold())
    if rules is None:
        return
    known = {name.casefold() for name in rules.names}
    for name in options:
        if name.casefold() not in known:
            raise ArgumentError(describe_unknown(f"option of {format_}", name, rules.names), "unknown-argument")
    rules.check({name.casefold(): value for name, value in options.items() if not has_reference(value)})


def list_addresses(format_: str, options: Options) -> list[HostAndPort]:
    """Return the hosts and ports that the options name; raise ArgumentError for a malformed one."""
    rules = _RULES.get(format_.casefold())
    folded = {name.casefold(): value for name, value in options.items()}
    return [*(rules.list_addresses(folded) if rules else _find_addresses(folded))]


def list_files(format_: str, options: Options) -> list[str]:
    """Return the values that look like files of the machine, for data sources whose options are not known."""
    if format_.casefold() in _RULES:
        return []
    return [value for value in options.values() if value.startswith(("/", "file:", "~"))]


def _find_addresses(options: Options) -> Iterator[HostAndPort]:
    for value in options.values():
        if "://" in value:
            scheme, _, rest = value.partition("://")
            address = urlsplit(f"{scheme.rpartition(':')[2]}://{rest}")  # without jdbc:
            try:
                if address.hostname and address.scheme not in ("s3", "s3a", "s3n", "file", "spindle"):
                    yield address.hostname, address.port or _SECURE_PORT
            except ValueError:
                raise ArgumentError("an option has an address with a malformed port") from None
        elif _HOSTS.fullmatch(value):
            yield from _split_hosts(value, _SECURE_PORT)


def _split_hosts(text: str, port: int) -> Iterator[HostAndPort]:
    for part in text.split(","):
        match = _HOST.fullmatch(part.strip())
        if match is None:
            raise ArgumentError(f"'{part.strip()[:200]}' is not of the form host:port")
        yield match["host"], int(match["port"] or port)


def _check_kafka(options: Options) -> None:
    login = options.get("kafka.sasl.jaas.config")
    if login is not None and not _LOGIN.fullmatch(login.strip()):
        raise ArgumentError(
            "kafka.sasl.jaas.config is that of a PlainLoginModule or a ScramLoginModule, with username and password"
        )


def _list_kafka_hosts(options: Options) -> Iterator[HostAndPort]:
    servers = options.get("kafka.bootstrap.servers")
    if not servers:
        raise ArgumentError("the option kafka.bootstrap.servers is missing", "missing-argument")
    yield from _split_hosts(servers, 9092)


def _check_mongodb(options: Options) -> None:
    if "connection.uri" in options:
        _parse_mongodb(options["connection.uri"])


def _parse_mongodb(uri: str) -> str:
    """Return the hosts of an address; raise ArgumentError for an option in it that is not allowed."""
    match = _MONGODB_ADDRESS.fullmatch(uri)
    if match is None:
        raise ArgumentError("connection.uri is mongodb://host:port,host:port/?options; mongodb+srv hides its hosts")
    known = {name.casefold() for name in _MONGODB_URI.split()}
    for name, _ in parse_qsl(match["options"] or "", keep_blank_values=True):
        if name.casefold() not in known:
            raise ArgumentError(f"the option '{name}' of connection.uri is not allowed")
    return match["hosts"]


def _list_mongodb_hosts(options: Options) -> Iterator[HostAndPort]:
    if "connection.uri" not in options:
        raise ArgumentError("the option connection.uri is missing", "missing-argument")
    yield from _split_hosts(_parse_mongodb(options["connection.uri"]), 27017)


def _check_bigquery(options: Options) -> None:
    if "credentials" not in options:
        return
    try:
        key = json.loads(base64.b64decode(options["credentials"], validate=True))
        is_key = key["type"] == "service_account" and key["token_uri"] in _TOKEN_ADDRESSES
    except (ValueError, KeyError, TypeError):
        is_key = False
    if not is_key:
        raise ArgumentError("'credentials' is the JSON key of a Google service account, in base64")


def _list_bigquery_hosts(options: Options) -> Iterator[HostAndPort]:
    return iter(())  # they are Google's own, which no option changes


_RULES: Mapping[str, OptionRules] = {
    "kafka": OptionRules(tuple(_KAFKA.split()), _check_kafka, _list_kafka_hosts),
    "mongodb": OptionRules(tuple(_MONGODB.split()), _check_mongodb, _list_mongodb_hosts),
    "bigquery": OptionRules(tuple(_BIGQUERY.split()), _check_bigquery, _list_bigquery_hosts),
}
