"""The description and metadata of a job's asset: group, description, columns, pipeline and links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dagster import AssetKey, AssetSelection, AssetSpec, AutomationCondition, FreshnessPolicy, MetadataValue

from core.definitions.jobs.models import parse_duration
from core.infra.settings import Settings
from core.lifecycle.outlines.outlines import JobKey, JobOutline, StepOutline
from core.lifecycle.outlines.sources import SourceOutline
from orchestration.column_metadata import build_columns
from orchestration.markdown import clean_text, escape_markdown, format_code
from orchestration.metadata import build_pipeline
from orchestration.partitions import build_partitions

SOURCES = "sources"  # the group of assets that no job writes


@dataclass(frozen=True, slots=True)
class AssetAttributes:
    """The attributes that assets with and without steps share."""

    key: AssetKey
    group_name: str
    description: str
    metadata: dict[str, Any]
    tags: dict[str, str]
    owners: list[str]
    code_version: str | None
    automation_condition: AutomationCondition[Any] | None
    freshness_policy: FreshnessPolicy | None


def build_attributes(outline: JobOutline) -> AssetAttributes:
    tags = {"spindle/project": outline.project_slug, "spindle/organization": outline.organization_slug}
    kinds = {f"dagster/kind/{each}": "" for each in outline.kinds}
    return AssetAttributes(
        key=AssetKey(outline.key),
        group_name=get_group_name(outline.key),
        description=_describe(outline),
        metadata=_build_metadata(outline),
        tags={name: value for name, value in tags.items() if value} | kinds | dict(outline.tags),
        owners=[*([f"team:{outline.organization_slug}"] if outline.organization_slug else []), *outline.owners],
        code_version=f"{outline.agent_id}:{outline.agent_revision}" if outline.agent_id else None,
        automation_condition=_build_condition(outline) if outline.on_new_input else None,
        freshness_policy=FreshnessPolicy.time_window(parse_duration(outline.max_age)) if outline.max_age else None,
    )


def build_plain_asset(outline: JobOutline) -> AssetSpec:
    """Return an asset without steps, which Dagster shows and cannot materialize."""
    attributes = build_attributes(outline)
    return AssetSpec(
        attributes.key,
        deps=[AssetKey(key) for key in list_upstream(outline)],
        group_name=attributes.group_name,
        description=attributes.description,
        metadata=attributes.metadata,
        tags=attributes.tags,
        owners=attributes.owners,
        code_version=attributes.code_version,
        automation_condition=attributes.automation_condition,
        freshness_policy=attributes.freshness_policy,
        partitions_def=build_partitions(outline.partitions),
    )


def build_source(source: SourceOutline) -> AssetSpec:
    """Return the asset of a source that no job writes, which has no events."""
    prefix = source.key[: source.key.index(source.kind)]
    return AssetSpec(
        AssetKey(source.key),
        group_name="__".join((*prefix, SOURCES)),
        description=f"{source.kind.capitalize()} {escape_markdown(source.address)}, which jobs of Spindle read.",
    )


def list_upstream(outline: JobOutline) -> list[JobKey]:
    """Return the keys of the jobs and sources that a job reads."""
    return [*outline.inputs, *(source.key for source in outline.sources)]


def _build_condition(outline: JobOutline) -> AutomationCondition[Any]:
    """Return the condition of new inputs; sources have no events, and would count as missing."""
    condition = AutomationCondition.eager()
    keys = [AssetKey(source.key) for source in outline.sources]
    return condition.ignore(AssetSelection.assets(*keys)) if keys else condition


def get_group_name(key: JobKey) -> str:
    return "__".join(key[:-1])


def _describe(outline: JobOutline) -> str:
    parts = [f"Job {escape_markdown(outline.name)} of the project {escape_markdown(outline.project_name)}."]
    if outline.obstacle:
        parts.append(f"Cannot be materialized: {escape_markdown(outline.obstacle)}")
    if outline.description:
        parts.append(clean_text(outline.description))
    parts.extend(escape_markdown(note) for note in outline.notes)
    return "\n\n".join(parts)


def _build_metadata(outline: JobOutline) -> dict[str, Any]:
    settings = _load_settings()
    url = f"{settings.api.service_url}/projects/id/{outline.project_id}/jobs/{outline.job_id}"
    table = f"{settings.sql.catalog}.{outline.project_slug}.{outline.slug}"
    metadata: dict[str, Any] = {
        "console": MetadataValue.url(
            f"{settings.api.origin}/console/projects/{outline.project_id}/jobs/{outline.job_id}"
        ),
        "dagster/table_name": table,
        "SQL": MetadataValue.md(format_code(f"SELECT * FROM {table} LIMIT 100", "sql")),  # noqa: S608 - shown, not run
        "REST": MetadataValue.url(url),  # to a browser, which has no key, the API says how to send one
        "executions": MetadataValue.url(f"{url}/executions"),
        "logs": MetadataValue.url(f"{url}/logs"),
    }
    if outline.columns:
        columns = [{"name": clean_text(name), "type": type_} for name, type_ in outline.columns]
        metadata |= build_columns(outline, columns)
    if outline.agent_name:
        metadata["agent"] = f"{clean_text(outline.agent_name)}, revision {outline.agent_revision}"
    if outline.pipeline_yaml is not None:
        metadata["pipeline"] = build_pipeline(outline)
    if outline.steps:
        metadata["stages"] = MetadataValue.md("\n".join(map(_list_step, outline.steps)))
    return metadata


def _list_step(step: StepOutline) -> str:
    position = f"pass {step.pass_number}, line {step.line}" if step.line else f"pass {step.pass_number}"
    return f"1. `{step.name}` {escape_markdown(step.title)} ({position})"


@lru_cache(1)
def _load_settings() -> Settings:
    return Settings()
