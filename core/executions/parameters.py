"""The values of a pipeline's `${NAME}`s, from all the places that may set one."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from core.datasets.repository import SCHEME, get_address
from core.errors import BadInput, Detail
from core.infra.settings import Settings
from core.infra.validation import check_storable
from core.tables import Dataset, Job, Project

Value = str | int | float | bool
INPUTS = ("INPUT_PATH", "INPUT_CSV_PATH")
OUTPUT = "OUTPUT_"


def resolve(
    names: Collection[str],
    *,
    parameters: Mapping[str, object],
    arguments: Sequence[str],
    job: Job,
    project: Project,
    credentials: Collection[str],
    built_in: Mapping[str, Value],
    environment: Mapping[str, str],
) -> dict[str, Value]:
    """The names that are set anywhere, each from the first place that sets it; the others are left out.

    A credential's variable stays `${NAME}`: its value is known to the driver alone.
    """
    check_storable("parameters", parameters)
    check_storable("arguments", arguments)
    secret = {name: f"${{{name}}}" for name in credentials}
    places = (parameters, _assigned(arguments), job.parameters, project.parameters, secret, built_in, environment)
    values = ChainMap(*(_scalars(place) for place in places))
    return {name: values[name] for name in sorted(names) if name in values}


def built_in(
    names: Collection[str], *, execution_id: str, job: Job, project: Project, source: Dataset | None, at: datetime
) -> dict[str, Value]:
    """What every execution sets; any name that begins with OUTPUT_ is a stable place in the project's storage."""
    values: dict[str, Value] = {
        "EXECUTION_ID": execution_id,
        "JOB_ID": job.id,
        "PROJECT_ID": project.id,
        "RUN_DATE": at.date().isoformat(),
    }
    if source is not None:
        values |= dict.fromkeys(INPUTS, get_address(source))
    outputs = {name: f"{SCHEME}{project.slug}/{name.lower()}" for name in names if name.startswith(OUTPUT)}
    return values | outputs


def allowed_environment(settings: Settings) -> dict[str, str]:
    """The environment variables that a setting lets pipelines use."""
    return {name: os.environ[name] for name in settings.parameter_environment if name in os.environ}


def row_limit(limit: int | None, parameters: Mapping[str, object]) -> int | None:
    """The cap on output rows, which the parameter `limit` sets as well."""
    value = parameters.get("limit") if limit is None else limit
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal():
        raise BadInput("'limit' is a whole number of rows.", [Detail("parameters.limit", "is no whole number")])
    return min(int(value), 2**63 - 1)


def _assigned(arguments: Sequence[str]) -> dict[str, Value]:
    pairs = (argument.partition("=") for argument in arguments)
    return {name.strip(): value for name, equals, value in pairs if equals}


def _scalars(values: Mapping[str, object]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if isinstance(value, Value)}
