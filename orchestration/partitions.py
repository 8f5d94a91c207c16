"""Partitions of jobs as Dagster's definitions, and the tags by which a run names the one that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dagster import (
    AllPartitionMapping,
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    MultiPartitionsDefinition,
    PartitionMapping,
    PartitionsDefinition,
    StaticPartitionsDefinition,
    WeeklyPartitionsDefinition,
)

from core.definitions.jobs.partitions import SEPARATOR, Dimension, Partitions, ValuesDimension
from core.lifecycle.outlines.outlines import JobKey, JobOutline

PARTITION = "dagster/partition"
EVERY_PARTITION = AllPartitionMapping()
MONDAY = 1


@lru_cache(1000)
def build_partitions(partitions: Partitions) -> PartitionsDefinition[str] | None:
    """Return Dagster's definition with the same keys; None for a job without partitions."""
    built = {each.parameter.lower(): _build_dimension(each) for each in partitions.dimensions}
    if len(built) > 1:
        return MultiPartitionsDefinition(built)
    return next(iter(built.values()), None)


def build_mappings(outline: JobOutline) -> Mapping[JobKey, PartitionMapping]:
    """Return how an asset depends on those of its inputs with other partitions: it reads all of them."""
    return dict.fromkeys(outline.whole_inputs, EVERY_PARTITION)


def build_partition_tags(key: str | None, partitions: Partitions) -> dict[str, str]:
    """Return the tags of a run for a partition, by which Dagster shows it; those of two dimensions name each."""
    if key is None:
        return {}
    if len(partitions.dimensions) == 1 or key.count(SEPARATOR) + 1 != len(partitions.dimensions):
        return {PARTITION: key}
    parts = {f"{PARTITION}/{name.lower()}": part for name, part in partitions.split(key).items()}
    return {PARTITION: key, **parts}


def _build_dimension(dimension: Dimension) -> PartitionsDefinition[str]:
    if isinstance(dimension, ValuesDimension):
        return StaticPartitionsDefinition(dimension.values)
    start, end, zone, fmt = dimension.first, dimension.get_last_end(), dimension.timezone, dimension.format
    match dimension.by:
        case "hour":
            return HourlyPartitionsDefinition(start, end, timezone=zone, fmt=fmt)
        case "day":
            return DailyPartitionsDefinition(start, end, timezone=zone, fmt=fmt)
        case "week":
            return WeeklyPartitionsDefinition(start, end, day_offset=MONDAY, timezone=zone, fmt=fmt)
        case "month":
            return MonthlyPartitionsDefinition(start, end, timezone=zone, fmt=fmt)
