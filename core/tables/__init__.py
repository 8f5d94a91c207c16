"""The tables of the metadata database. Times are UTC; ids are UUIDv7 strings unless they count."""

from __future__ import annotations

from core.tables.base import Base, Owned, UtcDateTime, new_id, now
from core.tables.credentials import CloudCredential
from core.tables.datasets import Dataset, DatasetVersion
from core.tables.executions import Execution, OutboxMessage
from core.tables.identity import ApiKey, Organization
from core.tables.limits import IdempotencyRecord, RateCounter
from core.tables.work import Agent, Category, Job, Project, Task

__all__ = [
    "Agent",
    "ApiKey",
    "Base",
    "Category",
    "CloudCredential",
    "Dataset",
    "DatasetVersion",
    "Execution",
    "IdempotencyRecord",
    "Job",
    "Organization",
    "OutboxMessage",
    "Owned",
    "Project",
    "RateCounter",
    "Task",
    "UtcDateTime",
    "new_id",
    "now",
]
