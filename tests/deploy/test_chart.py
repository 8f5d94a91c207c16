"""The chart of Helm: linted, strict about its values, and rendered as deploy/manifests. Skipped without `helm`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from core.infra.settings import FIELDS

DEPLOY = Path(__file__).parents[2] / "deploy"
VALUES = DEPLOY / "helm/values"
pytestmark = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not on the PATH")
SECRET = re.compile("(KEY|KEY_ID|PASSWORD|TOKEN)$")
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
    ("change", "name"),
    [
        ("replicas=0", "replicas"),
        ("image=registry.example.org/spindle:latest", "image"),
        ("image=registry.example.org/spindle", "image"),
        ("storage.address=/data", "address"),
        ("executors.memory=1Gi", "memory"),
        ("drivers.memory=three", "memory"),
        ("settings.SPINDLE_TRINO_PASSWORD=secret", "SPINDLE_TRINO_PASSWORD"),
        ("settings.SPINDLE_DATABASE_URL=postgresql://u:p@h/d", "SPINDLE_DATABASE_URL"),
        ("settings.SPINDLE_PORT=9000", "SPINDLE_PORT"),
        ("rotation.enabled=soon", "enabled"),
        ("rotation.key=secret", "key"),
        ("nonsense=1", "nonsense"),
    ],
)
def test_wrong_values_are_refused(change: str, name: str) -> None:
    rendered = render("spindle", "spindle.yaml", "--set", change)
    assert rendered.returncode != 0
    assert "values don't meet the specifications of the schema" in rendered.stderr
    assert name in rendered.stderr


def test_names_follow_the_release() -> None:
    rendered = render("other", "spindle-full.yaml", "--namespace", "crawls").stdout
    assert 'SPINDLE_KUBERNETES_INSTANCE, value: "other"' in rendered
    assert 'SPINDLE_PUBLIC_URL, value: "http://other.crawls.svc:8080"' in rendered
    assert "name: spindle-" not in rendered.replace("namespace: spindle-drivers", "").replace("spindle-tls", "")


def test_every_setting_is_a_value_a_key_of_the_secret_or_taken_as_it_is(tmp_path: Path) -> None:
    schema = json.loads((DEPLOY / "helm/spindle/values.schema.json").read_text())
    refused = [each["pattern"] for each in schema["properties"]["settings"]["propertyNames"]["not"]["anyOf"]]
    names = {f"SPINDLE_{name.upper()}" for name in FIELDS}
    taken = {name for name in names if not any(re.search(pattern, name) for pattern in refused)}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"settings": dict.fromkeys(taken, "x")}))
    rendered = render("spindle", "spindle-full.yaml", "--values", str(values))
    assert rendered.returncode == 0, rendered.stderr
    written = {*re.findall(r"name: (SPINDLE_[A-Z0-9_]+)", rendered.stdout)}
    assert taken <= written
    assert {name for name in names - written if not SECRET.search(name)} == set()


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
