"""Jobs as Dagster assets: each is a graph with a step for each stage of its pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from dagster import (
    AssetCheckSpec,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    Definitions,
    DependencyDefinition,
    GraphDefinition,
    InputMapping,
    MultiDependencyDefinition,
    NodeInvocation,
    OutputMapping,
    ResourceDefinition,
    ScheduleDefinition,
    in_process_executor,
)
from dagster._core.definitions.composition import MappedInputPlaceholder

from core.jobs.outlines import JobKey, JobOutline
from orchestration.metadata import build_definition_metadata
from orchestration.steps import AFTER, RESOURCE, RESULT, config_mapping, get_check_output, make_publish, stage, start

START, PUBLISH = "start", "publish"


def build_job_asset(outline: JobOutline) -> AssetsDefinition | AssetSpec:
    """Return the asset of a job; one that cannot be executed is a spec, whose description says why."""
    key = AssetKey(outline.key)
    if outline.obstacle is not None:
        return AssetSpec(
            key,
            deps=[AssetKey(each) for each in outline.inputs],
            description=_describe(outline),
            group_name=get_group_name(outline.key),
            metadata=build_definition_metadata(outline),
            kinds={"spark"},
        )
    specs = [
        AssetCheckSpec(each.name, asset=key, description=each.description, metadata={"severity": each.severity})
        for each in outline.checks
    ]
    return AssetsDefinition.from_graph(
        _build_graph(outline, specs),
        keys_by_input_name={_name_input(each): AssetKey(each) for each in outline.inputs},
        keys_by_output_name={RESULT: key},
        group_name=get_group_name(outline.key),
        descriptions_by_output_name={RESULT: _describe(outline)},
        metadata_by_output_name={RESULT: build_definition_metadata(outline)},
        tags_by_output_name={RESULT: {"dagster/kind/spark": ""}},
        check_specs=specs,
    )


def build_definitions(
    assets: Iterable[AssetsDefinition | AssetSpec],
    drivers: ResourceDefinition,
    schedules: Iterable[ScheduleDefinition] = (),
) -> Definitions:
    """Return the definitions of these assets, whose steps run in the process of their run, and of schedules."""
    return Definitions(
        assets=list(assets),
        schedules=list(schedules),
        resources={RESOURCE: drivers},
        executor=in_process_executor,
    )


def get_graph_name(key: JobKey) -> str:
    """Return the name of the asset's graph, which the keys of its steps begin with."""
    return AssetKey(key).to_python_identifier()


def get_group_name(key: JobKey) -> str:
    return "__".join(key[:-1])


def _build_graph(outline: JobOutline, checks: Iterable[AssetCheckSpec]) -> GraphDefinition:
    outputs = {spec.get_python_identifier(): get_check_output(number) for number, spec in enumerate(checks)}
    publish = make_publish(len(outputs))
    names = [START, *(step.name for step in outline.steps), PUBLISH]
    dependencies: dict[NodeInvocation, Any] = {
        NodeInvocation(start.name): {AFTER: MultiDependencyDefinition([MappedInputPlaceholder] * len(outline.inputs))}
    }
    for before, name in pairwise(names):
        node = publish if name == PUBLISH else stage
        dependencies[NodeInvocation(node.name, alias=name)] = {AFTER: DependencyDefinition(before)}
    return GraphDefinition(
        name=get_graph_name(outline.key),
        node_defs=[start, *([stage] if outline.steps else []), publish],
        dependencies=dependencies,
        input_mappings=[
            InputMapping(
                graph_input_name=_name_input(each),
                mapped_node_name=START,
                mapped_node_input_name=AFTER,
                fan_in_index=number,
            )
            for number, each in enumerate(outline.inputs)
        ],
        output_mappings=[OutputMapping(graph, PUBLISH, own) for graph, own in {RESULT: RESULT, **outputs}.items()],
        config=config_mapping,
    )


def _name_input(key: JobKey) -> str:
    return "__".join(key)


def _describe(outline: JobOutline) -> str:
    parts = (outline.description, outline.obstacle and f"Cannot be materialized: {outline.obstacle}", *outline.notes)
    return "\n\n".join(part for part in parts if part)
