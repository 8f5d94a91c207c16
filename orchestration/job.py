"""The one Dagster job: every execution is a run of it, with one visible step for each stage of its plan."""

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
from orchestration.driver import DriverSession, driver_session
from orchestration.metadata import publication_metadata, stage_metadata
from orchestration.translator import StageStep, translate
from pipelines.errors import PipelineError
from pipelines.pipeline import Pipeline
from pipelines.transforms.transform import Transforms


@op(out=DynamicOut(StageStep), config_schema={"execution_id": str, "attempt": int}, required_resource_keys={"driver"})
def prepare(context: OpExecutionContext) -> Iterator[DynamicOutput[StageStep]]:
    """Claims the attempt, starts its driver, and opens one step for each stage of the plan."""
    driver: DriverSession = context.resources.driver
    if not driver.claim(context, context.op_config["execution_id"], context.op_config["attempt"]):
        context.log.info("This attempt has ended, or another run works on it: there is nothing to do.")
        return
    try:
        execution = driver.execution
        transforms = Transforms(execution.row_transforms)
        steps = translate(Pipeline.from_yaml(execution.pipeline_yaml).plan(execution.parameters, transforms))
        driver.start(context, steps)
    except (PipelineError, SpindleError) as error:
        raise driver.give_up(str(error)) from None
    for step in steps:
        yield DynamicOutput(step, mapping_key=step.key)


@op(required_resource_keys={"driver"})
def stage(context: OpExecutionContext, step: StageStep) -> str:
    """Follows one stage of the driver: its progress as log lines, its rows, columns and a preview as metadata."""
    driver: DriverSession = context.resources.driver
    context.log.info(f"{step.title} ({step.place})")
    context.add_output_metadata(stage_metadata(driver.follow(context, step)))
    return step.key


@op(required_resource_keys={"driver"})
def publish(context: OpExecutionContext, stages: list[str]) -> None:
    """Records the completion and materializes the job's asset."""
    driver: DriverSession = context.resources.driver
    if not driver.claimed:
        return
    payload = driver.publish(context)
    metadata = publication_metadata(payload, driver.output)
    context.log_event(AssetMaterialization(driver.asset_key(), metadata=metadata))


@config_mapping(config_schema={"execution_id": str, "attempt": int})
def attempt_config(values: dict[str, Any]) -> dict[str, Any]:
    quiet = {"console": {"config": {"log_level": "CRITICAL"}}}  # the run's page has it all
    return {"ops": {"prepare": {"config": values}}, "loggers": quiet}


@job(
    config=attempt_config,
    executor_def=in_process_executor,
    resource_defs={"driver": driver_session, "io_manager": mem_io_manager},
)
def execute_pipeline() -> None:
    """Runs one attempt of an execution. Started by Spindle's launcher; by hand it finds nothing to claim."""
    publish(prepare().map(stage).collect())
