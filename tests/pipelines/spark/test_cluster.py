"""The driver's address on a cluster, the settings of its session, and machines that cannot run workers."""

from __future__ import annotations

import socket

import pytest
from py4j.protocol import Py4JError

from core.infra.settings import Settings
from core.lifecycle.executions.spec import build_spark_spec
from orchestration.compute.capacity import count_spares
from pipelines.errors import RunError, SparkEnded
from pipelines.pipeline import Pipeline
from pipelines.spark.cluster import find_own_address
from pipelines.spark.failures import locate_spark_errors

CLUSTER = "spark://127.0.0.1:7077"


@pytest.mark.parametrize("prefix", ["spark://", "k8s://https://"])
def test_the_address_is_that_of_the_way_to_the_master(prefix: str) -> None:
    with socket.create_server(("127.0.0.2", 0)) as master:
        address = find_own_address(f"{prefix}127.0.0.2:{master.getsockname()[1]}")
    assert address.startswith("127.0.0.")


def test_a_local_master_needs_no_connection() -> None:
    assert find_own_address("local[*]") == "127.0.0.1"


def test_a_master_that_is_away_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RunError, match=f"spark://127.0.0.1:{port}"):
        find_own_address(f"spark://127.0.0.1:{port}")


def test_executors_are_limited_by_settings() -> None:
    conf = build_spark_spec(Settings(spark_master=CLUSTER, spark_executor_memory="3g", spark_max_cores=4)).conf
    assert (conf["spark.executor.memory"], conf["spark.cores.max"]) == ("3g", "4")
    assert "spark.executor.memory" not in build_spark_spec(Settings(spark_master="local[2]")).conf


def test_a_cluster_has_spares_only_when_they_are_asked_for() -> None:
    assert count_spares(Settings(spark_master=CLUSTER)) == 0
    assert count_spares(Settings(spark_master=CLUSTER, spare_drivers=2)) == 2


@pytest.mark.parametrize("reason", ["error=13, Permission denied", "Exec failed, error: 2 (No such file or directory)"])
def test_a_machine_that_cannot_run_our_python_is_named_as_the_reason(reason: str) -> None:
    plan = Pipeline.from_yaml("pipeline: [{stage: load_csv, args: [a.csv]}]").plan()
    text = f'java.io.IOException: Cannot run program "/srv/python": {reason}\n\tat java.lang.ProcessBuilder.start'
    with pytest.raises(RunError, match="/srv/python: ") as error, locate_spark_errors(plan, lambda: ()):
        raise Py4JError(text)
    assert not isinstance(error.value, SparkEnded)
