"""The values of a pipeline's `${NAME}` parameters, from all the sources that may set one."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from core.data.datasets.repository import SCHEME, get_address
from core.errors import BadInput, Detail
from core.infra.settings.drivers import ExecutionSettings
from core.infra.validation import check_storable
from core.tables import Dataset, Job, Project

Value = str | int | float | bool
INPUT_NAMES = ("INPUT_PATH", "INPUT_CSV_PATH")
LIMIT = "limit"  # no parameter of a pipeline, but an option of each execution
OUTPUT_PREFIX = "OUTPUT_"
BUILT_IN = frozenset({"EXECUTION_ID", "JOB_ID", "PROJECT_ID", "RUN_DATE", *INPUT_NAMES})
MAX_LIMIT = 2**63 - 1


def resolve_parameters(
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
    """Return the names that have a value, each from the first source that sets it.

    A credential's variable keeps the value `${NAME}`: only the driver knows the secret.
    """
    check_storable("parameters", parameters)
    check_storable("arguments", arguments)
    assignments = (argument.partition("=") for argument in arguments)
    assigned = {name.strip(): value for name, equals, value in assignments if equals}
    secrets = {name: f"${{{name}}}" for name in credentials}
    sources = (parameters, assigned, job.parameters, project.parameters, secrets, built_in, environment)
    values = ChainMap(*(_select_scalars(source) for source in sources))
    return {name: values[name] for name in sorted(names) if name in values}


def list_given_names(parameters: Mapping[str, object], arguments: Sequence[str]) -> list[str]:
    """Return the names of the parameters that a request sets itself."""
    assigned = (argument.partition("=")[0].strip() for argument in arguments if "=" in argument)
    return [name for name in dict.fromkeys([*parameters, *assigned]) if name != LIMIT]


def select_positional(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that set no parameter, because they have no `=`."""
    return [argument for argument in arguments if "=" not in argument]


def get_built_in(
    names: Collection[str], *, execution_id: str, job: Job, project: Project, source: Dataset | None, at: datetime
) -> dict[str, Value]:
    """Return the parameters that every execution sets.

    A name that begins with OUTPUT_ gets a path in the project's storage that is the same for every execution.
    """
    values: dict[str, Value] = {
        "EXECUTION_ID": execution_id,
        "JOB_ID": job.id,
        "PROJECT_ID": project.id,
        "RUN_DATE": at.date().isoformat(),
    }
    if source is not None:
        values |= dict.fromkeys(INPUT_NAMES, get_address(source))
    outputs = {name: _get_output_path(project.slug, name) for name in names if name.startswith(OUTPUT_PREFIX)}
    return values | outputs


def is_built_in(name: str, value: Value, project_slug: str) -> bool:
    """Return whether an execution sets the parameter to this value where nobody else does, or to another one."""
    return name in BUILT_IN or (name.startswith(OUTPUT_PREFIX) and value == _get_output_path(project_slug, name))


def _get_output_path(project_slug: str, name: str) -> str:
    return f"{SCHEME}{project_slug}/{name.lower()}"


def get_allowed_environment(settings: ExecutionSettings) -> dict[str, str]:
    """Return the environment variables that SPINDLE_PARAMETER_ENVIRONMENT lets pipelines use."""
    return {name: os.environ[name] for name in settings.parameter_environment if name in os.environ}


def parse_row_limit(limit: int | None, parameters: Mapping[str, object]) -> int | None:
    """Return the limit on output rows, which the parameter `limit` may set instead; raise BadInput."""
    value = parameters.get(LIMIT) if limit is None else limit
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal():
        raise BadInput("'limit' is a whole number of rows.", [Detail("parameters.limit", "is no whole number")])
    return min(int(value), MAX_LIMIT)


def _select_scalars(values: Mapping[str, object]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if isinstance(value, Value)}
