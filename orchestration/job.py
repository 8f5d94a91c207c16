"""The one Dagster job: every execution is a run of it, with one dynamic step for each stage of its plan."""

from collections.abc import Iterator
from typing import Any

from dagster import (
    AssetMaterialization,
    DynamicOut,
    DynamicOutput,
    OpExecutionContext,
    config_mapping,
    in_process_executor,
    job,
    mem_io_manager,
    op,
)

from core.errors import SpindleError
from orchestration.driver_session import DriverSession, driver_session
from orchestration.metadata import build_publication_metadata, build_stage_metadata

Step = dict[str, Any]


@op(out=DynamicOut(Step), config_schema={"execution_id": str, "attempt": int}, required_resource_keys={"driver"})
def prepare(context: OpExecutionContext) -> Iterator[DynamicOutput[Step]]:
    """Claim the attempt, start its driver, and open one step for each stage of the plan."""
    driver: DriverSession = context.resources.driver
    if not driver.claim(context, context.op_config["execution_id"], context.op_config["attempt"]):
        context.log.info("This attempt has ended, or another run works on it: there is nothing to do.")
        return
    try:
        driver.start(context)
    except SpindleError as error:
        raise driver.fail(error.sentence) from None
    for step in driver.execution.steps:
        yield DynamicOutput(step, mapping_key=step["key"])


@op(required_resource_keys={"driver"})
def stage(context: OpExecutionContext, step: Step) -> str:
    """Follow one stage of the driver: its progress as log lines, its rows, columns and a preview as metadata."""
    driver: DriverSession = context.resources.driver
    context.log.info(f"{step['title']} ({step['position']})")
    report = driver.follow_stage(context, step["key"])
    for warning in report.get("warnings", ()):
        context.log.warning(warning)
    context.add_output_metadata(build_stage_metadata(report))
    return step["key"]


@op(required_resource_keys={"driver"})
def publish(context: OpExecutionContext, stages: list[str]) -> None:
    """Record the completion and materialize the job's asset."""
    driver: DriverSession = context.resources.driver
    if not driver.is_claimed:
        return
    payload = driver.await_completion(context)
    metadata = build_publication_metadata(payload, driver.output_stage)
    context.log_event(AssetMaterialization(driver.load_asset_key(), metadata=metadata))


@config_mapping(config_schema={"execution_id": str, "attempt": int})
def build_attempt_config(values: dict[str, Any]) -> dict[str, Any]:
    quiet = {"console": {"config": {"log_level": "CRITICAL"}}}  # the run's page shows the log
    return {"ops": {"prepare": {"config": values}}, "loggers": quiet}


@job(
    config=build_attempt_config,
    executor_def=in_process_executor,
    resource_defs={"driver": driver_session, "io_manager": mem_io_manager},
)
def execute_pipeline() -> None:
    """Runs one attempt of an execution. Started by Spindle's launcher; by hand it finds nothing to claim."""
    publish(prepare().map(stage).collect())
