"""Plugins of organizations: uploads and hostile files, installations, switching off, and builds of the engine."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from core.definitions.identity.organizations import create_organization
from core.definitions.plugins.scope import load_scope
from core.infra.database import open_database
from core.infra.storage import open_storage
from core.tables import Organization
from pipelines.language.plugin_scope import PluginScope
from pipelines.transforms.transform import Transforms
from tests.support.api import Api, Server, read_code, start_server
from tests.support.wheels import STAGE, TRANSFORM, build_wheel, wrap, write_library

ADMIN = "/admin"
FETCH = 'fetch: {url: "http://127.0.0.1/"}\npipeline:\n- {stage: extract, args: [{selector: h1, as: title}]}\n'
LOUD = build_wheel("acme-loud", TRANSFORM)
TAGS = build_wheel("acme-tags", STAGE)


@pytest.fixture(scope="module")
def acme(server: Server) -> Api:
    """An organization of this module: what it uploads changes the warnings about its agents."""
    return server.caller("acme with plugins", "admin")


@pytest.fixture(scope="module")
def operator(server: Server, acme: Api) -> Api:
    return server.caller(acme.organization_id, "super_admin")


def upload(
    caller: Api, plugin_id: str, wheel: bytes, *, number: str = "1", name: str | None = None, **fields: str
) -> httpx.Response:
    form = {"pluginId": plugin_id, "buildType": "release", "buildNumber": number, **fields}
    file_name = name or f"{plugin_id.replace('-', '_')}-1.0-py3-none-any.whl"
    return caller.call("POST", f"{ADMIN}/plugins/upload", data=form, files={"file": (file_name, wheel)})


def list_plugins(caller: Api) -> dict[str, Any]:
    return {each["pluginId"]: each for each in caller.get(f"{ADMIN}/plugins")["plugins"]}


def make_job(caller: Api, name: str, stage: str) -> tuple[str, list[str]]:
    """Return the path to execute a job whose pipeline has the stage, and the warnings about it."""
    agent = caller.post("/agents", {"name": name, "pipelineYaml": f"{FETCH}{stage}\n"})
    project = caller.project(name)
    job = caller.post(f"/projects/id/{project}/jobs", {"name": name, "agentId": agent["id"]})["id"]
    return f"/projects/id/{project}/jobs/{job}/execute", agent.get("warnings", [])


def test_a_disabled_plugin_is_not_available_to_its_organization(acme: Api, rival: Api, operator: Api) -> None:
    stage = "- {stage: sentiment, args: [title]}"
    assert list_plugins(acme)["sentiment"]["enabled"]
    assert acme.call("POST", f"{ADMIN}/plugins/sentiment/disable").json() == {}
    assert not list_plugins(acme)["sentiment"]["enabled"]
    execute, (warning,) = make_job(acme, "moods", stage)
    assert warning.startswith("line 4: 'sentiment' is of the plugin sentiment, which is disabled")
    refused = acme.call("POST", execute)
    assert read_code(refused) == (400, "plugin-disabled")
    assert refused.json()["details"][0]["path"].startswith("line 4")
    assert make_job(rival, "moods", stage)[1] == []
    acme.call("POST", f"{ADMIN}/plugins/sentiment/enable")
    assert acme.call("POST", execute).status_code == 200

    operator.call("POST", f"{ADMIN}/plugins/sentiment/disable")
    assert not list_plugins(rival)["sentiment"]["enabled"]
    assert read_code(acme.call("POST", f"{ADMIN}/plugins/sentiment/enable")) == (409, "disabled")
    operator.call("POST", f"{ADMIN}/plugins/sentiment/enable")
    assert list_plugins(rival)["sentiment"]["enabled"]
    assert read_code(acme.call("POST", f"{ADMIN}/plugins/nothing/disable")) == (404, "not-found")


@pytest.mark.long
def test_row_transforms_of_an_uploaded_plugin_are_the_organizations(acme: Api, rival: Api) -> None:
    execute, warnings = make_job(acme, "before", '- {stage: "python_row_transform:acme_shout"}')
    assert "unknown row transform 'acme_shout'" in warnings[0]
    assert upload(acme, "acme-loud", LOUD).json() == {}
    listed = list_plugins(acme)["acme-loud"]
    assert (listed["enabled"], listed["version"], listed["description"]) == (True, "1.0", "Loud titles.")
    assert "acme-loud" not in list_plugins(rival)
    assert make_job(acme, "loud", '- {stage: "python_row_transform:acme_shout"}')[1] == []
    assert acme.call("POST", execute).status_code == 200
    assert "unknown row transform" in make_job(rival, "loud", '- {stage: "python_row_transform:acme_shout"}')[1][0]

    (installation,) = [each for each in acme.get(f"{ADMIN}/plugin-installations") if each["pluginId"] == "acme-loud"]
    path = f"{ADMIN}/plugin-installations/{installation['id']}"
    assert installation["mainClass"] == "acme_module:plugin"
    assert installation["organizationId"] == installation["installedBy"] == acme.organization_id
    assert read_code(rival.call("GET", path)) == (404, "not-found")
    assert read_code(rival.call("DELETE", path)) == (404, "not-found")
    acme.call("POST", f"{path}/disable")
    assert read_code(acme.call("POST", execute)) == (400, "unknown-row-transform")
    assert installation["id"] not in [
        each["id"] for each in acme.get(f"{ADMIN}/plugin-installations", enabledOnly=True)
    ]
    assert acme.put(path, {"enabled": True, "description": "ours"})["description"] == "ours"
    assert acme.call("POST", execute).status_code == 200
    read_again = acme.post(f"{ADMIN}/plugin-installations/reload")["message"]
    assert read_again == "1 plugins were read again, and 0 of them failed."

    assert upload(acme, "acme-loud", LOUD).status_code == 200
    assert read_code(upload(acme, "acme-loud", build_wheel("acme-loud", TRANSFORM + "# 2\n"))) == (409, "plugin-exists")
    taken = upload(acme, "acme-other", build_wheel("acme-other", TRANSFORM))
    assert read_code(taken) == (409, "name-taken")
    assert taken.json()["error"] == "The row transform 'acmeshout' is of the plugin acme-loud already. Rename it."
    acme.call("DELETE", path)
    assert "acme-loud" not in list_plugins(acme)
    again = acme.post(
        f"{ADMIN}/plugin-installations", {"pluginId": "acme-loud", "buildType": "release", "buildNumber": 1}
    )
    assert (again["pluginId"], again["organizationIdsJson"]) == ("acme-loud", json.dumps([acme.organization_id]))
    missing = {"pluginId": "acme-loud", "buildType": "release", "buildNumber": 9}
    assert read_code(acme.call("POST", f"{ADMIN}/plugin-installations", json=missing)) == (400, "unknown-plugin")


def test_stages_of_uploaded_plugins_need_consent(acme: Api, rival: Api, operator: Api) -> None:
    assert read_code(upload(acme, "acme-tags", TAGS)) == (403, "no-consent")
    assert "acme-tags" not in list_plugins(acme)
    foreign = upload(acme, "acme-loud", LOUD, number="2", organizationIds=rival.organization_id)
    assert read_code(foreign) == (403, "missing-scope")
    unknown = upload(operator, "acme-loud", LOUD, number="2", organizationIds="nobody")
    assert read_code(unknown) == (400, "not-found")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    """The only organization of a service, whose index of packages is a folder."""
    folder = tmp_path_factory.mktemp("alone")
    write_library(folder / "index", "adder", "COLUMN = 'sum'\n")
    with start_server(folder / "data", package_index=SecretStr(str(folder / "index"))) as server:
        first = server.settings.data / "admin-key"
        yield Api(server.client, server.settings, "", first.read_text().strip())


@contextmanager
def add_organization(alone: Api, slug: str) -> Generator[PluginScope]:
    """Let the service have a second organization for a while; yield its plugins."""
    database = open_database(alone.settings)
    with database.write() as session:
        other = create_organization(session, slug).id
        scope = load_scope(session, other).scope
    try:
        yield scope
    finally:
        with database.write() as session:
            session.delete(session.get_one(Organization, other))
        database.close()


@pytest.mark.long
def test_a_stage_of_an_uploaded_plugin_is_known_and_needs_consent(alone: Api) -> None:
    assert (
        upload(alone, "acme-tags", wrap({"acme_tags-1.0-py3-none-any.whl": TAGS}), name="tags.zip").status_code == 200
    )
    assert list_plugins(alone)["acme-tags"]["stages"] == ["acmeTag"]
    execute, warnings = make_job(alone, "tags", "- {stage: acme_tag, args: [sale]}")
    assert warnings == []
    assert alone.call("POST", execute).status_code == 200
    with add_organization(alone, "another"):
        assert read_code(alone.call("POST", execute)) == (409, "no-consent")
    (stage,) = [each for each in alone.get("/catalog/stages")["data"] if each["plugin_id"] == "acme-tags"]
    assert stage["stage_name"] == "acmeTag"
    assert stage["arg_schema"]["properties"]["tag"]["default"] == "new"


REQUIRING = """
import adder
from spindle import Columns, Plugin, RowStage, register_stage

