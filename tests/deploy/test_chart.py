"""The chart of Helm: linted, strict about its values, and rendered as deploy/manifests. Skipped without `helm`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
VALUES = DEPLOY / "helm/values"
pytestmark = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not on the PATH")
CHART = str(DEPLOY / "helm/spindle")


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["helm", *arguments], capture_output=True, text=True, check=False)


def render(release: str, values: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_helm("template", release, CHART, "--kube-version", "1.34.0", "--values", str(VALUES / values), *options)


def test_the_chart_is_linted() -> None:
    for values in VALUES.iterdir():
        linted = run_helm("lint", "--strict", CHART, "--values", str(values))
        assert linted.returncode == 0, linted.stdout + linted.stderr


def test_the_manifests_are_those_of_the_chart(tmp_path: Path) -> None:
    subprocess.run([str(DEPLOY / "render"), str(tmp_path)], check=True)
    rendered = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert rendered == {each.name: each.read_text() for each in (DEPLOY / "manifests").iterdir()}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("replicas=2", "'/replicas'"),
        ("image=registry.example.org/spindle:latest", "'/image'"),
        ("image=registry.example.org/spindle", "'/image'"),
        ("storage.address=/data", "'/storage/address'"),
        ("executors.memory=1Gi", "'/executors/memory'"),
        ("drivers.memory=three", "'/drivers/memory'"),
        ("settings.SPINDLE_TRINO_PASSWORD=secret", "invalid propertyName 'SPINDLE_TRINO_PASSWORD'"),
        ("settings.SPINDLE_DATABASE_URL=postgresql://u:p@h/d", "invalid propertyName 'SPINDLE_DATABASE_URL'"),
        ("settings.SPINDLE_PORT=9000", "invalid propertyName 'SPINDLE_PORT'"),
        ("rotation.enabled=soon", "'/rotation/enabled'"),
        ("rotation.key=secret", "'key' not allowed"),
        ("nonsense=1", "'nonsense' not allowed"),
    ],
)
def test_wrong_values_are_refused(change: str, place: str) -> None:
    rendered = render("spindle", "spindle.yaml", "--set", change)
    assert rendered.returncode != 0
    assert "values don't meet the specifications of the schema" in rendered.stderr
    assert place in rendered.stderr


def test_names_follow_the_release() -> None:
    rendered = render("other", "spindle-full.yaml", "--namespace", "crawls").stdout
    assert 'SPINDLE_KUBERNETES_INSTANCE, value: "other"' in rendered
    assert 'SPINDLE_PUBLIC_URL, value: "http://other.crawls.svc:8080"' in rendered
    assert "name: spindle-" not in rendered.replace("namespace: spindle-drivers", "").replace("spindle-tls", "")


def test_a_rotation_of_the_service_key_is_a_job_without_a_service_beside_it() -> None:
    without = render("spindle", "spindle.yaml").stdout
    assert "kind: Job" not in without
    rendered = render("spindle", "spindle.yaml", "--set", "rotation.enabled=true")
    assert rendered.returncode == 0, rendered.stderr
    parts = {each["kind"]: each.get("spec") for each in yaml.safe_load_all(rendered.stdout) if each}
    assert parts["Deployment"]["replicas"] == 0
    pod = parts["Job"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][-2:] == ["secrets", "rotate"]
    names = {each["name"] for each in container["env"]}
    assert {"SPINDLE_DATABASE_URL", "SPINDLE_SECRET_KEY", "SPINDLE_NEW_SECRET_KEY"} <= names
    selector = parts["Deployment"]["selector"]["matchLabels"]
    assert not selector.items() <= parts["Job"]["template"]["metadata"]["labels"].items()
