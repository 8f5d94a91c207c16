"""Jobs as Dagster assets: an asset is a graph with one step per stage of its pipeline."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from dagster import (
    AssetCheckSpec,
    AssetKey,
    AssetsDefinition,
    AssetSelection,
    AssetSpec,
    Definitions,
    DependencyDefinition,
    GraphDefinition,
    InputMapping,
    NodeInvocation,
    OutputMapping,
    PreviewWarning,
    ResourceDefinition,
    ScheduleDefinition,
    define_asset_job,
    in_process_executor,
)

from core.lifecycle.outlines.outlines import JobKey, JobOutline
from orchestration.asset_specs import build_attributes, build_plain_asset, get_group_name, list_upstream
from orchestration.instance import CRON_JOB
from orchestration.partitions import build_mappings, build_partitions
from orchestration.steps import (
    AFTER,
    RESOURCE,
    RESULT,
    get_check_output,
    get_start_input,
    make_config,
    make_publish,
    make_start,
    stage,
)

START, PUBLISH = "start", "publish"
warnings.filterwarnings("ignore", "Specifying a partitions_def on an AssetCheckSpec", PreviewWarning)
NO_DRIVERS = ResourceDefinition.none_resource("The drivers of a run's executions, which the launcher opens.")
OWN_NAMES = (START, PUBLISH, "stage", "store_call", CRON_JOB)  # of ops and jobs, which no other job may have


def build_job_asset(outline: JobOutline) -> AssetsDefinition | AssetSpec:
    """Return the asset of a job; one that cannot be executed is a spec, whose description says why."""
    if outline.obstacle is not None:
        return build_plain_asset(outline)
    attributes, partitions = build_attributes(outline), build_partitions(outline.partitions)
    key = attributes.key
    # not `blocking`: Dagster cannot plan a step that waits for several inputs and for their checks
    specs = [
        AssetCheckSpec(
            each.name,
            asset=key,
            description=each.description,
            metadata={"severity": each.severity},
            partitions_def=partitions,
        )
        for each in outline.checks
    ]
    asset = AssetsDefinition.from_graph(
        _build_graph(outline, specs),
        keys_by_input_name={_name_input(each): AssetKey(each) for each in list_upstream(outline)},
        keys_by_output_name={RESULT: key},
        group_name=attributes.group_name,
        descriptions_by_output_name={RESULT: attributes.description},
        metadata_by_output_name={RESULT: attributes.metadata},
        tags_by_output_name={RESULT: attributes.tags},
        owners_by_output_name={RESULT: attributes.owners},
        code_versions_by_output_name={RESULT: attributes.code_version},
        automation_conditions_by_output_name={RESULT: attributes.automation_condition},
        check_specs=specs,
        partitions_def=partitions,
        partition_mappings={_name_input(key): mapping for key, mapping in build_mappings(outline).items()},
    )
    if attributes.freshness_policy is None:
        return asset
    # graphs cannot be given a policy
    return asset.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=attributes.freshness_policy))


def build_definitions(
    assets: Iterable[AssetsDefinition | AssetSpec],
    drivers: ResourceDefinition,
    schedules: Iterable[ScheduleDefinition] = (),
) -> Definitions:
    """Return the definitions of these assets, whose steps run in the process of their run, and of schedules.

    The assets of a project that can be executed are one job, which has the name of their group, but those with
    partitions, of which a job could only have one kind.
    """
    assets = list(assets)
    projects: dict[str, list[AssetKey]] = defaultdict(list)
    for asset in assets:
        if isinstance(asset, AssetsDefinition) and asset.partitions_def is None:
            projects[get_project_job_name(asset.key.path)].append(asset.key)
    return Definitions(
        assets=assets,
        jobs=[define_asset_job(name, AssetSelection.assets(*keys)) for name, keys in projects.items()],
        schedules=list(schedules),
        resources={RESOURCE: drivers},
        executor=in_process_executor,
    )


def get_project_job_name(key: Sequence[str]) -> str:
    """Return the name of the Dagster job of all assets of this one's project: that of their group."""
    return name_project_job(get_group_name(tuple(key)))


def name_project_job(group: str) -> str:
    return f"{group}_project" if group in OWN_NAMES else group


def get_graph_name(key: JobKey) -> str:
    """Return the name of the asset's graph, which the keys of its steps begin with."""
    return AssetKey(key).to_python_identifier()


def _build_graph(outline: JobOutline, checks: Iterable[AssetCheckSpec]) -> GraphDefinition:
    outputs = {spec.get_python_identifier(): get_check_output(number) for number, spec in enumerate(checks)}
    publish = make_publish(len(outputs))
    upstream = list_upstream(outline)
    start = make_start(len(upstream))
    names = [START, *(step.name for step in outline.steps), PUBLISH]
    dependencies: dict[NodeInvocation, Any] = {NodeInvocation(start.name, alias=START): {}}
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
                mapped_node_input_name=get_start_input(number),
            )
            for number, each in enumerate(upstream)
        ],
        output_mappings=[OutputMapping(graph, PUBLISH, own) for graph, own in {RESULT: RESULT, **outputs}.items()],
        config=make_config(outline.parameters),
    )


def _name_input(key: JobKey) -> str:
    return re.sub(r"\W", "_", "__".join(key), flags=re.ASCII)
