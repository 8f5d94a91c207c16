"""The choice of the cron scheduler."""

from __future__ import annotations

from core.definitions.cron_jobs.embedded import EmbeddedCronScheduler
from core.definitions.cron_jobs.scheduler import CronScheduler
from core.infra.settings import Settings


def has_cluster_cron_jobs(settings: Settings) -> bool:
    """Return whether cron jobs are CronJobs of a cluster."""
    return settings.drivers.compute == "kubernetes" and bool(settings.kubernetes.cron_namespaces)


def open_cron_scheduler(settings: Settings) -> CronScheduler:
    if not has_cluster_cron_jobs(settings):
        return EmbeddedCronScheduler(settings)
    from core.definitions.cron_jobs.kubernetes import KubernetesCronScheduler  # its client takes a second to import

    return KubernetesCronScheduler(settings)
