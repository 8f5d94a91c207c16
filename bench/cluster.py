"""Executions whose drivers are pods: `python -m bench.cluster [ROUNDS [AT_ONCE [PAGES [QUEUED]]]]`.

On the cluster of KUBECONFIG, with the image of SPINDLE_TEST_IMAGE and the bucket of SPINDLE_TEST_S3_..., as for
tests/cluster. A pipeline with Spark and an executor, in its parts, beside the same work by spark-submit in a pod of the
same image; one without Spark, in a new pod and in one that waits; AT_ONCE of these at once in new pods, and QUEUED of
them in few pods, with the requests that the API server gets for them; and a crawl of PAGES pages by one executor and by
two.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import cycle
from statistics import median
from typing import Any

import psutil

from bench.nginx import install_packages
from bench.service import (
    Service,
    create_job,
    describe_machine,
    find_free_port,
    post,
    run_spindle,
    wait_until_completed,
)
from bench.sites import serve_catalog
from bench.small_execution import measure_peak, read_stored_times
from core.infra.settings import Settings
from driver.host_folder import SPEC_FILE
from orchestration.compute.kubernetes.executors import build_executor_template
from orchestration.compute.kubernetes.pods import EXECUTOR_TEMPLATE, EXIT_CODE, SPEC_FOLDER, build_pod, name_pod
from orchestration.compute.protocol import DriverHandle
from pipelines.spark.jars import require_jars
from tests.support.cluster import KubernetesCluster, open_cluster
from tests.support.s3 import Bucket, get_bucket
from tests.support.site import serve_site

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
AT_ONCE = int(sys.argv[2]) if len(sys.argv) > 2 else 20
CRAWLED = int(sys.argv[3]) if len(sys.argv) > 3 else 20_000
QUEUED = int(sys.argv[4]) if len(sys.argv) > 4 else 500
SIZE = 5_000  # bytes of such a page
SLOTS = 10  # of a project
PAGES = 20
POLL_SECONDS = 0.2
MASTER = "k8s://https://kubernetes.default.svc:443"
SUBMIT = "/usr/local/lib/python3.11/dist-packages/pyspark/bin/spark-submit"  # in the image
EXECUTOR_MEMORY, DRIVER_MEMORY = "512m", "512m"
# where few cores start many drivers, these are silent for longer than usual
MANY = {"SPINDLE_KUBERNETES_DRIVER_MEMORY": "512Mi", "SPINDLE_LOST_AFTER_SECONDS": "600"}
REUSE = {"SPINDLE_DRIVER_EXECUTIONS": "100"}
FEW_PODS = {
    **MANY,
    **REUSE,
    "SPINDLE_KUBERNETES_DRIVERS": "8",
    "SPINDLE_DAGSTER_RUNS": "16",
    "SPINDLE_REQUESTS_PER_MINUTE": "100000",  # of the clients that poll
}
SPARK = {
    "SPINDLE_SPARK_MASTER": MASTER,
    "SPINDLE_SPARK_EXECUTOR_MEMORY": EXECUTOR_MEMORY,
    "SPINDLE_SPARK_DRIVER_MEMORY": DRIVER_MEMORY,
    "SPINDLE_KUBERNETES_EXECUTORS": "1",
    "SPINDLE_KUBERNETES_EXECUTOR_CPU": "100m",
}
CRAWL = """
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: p, as: category}}]}}
"""
LARGE_CRAWL = """
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["li.item a"]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: p.price, as: price}}]}}
spindle: {{engine: spark, robots: ignore, concurrency: 32}}
"""
COUNT = "SELECT category, count(*) AS products FROM rows GROUP BY category"
SCRIPT = f"""
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("rows")
spark.sql("{COUNT}").write.mode("overwrite").parquet(sys.argv[2])
spark.stop()
"""
# fields of a metric of the API server: the requests of this namespace's pods and Secrets
REQUEST = re.compile(r"^apiserver_request_total\{(.*)\} (\d+)", re.MULTILINE)
FIELD = re.compile(r'(\w+)="([^"]*)"')


def main() -> None:
    print(describe_machine())
    install_packages()
    bucket = get_bucket()
    with open_cluster() as cluster, serve_site() as site:
        links = "".join(f"<a href='/{n}'>{n}</a>" for n in range(PAGES))
        site.serve({"/": links, **{f"/{n}": f"<h1>Item {n}</h1><p>{n % 5}</p>" for n in range(PAGES)}})
        crawl = CRAWL.format(url=cluster.expose(site.url))
        with run_service(cluster, bucket, SPARK) as service:
            job = create_job(service.client, "source", crawl)
            report("without Spark", [measure_execution(service, cluster, job) for _ in range(ROUNDS)])
            counting = create_counting_job(service, job)
            source = find_source(service, job)
            rounds: list[tuple[Mapping[str, float], float]] = []
            for _ in range(ROUNDS):
                parts = measure_execution(service, cluster, counting)
                rounds.append((parts, measure_spark_submit(cluster, bucket, source)))
            report("with Spark and an executor", [parts for parts, _ in rounds])
            print(f"  {'bare spark-submit':<24}{median(seconds for _, seconds in rounds):>8.2f}")
            ratios = sorted(parts["completed"] / seconds for parts, seconds in rounds)
            print(f"  completed / spark-submit {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
        with run_service(cluster, bucket, REUSE) as service:
            job = create_job(service.client, "source", crawl)
            found = [measure_execution(service, cluster, job, is_alone=False) for _ in range(ROUNDS + 1)]
            report("without Spark, in a pod that waits", found[1:])
        with run_service(cluster, bucket, MANY) as service:
            report_at_once(service, cluster, crawl, AT_ONCE)
        with run_service(cluster, bucket, FEW_PODS) as service:
            report_at_once(service, cluster, crawl, QUEUED)
        for executors in (1, 2):
            report_crawl(cluster, bucket, executors)


@contextmanager
def run_service(cluster: KubernetesCluster, bucket: Bucket, more: Mapping[str, str]) -> Generator[Service]:
    port = find_free_port()
    environment = {**cluster.build_environment(bucket, port), "SPINDLE_KUBERNETES_DRIVER_CPU": "50m", **more}
    with run_spindle(environment, port) as service:
        yield service


def create_counting_job(service: Service, source: str) -> str:
    project = service.client.get(f"/projects/id/{source.split('/')[3]}").json()
    path = f"spindle://{project['slug']}/source"
    job = create_job(
        service.client,
        "counts",
        f"pipeline: [{{stage: load_parquet, args: ['{path}']}}, {{stage: sql_query, args: ['{COUNT}']}}]",
    )
    service.client.put(job, json={"engine": "spark"}).raise_for_status()
    return job


def find_source(service: Service, job: str) -> str:
    dataset = service.client.get(job).raise_for_status().json()["outputDatasetId"]
    return service.client.get(f"/datasets/{dataset}").raise_for_status().json()["location"].replace("s3://", "s3a://")


def measure_execution(
    service: Service, cluster: KubernetesCluster, job: str, is_alone: bool = True
) -> Mapping[str, float]:
    """Return the seconds from the call to the end of each phase; those of pods are whole seconds.

    One that `is_alone` leaves no pod for the next one; another one leaves a pod that waits.
    """
    called = datetime.now(UTC)
    execution = post(service.client, f"{job}/execute", {})["executionId"]
    found: dict[str, Any] = {}
    while True:
        found |= {pod.metadata.name: pod for pod in cluster.list_pods()}
        status = service.client.get(f"{job}/executions/{execution}/status").raise_for_status().json()
        if status["status"] == "FAILED":
            raise SystemExit(f"the execution failed: {status['errorMessage']}")
        if status["status"] == "COMPLETED":
            break
        time.sleep(POLL_SECONDS)
    times: dict[str, datetime] = {}
    new = (pod for pod in found.values() if pod.metadata.creation_timestamp >= called.replace(microsecond=0))
    for pod in sorted(new, key=lambda pod: pod.metadata.creation_timestamp):
        role = "executor" if "-exec-" in pod.metadata.name else "driver"
        times.setdefault(f"{role} created", pod.metadata.creation_timestamp)
        for state in (each.state for each in pod.status.container_statuses or ()):
            began = state.running or state.terminated
            times.setdefault(f"{role} started", began.started_at if began else times[f"{role} created"])
    times |= read_stored_times(service, job, execution)
    while pods := cluster.list_pods():  # what is left of one slows the next one
        if not is_alone and all(map(is_idle, pods)):
            break
        time.sleep(POLL_SECONDS)
    return {part: (moment - called).total_seconds() for part, moment in times.items()}


def measure_spark_submit(cluster: KubernetesCluster, bucket: Bucket, source: str) -> float:
    """Return the seconds from the creation of a pod with spark-submit in client mode to its end."""
    settings = Settings(**cluster.build_settings(bucket))
    handle = DriverHandle("bench", f"bare-{time.monotonic_ns()}", 1)
    files = {SPEC_FILE: SCRIPT, EXECUTOR_TEMPLATE: build_executor_template(settings, handle)}
    name = name_pod(handle)
    pod = build_pod(settings, handle, (), files, has_token=True)
    conf = {
        "spark.master": MASTER,
        "spark.jars": ",".join(f"/opt/spindle/jars/{path.name}" for path in require_jars(["s3"])),
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executor.instances": "1",
        "spark.kubernetes.namespace": cluster.namespace,
        "spark.kubernetes.container.image": cluster.image,
        "spark.kubernetes.driver.pod.name": name,
        "spark.kubernetes.executor.podTemplateFile": f"{SPEC_FOLDER}/{EXECUTOR_TEMPLATE}",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.endpoint": str(settings.storage.s3_endpoint),
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": bucket.access_key,
        "spark.hadoop.fs.s3a.secret.key": bucket.secret_key,
    }
    options = " ".join(f"--conf '{key}={value}'" for key, value in conf.items())
    target = f"{bucket.address.replace('s3:', 's3a:')}/bare"
    script = f"{SPEC_FOLDER}/script.py"
    submit = f"{SUBMIT} --conf spark.driver.host=$(hostname -i) {options} {script} {source} {target}"
    pod["metadata"]["labels"] = {}  # the service would delete it as a driver of its own
    container = pod["spec"]["containers"][0]
    container["args"] = ["bash", "-c", submit]
    container["env"].append({"name": "PYSPARK_PYTHON", "value": "python3"})
    pod["spec"]["volumes"][-1]["secret"]["items"][0]["path"] = "script.py"
    began = time.perf_counter()
    cluster.core.create_namespaced_pod(cluster.namespace, pod)
    cluster.core.create_namespaced_secret(
        cluster.namespace, {"metadata": {"name": name}, "stringData": files, "type": "Opaque"}
    )
    while (phase := cluster.core.read_namespaced_pod(name, cluster.namespace).status.phase) in ("Pending", "Running"):
        time.sleep(POLL_SECONDS)
    seconds = time.perf_counter() - began
    if phase != "Succeeded":
        raise SystemExit(f"spark-submit failed:\n{cluster.read_log(name)}")
    cluster.core.delete_namespaced_pod(name, cluster.namespace, grace_period_seconds=0)
    cluster.core.delete_namespaced_secret(name, cluster.namespace)
    while cluster.list_pods():
        time.sleep(POLL_SECONDS)
    return seconds


def report(title: str, rounds: list[Mapping[str, float]]) -> None:
    print(f"{title}, seconds after the call, median of {len(rounds)}")
    parts = {part: median(each[part] for each in rounds if part in each) for part in rounds[-1]}
    for part, seconds in sorted(parts.items(), key=lambda each: each[1]):
        print(f"  {part:<24}{seconds:>8.2f}", flush=True)


def report_at_once(service: Service, cluster: KubernetesCluster, crawl: str, number: int) -> None:
    """Execute many at once; print their seconds, and the requests that the API server got meanwhile."""
    jobs = [create_job(service.client, f"many{job}", crawl) for job in range(-(-number // SLOTS))]
    executions = [(job, n) for job, n in zip(cycle(jobs), range(number), strict=False)]
    poll_seconds = max(2.0, number / 20)
    before, cpu_before, began = count_requests(cluster), measure_cpu(service), time.perf_counter()

    def execute(each: tuple[str, int]) -> float:
        job, _ = each
        execution = post(service.client, f"{job}/execute?queue=true", {})["executionId"]
        wait_until_completed(service.client, job, execution, poll_seconds)
        return time.perf_counter() - began

    def run_all() -> tuple[float, float]:
        with ThreadPoolExecutor(number) as pool:
            seconds = [*pool.map(execute, executions)]
        return max(seconds), median(seconds)

    (last, each), peak = measure_peak(run_all)
    while not all(map(is_idle, cluster.list_pods())):
        time.sleep(1)
    print(f"{number} at once: all after {last:.1f} s, median {each:.1f} s")
    print(f"  the service's processes: {(measure_cpu(service) - cpu_before) / number:.2f} s of CPU for each,")
    print(f"  {peak / 2**20 / number:.0f} MiB for each while they run")
    requests = count_requests(cluster)
    for kind, number in sorted((requests - before).items()):
        print(f"  {kind:<32}{number:>8}", flush=True)


def report_crawl(cluster: KubernetesCluster, bucket: Bucket, executors: int) -> None:
    more = {**SPARK, "SPINDLE_KUBERNETES_EXECUTORS": str(executors), "SPINDLE_SPARK_EXECUTOR_MEMORY": "1g"}
    with (
        serve_catalog(CRAWLED, SIZE, "0,1", cluster.address) as url,
        run_service(cluster, bucket, more) as service,
    ):
        job = create_job(service.client, "large", LARGE_CRAWL.format(url=url))
        times = measure_execution(service, cluster, job)
        dataset = service.client.get(job).raise_for_status().json()["outputDatasetId"]
        rows = service.client.get(f"/datasets/{dataset}").raise_for_status().json()["rowCount"]
    seconds = times["completed"] - times["session ready"]
    print(f"{rows} rows of {CRAWLED} pages by {executors} executors: completed after {times['completed']:.1f} s,")
    print(f"  {seconds:.1f} s of them since Spark had started: {CRAWLED / seconds:.0f} pages a second", flush=True)


def is_idle(pod: Any) -> bool:
    """Return whether a pod waits for another execution."""
    return EXIT_CODE in pod.metadata.labels


def measure_cpu(service: Service) -> float:
    """Return the seconds of CPU of the service's processes, with those that have ended."""
    parent = psutil.Process(service.process.pid)
    return sum(sum(each.cpu_times()[:4]) for each in (parent, *parent.children(recursive=True)))


def count_requests(cluster: KubernetesCluster) -> Counter[str]:
    """Return the requests for pods and Secrets that the API server has answered, to the cluster's own parts too."""
    text = cluster.read("/metrics")
    counts = Counter[str]()
    for labels, number in REQUEST.findall(text):
        fields = dict(FIELD.findall(labels))
        if fields["resource"] in ("pods", "secrets"):
            kind = "/".join(filter(None, (fields["resource"], fields["subresource"])))
            counts[f"{fields['verb']} {kind}"] += int(number)
    return counts


if __name__ == "__main__":
    main()
