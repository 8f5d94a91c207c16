"""How many drivers work at once on this machine, those with Spark and those that begin without it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

from core.infra.pidfile import is_alive, list_alive
from core.infra.settings import Settings
from driver.host_folder import OWN_SPARK
from pipelines.language.engines import EngineName
from pipelines.spark.cluster import is_local_master

MACHINE_BYTES = 8 * 2**30  # memory from which a driver with Spark may wait without work
SPARK_DRIVER_BYTES = 2 * 2**30
LOCAL_DRIVER_BYTES = 512 * 2**20  # it goes on with Spark before it holds more rows
LOCAL_DRIVERS_OF_CORE = 8  # they wait for pages most of the time
FEWEST_SPARK_DRIVERS, FEWEST_LOCAL_DRIVERS = 2, 4
# of version 2 and of version 1, as a container sees its own
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def count_spares(settings: Settings) -> int:
    """Return the number of spares: the setting, or one on a machine, or in a container, with enough memory."""
    if settings.spares.drivers is not None:
        return settings.spares.drivers
    if not is_local_master(settings.spark.master):
        return 0  # a spare would hold a cluster's cores
    return 1 if measure_machine() >= MACHINE_BYTES else 0


def count_drivers(settings: Settings, engine: EngineName) -> int | None:
    """Return the most drivers that work at once on this machine; None for Spark where a cluster does the work."""
    cores = os.cpu_count() or 2
    if engine is EngineName.LOCAL:
        most = min(LOCAL_DRIVERS_OF_CORE * cores, measure_machine() // LOCAL_DRIVER_BYTES)
        return settings.drivers.local_drivers or max(FEWEST_LOCAL_DRIVERS, most)
    if settings.drivers.spark_drivers is not None or not is_local_master(settings.spark.master):
        return settings.drivers.spark_drivers
    return max(FEWEST_SPARK_DRIVERS, min(cores, measure_machine() // SPARK_DRIVER_BYTES))


def count_working(data: Path, engine: EngineName) -> int:
    """Return how many drivers have an execution that began with this engine, or has gone on with Spark."""
    pidfiles = data / "drivers"
    names = (name for name in list_alive(pidfiles) if is_alive(pidfiles / name))  # an empty one may be a dead run's
    folders = (data / "scratch" / name.partition(".")[2] for name in names)
    has_spark = engine is EngineName.SPARK
    return sum((folder.is_symlink() or (folder / OWN_SPARK).exists()) == has_spark for folder in folders)


def measure_machine() -> int:
    """Return the bytes of memory of this machine, or of its container."""
    total = psutil.virtual_memory().total
    for limit in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # no such cgroup, or no limit ("max")
            total = min(total, int(limit.read_text()))
    return total