plugin = Plugin()


@register_stage("acmeSum")
class Sum(RowStage):
    positional = ("column",)
    column: str

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(((adder.COLUMN, "int"), (self.column, "string")))
"""


def test_a_reload_leaves_the_operators_builds_alone(server: Server, rival: Api) -> None:
    operator = server.caller("the operator", "super_admin")
    plugin_id = "operators-own"
    assert upload(operator, plugin_id, LOUD).status_code == 200
    assert plugin_id in list_plugins(rival)
    installations = f"{ADMIN}/plugin-installations"
    assert rival.post(f"{installations}/reload")["message"].startswith("0 plugins were read again")
    (installed,) = [each["id"] for each in operator.get(installations) if each["pluginId"] == plugin_id]
    assert operator.call("DELETE", f"{installations}/{installed}").json() == {}  # every other caller has it too


@pytest.mark.long
def test_a_plugin_is_described_with_what_it_requires(alone: Api) -> None:
    wheel = build_wheel("acme-sum", REQUIRING, metadata="Requires-Dist: adder\n")
    index = Path(alone.settings.plugins.package_index.get_secret_value())  # type: ignore[union-attr]
    index.rename(index.with_name("away"))
    assert read_code(upload(alone, "acme-sum", wheel)) == (503, "index-unavailable")
    index.with_name("away").rename(index)
    for requirement, words in (
        ("nowhere", "The plugin's requirements cannot be installed: "),
        ("adder @ http://127.0.0.1/adder-1.0-py3-none-any.whl", "names an address"),
        ("adder >> 1", "cannot be read"),
    ):
        bad = upload(alone, "acme-sum", build_wheel("acme-sum", REQUIRING, metadata=f"Requires-Dist: {requirement}\n"))
        assert read_code(bad) == (400, "invalid-plugin")
        assert words in bad.json()["error"]
    assert "acme-sum" not in list_plugins(alone)

    assert upload(alone, "acme-sum", wheel).status_code == 200
    (installation,) = [each for each in alone.get(f"{ADMIN}/plugin-installations") if each["pluginId"] == "acme-sum"]
    (stored,) = alone.settings.data.rglob(installation["manifestPath"])
    (stage,) = json.loads(stored.read_text())["stages"]
    assert stage["columns"] == [["sum", "int"], ["column", "string"]]
    assert alone.post(f"{ADMIN}/plugin-installations/reload")["message"].endswith("and 0 of them failed.")
    assert list_plugins(alone)["acme-sum"]["error"] is None


@pytest.mark.long
def test_pipelines_of_an_uploaded_plugin_become_agents(acme: Api, rival: Api) -> None:
    code = TRANSFORM.replace("acme_shout", "acme_call").replace(
        "plugin = Plugin(", "plugin = Plugin(pipelines='calls', "
    )
    text = 'fetch: {url: "${URL}"}\npipeline:\n- {stage: "python_row_transform:acme_call"}\n'
    files = {"calls/__init__.py": b"", "calls/calling.yaml": text.encode()}
    bad = {**files, "calls/worse.yaml": b"pipeline:\n- {stage: extract, args: 1}\n"}
    refused = upload(acme, "acme-calls", build_wheel("acme-calls", code, files=bad))
    assert read_code(refused) == (400, "invalid-plugin")
    assert "The plugin's pipeline 'worse' cannot be used: line 2" in refused.json()["error"]

    assert upload(acme, "acme-calls", build_wheel("acme-calls", code, files=files)).status_code == 200
    (category,) = [each for each in acme.get("/categories") if each["name"] == "acme-calls"]
    (agent,) = [each for each in acme.get("/agents") if each["categoryId"] == category["id"]]
    assert (agent["name"], agent["pipelineYaml"]) == ("calling", text)
    assert all(each["name"] != "acme-calls" for each in rival.get("/categories"))
    acme.call("DELETE", f"/agents/{agent['id']}")
    installation = {"pluginId": "acme-calls", "buildType": "release", "buildNumber": 1}
    acme.post(f"{ADMIN}/plugin-installations", installation)
    assert all(each["name"] != "calling" for each in acme.get("/agents")), "what was deleted stays so"


MIXED = (
    STAGE.replace("Tags of pages.", "Tags and titles.").replace("acmeTag", "acmeMixedTag")
    + """
