"""The tables of the metadata database. Times are UTC; ids are UUIDv7 strings unless they count."""

from __future__ import annotations

from core.tables.base import Base, Owned, UtcDateTime, first_id_at, new_id, now
from core.tables.credentials import CloudCredential
from core.tables.cron_jobs import CronJob, CronJobCall
from core.tables.datasets import Dataset, DatasetRead, DatasetVersion, FileRemoval
from core.tables.definitions import DefinitionChange
from core.tables.events import Delivery, ExecutionEvent, Webhook
from core.tables.executions import Backfill, Execution, ExecutionAttempt, OutboxMessage
from core.tables.extensions import PythonExtension
from core.tables.generic_tables import GenericTableRow
from core.tables.identity import ApiKey, AuditEntry, ConsoleSession, Organization, Person, ProviderToken
from core.tables.instances import Installation, Instance
from core.tables.limits import IdempotencyRecord, OrganizationLimits, RateCounter, RunningQuery
from core.tables.messages import Message, Receiver
from core.tables.metrics import ExecutionBill, OverheadTotal, Total
from core.tables.notifications import Notification, NotificationRule
from core.tables.plugins import DisabledPlugin, LibraryVersion, Package, PluginBuild, PluginInstallation
from core.tables.queries import StoredQuery
from core.tables.schedules import Schedule, ScheduleTick, TickJob
from core.tables.shared import SharedValues
from core.tables.training import Training, TrainingDataset
from core.tables.work import Agent, Category, ExecutionPool, Job, Project, Task

__all__ = [
    "Agent",
    "ApiKey",
    "AuditEntry",
    "Backfill",
    "Base",
    "Category",
    "CloudCredential",
    "ConsoleSession",
    "CronJob",
    "CronJobCall",
    "Dataset",
    "DatasetRead",
    "DatasetVersion",
    "DefinitionChange",
    "Delivery",
    "DisabledPlugin",
    "Execution",
    "ExecutionAttempt",
    "ExecutionBill",
    "ExecutionEvent",
    "ExecutionPool",
    "FileRemoval",
    "GenericTableRow",
    "IdempotencyRecord",
    "Installation",
    "Instance",
    "Job",
    "LibraryVersion",
    "Message",
    "Notification",
    "NotificationRule",
    "Organization",
    "OrganizationLimits",
    "OutboxMessage",
    "OverheadTotal",
    "Owned",
    "Package",
    "Person",
    "PluginBuild",
    "PluginInstallation",
    "Project",
    "ProviderToken",
    "PythonExtension",
    "RateCounter",
    "Receiver",
    "RunningQuery",
    "Schedule",
    "ScheduleTick",
    "SharedValues",
    "StoredQuery",
    "Task",
    "TickJob",
    "Total",
    "Training",
    "TrainingDataset",
    "UtcDateTime",
    "Webhook",
    "first_id_at",
    "new_id",
    "now",
]
