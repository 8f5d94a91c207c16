"""The steps of a job's asset: ops that all assets share, under the names of their stages.

An asset's run begins with `start`, follows the stages of the driver, and ends with `publish`. Their dependencies are
`Nothing`, so that a run may begin at any of them: without `start` it continues the execution of its parent run.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetObservation,
    ConfigMapping,
    Field,
    In,
    Noneable,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Out,
    Output,
    Permissive,
    op,
)

from core.lifecycle.outlines.parameters import ParameterOutline
from orchestration.metadata import build_stage_metadata
from orchestration.run_drivers import RunDrivers

RESULT = "result"
AFTER = "after"
RESOURCE = "drivers"
LIMIT = Field(Noneable(int), is_required=False, default_value=None, description="Largest number of output rows.")
PUBLISH = Field(
    Noneable(bool),
    is_required=False,
    default_value=None,
    description="Whether the rows become those of the table, by default as the job says; not with a limit.",
)
PARAMETERS = "Values of the pipeline's ${NAME} by name, before those of the job and the project."


def _get_priority(number: int) -> dict[str, str]:
    """Return tags by which a run finishes one asset before it begins another."""
    return {"dagster/priority": str(number)}


@lru_cache
def make_start(inputs: int) -> OpDefinition:
    """Return the op for jobs that read this number of other assets, each of which is an input of it."""

    @op(
        name="start" if not inputs else f"start_after_{inputs}",
        ins={get_start_input(number): In(Nothing) for number in range(inputs)},
        out=Out(Nothing),
        config_schema=_build_schema(()),
        required_resource_keys={RESOURCE},
        tags=_get_priority(0),
    )
    def start(context: OpExecutionContext) -> Iterator[Output[None]]:
        """Submit or claim the execution, and start its driver and Spark."""
        drivers: RunDrivers = context.resources.drivers
        with drivers.open(context, context.op_config) as driver:
            yield Output(None, metadata=driver.await_start(context))

    return start


@lru_cache
def make_config(parameters: tuple[ParameterOutline, ...]) -> ConfigMapping:
    """Return the config of a job's graph: that of `start`, with the parameters that the launchpad shows."""
    return ConfigMapping(config_fn=_map_config, config_schema=_build_schema(parameters))


@op(ins={AFTER: In(Nothing)}, out=Out(Nothing), required_resource_keys={RESOURCE}, tags=_get_priority(1))
def stage(context: OpExecutionContext) -> Iterator[Output[None]]:
    """Follow one stage of the driver: its progress as log lines, its rows, columns and a preview as metadata."""
    drivers: RunDrivers = context.resources.drivers
    with drivers.open(context) as driver:
        report = driver.follow_stage(context, context.op_handle.name)
        for warning in report.get("warnings", ()):
            context.log.warning(warning)
        yield Output(None, metadata=build_stage_metadata(report, driver.shows_rows))


@lru_cache
def make_publish(checks: int) -> OpDefinition:
    """Return the op for pipelines with this number of checks: every check is one of its outputs.

    An execution that does not publish has no outputs, so that Dagster runs nothing that reads the asset. One that has
    found no change observes the asset, unless its run has other assets too, which somebody wants to be executed.
    """
    made = Out(Nothing, is_required=False)

    @op(
        name="publish" if not checks else f"publish_with_{checks}_checks",
        ins={AFTER: In(Nothing)},
        out={RESULT: made, **{get_check_output(number): made for number in range(checks)}},
        required_resource_keys={RESOURCE},
        tags=_get_priority(2),
    )
    def publish(context: OpExecutionContext) -> Iterator[AssetCheckResult | AssetObservation | Output[None]]:
        """Wait for the driver's last report, show the results of the checks, and materialize the asset."""
        drivers: RunDrivers = context.resources.drivers
        with drivers.open(context) as driver:
            driver.await_end(context)
            if driver.publishes:
                yield from driver.list_check_results()
            metadata = driver.complete(context)
            if driver.changes_asset or (driver.publishes and not drivers.has_one_asset):
                yield Output(None, RESULT, metadata=metadata)
            else:
                partition = context.partition_key if context.has_partition_key else None
                yield AssetObservation(driver.asset_key, metadata=metadata, partition=partition)

    return publish


def get_start_input(number: int) -> str:
    return f"{AFTER}_{number}"


def get_check_output(number: int) -> str:
    return f"check_{number}"


def _build_schema(parameters: Iterable[ParameterOutline]) -> dict[str, Field]:
    """Return the options of an execution; they may have other parameters, about which the service decides."""
    named = {each.name: _build_field(each) for each in parameters}
    values = Field(Permissive(named), is_required=None if named else False, description=PARAMETERS)
    return {"parameters": values, "limit": LIMIT, "publish": PUBLISH}


def _build_field(parameter: ParameterOutline) -> Field:
    given: dict[str, Any] = {} if parameter.default is None else {"default_value": parameter.default}
    return Field(parameter.type or Any, is_required=False, description=parameter.description, **given)


def _map_config(values: dict[str, Any]) -> dict[str, Any]:
    return {"start": {"config": values}}