import re

WORD = re.compile("[a-z]+")
COLUMNS = Columns(open=True)


def count_words(text):
    return len(WORD.findall(text))


@register_row_transform
def acme_count(row: dict) -> {"words": int}:
    plugin = row["title"]
    return {"words": count_words(plugin)}
"""
)


def test_a_module_may_register_a_stage_and_a_row_transform(alone: Api) -> None:
    stored = upload(alone, "acme-mixed", build_wheel("acme-mixed", MIXED))
    assert stored.status_code == 200, stored.text
    (installed,) = [each for each in alone.get(f"{ADMIN}/plugin-installations") if each["pluginId"] == "acme-mixed"]
    with open_database(alone.settings).read() as session:
        transforms = load_scope(session, installed["organizationId"]).transforms
    function = Transforms({"acme_count": transforms["acme_count"]}).find("acme_count")
    assert [*function.make_runner({})([{"title": "two words"}])] == [{"words": 2}]


def test_a_row_transform_that_would_not_run_is_refused_at_the_upload(acme: Api) -> None:
    for body, reason in (
        ("return COLUMNS", "uses 'Columns' of Spindle, which row transforms do not have"),
        ("return {'words': acme_helper.COUNT}", "No module named 'acme_helper'"),
    ):
        code = MIXED.replace('return {"words": count_words(plugin)}', body).replace("acmeMixedTag", "acmeRefusedTag")
        code = code.replace("import re\n", "import re\nimport acme_helper\n" if "helper" in body else "import re\n")
        wheel = build_wheel("acme-refused", code, files={"acme_helper.py": b"COUNT = 1\n"})
        refused = upload(acme, "acme-refused", wheel)
        assert read_code(refused) == (400, "invalid-plugin")
        assert reason in refused.json()["error"]


PARTS = """
from spindle import Action, Method, Plugin, register_action, register_method

