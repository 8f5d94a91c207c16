"""The plugin of docs/plugins.md, which is the package examples/weather, serves its operations and keeps its rows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "weather"
BLOCKS = re.findall(r"^```\w+\n# (weather/\S+)\n(.*?)^```", (ROOT / "docs/plugins.md").read_text(), re.S | re.M)
ENTRIES = "[spindle.plugins]\nweather = weather:plugin\n{}"
FAILING = {
    "unset": ("Plugin(settings='failing:Unset', router='failing:router')", "Unset needs a value"),
    "projects": ("Plugin(router='failing:router')", "/api/svc/api/projects is a path of the service"),
    "revising": ("Plugin(router='failing:router', migrations='failing_revisions')", "division by zero"),
}
CODE = """
from spindle import Plugin
from spindle.rest import Router

def Unset():
    raise ValueError("Unset needs a value")

router = Router()

@router.add("GET", "/hello", scope="etl:read")
def say_hello() -> str:
    return "hello"
"""
SESSION = """
import json, sys
from pathlib import Path
site, root, data, found = sys.argv[1:]
sys.path[:0] = [site, root]
from pipelines.registry import load_plugins
from tests.support.api import Api, start_server

with start_server(Path(data)) as server:
    first = Api(server.client, server.settings, "", (server.settings.data / "admin-key").read_text().strip())
    made = server.caller("operator", "super_admin").post("/auth/organizations", {"name": "new"})
    second = Api(server.client, server.settings, "", made["key"])
    acme, rival = server.caller("acme", "admin"), server.caller("rival", "etl:read", "etl:write")
    acme.project("Oslo prices")
    calls = {
        "added": acme.call("POST", "/weather/stations", json={"place": "Oslo"}),
        "too many": acme.call("POST", "/weather/stations", json={"place": "Rome"}),
        "own": acme.call("GET", "/weather/stations"),
        "rival's": rival.call("GET", "/weather/stations"),
        "projects": acme.call("GET", "/weather/projects"),
        "no key": acme.client.get("/api/svc/api/weather/stations"),
        "no scope": server.caller("reader", "etl:read").call("POST", "/weather/stations", json={"place": "Rome"}),
        "invalid": acme.call("POST", "/weather/stations", json={}),
        "credential": acme.call("POST", "/cloud-credentials", json={
            "name": "climate", "provider": "climate", "apiKey": "k", "endpoint": "https://climate.example.com"}),
        "unset": acme.call("GET", "/unset/hello"),
        "revising": acme.call("GET", "/revising/hello"),
    }
    document = acme.call("GET", "/api/openapi.json").json()
    Path(found).write_text(json.dumps({
        "answers": {name: [each.status_code, each.json()] for name, each in calls.items()},
        "paths": sorted(path for path in document["paths"] if "/weather/" in path),
        "security": document["paths"]["/api/svc/api/weather/stations"]["post"]["security"],
        "agents": [[each["name"] for each in caller.get("/agents")] for caller in (first, second)],
        "failures": {each.plugin: each.error for each in load_plugins().failures},
    }))
"""


@pytest.mark.parametrize(("path", "text"), BLOCKS, ids=[path for path, _ in BLOCKS])
def test_the_page_shows_the_package(path: str, text: str) -> None:
    assert (EXAMPLE / path).read_text() == text


@pytest.mark.long
def test_operations_of_plugins_are_the_services_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "weather-1.0.dist-info").mkdir(parents=True)
    (site / "weather").symlink_to(EXAMPLE / "weather")
    (site / "failing_revisions").mkdir()
    (site / "failing_revisions" / "__init__.py").touch()
    (site / "failing_revisions" / "0001.py").write_text("revision, down_revision = '1', None\ndef upgrade(): 1 / 0\n")
    (site / "failing.py").write_text(CODE + "".join(f"{name} = {plugin}\n" for name, (plugin, _) in FAILING.items()))
    (site / "weather-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    entries = "".join(f"{name} = failing:{name}\n" for name in FAILING)
    (site / "weather-1.0.dist-info" / "entry_points.txt").write_text(ENTRIES.format(entries))
    monkeypatch.setenv("SPINDLE_WEATHER_MAX_STATIONS", "1")

    found = tmp_path / "found.json"
    command = [sys.executable, "-c", SESSION, str(site), str(ROOT), str(tmp_path / "data"), str(found)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)

    assert ran.returncode == 0, ran.stderr
    told = json.loads(found.read_text())
    answers = told["answers"]
    assert answers["added"] == [200, {"place": "Oslo"}]
    assert answers["own"] == [200, [{"place": "Oslo"}]]
    assert answers["rival's"] == [200, []]
    assert answers["projects"] == [200, ["Oslo prices"]]
    codes = {name: (status, body["details"][0]["code"]) for name, (status, body) in answers.items() if status >= 400}
    assert codes == {
        "too many": (409, "station-limit"),
        "no key": (401, "invalid-key"),
        "no scope": (403, "missing-scope"),
        "invalid": (400, "missing-field"),
        "unset": (404, "unknown-path"),
        "revising": (503, "plugin-failed"),
    }
    assert answers["credential"][1]["provider"] == "CLIMATE"
    assert told["paths"] == ["/api/svc/api/weather/projects", "/api/svc/api/weather/stations"]
    assert told["security"] == [{"ApiKeyAuth": ["etl:write"]}]
    assert told["agents"] == [["forecast"], ["forecast"]]
    assert told["failures"].keys() == FAILING.keys()
    for name, (_, reason) in FAILING.items():
        assert reason in told["failures"][name]