plugin = Plugin(pipelines="shipped")
read = lambda element, argument: 1.0
register_method("priceDegrees", "fahrenheit", method=Method("double", read, takes="UNIT", about="a temperature"))


@register_action("acmeWait")
class Wait(Action):
    seconds: int
"""
METHOD = (
    "- {stage: flatSelect, args: [li, {selector: b, method: 'Fahrenheit:K', as: degrees}, {selector: i, as: wind}]}"
)
ACTION = "- {stage: visit, args: [{url: 'http://127.0.0.1/', traces: [{action: acme_wait, params: {seconds: 1}}]}]}"
WRONG_PARTS = {
    METHOD.replace(":K", ""): ("missing-argument", "priceDegrees needs an argument: priceDegrees:UNIT"),
    METHOD.replace("selector: b", "field: title"): ("invalid-argument", "the method 'priceDegrees' reads an element"),
    ACTION.replace("seconds", "second"): ("unknown-argument", "acmeWait: unknown argument 'second'"),
    ACTION.replace(", params: {seconds: 1}", ""): ("missing-argument", "acmeWait: 'seconds' is missing"),
}


@pytest.mark.long
def test_methods_and_actions_of_uploaded_plugins_are_planned_with(alone: Api) -> None:
    execute, (warning,) = make_job(alone, "before", METHOD)
    assert warning.startswith("line 4: flatSelect: unknown method 'Fahrenheit'")
    assert read_code(alone.call("POST", execute)) == (400, "unknown-method")
    shipped = {"shipped/__init__.py": b"", "shipped/weather.yaml": f"{FETCH}{METHOD}\n".encode()}
    own = alone.get("/auth/organizations/me")["id"]
    wheel = build_wheel("acme-parts", PARTS, files=shipped)
    assert upload(alone, "acme-parts", wheel, organizationIds=own).status_code == 200
    other = build_wheel("acme-other", PARTS.replace("acmeWait", "acmeStay"), files=shipped)
    assert read_code(upload(alone, "acme-other", other)) == (409, "name-taken")
    for stage, (code, words) in WRONG_PARTS.items():
        refused = alone.call("POST", "/agents", json={"name": "parts", "pipelineYaml": f"{FETCH}{stage}\n"})
        assert read_code(refused) == (400, code), refused.text
        assert words in refused.json()["error"]
        assert refused.json()["details"][0]["path"].startswith("line 4")

    for stage, code, part in (
        (METHOD, "unknown-method", "method priceDegrees"), (ACTION, "unknown-action", "action acmeWait"),
    ):  # fmt: skip
        execute, warnings = make_job(alone, part, stage)
        assert warnings == []
        assert alone.call("POST", execute).status_code == 200
        alone.call("POST", f"{ADMIN}/plugins/acme-parts/disable")
        refused = alone.call("POST", execute)
        assert read_code(refused) == (400, code)
        assert refused.json()["details"][0]["path"].startswith("line 4")
        alone.call("POST", f"{ADMIN}/plugins/acme-parts/enable")
        with add_organization(alone, "another") as foreign:
            assert (foreign.methods, foreign.actions) == ({}, {})
            refused = alone.call("POST", execute)
            assert read_code(refused) == (409, "no-consent")
            assert refused.json()["error"].startswith(f"Line 4: the {part} is of the uploaded plugin acme-parts")


def test_requirements_of_a_plugin_need_consent(acme: Api, rival: Api) -> None:
    wheel = build_wheel("acme-sum", REQUIRING, metadata="Requires-Dist: adder\n")
    refused = upload(acme, "acme-sum", wheel)
    assert read_code(refused) == (403, "no-consent")
    assert "No module named 'adder'" in refused.json()["error"]


SECRET = "import os\nraise ValueError(sorted(os.listdir('/')), dict(os.environ))\n"
HOSTILE: dict[str, tuple[bytes, str | None, tuple[int, str]]] = {
    "a jar": (LOUD, "acme.jar", (400, "unsupported-format")),
    "no zip": (b"PK nothing", None, (400, "invalid-plugin")),
    "a path to a parent": (
        build_wheel("bad", TRANSFORM, files={"../../evil.py": b"1"}), None, (400, "invalid-plugin"),
    ),
    "an absolute path": (build_wheel("bad", TRANSFORM, files={"/etc/evil": b"1"}), None, (400, "invalid-plugin")),
    "many zeros": (build_wheel("bad", TRANSFORM, files={"zeros.bin": bytes(300 * 2**20)}), None, (413, "too-large")),
    "a wrong checksum": (
        build_wheel("bad", TRANSFORM, record={"acme_module.py": "sha256=AAAA"}), None, (400, "wrong-checksum"),
    ),
    "another Python": (
        build_wheel("bad", TRANSFORM, metadata="Requires-Python: <3\n"), None, (400, "wrong-python"),
    ),
    "another machine": (LOUD, "bad-1.0-cp27-cp27m-win32.whl", (400, "wrong-python")),
    "no entry point": (
        build_wheel("bad", TRANSFORM, group="spindle.stages"), None, (400, "invalid-plugin"),
    ),
    "code that raises": (build_wheel("bad", "raise SystemExit(3)\n"), None, (400, "invalid-plugin")),
    "no plugin": (build_wheel("bad", "plugin = 1\n"), None, (400, "invalid-plugin")),
    "two wheels": (wrap({"a.whl": LOUD, "b.whl": LOUD}), "both.zip", (400, "invalid-plugin")),
    "a stage of the engine": (build_wheel("bad", STAGE.replace("acmeTag", "wget_join")), None, (400, "invalid-plugin")),
    "a plugin of the environment": (build_wheel("prices", TRANSFORM), None, (409, "name-taken")),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_and_leaves_nothing(alone: Api, kind: str) -> None:
    wheel, name, expected = HOSTILE[kind]
    plugin_id = "prices" if expected[1] == "name-taken" else "bad"
    before = sorted(alone.settings.data.rglob("*.whl")), list_plugins(alone).keys()
    answer = upload(alone, plugin_id, wheel, name=name)
    assert read_code(answer) == expected, answer.text
    assert (sorted(alone.settings.data.rglob("*.whl")), list_plugins(alone).keys()) == before
    assert list((alone.settings.data / "plugins").iterdir()) == []


def test_code_of_an_upload_sees_no_files_and_no_secrets(alone: Api) -> None:
    answer = upload(alone, "bad", build_wheel("bad", SECRET))
    assert read_code(answer) == (400, "invalid-plugin")
    assert "LANG" in answer.text
    assert not any(secret in answer.text for secret in ("SPINDLE", "PATH", "root", "etc", "home", "HOME"))


@pytest.mark.parametrize("field", ["pluginId", "buildType", "buildNumber"])
def test_fields_of_an_upload_are_checked(alone: Api, field: str) -> None:
    wrong = {"pluginId": "Bad Name", "buildType": "installed", "buildNumber": "-1"}
    fields = {"pluginId": "bad", "buildType": "release", "buildNumber": "1", field: wrong[field]}
    files = {"file": ("bad-1.0-py3-none-any.whl", LOUD)}
    answer = alone.call("POST", f"{ADMIN}/plugins/upload", data=fields, files=files)
    assert answer.json()["details"][0]["path"] == field
    del fields[field]
    answer = alone.call("POST", f"{ADMIN}/plugins/upload", data=fields, files=files)
    assert read_code(answer) == (400, "missing-field")


def test_versions_of_the_engine(acme: Api, operator: Api) -> None:
    versions = f"{ADMIN}/etl-library-versions"
    (running,) = (each for each in acme.get(versions, activeOnly=True) if each["buildType"] == "running")
    assert (running["active"], running["jarPath"]) == (True, None)
    new = {"buildType": "development", "buildNumber": 71, "version": "0.2.0"}
    assert read_code(acme.call("POST", versions, json=new)) == (403, "missing-scope")
    assert read_code(operator.call("POST", versions, json={**new, "jarPath": "libraries/a/b"})) == (400, "unknown-file")
    files = {"file": ("spindle-0.2.0-py3-none-any.whl", build_wheel("spindle", "x = 1\n"))}
    file = operator.call("POST", f"{versions}/upload", files=files).json()
    made = operator.post(versions, {**new, "jarPath": file["jarPath"]})
    assert (made["jarSizeBytes"], made["digest"]) == (file["jarSizeBytes"], file["digest"])
    assert made["jarPathObfuscated"] == "spindle-0.2.0-py3-none-any.whl"
    assert read_code(operator.call("POST", versions, json=new)) == (409, "version-exists")
    assert acme.get(f"{versions}/build-type/development/build-number/71")["id"] == made["id"]
    assert read_code(acme.call("GET", f"{versions}/build-type/development/build-number/74")) == (404, "not-found")

    execute, _ = make_job(acme, "versions", "")
    job = execute.removesuffix("/execute")
    newer = {"driver/protocol.py": b"PROTOCOL = 999\n"}
    files = {"file": ("spindle-0.3.0-py3-none-any.whl", build_wheel("spindle", "x = 1\n", files=newer))}
    file = operator.call("POST", f"{versions}/upload", files=files).json()
    too_new = operator.post(versions, {**new, "buildNumber": 72, "jarPath": file["jarPath"]})
    without_file = operator.post(versions, {**new, "buildNumber": 73})
    for selected, code, words in (
        (made["id"], "unusable-library-version", "Build 71 of development is too old"),
        (too_new["id"], "unusable-library-version", "Build 72 of development is too new"),
        (without_file["id"], "unusable-library-version", "Build 73 of development has no file"),
        (4711, "unknown-library-version", "There is no active version"),
    ):
        acme.put(job, {"name": "versions", "parameters": {"etlLibraryVersionId": selected}})
        refused = acme.call("POST", execute)
        assert read_code(refused) == (409, code)
        assert refused.json()["error"].startswith(words)
    acme.put(job, {"name": "versions", "parameters": {"etlLibraryVersionId": running["id"]}})
    assert acme.call("POST", execute).status_code == 200
    for each in (too_new, without_file):
        assert operator.call("DELETE", f"{versions}/id/{each['id']}").json() == {}
    acme.put(job, {"name": "versions", "parameters": {"etlLibraryVersionId": made["id"]}})
    path = f"{versions}/id/{made['id']}"
    assert read_code(operator.call("DELETE", path)) == (409, "version-in-use")
    acme.put(job, {"name": "versions", "parameters": {}})
    assert operator.put(path, {"active": False})["active"] is False
    assert made["id"] not in [each["id"] for each in acme.get(versions, activeOnly=True)]
    assert operator.call("DELETE", path).json() == {}
    assert read_code(operator.call("DELETE", f"{versions}/id/{running['id']}")) == (409, "version-in-use")


def test_a_build_is_deleted_with_its_file_and_makes_room(
    server: Server, rival: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = server.caller("deleter", "admin")
    wheel = build_wheel("acme-gone", TRANSFORM.replace("def ", "def gone_"))
    monkeypatch.setattr("core.definitions.plugins.uploads.MOST_BUILDS", 1)
    assert upload(owner, "acme-gone", wheel).status_code == 200
    another = upload(owner, "acme-gone", build_wheel("acme-gone", TRANSFORM), number="2")
    assert read_code(another) == (409, "plugin-limit")
    storage = open_storage(server.settings.storage)
    stored = {file.key for file in storage.list("plugins")}
    path = f"{ADMIN}/plugins/acme-gone/builds/release/1"
    assert rival.call("DELETE", path).status_code == 404
    assert owner.call("DELETE", path).json() == {}
    assert owner.call("DELETE", path).status_code == 404
    assert len(stored - {file.key for file in storage.list("plugins")}) == 2
    assert "acme-gone" not in {each["pluginId"] for each in owner.get(f"{ADMIN}/plugin-installations")}
    assert upload(owner, "acme-gone", wheel, number="3").status_code == 200


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import json\n\nraise ValueError(1)\n", "ValueError: 1 (acme_module.py, line 3)"),
        ("import json\n\njson.loads('{')\n", "(acme_module.py, line 3)"),
        ("def broken(:\n", "SyntaxError: invalid syntax (acme_module.py, line 1)"),
    ],
)
def test_a_plugin_that_does_not_load_is_refused_with_its_own_line(acme: Api, code: str, said: str) -> None:
    refused = upload(acme, "acme-broken", build_wheel("acme-broken", code))
    assert read_code(refused) == (400, "invalid-plugin")
    assert said in refused.json()["error"]
